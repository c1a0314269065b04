"""How a fit ended, as numbers, and the one place where they are put into words; information criteria of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from irtbench.data.responses import name_first
from irtbench.data.shown import Shown, counted

ABILITIES_AND_PRIOR = "abilities and prior"  # what is learnt where the items are integrated out


class Stop(Enum):
    """Why the iterations ended."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    AT_BOUND = "a parameter is at its bound"
    NOT_FINITE = "a value is not finite"
    NO_ASCENT = "no step raises the likelihood"
    NODES_NOT_RIGHT = "the nodes of the integration are not right"
    NO_ABILITY = "ability does not vary"
    NOT_A_MAXIMUM = "the observed information is singular or not positive definite"


#: What to do where a fit ended before a maximum, besides what words_of_stop says of bounds.
ADVICE = {
    Stop.STEP_LIMIT: "allow more steps ([model] max_steps), or take --prior weak or hierarchical",
    Stop.NOT_FINITE: "leave out items that hardly anybody got right or wrong, or take --prior weak",
    Stop.NO_ASCENT: "compute in float64 ([model] dtype), or take --prior weak",
    Stop.NODES_NOT_RIGHT: "take --prior weak or hierarchical, which keep slopes from being so steep",
    Stop.NO_ABILITY: "the items have nothing in common that one slope could show: look for wrong keys or reversed "
    "coding (irtbench fit --model 2pl, of grades gpcm, shows slopes of either sign); --prior weak would only hide it",
    Stop.NOT_A_MAXIMUM: "items that hardly anybody got right or wrong, few responses, or respondents of two items each "
    "do that: take --prior weak, or with fewer respondents than items --prior hierarchical",
}
ALL_ITEMS = ("all items",)  # whose slopes run away together
POPULATION = "the population of ability"  # next to the items among what may run away
UNSETTLED = (
    "there are too few responses to learn it from: take --prior weak, with more items than respondents --model rasch, "
    "or leave out items with few responses"
)


@dataclass(frozen=True)
class Learning:
    """Updates of what is estimated around the items: a prior, a density of ability.

    Parameters
    ----------
    what
        What is learnt, as a noun.
    updates
        How many.
    change
        Largest change in the last.
    settled
        Whether that was small enough.
    remark
        What else there is to say, in words.
    """

    what: str
    updates: int
    change: float
    settled: bool
    remark: str = ""


@dataclass(frozen=True)
class Status:
    """Where the iterations stopped.

    Parameters
    ----------
    stop
        Why.
    steps
        Number of steps taken.
    gradient
        Largest gradient of an item in units of its own standard error, sqrt(g' I^-1 g); NaN where none is computed.
    change
        Largest change of a parameter in the last step.
    tolerance
        What the gradient had to fall below.
    steep
        Positions of items whose slope has run away.
    steep_items
        The same by name, with how many were right: ``i7 (274 of 275 right)``; empty where they are not known.
    loose
        Positions of items that the responses do not determine: the information is singular, or no maximum's.
    loose_items
        The same by name.
    guessing_at_bound
        Positions of items whose guessing has run to 0 or 1.
    guessing_at_bound_items
        The same by name.
    guessing_at_zero
        Number of items whose guessing is fixed at 0, where their likelihood is highest.
    learning
        What was learnt around the items; None if nothing.
    posterior
        How the variational posterior ended, in words; empty if there is none.
    """

    stop: Stop
    steps: int
    gradient: float = math.nan
    change: float = math.nan
    tolerance: float = math.nan
    steep: tuple[int, ...] = ()
    steep_items: tuple[str, ...] = ()
    loose: tuple[int, ...] = ()
    loose_items: tuple[str, ...] = ()
    guessing_at_bound: tuple[int, ...] = ()
    guessing_at_bound_items: tuple[str, ...] = ()
    guessing_at_zero: int = 0
    learning: Learning | None = None
    posterior: str = ""

    @property
    def converged(self) -> bool:
        """Whether this is a maximum, and what is learnt around it has settled."""
        return self.stop is Stop.CONVERGED and (self.learning is None or self.learning.settled)

    @property
    def integrates_items(self) -> bool:
        """Whether items were integrated out with the abilities, so that their quantiles are those of the posterior."""
        return self.learning is not None and self.learning.what == ABILITIES_AND_PRIOR

    def unless_loose(self, loose: Sequence[bool]) -> Status:
        """The same, or no maximum if the information says of any item (row) that the responses do not determine it."""
        places = tuple(j for j, found in enumerate(loose) if found)
        return replace(self, stop=Stop.NOT_A_MAXIMUM, loose=places) if places else self

    def numbers(self) -> dict[str, Any]:
        """The numbers as fit.json holds them; None for what is not known."""
        return {
            "stop": self.stop.value,
            "gradient": None if math.isnan(self.gradient) else self.gradient,
            "change": None if math.isnan(self.change) else self.change,
        }

    def __str__(self) -> str:
        """The reason in words."""
        return self.in_words()

    def in_words(self, *, instead: str = "") -> str:
        """The reason in words, with what to do.

        Parameters
        ----------
        instead
            What to do besides leaving items out, where the model takes no prior; empty where it takes one.
        """
        parts = [words_of_learning(self.learning)] if self.learning is not None else []
        parts.append(words_of_stop(self, instead))
        if self.guessing_at_zero:
            parts.append(
                f"guessing of {counted(self.guessing_at_zero, 'item')} fixed at 0, where its likelihood is highest"
            )
        if self.posterior:
            parts.append(f"posterior: {self.posterior}")
        return "; ".join(part for part in parts if part)


def words_of_learning(learning: Learning) -> str:
    """Say whether the updates settled."""
    how = "settled" if learning.settled else "not settled"
    words = f"{learning.what} {how} after {learning.updates} updates (last change {learning.change:.1e})"
    words += f"; {learning.remark}" if learning.remark else ""
    return words if learning.settled else f"{words}; {UNSETTLED}"


def words_of_stop(status: Status, instead: str = "") -> str:
    """Say why the steps on the items ended; `instead` of taking a prior, see `Status.in_words`."""
    advice = ADVICE.get(status.stop, "")
    if instead:
        advice = f"leave out items that hardly anybody got right or wrong, or {instead}"
    gradient = f"largest gradient {status.gradient:.1e} standard errors"
    match status.stop:
        case Stop.CONVERGED | Stop.STEP_LIMIT if math.isnan(status.gradient):
            return ""
        case Stop.CONVERGED:
            return f"{gradient}, last change {status.change:.1e}: below {status.tolerance:g}"
        case Stop.STEP_LIMIT:
            return f"no convergence in {status.steps} steps: {gradient}; {advice}"
        case Stop.AT_BOUND if status.steep_items == ALL_ITEMS:
            return (
                "the slopes of all items, or the standard deviation of ability, grow without end, as on a Guttman "
                "scale, where whoever gets an item right gets all easier ones right; "
                + (instead or "take --prior weak, or more respondents and items")
            )
        case Stop.AT_BOUND if POPULATION in status.steep_items:
            return (
                f"{POPULATION} runs away: (nearly) all responses to known items are right, or all are wrong; expected "
                "respondents, or items, of other levels too"
            )
        case Stop.AT_BOUND if status.steep:
            who = name_first(status.steep_items) if status.steep_items else counted(len(status.steep), "item")
            plural = len(status.steep) > 1
            return (
                f"{who}: the slope{'s grow' if plural else ' grows'} without end, for the likelihood is highest where "
                f"the item{'s separate' if plural else ' separates'} right from wrong without error; leave "
                f"{'them' if plural else 'it'} out, or "
                + (instead or "take --prior weak (with fewer respondents than items --prior hierarchical)")
            )
        case Stop.AT_BOUND:
            who = name_first(status.guessing_at_bound_items) or counted(len(status.guessing_at_bound), "item")
            return (
                f"guessing of {who} is at its bound 0 or 1; take --prior weak, or --model "
                "2pl for these items (--by-item)"
            )
        case Stop.NOT_A_MAXIMUM if status.loose_items:
            its = "their" if len(status.loose_items) > 1 else "its"
            return (
                f"{name_first(status.loose_items)}: the responses do not determine {its} parameters "
                f"({status.stop.value}); {advice}"
            )
        case Stop.NO_ASCENT:
            return f"no step raises the likelihood any more: {gradient}; {advice}"
        case Stop.NODES_NOT_RIGHT:
            return (
                "the likelihood changes with the nodes over which ability is integrated out, however they are placed; "
                + advice
            )
        case stop:
            return f"{stop.value}; {advice}"


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
