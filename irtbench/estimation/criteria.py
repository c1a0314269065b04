"""Information criteria that every fitted model has."""

from __future__ import annotations

import math

from irtbench.data.shown import Shown
from irtbench.estimation.status import Status


class InformationCriteria(Shown):
    """AIC, BIC and SABIC of a model that has a log-likelihood, parameters and respondents; smaller is better."""

    log_likelihood: float
    n_respondents: int
    status: Status

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters k."""
        raise NotImplementedError

    @property
    def aic(self) -> float:
        """Akaike's criterion, -2 log L + 2 k."""
        return -2 * self.log_likelihood + 2 * self.n_parameters

    @property
    def bic(self) -> float:
        """Schwarz's criterion, -2 log L + k log N."""
        return -2 * self.log_likelihood + self.n_parameters * math.log(self.n_respondents)

    @property
    def sabic(self) -> float:
        """Sample-size adjusted BIC, -2 log L + k log((N + 2) / 24) (Sclove, 1987)."""
        return -2 * self.log_likelihood + self.n_parameters * math.log((self.n_respondents + 2) / 24)

    def criteria(self) -> dict[str, float]:
        """The log-likelihood, the criteria and the counts they rest on, as fit.json begins."""
        return {
            "log_likelihood": self.log_likelihood,
            "aic": self.aic,
            "bic": self.bic,
            "sabic": self.sabic,
            "n_parameters": self.n_parameters,
            "n_respondents": self.n_respondents,
        }

    @property
    def converged(self) -> bool:
        """Whether the estimates are a maximum."""
        return self.status.converged

    @property
    def stopped_because(self) -> str:
        """Why the iterations ended, in words."""
        return str(self.status)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.status.steps

    def outcome(self) -> str:
        """The log-likelihood, and whether the iterations converged."""
        return f"log-likelihood {self.log_likelihood:.2f}, {'converged' if self.converged else 'NOT CONVERGED'}"
