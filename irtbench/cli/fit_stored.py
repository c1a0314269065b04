"""The steps of ``irtbench fit`` for a table that is encoded on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from irtbench.cli.fit_ranks import demand_stored, score_together, shared_responses
from irtbench.cli.large import cache_folder, choice_of

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.bank.scale import Scale
    from irtbench.cli.reading import Reading
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.stored_responses import AnyResponses, StoredResponses
    from irtbench.estimation.distributed.ranks import Ranks
    from irtbench.estimation.fitted import FittedModel
    from irtbench.estimation.settings import FitSettings

WORTHWHILE = 4_000_000  # bytes: a smaller file is read before a library is found


@contextmanager
def loading_beside(file: Path, *modules: str) -> Iterator[None]:
    """Load modules in a thread while the body reads a large file; see `loading`."""
    if not file.is_file() or file.stat().st_size < WORTHWHILE:
        yield
        return
    with loading(*modules):
        yield


@contextmanager
def loading(*modules: str) -> Iterator[None]:
    """Load modules in a thread beside the body; they are there, or have failed, at its end.

    A module that cannot be imported is imported again where it is needed, and fails there.
    """

    def load() -> None:
        with suppress(ImportError):
            for module in modules:
                import_module(module)

    thread = Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        thread.join()


ESTIMATION = "irtbench.estimation.fit"


@contextmanager
def given_responses(
    file: Path,
    table: LargeTable | None,
    reading: Reading,
    cache: Path | None,
    progress: Callable[[str], None],
    ranks: Ranks | None = None,
    *,
    remove_cache: bool,
) -> Iterator[AnyResponses]:
    """The responses: in memory or, of a large table, encoded on disk, where they stay while the block runs."""
    if ranks is not None:
        wanted = demand_stored(table, file, cache, ranks)
        with shared_responses(wanted, reading, cache, progress, ranks, remove_cache=remove_cache) as stored:
            yield stored
        return
    if table is None:
        with loading_beside(file, ESTIMATION):
            given = reading.response_matrix(file)
        yield given
        return
    from irtbench.data.readers.encode import encode_table
    from irtbench.data.response_store import unchanged

    with cache_folder(cache, table, remove=remove_cache) as folder:
        with loading(ESTIMATION):
            stored = encode_table(table, folder, choice_of(reading), progress=progress)
        with unchanged(stored):
            yield stored


def fit_stored(
    data: StoredResponses,
    settings: FitSettings,
    seed: int,
    anchors: Scale | None,
    file: Path | None,
    progress: Callable[[str], None],
    ranks: Ranks | None = None,
) -> tuple[dict[str, Any], pd.DataFrame, Scale]:
    """Contents of fit.json, items.csv and bank.json; scores go into the file, if there is one, part by part."""
    from irtbench.estimation.fit import fit_model
    from irtbench.scoring.bulk import score_stored

    fitted = fit_model(data, settings, anchors=anchors, seed=seed, ranks=ranks)
    scale = scale_of(fitted, data)
    if file is not None and ranks is not None:
        score_together(scale, data, file, progress, ranks)
    elif file is not None:
        score_stored(scale, data, file, progress=progress)
    return fitted.summary(), fitted.table(), scale


def scale_of(fitted: FittedModel, data: StoredResponses) -> Scale:
    """The scale with its norm sample."""
    from irtbench.bank.norms import Norms, norm_places
    from irtbench.bank.scale import Scale
    from irtbench.data.items import ItemTable
    from irtbench.data.readers.wide_parts import ROWS
    from irtbench.scoring.bulk import in_single
    from irtbench.scoring.scores import ScoringSettings
    from irtbench.scoring.shared_grid import SharedGridScorer

    items = fitted.items
    scale = Scale(
        "all", items, ItemTable.plain(items.item_ids), population=fitted.estimated_population,
        joint_error=fitted.joint_error,
    )  # fmt: skip
    places = norm_places(data.n_respondents, fitted.seed)
    scorer = SharedGridScorer(scale, items.item_ids, ScoringSettings())
    rows, ids = data.at(places), tuple(map(str, places))
    parts = [slice(first, first + ROWS) for first in range(0, len(ids), ROWS)]
    abilities = [scorer.estimate(in_single(rows[part]), ids[part])[0] for part in parts]
    theta, errors = (
        np.concatenate([getattr(part, name) for part in abilities]) for name in ("theta", "standard_error")
    )
    return replace(scale, norms=Norms(theta, standard_error=errors))
