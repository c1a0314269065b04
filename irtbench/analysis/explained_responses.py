"""Why an item is hard, of responses: items and the regression of their difficulty fitted at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from irtbench.analysis.explained_difficulty import (
    Array,
    Design,
    Estimates,
    ExplainedDifficulty,
    Shrinkage,
    explained,
    features_of,
)
from irtbench.analysis.explanatory_items import ExplanatoryItems, Kind, fit_explanatory_items
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.item_features import ItemFeatures
from irtbench.estimation.settings import Device


def explain_responses(
    responses: ResponsesLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    model: Kind = "2pl",
    shrinkage: Shrinkage = "auto",
    level: float = 0.95,
    rng: np.random.Generator,
    device: Device = "auto",
    progress: Callable[[str], None] = lambda message: None,
) -> ExplainedDifficulty:
    """Difficulty regressed on features of the items, both fitted to the responses at once.

    The model is that of `explain_difficulty`, in which b_j is no estimate but a parameter of the likelihood, with
    abilities and items integrated out (`fit_explanatory_items`): no item is left out for being answered all right or
    all wrong, and with ten answers an item effects, residual and R2 are what they are with many. The standard deviation
    of the difficulties, with which R2 compares the residual, is that of the same model without features, whose
    estimates are also those that predictions of items left out are judged by, and that are told.

    Parameters
    ----------
    responses
        Graded responses.
    features
        Of at least the items of the responses; items beyond are new ones, whose difficulty is predicted.
    model
        ``2pl`` or ``rasch``.
    shrinkage, level, rng
        As for `explain_difficulty`.
    device
        As in `FitSettings`.
    progress
        Told of each update.

    Raises
    ------
    InputError
        As `explain_difficulty`, but for the standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(3)
    >>> length = rng.normal(size=40)
    >>> items = irtbench.ItemParameters.from_difficulty(np.full(40, 1.2), 0.8 * length + rng.normal(0, 0.4, 40))
    >>> responses = irtbench.simulate_responses(rng.normal(size=200), items, rng=rng, missing=0.8)
    >>> features = irtbench.ItemFeatures(items.item_ids, ("length",), length[:, None])
    >>> found = irtbench.explain_responses(responses, features, rng=rng)
    >>> found.table().round(1)[["term", "effect", "se"]]
            term  effect   se
    0  intercept    -0.2  0.1
    1     length     0.9  0.1
    """
    data = as_responses(responses)
    given = features_of(features, level)
    design = Design.of(given, data.item_ids, shrinkage)
    seed = int(rng.integers(2**31))

    def fitted(columns: Array, shrink: bool, words: str) -> ExplanatoryItems:
        progress(words)
        return fit_explanatory_items(
            data, columns, kind=model, shrink=shrink, seed=seed, device=device, progress=progress
        )

    full = fitted(design.columns, design.shrink, "items with the regression on their features")
    plain = fitted(design.columns[:, :0], False, "items without features")
    found = explained(
        full.items, Estimates(full.estimates, full.errors), Estimates(plain.estimates, plain.errors), given, design,
        full.population, level, rng,
    )  # fmt: skip
    settled = full.learning.settled and plain.learning.settled
    return replace(found, with_items=True, converged=settled)
