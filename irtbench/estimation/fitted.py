"""What a fit found: item parameters with their uncertainty, and how the steps ended."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.responses import share_correct
from irtbench.data.shown import Drawn, Shown
from irtbench.estimation.anchors import AnchorError
from irtbench.estimation.doubts import WEAKLY_KNOWN, AbilityShape, weakly_identified
from irtbench.estimation.item_quantiles import quantile_columns
from irtbench.estimation.marginal.observed_information import NormalMoments
from irtbench.estimation.marginal.problem import EstimateKind
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import InformationCriteria, Status
from irtbench.estimation.variational.item_posterior import ItemPosterior
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import POPULATION
from irtbench.models.priors import Priors
from irtbench.models.quadrature import Quadrature, normal_population


@dataclass(frozen=True, eq=False)
class EstimatedAbilities(Shown, columns="theta, se=standard_error", short="{theta:respondent}, theta {theta:spanned}"):
    """Abilities estimated with the items integrated out, or drawn with them, on the scale of these respondents.

    Its table has one row a respondent, in their order.

    Parameters
    ----------
    theta
        Shape (n_respondents,), of mean 0 and standard deviation 1, or means of draws that each are so.
    covariance
        Sampling covariance, shape (n_respondents, n_respondents).
    """

    theta: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Of each ability, shape (n_respondents,)."""
        return np.sqrt(np.diagonal(self.covariance))


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedItems(InformationCriteria):
    """What fits of the items of one scale have in common; `FittedModel` says what it is."""

    log_likelihood: float
    n_respondents: int
    n_by_item: NDArray[np.int64]
    nodes: str
    status: Status
    doubts: tuple[str, ...] = ()
    seed: int = 0
    moments: NormalMoments | None = None
    joint_error: JointError | None = None
    anchor_error: AnchorError | None = None
    abilities: EstimatedAbilities | None = None
    ability_shape: AbilityShape | None = None

    @property
    def estimated_population(self) -> Quadrature | None:
        """The estimated density of ability, the prior of scoring; None for the standard normal."""
        return None if self.moments is None else normal_population(self.moments.mean, self.moments.sd)

    def with_population(self, table: pd.DataFrame) -> pd.DataFrame:
        """The same with mean and standard deviation of ability, where these are estimated."""
        if self.moments is None:
            return table
        return table.assign(**dict(zip(POPULATION, (self.moments.mean, self.moments.sd), strict=True)))


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedModel(
    FittedItems, Drawn, short="{items.n_items:item} ({items.model:distinct}), {n_respondents:respondent}, {outcome}"
):
    """Item parameters estimated from a response matrix, and how that went.

    Parameters
    ----------
    items
        The estimates with their sampling covariance.
    quadrature
        The population of abilities on a grid.
    nodes
        The nodes over which ability was integrated out, in words.
    log_likelihood
        Marginal log-likelihood of the responses at the estimates. With several trials of an item it is that of the
        trials one by one.
    priors
        Prior densities used.
    n_respondents, n_responses
        Size of the data.
    kind
        Whether the estimates are modes (of the likelihood, or of the posterior with a prior) or posterior means.
    status
        How the iterations ended.
    doubts
        Why the scale may not be one of ability, a sentence each; empty where nothing speaks against it.
    seconds, seed, settings
        How it was computed.
    n_by_item, n_correct_by_item
        Observed and correct responses to each item, shape (n_items,).
    posterior
        The variational posterior, if one was asked for; the log-likelihood is that of the mode all the same.
    log_binomial_coefficients
        What to add to the log-likelihood for that of the numbers right; 0 without trials.
    quantiles
        The 2.5, 50 and 97.5% posterior quantiles of (a, b, c) of each item, shape (3, n_items, 3), where the estimates
        are posterior means; None for modes, whose intervals are by standard errors.
    likelihood_intervals
        Lower and upper ends of likelihood-ratio intervals of (a, b, c), shape (2, n_items, 3), where guessing was
        estimated: by what the responses say of it, without its prior. None where a density of guessing is the user's
        own, where there is a variational posterior or one of draws, and with sparse or stored responses.
    abilities
        Abilities of the respondents, where few respondents and many items had these estimated in place of the items.
        Scoring the same responses with the items as known would count every answer twice.
    moments
        The population's mean and standard deviation where they are estimated: Rasch, anchors; None for N(0, 1).
    n_density_parameters
        Number of parameters of an estimated population; 0 for a normal one.
    joint_error
        The sampling error of all items together, from the observed information; None where there are too many items, or
        they have no such covariance: estimated by means, without standard errors, with anchors that have none.
    ability_shape
        How abilities depart from the normal density that was assumed; None where none was, and without expected counts.
    anchor_error
        How the anchors' own error enters the standard errors: by their ``joint`` covariance, by that of each item (``by
        item``) or not (``taken as known``); None without anchors.
    """

    items: ItemParameters
    quadrature: Quadrature
    priors: Priors
    n_responses: int
    kind: EstimateKind
    seconds: float
    n_correct_by_item: NDArray[np.int64]
    settings: FitSettings = field(default_factory=FitSettings)
    posterior: ItemPosterior | None = None
    log_binomial_coefficients: float = 0.0
    quantiles: NDArray[np.float64] | None = None
    likelihood_intervals: NDArray[np.float64] | None = None
    n_density_parameters: int = 0

    @property
    def _drawn_as(self) -> object:
        return self.items

    @property
    def population(self) -> dict[str, float]:
        """Mean and standard deviation of ability on the scale of the items, with standard errors, 0 where fixed."""
        return asdict(self.moments or NormalMoments(0.0, 1.0, 0.0, 0.0))

    @property
    def estimator(self) -> str:
        """What was computed, in the field's words."""
        if self.posterior is not None:
            return f"posterior mean (variational, {self.posterior.kind} guide)"
        if self.status.integrates_items:
            return "posterior mean, items and abilities integrated out (random items, belief propagation)"
        if self.kind == "mean":
            return "posterior mean under a prior learnt from the items (empirical Bayes, Laplace's approximation)"
        return "marginal maximum likelihood" if self.priors.is_flat else "maximum a posteriori"

    @property
    def converged(self) -> bool:
        """Whether the estimates are what `kind` says, and so is the posterior if one was asked for."""
        return self.status.converged and (self.posterior is None or self.posterior.converged)

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters, those of an estimated population included."""
        return self.items.n_parameters + self.n_density_parameters

    @property
    def guessing_not_identified(self) -> tuple[str, ...]:
        """Items meant to be 3PL of whose guessing the data say nothing.

        Without a prior, those fixed at 0; with one, those whose posterior of logit c is about as wide as the prior.
        """
        return tuple(self.not_identified()["guessing_not_identified"])

    @property
    def upper_not_identified(self) -> tuple[str, ...]:
        """Items of whose upper asymptote the data say nothing: logit u is about as uncertain as under the prior."""
        items, prior = self.items, self.priors.upper
        if items.covariance is None or items.upper_asymptote is None or prior is None:
            return ()
        u = items.upper_asymptote
        width = np.sqrt(items.covariance[:, 3, 3]) / (u * (1 - u))
        return tuple(items.item_ids[j] for j in np.flatnonzero(width > WEAKLY_KNOWN * prior.width_at_mode))

    @property
    def prior_decides(self) -> tuple[str, ...]:
        """Items whose estimate of c or b the responses contradict: outside of the interval that they give without the
        prior of guessing (`likelihood_intervals`). Empty without such intervals.
        """
        if self.likelihood_intervals is None or self.priors.guessing is None:
            return ()
        estimates = np.stack([self.items.difficulty, self.items.guessing], axis=1)
        lower, upper = self.likelihood_intervals[:, :, 1:]
        outside = self.items.guessing_estimated & ((estimates < lower) | (estimates > upper)).any(axis=1)
        return tuple(self.items.item_ids[j] for j in np.flatnonzero(outside))

    def not_identified(self) -> dict[str, list[str]]:
        """Items of whose guessing, slope or difficulty the data say little, see `doubts.weakly_identified`."""
        wanted, _ = self.settings.guessing_of(self.items.item_ids)
        ability = self.population
        return weakly_identified(self.items, self.priors, wanted, ability["mean"], ability["sd"])

    def quantile_columns(self) -> dict[str, NDArray[np.float64]]:
        """Posterior quantiles as columns of items.csv, see `item_quantiles.quantile_columns`; none for modes."""
        return {} if self.quantiles is None else quantile_columns(self.quantiles, self.items.guessing_estimated)

    def interval_columns(self) -> dict[str, NDArray[np.float64]]:
        """Columns of items.csv that end it: posterior quantiles, or where guessing is estimated the ends of
        likelihood-ratio intervals (`item_quantiles.quantile_columns`); none where 1.96 standard errors say it.
        """
        if self.likelihood_intervals is None:
            return self.quantile_columns()
        wanted, _ = self.settings.guessing_of(self.items.item_ids)
        return self.quantile_columns() | quantile_columns(self.likelihood_intervals, wanted, ("lower", "upper"))

    @property
    def estimated_population(self) -> Quadrature | None:
        """The estimated density of ability, the prior of scoring; None for the standard normal."""
        return self.quadrature if self.settings.population == "estimated" else super().estimated_population

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv: parameters, standard errors, responses, ends of intervals if any."""
        share = share_correct(self.n_correct_by_item, self.n_by_item)
        table = self.items.table().assign(n_responses=self.n_by_item, proportion_correct=share)
        if self.posterior is not None:
            table = table.assign(
                difficulty=self.posterior.difficulty, se_difficulty=self.posterior.difficulty_deviation
            )
        return self.with_population(table).assign(**self.interval_columns())

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "n_items": self.items.n_items,
            "n_responses": self.n_responses,
            "model": self.settings.kind,
            "prior": self.priors.describe(),
            "quadrature": self.nodes,
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
            "versions": software_versions(),
            "estimate": self.kind,
            "estimator": self.estimator,
            "doubts": list(self.doubts),
            "ability_shape": None if self.ability_shape is None else asdict(self.ability_shape),
            "population": self.settings.population,
            **{f"population_{name}": value for name, value in (self.population if self.moments else {}).items()},
            **({} if self.anchor_error is None else {"anchor_error": self.anchor_error}),
            **({} if self.priors.upper is None else {"upper_not_identified": list(self.upper_not_identified)}),
            "prior_decides": list(self.prior_decides),
            **self.not_identified(),
            "log_binomial_coefficients": self.log_binomial_coefficients,
            "posterior": None if self.posterior is None else self.posterior.summary(),
            "settings": asdict(self.settings),
        }


def software_versions() -> dict[str, str]:
    """Versions of what the estimates depend on."""
    packages = ("irtbench", "torch", "pyro-ppl", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
