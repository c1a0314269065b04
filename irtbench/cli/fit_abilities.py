"""Several abilities, as ``irtbench fit --factors`` and ``--pattern`` ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses

if TYPE_CHECKING:
    from irtbench.estimation.settings import Device


def fit_abilities(
    data: ResponseMatrix | SparseResponses, n_factors: int, pattern: Path | None, seed: int, device: Device
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Contents of fit.json, items.csv and scores.csv."""
    from irtbench.estimation.factors import factor_scores, fit_factors
    from irtbench.models.parameter_table import read_pattern

    if isinstance(data, SparseResponses):
        raise InputError("--factors: so sparse a table of so many items goes with one ability only")
    zero_loadings = None if pattern is None else read_pattern(pattern, data.item_ids)
    if zero_loadings is not None:
        if n_factors not in (1, zero_loadings.shape[1]):
            raise InputError(f"{pattern}: {zero_loadings.shape[1]} abilities, but --factors says {n_factors}")
        n_factors = zero_loadings.shape[1]
    fitted = fit_factors(data, n_factors, zero_loadings=zero_loadings, seed=seed, device=device)
    scores = factor_scores(fitted, data, seed=seed, device=device)
    return fitted.summary() | {"seed": seed}, fitted.table(), scores
