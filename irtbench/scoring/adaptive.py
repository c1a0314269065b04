"""An adaptive test: the next item is the best by a criterion, given the responses so far (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.scale import Scale, as_scale, population_of
from irtbench.data.checked_settings import Count, Range, Settings, Share, shows_fields, with_keywords
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import name_first
from irtbench.data.shown import Shown, counted
from irtbench.models.curves import information, outcomes
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike
from irtbench.models.quadrature import Quadrature

Array = NDArray[np.float64]

#: Rules of selection, see `CRITERIA`.
Rule = Literal["information", "posterior", "kullback", "variance", "difficulty"]

#: What it means that an item was asked and not answered.
Missing = Literal["skip", "wrong", "error"]
#: Why a test ended: ``se``, ``length``, ``gain``, or that no item is left.
Stopped = Literal["", "se", "length", "gain", "no_items"]


@dataclass(frozen=True, eq=False)
class ItemCurves:
    """Curves of all items at the nodes."""

    items: ItemParameters
    nodes: Array
    logs: Array
    first: NDArray[np.int64]
    n_outcomes: NDArray[np.int64]
    probabilities: Array
    information: Array

    @classmethod
    def at(cls, nodes: Array, items: ItemParameters) -> ItemCurves:
        """The curves at these nodes."""
        logs, first = outcomes(nodes, items)
        n_outcomes = np.diff(first, append=logs.shape[1])
        return cls(items, nodes, logs, first, n_outcomes, np.exp(logs), information(nodes, items))

    def places(self, chosen: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the outcomes of these items, one item after another, and where each item's begin among them."""
        n = self.n_outcomes[chosen]
        begin = np.cumsum(n) - n
        return np.repeat(self.first[chosen] - begin, n) + np.arange(n.sum()), begin


#: From the curves, the posterior's mass at the nodes, theta and the places of the free items.
Criterion = Callable[[ItemCurves, Array, float, NDArray[np.intp]], Array]


def at_estimate(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Fisher information at the estimate (Lord, 1980, ch. 10)."""
    return np.asarray(information(theta, curves.items)[0, free])


def over_posterior(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Fisher information averaged over the posterior (van der Linden, 1998)."""
    return mass @ curves.information[:, free]


def kullback_leibler(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Kullback-Leibler information of the estimate against other abilities, averaged over the posterior.

    K(t) = sum over an item's outcomes of P(theta) log(P(theta) / P(t))    (Chang & Ying, 1996)
    """
    columns, begin = curves.places(free)
    here = outcomes(theta, curves.items)[0][0, columns]
    divergence = np.exp(here) * (here - mass @ curves.logs[:, columns])
    return np.asarray(np.add.reduceat(divergence, begin))


def expected_variance(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Minus the variance that the posterior is expected to have after the response (van der Linden, 1998).

    The expectation is over the posterior's prediction of the response; catR takes the probability at the estimate.
    """
    columns, begin = curves.places(free)
    away = curves.nodes - curves.nodes @ mass / mass.sum()
    total, first, second = (np.stack([mass, mass * away, mass * away**2]) @ curves.probabilities)[:, columns]
    return -np.add.reduceat(second - first**2 / total, begin) / mass.sum()


def nearest_difficulty(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Minus the distance of the difficulty from the estimate (Urry, 1970)."""
    return -np.abs(curves.items.difficulty[free] - theta)


CRITERIA: Mapping[Rule, Criterion] = {
    "information": at_estimate,
    "posterior": over_posterior,
    "kullback": kullback_leibler,
    "variance": expected_variance,
    "difficulty": nearest_difficulty,
}


@dataclass(frozen=True)
class AdaptiveSettings(Settings):
    """How an adaptive test chooses and when it ends.

    Parameters
    ----------
    rule
        ``information``: most Fisher information at the estimate; ``posterior``: averaged over the posterior;
        ``kullback``: Kullback-Leibler information, so averaged; ``variance``: least expected posterior variance;
        ``difficulty``: the nearest difficulty.
    best_of
        The item is drawn among so many of the best (randomesque; Kingsbury & Zara, 1989); 1 for the best.
    se
        Ends at this standard error of theta (of the posterior); None for no such end.
    most_items, least_items
        Ends after so many items, and not before so many; None for all.
    least_gain
        Ends where the best item is expected to lower the standard error by less; None for no such end.
    missing
        Asked and not answered: ``skip`` says nothing of theta, ``wrong`` counts as wrong (the lowest score), ``error``
        is refused. The item is not asked again.
    shares
        Wanted shares of the values of a column among the items asked: the next item has the value that lacks most
        (Kingsbury & Zara, 1989). Values not named come last.
    most_exposure
        Of many tests in a row (`replay_adaptive`), the share of them that may ask an item (Revuelta & Ponsoda, 1998);
        None for no limit.

    Raises
    ------
    InputError
        If shares add up to more than 1, or a value is none that the field can have.
    """

    rule: Rule = "information"
    best_of: Annotated[int, Range(at_least=1)] = 1
    se: Annotated[float, Range(above=0)] | None = 0.3
    most_items: Annotated[int, Range(at_least=1)] | None = None
    least_items: Count = 0
    least_gain: Annotated[float, Range(at_least=0)] | None = None
    missing: Missing = "skip"
    shares: dict[str, Share] = field(default_factory=dict)
    most_exposure: Annotated[float, Range(above=0, at_most=1)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        total = sum(self.shares.values())
        refuse_any((
            (total > 1 + 1e-9, f"adaptive: shares add up to {total:g}; expected no more than 1"),
            (self.most_items is not None and self.least_items > self.most_items,
             f"adaptive: at least {self.least_items} items but at most {self.most_items}"),
        ))  # fmt: skip


class AdaptiveKeywords(TypedDict, total=False):
    """`AdaptiveSettings` as keywords."""

    rule: Rule
    best_of: int
    se: float | None
    most_items: int | None
    least_items: Count
    least_gain: float | None
    missing: Missing
    shares: dict[str, Share]
    most_exposure: float | None


class Adaptive(Shown):
    """One respondent's adaptive test; theta is the EAP, its standard error the posterior's standard deviation.

    Items whose slope is not positive are never asked: so theta never falls after a right answer nor rises after a wrong
    one. Items in categories are answered by one of their scores.

    Parameters
    ----------
    items
        A scale of a bank, whose population is the prior, or item parameters (`as_parameters`).
    settings
        How items are chosen and when the test ends.
    columns
        What each item counts as for ``shares``, by its name; for a scale the item's label by default.
    quadrature
        The population, whose weights are the prior; None for the scale's, or the standard normal.
    unavailable
        Items not to ask.
    rng
        Draws among the best; None for a generator of seed 0.
    keywords
        Of the settings: ``se=0.4``.

    Raises
    ------
    InputError
        If no item can be asked, or a share names a value that none has.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.8, -0.3, 0.4, 1.1, 1.9])
    >>> test = irtbench.Adaptive(items, most_items=3)
    >>> while (item := test.next_item()) is not None:
    ...     test.record(item, item != "item5")
    >>> test.table().round(2)
       step item_id  response  theta    se
    0     1   item3       1.0   0.45  0.86
    1     2   item4       1.0   0.85  0.77
    2     3   item5       0.0   0.56  0.67
    >>> test
    <Adaptive: 3 items asked, theta 0.56, standard error 0.67, stopped: length>
    """

    @shows_fields(AdaptiveSettings)
    def __init__(
        self,
        items: Scale | ParametersLike,
        settings: AdaptiveSettings | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        quadrature: Quadrature | None = None,
        unavailable: Collection[str] = (),
        rng: np.random.Generator | None = None,
        **keywords: Unpack[AdaptiveKeywords],
    ) -> None:
        self.settings = with_keywords(settings or AdaptiveSettings(), keywords)
        scale = items if isinstance(items, Scale) else as_scale(items, categories=True)
        parameters, labels = scale.items, zip(scale.details.item_ids, scale.details.label, strict=True)
        quadrature = quadrature or population_of(scale)
        self._curves = ItemCurves.at(quadrature.nodes, parameters)
        self._prior = quadrature.log_weights
        self._kinds = kinds_of(parameters, dict(labels) if columns is None else columns, self.settings)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._place = {item: k for k, item in enumerate(parameters.item_ids)}
        self._begin(unavailable)
        if not self._free.any():
            raise InputError("adaptive: no item can be asked; expected one with a positive slope")

    def again(self, *, unavailable: Collection[str] = ()) -> Adaptive:
        """A new test of the same items for another respondent, without computing their curves again."""
        other = object.__new__(Adaptive)
        vars(other).update(vars(self))
        other._begin(unavailable)
        return other

    def _begin(self, unavailable: Collection[str]) -> None:
        """Nothing asked yet."""
        self._free = self._curves.items.discrimination > 0
        for item in unavailable:
            self._free[self._known(item)] = False
        self._log_mass = self._prior.copy()
        self._steps: list[dict[str, Any]] = []
        self._asked: list[int] = []
        self._update()

    @property
    def theta(self) -> float:
        """EAP of the responses so far."""
        return self._theta

    @property
    def standard_error(self) -> float:
        """Standard deviation of theta's posterior."""
        return self._se

    @property
    def n_items(self) -> int:
        """Items asked, answered or not."""
        return len(self._asked)

    @property
    def stopped(self) -> Stopped:
        """Why the test is over; empty while it goes on."""
        settings = self.settings
        if self.n_items >= settings.least_items:
            if settings.se is not None and self._se <= settings.se:
                return "se"
            if settings.least_gain is not None and self._best_gain() < settings.least_gain:
                return "gain" if self._free.any() else "no_items"
        if settings.most_items is not None and self.n_items >= settings.most_items:
            return "length"
        return "" if self._free.any() else "no_items"

    def next_item(self) -> str | None:
        """The item to ask now; None where the test is over."""
        if self.stopped:
            return None
        free = self._candidates()
        criterion = self._criterion(free)
        best = free[np.argsort(-criterion, kind="stable")[: self.settings.best_of]]
        chosen = int(best[0] if best.size == 1 else self._rng.choice(best))
        return self._curves.items.item_ids[chosen]

    def criteria(self) -> pd.DataFrame:
        """What the rule says of each item that may be asked next: ``item_id, criterion``, the best first."""
        free = self._candidates()
        names = [self._curves.items.item_ids[k] for k in free]
        table = pd.DataFrame({"item_id": names, "criterion": self._criterion(free)})
        return table.sort_values("criterion", ascending=False, kind="stable", ignore_index=True)

    def record(self, item: str, response: Any) -> None:
        """Take the response to an item: 1 or 0 (true or false), or its score; None (NaN) where it was not answered.

        Raises
        ------
        InputError
            If the item is unknown, was asked before, or has no positive slope; or the response is none of these, or
            missing where that is an error.
        """
        place = self._known(item)
        unanswered = response is None or response != response
        known = scores_of(self._curves.items, place)
        *lower, highest = map(str, known[::-1] if known == (0, 1) else known)
        others = ", ".join(lower)
        refuse_any((holds, f"adaptive: item {item}: {why}") for holds, why in (
            (place in self._asked, "was asked before"),
            (not self._curves.items.discrimination[place] > 0,
             "its slope is not positive; expected an item that is asked"),
            (not unanswered and response not in known, f"expected {others}, {highest} or None but got {response!r}"),
            (unanswered and self.settings.missing == "error",
             f"not answered; expected {others} or {highest}, or missing='skip' or 'wrong'"),
        ))  # fmt: skip
        self._free[place] = False
        self._asked.append(place)
        if not unanswered or self.settings.missing == "wrong":
            outcome = 0 if unanswered else known.index(response)
            self._log_mass = self._log_mass + self._curves.logs[:, self._curves.first[place] + outcome]
            self._update()
        value: Any = np.nan if unanswered else response if isinstance(response, str) else float(response or 0)
        self._steps.append({"step": len(self._asked), "item_id": item, "response": value,
                            "theta": self._theta, "se": self._se})  # fmt: skip

    def table(self) -> pd.DataFrame:
        """One row a step: ``step, item_id, response, theta, se``, the last two after the response."""
        return pd.DataFrame(self._steps, columns=["step", "item_id", "response", "theta", "se"])

    def in_short(self) -> str:
        """How far the test is."""
        end = f", stopped: {self.stopped}" if self.stopped else ""
        asked = counted(self.n_items, "item")
        return f"{asked} asked, theta {self._theta:.2f}, standard error {self._se:.2f}{end}"

    def _known(self, item: str) -> int:
        if item not in self._place:
            raise InputError(f"adaptive: item {item} is not in the bank; expected such as {next(iter(self._place))}")
        return self._place[item]

    def _update(self) -> None:
        mass = np.exp(self._log_mass - self._log_mass.max())
        self._mass: NDArray[np.float64] = mass / mass.sum()
        self._theta = float(self._mass @ self._curves.nodes)
        self._se = float(np.sqrt(self._mass @ (self._curves.nodes - self._theta) ** 2))

    def _candidates(self) -> NDArray[np.intp]:
        """Free items of the kind whose share lacks most; all of them without shares."""
        free = np.flatnonzero(self._free)
        if not self.settings.shares:
            return free
        asked = [self._kinds[k] for k in self._asked]
        there = {self._kinds[k] for k in free}
        lacks = {kind: share - asked.count(kind) / max(len(asked), 1)
                 for kind, share in self.settings.shares.items() if kind in there}  # fmt: skip
        if not lacks:
            return free
        wanted = max(lacks, key=lambda kind: lacks[kind])
        return np.array([k for k in free if self._kinds[k] == wanted], dtype=np.intp)

    def _criterion(self, free: NDArray[np.intp]) -> NDArray[np.float64]:
        return CRITERIA[self.settings.rule](self._curves, self._mass, self._theta, free)

    def _best_gain(self) -> float:
        """What the standard error is expected to fall by with the item that is asked next."""
        if not self._free.any():
            return 0.0
        free = self._candidates()
        best = free[[int(np.argmax(self._criterion(free)))]]
        expected = -float(expected_variance(self._curves, self._mass, self._theta, best)[0])
        return self._se - float(np.sqrt(expected))


def scores_of(items: ItemParameters, place: int) -> tuple[Any, ...]:
    """What an item's responses may be, the lowest first."""
    return (0, 1) if items.categories is None else items.categories.categories[place]


def kinds_of(items: ItemParameters, columns: Mapping[str, str | None], settings: AdaptiveSettings) -> list[str]:
    """What each item counts as; a share of what none counts as is refused."""
    kinds = [columns.get(item) or "" for item in items.item_ids]
    if unknown := [kind for kind in settings.shares if kind not in kinds]:
        known = sorted({kind for kind in kinds if kind})
        raise InputError(f"adaptive: share of {name_first(unknown)}: no item has it; there is: {name_first(known)}")
    return kinds
