"""The outside formats that are read, in the order in which a file is tried: ours, and those of other packages.

Another package adds one by an entry point of the group ``irtbench.readers`` that is a `Reader`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import entry_points

from irtbench.data.readers import (
    argilla,
    deepeval,
    doccano,
    evalplus,
    every_eval_ever,
    helm,
    inspect_log,
    label_studio,
    lighteval,
    lm_eval,
    measurement_db,
    mturk,
    openai_evals,
    potato,
    prodigy,
    promptfoo,
    py_irt,
)
from irtbench.data.readers.observations import Reader

GROUP = "irtbench.readers"
log = logging.getLogger(__name__)


def readers_of_others() -> Iterator[Reader]:
    """Readers that other packages name; a warning says which cannot be loaded, or is none."""
    for entry in entry_points(group=GROUP):
        try:
            found = entry.load()
        except Exception as error:  # of whatever the package does when it is loaded
            log.warning("reader %s (%s) is left out: it cannot be loaded (%s)", entry.name, entry.value, error)
            continue
        if isinstance(found, Reader):
            yield found
        else:
            log.warning(
                "reader %s (%s) is left out: expected a Reader of irtbench.data.readers.observations",
                entry.name,
                entry.value,
            )


READERS: tuple[Reader, ...] = (
    inspect_log.READER,
    lm_eval.READER,
    every_eval_ever.READER,
    measurement_db.READER,
    helm.READER,
    potato.READER,
    evalplus.READER,
    lighteval.READER,
    label_studio.READER,
    argilla.READER,
    prodigy.READER,
    mturk.READER,
    openai_evals.READER,
    promptfoo.READER,
    deepeval.READER,
    doccano.READER,
    py_irt.READER,
    *readers_of_others(),
)
#: Those whose respondents are models.
OF_MODELS = frozenset(reader.name for reader in READERS if reader.holds == "response") - {py_irt.READER.name}
