"""Which of two fitted models do the data prefer: likelihood ratio and information criteria."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pandas as pd
from scipy.special import chdtrc

from irtbench.data.input_error import InputError
from irtbench.data.shown import Figures


class Fitted(Protocol):
    """What a fitted model must tell of itself to be compared."""

    @property
    def log_likelihood(self) -> float: ...  # noqa: D102
    @property
    def n_parameters(self) -> int: ...  # noqa: D102
    @property
    def n_respondents(self) -> int: ...  # noqa: D102
    @property
    def aic(self) -> float: ...  # noqa: D102
    @property
    def bic(self) -> float: ...  # noqa: D102
    @property
    def sabic(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class LikelihoodRatio(Figures):
    """Test of a smaller model against a larger one that contains it.

    Parameters
    ----------
    statistic
        2 (log L_larger - log L_smaller), not below 0.
    df
        Difference of the numbers of parameters.
    p
        P(chi-squared(df) >= statistic); halved where the smaller model lies on the boundary of the larger. Of one more
        factor the p of a bootstrap, NaN where none was asked for.
    on_boundary
        Whether it does.
    n_samples
        Samples on which p rests; 0 if it is that of the chi-square.
    note
        Why there is no p; empty if there is one.
    """

    statistic: float
    df: int
    p: float
    on_boundary: bool
    n_samples: int = 0
    note: str = ""


def likelihood_ratio(smaller: Fitted, larger: Fitted, *, on_boundary: bool = False) -> LikelihoodRatio:
    """Likelihood-ratio test of nested models fitted to the same responses by maximum likelihood.

    If one parameter of the smaller model lies on the boundary of its range (guessing c = 0), half of the statistic's
    distribution is a point at 0, and p is halved (Self & Liang, 1987). For one more exploratory factor there is no such
    distribution: see `one_more_factor`.

    Raises
    ------
    InputError
        If the larger model has no more parameters, or the models were fitted to different numbers of respondents.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> smaller = irtbench.fit_model(responses)
    >>> larger = irtbench.fit_model(responses, model="3pl", prior="none")
    >>> irtbench.likelihood_ratio(smaller, larger).p > 0.05
    True
    """
    df = larger.n_parameters - smaller.n_parameters
    if df < 1:
        raise InputError(f"comparison: expected a larger model with more parameters but it has {df} more")
    if smaller.n_respondents != larger.n_respondents:
        raise InputError(
            f"comparison: models of {smaller.n_respondents} and {larger.n_respondents} respondents cannot be compared"
        )
    statistic = max(0.0, 2 * (larger.log_likelihood - smaller.log_likelihood))
    p = float(chdtrc(df, statistic))
    return LikelihoodRatio(statistic, df, p / 2 if on_boundary else p, on_boundary)


def compare_models(models: Mapping[str, Fitted]) -> pd.DataFrame:
    """Information criteria of each model, a row a model, the differences to the best in the last columns.

    Columns ``model, log_likelihood, n_parameters, aic, bic, sabic, delta_aic, delta_bic``: smaller is better.

    Raises
    ------
    InputError
        If no model is given.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> models = {"no guessing": irtbench.fit_model(responses), "one half": irtbench.fit_model(responses, guessing=0.5)}
    >>> irtbench.compare_models(models)[["model", "n_parameters", "delta_aic", "delta_bic"]].round(1)
             model  n_parameters  delta_aic  delta_bic
    0  no guessing            12        0.0        0.0
    1     one half            12      421.2      421.2
    """
    if not models:
        raise InputError("comparison: no model to compare")
    table = pd.DataFrame(
        [
            {
                "model": name,
                "log_likelihood": fitted.log_likelihood,
                "n_parameters": fitted.n_parameters,
                "aic": fitted.aic,
                "bic": fitted.bic,
                "sabic": fitted.sabic,
            }
            for name, fitted in models.items()
        ]
    )
    return table.assign(delta_aic=table["aic"] - table["aic"].min(), delta_bic=table["bic"] - table["bic"].min())
