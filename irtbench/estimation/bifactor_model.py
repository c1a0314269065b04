"""A fitted bifactor model: slopes and loadings, what the general ability explains, and how the steps ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.responses import name_first, share_correct
from irtbench.data.shown import counted
from irtbench.estimation.criteria import InformationCriteria
from irtbench.estimation.doubts import not_identified
from irtbench.estimation.several_abilities.factor_start import NORMAL_OGIVE
from irtbench.estimation.status import Status, Stop
from irtbench.models.priors import Priors

AT_ZERO = 1e-3  # a specific slope below is at its bound
WHAT_ERRORS_ARE_OF = "of intercepts and of general and specific slopes, from the observed information"


@dataclass(frozen=True, eq=False)
class BifactorModel(InformationCriteria):
    """A bifactor 2PL, P = 1 / (1 + exp(-(a_0 theta_0 + a_s theta_s + d))), s the item's testlet.

    The general ability theta_0 and the specific abilities theta_s are independent and standard normal.

    Parameters
    ----------
    item_ids
        The items.
    testlets
        The testlet of each item; None for an item in none.
    slopes
        General and specific slopes a_0 and a_s, shape (n_items, 2); the latter 0 for an item in no testlet. The sum of
        the slopes on every ability is positive.
    intercept
        d, shape (n_items,).
    log_likelihood
        Marginal log-likelihood of the responses.
    n_respondents
        Number of rows.
    status
        How the iterations ended.
    covariance
        Sampling covariance of (a_0, a_s, d) of each item, shape (n_items, 3, 3), from the observed information; zero
        where a_s is; None if there is none.
    nodes
        The nodes over which abilities were integrated out, in words.
    integration_error
        Of the log-likelihood, a response, against other nodes; NaN if not known.
    n_by_item, n_correct_by_item
        Observed and correct responses to each item, shape (n_items,).
    alike
        Testlets whose items have one specific slope.
    single
        Items alone in their testlet, which are treated as being in none.
    log_binomial_coefficients
        What to add to the log-likelihood for that of the numbers right of several trials; 0 without trials.
    """

    item_ids: tuple[str, ...]
    testlets: tuple[str | None, ...]
    slopes: NDArray[np.float64]
    intercept: NDArray[np.float64]
    log_likelihood: float
    n_respondents: int
    status: Status
    covariance: NDArray[np.float64] | None
    nodes: str
    integration_error: float
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    alike: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    log_binomial_coefficients: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The testlets, in the order of their first items."""
        return tuple(dict.fromkeys(name for name in self.testlets if name is not None))

    @property
    def n_testlets(self) -> int:
        """Number of testlets."""
        return len(self.names)

    @property
    def n_specific_slopes(self) -> int:
        """Number of specific slopes estimated: one for each item in a testlet, or for each testlet of `alike`."""
        of_items = sum(name is not None and name not in self.alike for name in self.testlets)
        return of_items + len(self.alike)

    @property
    def converged(self) -> bool:
        """Whether the estimates are a maximum of the likelihood."""
        return self.status.converged

    @property
    def stopped_because(self) -> str:
        """Why the iterations ended, in words."""
        equal = "take one specific slope for each testlet (--specific-slopes equal)"
        all_alike = set(self.alike) == set(self.names)
        if self.status.stop is Stop.AT_BOUND and not all_alike:
            return (
                f"{name_first(self.status.steep_items)}: slopes grow without end, for testlets have hardly anything of "
                f"their own in common; {equal}"
            )
        return self.status.in_words(instead="take fewer testlets" if all_alike else equal)

    @property
    def n_parameters(self) -> int:
        """General slopes, intercepts and specific slopes."""
        return 2 * len(self.item_ids) + self.n_specific_slopes

    @property
    def loadings(self) -> NDArray[np.float64]:
        """Slopes as factor loadings, a / sqrt(1.702^2 + a_0^2 + a_s^2), shape (n_items, 2)."""
        return self.slopes / np.sqrt(NORMAL_OGIVE**2 + (self.slopes**2).sum(axis=1, keepdims=True))

    @property
    def explained_common_variance(self) -> float:
        """Share of the general ability in what items have in common: squared loadings on it over all squared ones.

        (Reise, 2012)
        """
        general, specific = (self.loadings**2).sum(axis=0)
        return float(general / (general + specific))

    @property
    def omega(self) -> float:
        """Share of all abilities in the variance of the sum of the normal variables behind the responses."""
        general, specific, error = self._variance_of_sum()
        return (general + specific) / (general + specific + error)

    @property
    def omega_hierarchical(self) -> float:
        """Share of the general ability alone in that variance      (Zinbarg, Revelle, Yovel & Li, 2005)."""
        general, specific, error = self._variance_of_sum()
        return general / (general + specific + error)

    def _variance_of_sum(self) -> tuple[float, float, float]:
        """Variance by the general ability, by specific ones, and by neither."""
        general, specific = self.loadings.T
        by_testlet = [specific[[name == given for given in self.testlets]].sum() for name in self.names]
        unique = float((1 - (self.loadings**2).sum(axis=1)).sum())
        return float(general.sum() ** 2), float(np.square(by_testlet).sum()), unique

    def testlet_table(self) -> pd.DataFrame:
        """One row a testlet: its items, and the share of its own ability in what they have in common."""
        rows = []
        for name in self.names:
            squares = self.loadings[[name == given for given in self.testlets]] ** 2
            general, specific = squares.sum(axis=0)
            rows.append(
                {
                    "testlet": name,
                    "n_items": len(squares),
                    "share_specific": specific / (general + specific),
                    "equal_slopes": name in self.alike,
                }
            )
        return pd.DataFrame(rows)

    def standard_errors(self) -> dict[str, NDArray[np.float64]]:
        """Standard errors of ``slope_general, slope_specific, intercept, difficulty``, each (n_items,); NaN if unknown.

        That of the difficulty -d / a_0 is by the delta method; a specific slope at its bound 0 has none.
        """
        n_items = len(self.item_ids)
        if self.covariance is None:
            return dict.fromkeys(
                ("slope_general", "slope_specific", "intercept", "difficulty"), np.full(n_items, np.nan)
            )
        variances = np.diagonal(self.covariance, axis1=1, axis2=2)
        general, specific, intercept = np.sqrt(np.where(variances > 0, variances, np.nan)).T
        specific = np.where(np.abs(self.slopes[:, 1]) > AT_ZERO, specific, np.nan)
        slope = self.slopes[:, 0]
        by = np.column_stack([self.intercept / slope**2, np.zeros(n_items), -1 / slope])
        difficulty = np.sqrt(np.einsum("jk,jkl,jl->j", by, self.covariance, by))
        return {
            "slope_general": general,
            "slope_specific": specific,
            "intercept": intercept,
            "difficulty": difficulty,
        }

    def table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv; discrimination and difficulty are those on the general ability.

        That is, at the mean of the testlet's own: a_0 and -d / a_0. Over all specific abilities the curve on the
        general one is flatter, about a_0 / sqrt(1 + a_s^2 / 1.702^2).
        """
        errors, general = self.standard_errors(), self.slopes[:, 0]
        return pd.DataFrame(
            {
                "item_id": self.item_ids,
                "model": "bifactor",
                "discrimination": general,
                "difficulty": -self.intercept / general,
                "guessing": 0.0,
                "intercept": self.intercept,
                "se_discrimination": errors["slope_general"],
                "se_difficulty": errors["difficulty"],
                "se_guessing": np.nan,
                "se_intercept": errors["intercept"],
                "n_responses": self.n_by_item,
                "proportion_correct": share_correct(self.n_correct_by_item, self.n_by_item),
                "testlet": pd.Series(self.testlets, dtype=object),
                "slope_specific": self.slopes[:, 1],
                "loading_general": self.loadings[:, 0],
                "loading_specific": self.loadings[:, 1],
                "se_slope_specific": errors["slope_specific"],
            }
        )

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "n_items": len(self.item_ids),
            "n_responses": int(self.n_by_item.sum()),
            "model": "bifactor",
            "n_testlets": self.n_testlets,
            "testlets": self.testlet_table(),
            "equal_specific_slopes": list(self.alike),
            "single_items": list(self.single),
            "explained_common_variance": self.explained_common_variance,
            "omega": self.omega,
            "omega_hierarchical": self.omega_hierarchical,
            "prior": Priors.named("none").describe(),
            "converged": self.converged,
            "stopped_because": self.stopped_because,
            "steps": self.status.steps,
            "quadrature": self.nodes,
            "integration_error": None if math.isnan(self.integration_error) else self.integration_error,
            "standard_errors": "not computed" if self.covariance is None else WHAT_ERRORS_ARE_OF,
            "log_binomial_coefficients": self.log_binomial_coefficients,
            **self.not_identified(),
        }

    def not_identified(self) -> dict[str, list[str]]:
        """Items of whose slopes or difficulty the data say little, see `doubts.not_identified`."""
        errors = self.standard_errors()
        slope_errors = np.column_stack([errors["slope_general"], errors["slope_specific"]])
        difficulty = -self.intercept / self.slopes[:, 0]
        return not_identified(self.item_ids, self.slopes, slope_errors, difficulty, errors["difficulty"])

    def in_short(self) -> str:
        """Testlets, items, respondents, and how the iterations ended."""
        sizes = (self.n_testlets, "testlet"), (len(self.item_ids), "item"), (self.n_respondents, "respondent")
        return f"{', '.join(counted(n, word) for n, word in sizes)}, {self.outcome()}"
