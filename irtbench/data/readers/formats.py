"""The outside formats that are read, in the order in which a file is tried."""

from __future__ import annotations

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
)
#: Those whose respondents are models.
OF_MODELS = frozenset(reader.name for reader in READERS if reader.holds == "response") - {py_irt.READER.name}
