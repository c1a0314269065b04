"""Are difficulties exactly linear in features: the linear logistic test model against the Rasch model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyro
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtri
from torch import Tensor

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.item_features import ItemFeatures
from irtbench.data.shown import Shown, counted
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import choose_device, fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.threads import threads_for
from irtbench.models.pyro_model.linear_logistic import linear_logistic_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.quadrature import normal_grid

MOST_STEPS = 50
LEAST_CURVATURE, LEAST_SIZE = 1e-9, 1e-10  # beside the greatest curvature; of a step
TOLERANCE = 1e-9  # of the Newton decrement, twice what the log-likelihood is short of its maximum

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearLogisticTest(Shown):
    """The linear logistic test model (LLTM) and its test against free difficulties.

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

    terms: tuple[str, ...]
    effect: Array
    se: Array
    lower: Array
    upper: Array
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

    def table(self) -> pd.DataFrame:
        """One row a term: columns of lltm.csv."""
        return pd.DataFrame(
            {"term": self.terms, "effect": self.effect, "se": self.se, "lower": self.lower, "upper": self.upper}
        )

    def in_short(self) -> str:
        """The test."""
        return (
            f"{counted(len(self.terms) - 1, 'feature')}, log-likelihood {self.log_likelihood:.2f}, "
            f"against Rasch x2 {self.x2:.1f}, df {self.df}, p {self.p:.3g}"
        )


def linear_logistic_test(
    responses: ResponsesLike, features: ItemFeatures | pd.DataFrame, *, level: float = 0.95, **keywords: Any
) -> LinearLogisticTest:
    """Fit the LLTM by marginal maximum likelihood and test it against the Rasch model (Fischer, 1973).

    logit P = theta - (w_0 + x_j'w) with theta ~ N(0, sd^2): Newton steps on the log-likelihood of the Pyro model
    `linear_logistic_model`. As a rule the test rejects: features never say all of a difficulty.

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
    responses = as_responses(responses)
    given = features if isinstance(features, ItemFeatures) else ItemFeatures.from_frame(features)
    own = given.select(responses.item_ids)
    design = np.concatenate([np.ones((responses.n_items, 1)), own.values], axis=1)
    n_items, n_terms = design.shape
    if n_terms >= n_items or np.linalg.matrix_rank(design) < n_terms:
        raise InputError(
            f"lltm: {len(own.names)} features of {n_items} items determine each other, or are as many; "
            "expected fewer, none a sum of others"
        )
    settings = FitSettings(kind="rasch", **keywords)
    rasch = fit_model(responses, settings)
    device = choose_device(settings.device)
    nodes = NodeTensors.from_quadrature(normal_grid(settings.n_nodes), dtype=torch.float64, device=device)
    rows, x = encode_responses(responses, device), torch.from_numpy(design).to(device)

    def log_likelihood(values: Tensor) -> Tensor:
        sites = {"effect": values[:-1], "log_deviation": values[-1:]}
        model = pyro.poutine.condition(linear_logistic_model, data=sites)
        trace = pyro.poutine.trace(model).get_trace(rows, nodes, design=x)
        found: Tensor = trace.nodes["responses"]["fn"].log_prob(trace.nodes["responses"]["value"]).sum()
        return found

    start = np.append(np.linalg.lstsq(design, rasch.items.difficulty, rcond=None)[0], np.log(_deviation(rasch)))
    with threads_for(responses.n_respondents * n_items), fenced(0):
        values, hessian, reached, converged = newton(log_likelihood, torch.from_numpy(start).to(device))
    covariance = np.linalg.inv(-hessian)
    errors = np.sqrt(np.diagonal(covariance))
    effect, sd = values[:-1], float(np.exp(values[-1]))
    reach = float(ndtri((1 + level) / 2)) * errors[:-1]
    x2 = max(2 * (rasch.log_likelihood - reached), 0.0)
    df = n_items - n_terms
    return LinearLogisticTest(
        terms=("intercept", *own.names),
        effect=effect,
        se=errors[:-1],
        lower=effect - reach,
        upper=effect + reach,
        ability_sd=sd,
        se_ability_sd=sd * float(errors[-1]),
        log_likelihood=reached,
        log_likelihood_rasch=rasch.log_likelihood,
        x2=x2,
        df=df,
        p=float(chdtrc(df, x2)),
        correlation=float(np.corrcoef(design @ effect, rasch.items.difficulty)[0, 1]),
        converged=converged and rasch.converged,
        rasch=rasch,
    )


def _deviation(rasch: FittedModel) -> float:
    """Standard deviation of ability in the Rasch fit."""
    return 1.0 if rasch.quadrature is None else rasch.quadrature.deviation


def newton(log_likelihood: Any, start: Tensor) -> tuple[Array, Array, float, bool]:
    """The maximum, the Hessian there, the value, and whether it converged; steps are halved where they overshoot."""
    values, converged = start.clone(), False
    with torch.enable_grad():
        for _ in range(MOST_STEPS):
            at = values.requires_grad_(True)
            value = log_likelihood(at)
            (gradient,) = torch.autograd.grad(value, at)
            hessian = torch.autograd.functional.hessian(log_likelihood, at)
            values, reached = at.detach(), float(value.detach())
            curvature, axes = torch.linalg.eigh(-hessian)
            least = LEAST_CURVATURE * float(curvature.abs().max())
            step = axes @ ((axes.T @ gradient) / curvature.abs().clamp(min=least))  # uphill on every axis
            converged = bool(gradient @ step < TOLERANCE) and float(curvature[0]) > 0
            if converged:
                break
            size = 1.0
            while size > LEAST_SIZE and not float(log_likelihood(values + size * step)) >= reached:
                size /= 2
            if size <= LEAST_SIZE:  # no point on the way is higher
                break
            values = values + size * step
    return values.cpu().numpy(), hessian.detach().cpu().numpy(), reached, converged
