"""Are difficulties exactly linear in features: the linear logistic test model against the Rasch model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri

from irtbench.analysis.meta_regression import Effects, with_intercept
from irtbench.data.checked_settings import shows_fields
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_share
from irtbench.data.items import ItemFeatures
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import counted
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import fit_model, problem_of
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.marginal.fisher_scoring import find_mode_on_right_nodes
from irtbench.estimation.marginal.observed_information import inverse_information
from irtbench.estimation.marginal.problem import Estimate
from irtbench.estimation.settings import WORDS, FitKeywordsOfAnyModel, FitSettings
from irtbench.estimation.threads import threads_for
from irtbench.models.quadrature import normal_grid

TOLERANCE, MOST_STEPS = 1e-6, 200  # standard errors

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearLogisticTest(Effects):
    """The linear logistic test model (LLTM) and its test against free difficulties.

    Its table has one row a term, the columns of lltm.csv.

    Parameters
    ----------
    terms
        ``intercept`` and the features.
    effect, se, lower, upper
        Of each on the difficulty in logits, shape (n_terms,); standard errors from the observed information. They take
        the model at its word: with a residual, see `explain_difficulty`, they are larger.
    ability_sd, se_ability_sd
        Standard deviation of ability.
    log_likelihood, log_likelihood_rasch
        Marginal, of this model and of the Rasch model.
    x2, df, p
        Likelihood ratio of the two.
    correlation
        Of the difficulties in both.
    converged
        Whether the estimates are a maximum.
    rasch
        The fit of the Rasch model.
    """

    ability_sd: float
    se_ability_sd: float
    log_likelihood: float
    log_likelihood_rasch: float
    x2: float
    df: int
    p: float
    correlation: float
    converged: bool
    rasch: FittedModel

    def in_short(self) -> str:
        """The test."""
        return (
            f"{counted(len(self.terms) - 1, 'feature')}, log-likelihood {self.log_likelihood:.2f}, "
            f"against Rasch x2 {self.x2:.1f}, df {self.df}, p {self.p:.3g}"
        )


@shows_fields(FitSettings, words=WORDS, without=("kind",))
def linear_logistic_test(
    responses: ResponsesLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    level: float = 0.95,
    **keywords: Unpack[FitKeywordsOfAnyModel],
) -> LinearLogisticTest:
    """Fit the LLTM by marginal maximum likelihood and test it against the Rasch model (Fischer, 1973).

    logit P = theta - (w_0 + x_j'w) with theta ~ N(0, sd^2): a 2PL whose slopes are all sd and whose intercepts are
    linear in w. As a rule the test rejects: features never say all of a difficulty.

    Parameters
    ----------
    responses
        Graded responses; missing ones are left out of the likelihood.
    features
        Of at least the items of the responses.
    level
        Nominal coverage of the intervals.
    keywords
        Settings of the Rasch fit, see `fit_model`.

    Raises
    ------
    InputError
        If an item has no features, features determine each other or are as many as the items, or as `fit_model`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> negated = np.tile([0.0, 1.0], 5)
    >>> items = irtbench.ItemParameters.from_difficulty(np.ones(10), -0.5 + 1.0 * negated)
    >>> responses = irtbench.simulate_responses(rng.normal(size=800), items, rng=rng)
    >>> features = irtbench.ItemFeatures(items.item_ids, ("negated",), negated[:, None])
    >>> irtbench.linear_logistic_test(responses, features).table().round(1)
            term  effect   se  lower  upper
    0  intercept    -0.4  0.1   -0.5   -0.3
    1    negated     1.0  0.1    0.9    1.1
    """
    demand_share("lltm: level", level)
    responses = as_responses(responses)
    given = features if isinstance(features, ItemFeatures) else ItemFeatures.from_frame(features)
    own = given.select(responses.item_ids)
    design = _design(own)
    rasch = fit_model(responses, kind="rasch", **keywords)
    found, values, errors = _constrained(responses, design, rasch.settings)
    sd, *effects = values
    effect, reach = np.array(effects), float(ndtri((1 + level) / 2)) * errors[1:]
    x2, df = max(2 * (rasch.log_likelihood - found.log_likelihood), 0.0), design.shape[0] - design.shape[1]
    return LinearLogisticTest(
        terms=("intercept", *own.names), effect=effect, se=errors[1:], lower=effect - reach, upper=effect + reach,
        ability_sd=sd, se_ability_sd=float(errors[0]), log_likelihood=found.log_likelihood,
        log_likelihood_rasch=rasch.log_likelihood, x2=x2, df=df, p=float(chdtrc(df, x2)),
        correlation=float(np.corrcoef(design @ effect, rasch.items.difficulty)[0, 1]),
        converged=found.status.converged and rasch.converged, rasch=rasch,
    )  # fmt: skip


def _design(features: ItemFeatures) -> NDArray[np.float64]:
    """The features and an intercept, which do not determine each other, shape (n_items, n_terms)."""
    design = with_intercept(features.values)
    n_items, n_terms = design.shape
    if n_terms >= n_items or np.linalg.matrix_rank(design) < n_terms:
        raise InputError(
            f"lltm: {len(features.names)} features of {n_items} items determine each other, or are as many; "
            "expected fewer, none a sum of others"
        )
    return design


def _constrained(
    responses: ResponseMatrix, design: NDArray[np.float64], settings: FitSettings
) -> tuple[Estimate, list[float], NDArray[np.float64]]:
    """The mode, with the standard deviation of ability and w there, and their standard errors."""
    n_items, n_terms = design.shape
    with threads_for(responses.n_respondents * n_items), fenced(0), torch.no_grad():
        grid = normal_grid(settings.n_nodes)
        free = problem_of(responses, FitSettings(device=settings.device), grid).in_float64()
        by_few = np.zeros((1 + n_terms, n_items, 3))  # of slope, intercept and guessing by the sd of ability and w
        by_few[0, :, 0], by_few[1:, :, 1] = 1.0, -design.T
        problem = free.with_shared(torch.from_numpy(by_few).to(free.rows.device))
        start = problem.starting_values()
        problem, found = find_mode_on_right_nodes(problem, start, tolerance=TOLERANCE, max_steps=MOST_STEPS)
        covariance, loose = inverse_information(problem, found.items)
    found = replace(found, status=found.status.unless_loose(loose.tolist()))
    assert problem.prior.shared is not None
    values = problem.prior.shared.values(found.items.matrix).tolist()
    return found, values, covariance.diagonal().sqrt().cpu().numpy()
