"""What every estimator of items returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.status import Status
from irtbench.models.pyro_model.item_tensors import ItemTensors

#: What an estimate is of the items' posterior (without a prior: of the likelihood).
EstimateKind = Literal["mode", "mean"]


@dataclass(frozen=True)
class Estimate:
    """Items, and how sure they are.

    Parameters
    ----------
    items
        The estimates.
    kind
        Whether they are modes or posterior means.
    log_likelihood
        Marginal log-likelihood there.
    log_posterior
        The same plus the log prior density; with the items integrated out, the log-likelihood of the abilities.
    status
        Whether the iterations converged, and how they ended.
    counts
        Expected counts at the items, where the estimator keeps them.
    covariance
        Posterior covariance of each item's (a, d, c) where the estimator gives it, shape (n_items, 3, 3).
    quantiles
        The 2.5, 50 and 97.5% posterior quantiles of each item's (a, b, c) where the estimator gives them, shape
        (3, n_items, 3).
    abilities
        Of the respondents with their covariance, where they were estimated too, shapes (n_respondents,) and
        (n_respondents, n_respondents).
    mode
        Where the posterior is highest, if the items are its means; None where it was not found, or where they are it.
    n_density_parameters
        Number of parameters of an estimated density of ability.
    """

    items: ItemTensors
    kind: EstimateKind
    log_likelihood: float
    log_posterior: float
    status: Status
    counts: Counts | None = None
    covariance: Tensor | None = None
    quantiles: Tensor | None = None
    abilities: tuple[Tensor, Tensor] | None = None
    mode: ItemTensors | None = None
    n_density_parameters: int = 0
