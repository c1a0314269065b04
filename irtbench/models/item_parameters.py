"""Parameters of items under the one-, two-, three- and four-parameter logistic model (NumPy only).

The curves they stand for are in `curves`. No scaling constant (D = 1). Slopes are real: an item whose key is reversed
has a negative one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first, numbered, positions_of
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.models.category_parameters import CategoryParameters

#: Whose slope and intercept they are: the item's ``own``; a slope of 1 (``rasch``) or one for all items (``1pl``) and
#: the item's intercept; none estimated (``fixed``).
ItemKind = Literal["own", "rasch", "1pl", "fixed"]

WITH_GUESSING = ("3pl", "4pl")  # models whose items have a lower asymptote that is estimated


#: Of items from a file: the steepest slope; the farthest difficulty, of slopes from 1 on, and with that of less steep
#: ones the intercept; and the largest sampling covariance. Beyond them scores are no longer numbers of sense.
MOST_SLOPE, MOST_DIFFICULTY, MOST_COVARIANCE = 100.0, 50.0, 1e12


@dataclass(frozen=True, eq=False)
class ItemParameters(
    Drawn,
    short="{n_items:item} ({model:distinct}), discrimination {discrimination:spanned}, difficulty {difficulty:spanned}",
):
    """Parameters of items, in slope-intercept form, with their sampling covariance where it is known.

    Parameters
    ----------
    item_ids
        Unique item names.
    discrimination
        Slope a, any real number, shape (n_items,).
    intercept
        d = -a b, shape (n_items,).
    guessing
        Lower asymptote c in [0, 1), shape (n_items,).
    guessing_estimated
        Whether c was a free parameter (3PL) or fixed at its value (0: 2PL), shape (n_items,).
    covariance
        Sampling covariance of (a, d, c) of each item, shape (n_items, 3, 3); zero rows where c was fixed;
        None if it was not computed. With upper asymptotes that of (a, d, c, u), shape (n_items, 4, 4).
    kind
        Of each item; None where slope and intercept are every item's own.
    upper_asymptote
        Estimated upper asymptote u in (c, 1] of a 4PL, shape (n_items,); None where every curve rises to 1.
    categories
        Of graded items and their like, what their curves are; slope and intercept then say where and how steep they
        are, and the covariance is that of the categories' own parameters. None where responses are right or wrong.

    Raises
    ------
    InputError
        If shapes differ, an id is repeated, a parameter is not finite, guessing lies outside [0, 1), or an upper
        asymptote outside (c, 1].
    """

    item_ids: tuple[str, ...]
    discrimination: NDArray[np.float64]
    intercept: NDArray[np.float64]
    guessing: NDArray[np.float64]
    guessing_estimated: NDArray[np.bool_]
    covariance: NDArray[np.float64] | None = None
    kind: tuple[ItemKind, ...] | None = None
    upper_asymptote: NDArray[np.float64] | None = None
    categories: CategoryParameters | None = None

    def __post_init__(self) -> None:
        n_items = len(self.item_ids)
        for name, dtype in (
            ("discrimination", np.float64),
            ("intercept", np.float64),
            ("guessing", np.float64),
            ("guessing_estimated", np.bool_),
            ("upper_asymptote", np.float64),
        ):
            if getattr(self, name) is None and name == "upper_asymptote":
                continue
            array = np.array(getattr(self, name), dtype=dtype)
            if array.shape != (n_items,):
                raise InputError(f"item parameters: {name} has shape {array.shape} for {n_items} items")
            self._demand(f"{name} must be finite", np.isfinite(array))
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if len(set(self.item_ids)) != n_items:
            raise InputError("item parameters: item_id must be unique")
        self._demand("guessing must be in [0, 1)", (self.guessing >= 0) & (self.guessing < 1))
        if (u := self.upper_asymptote) is not None:
            self._demand("upper_asymptote must be in (c, 1]", (u > self.guessing) & (u <= 1))
        if self.covariance is not None:
            covariance = np.array(self.covariance, dtype=np.float64)
            width = 3 if self.upper_asymptote is None else 4
            if covariance.shape != (n_items, width, width):
                raise InputError(f"item parameters: covariance has shape {covariance.shape} for {n_items} items")
            covariance.setflags(write=False)
            object.__setattr__(self, "covariance", covariance)
        if self.kind is not None:
            if len(self.kind) != n_items or not set(self.kind) <= set(get_args(ItemKind)):
                raise InputError(f"item parameters: kind must be one of {', '.join(get_args(ItemKind))} for each item")
            object.__setattr__(self, "kind", None if set(self.kind) == {"own"} else tuple(self.kind))

    def _demand(self, what: str, holds: NDArray[np.bool_]) -> None:
        """Refuse parameters of which this does not hold for every item."""
        if not holds.all():
            bad = [self.item_ids[k] for k in np.flatnonzero(~holds)]
            raise InputError(f"item parameters: {what} but is not for {name_first(bad)}")

    @classmethod
    def from_difficulty(
        cls,
        discrimination: ArrayLike,
        difficulty: ArrayLike,
        guessing: ArrayLike = 0.0,
        *,
        item_ids: Sequence[str] | None = None,
        guessing_estimated: ArrayLike = False,
    ) -> ItemParameters:
        """Build from a, b and c; items are named ``item1 ...`` unless ``item_ids`` is given.

        Examples
        --------
        >>> ItemParameters.from_difficulty([1.0, 2.0], [0.0, -1.5]).intercept.tolist()
        [0.0, 3.0]
        """
        a = np.atleast_1d(np.asarray(discrimination, dtype=np.float64))
        b = np.broadcast_to(np.asarray(difficulty, dtype=np.float64), a.shape)
        ids = numbered("item", a.size) if item_ids is None else tuple(item_ids)
        return cls(
            ids,
            a,
            0.0 - a * b,
            np.broadcast_to(np.asarray(guessing, dtype=np.float64), a.shape),
            np.broadcast_to(np.asarray(guessing_estimated, dtype=np.bool_), a.shape),
        )

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def difficulty(self) -> NDArray[np.float64]:
        """Ability at which the curve is steepest, b = -d / a, shape (n_items,); infinite for a slope of zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return -self.intercept / self.discrimination

    @property
    def n_free(self) -> NDArray[np.int64]:
        """Number of estimated parameters of each item's own, shape (n_items,).

        2, 3 with guessing, 4 with an upper asymptote too; 0 where they are known. A slope common to all items is none
        of an item's own, see `n_parameters`.
        """
        if self.categories is not None:
            return self.categories.n_free
        own = {"own": 2, "rasch": 1, "1pl": 1, "fixed": 0}
        curve = 2 if self.kind is None else np.array([own[kind] for kind in self.kind])
        rises = self.upper_asymptote is not None and (self.upper_asymptote < 1) & (curve > 0)
        return curve + self.guessing_estimated.astype(np.int64) + rises

    @property
    def has_asymptotes(self) -> bool:
        """Whether any curve has a lower asymptote above 0 or an upper one below 1."""
        return bool(self.guessing.any()) or self.upper_asymptote is not None

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters of all items, and of those they share.

        A common slope is one; next to known items mean and standard deviation of the population are two, and of Rasch
        items alone its standard deviation is one.
        """
        kinds = Counter(self.kind)
        anchored, slope, deviation = kinds["fixed"] > 0, kinds["1pl"] > 0, kinds["rasch"] > 0
        return int(self.n_free.sum()) + (2 * anchored or deviation) + slope

    @property
    def model(self) -> tuple[str, ...]:
        """``2pl``, ``3pl``, ``2pl_fixed_guessing``, ``4pl``, ``rasch``, ``1pl`` or ``fixed`` for each item."""
        if self.categories is not None:
            return tuple(model.name for model in self.categories.models)
        upper = np.ones(self.n_items) if self.upper_asymptote is None else self.upper_asymptote
        of_asymptotes = [
            "4pl" if u < 1 else "3pl" if free else "2pl" if c == 0 else "2pl_fixed_guessing"
            for free, c, u in zip(self.guessing_estimated, self.guessing, upper, strict=True)
        ]
        kinds = self.kind or ("own",) * self.n_items
        return tuple(kind if kind != "own" else own for kind, own in zip(kinds, of_asymptotes, strict=True))

    def standard_errors(self) -> dict[str, NDArray[np.float64]]:
        """Standard errors of ``discrimination, difficulty, guessing, intercept``, each of shape (n_items,).

        With upper asymptotes also of ``upper_asymptote``.

        That of b = -d/a is by the delta method: var(b) = (var(d) + b^2 var(a) + 2 b cov(a, d)) / a^2. NaN where the
        covariance is not known, and for guessing where it was fixed.
        """
        if self.covariance is None:
            unknown = np.full(self.n_items, np.nan)
            return dict.fromkeys(self._reported, unknown)
        var_a, var_d, var_c, *var_u = np.diagonal(self.covariance, axis1=1, axis2=2).T
        b = self.difficulty
        with np.errstate(divide="ignore", invalid="ignore"):
            var_b = (var_d + b**2 * var_a + 2 * b * self.covariance[:, 0, 1]) / self.discrimination**2
        return {
            "discrimination": np.sqrt(var_a),
            "difficulty": np.sqrt(var_b),
            "guessing": np.where(self.guessing_estimated, np.sqrt(var_c), np.nan),
            "intercept": np.sqrt(var_d),
        } | ({"upper_asymptote": np.sqrt(var_u[0])} if var_u else {})

    @property
    def _reported(self) -> tuple[str, ...]:
        """The parameters that are reported with standard errors."""
        names = ("discrimination", "difficulty", "guessing", "intercept")
        return names if self.upper_asymptote is None else (*names, "upper_asymptote")

    def select(self, item_ids: Sequence[str]) -> ItemParameters:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is unknown.
        """
        rows = positions_of(item_ids, self.item_ids, "item parameters: unknown item {}")
        return replace(
            self,
            item_ids=tuple(item_ids),
            discrimination=self.discrimination[rows],
            intercept=self.intercept[rows],
            guessing=self.guessing[rows],
            guessing_estimated=self.guessing_estimated[rows],
            covariance=None if self.covariance is None else self.covariance[rows],
            kind=None if self.kind is None else tuple(self.kind[k] for k in rows),
            upper_asymptote=None if self.upper_asymptote is None else self.upper_asymptote[rows],
            categories=None if self.categories is None else self.categories.select(item_ids),
        )

    def table(self) -> pd.DataFrame:
        """One row an item: the parameters and their standard errors, as items.csv has them."""
        if self.categories is not None and self.n_items:  # a nominal item has no slope and difficulty of its own
            found = self.categories.table()
            for place, (name, values) in enumerate(
                {"discrimination": self.discrimination, "difficulty": self.difficulty}.items(), start=4
            ):
                if name not in found:
                    found.insert(place, name, np.nan)
                found[name] = found[name].fillna(pd.Series(values))
            return found
        errors = self.standard_errors()
        return pd.DataFrame(
            {
                "item_id": self.item_ids,
                "model": self.model,
                "discrimination": self.discrimination,
                "difficulty": self.difficulty,
                "guessing": self.guessing,
                "intercept": self.intercept,
                **({} if self.upper_asymptote is None else {"upper_asymptote": self.upper_asymptote}),
                **{f"se_{name}": errors[name] for name in self._reported},
            }
        )


def sensible_items(items: ItemParameters) -> ItemParameters:
    """The items of a file, if their parameters are such as items have.

    Raises
    ------
    InputError
        Naming the first item of which |a| > `MOST_SLOPE`, |d| > `MOST_DIFFICULTY` max(1, |a|), or a covariance is
        larger than `MOST_COVARIANCE`.
    """
    a, d = items.discrimination, items.intercept
    found = {
        "discrimination": (a, np.full(a.shape, MOST_SLOPE)),
        "intercept": (d, MOST_DIFFICULTY * np.maximum(1.0, np.abs(a))),
    }
    if items.covariance is not None:
        largest = np.nanmax(np.abs(items.covariance), axis=(1, 2), initial=0.0)
        found["a covariance"] = largest, np.full(a.shape, MOST_COVARIANCE)
    for what, (values, most) in found.items():
        beyond = np.flatnonzero(np.abs(values) > most)
        if beyond.size:
            k = beyond[0]
            raise InputError(f"item {items.item_ids[k]}: {what} {values[k]:g}; expected at most {most[k]:g} in size")
    return items


@dataclass(frozen=True, eq=False)
class JointError(Shown):
    """Covariance of the parameters of all items of a scale, and how far its zero and unit are those of a sample.

    Ability is N(0, 1) in the population, and the respondents are a sample of it: the zero of the scale as fitted is
    their mean, its unit their standard deviation, and by both all items err alike. Of the covariance of the items that
    part is D diag(location, unit) D', D the derivatives of (a, d, c) by a shift of zero and a change of unit; what is
    left is their error on the scale as fitted.

    Parameters
    ----------
    covariance
        Of (a, d, c) of every item with every other, shape (n_items, 3, n_items, 3).
    location
        Sampling variance of the scale's zero: 1 / n where ability is N(0, 1) among n respondents; 0 where it is fixed.
    unit
        Relative sampling variance of its unit: 1 / (2 n) there; 0 where it is fixed, as by slopes of 1.

    Raises
    ------
    InputError
        If the shape is another, a value is not finite, or a variance is negative.
    """

    covariance: NDArray[np.float64]
    location: float
    unit: float

    def __post_init__(self) -> None:
        covariance = np.array(self.covariance, dtype=np.float64)
        if covariance.ndim != 4 or covariance.shape != (len(covariance), 3, len(covariance), 3):
            raise InputError(f"joint error: expected shape (n_items, 3, n_items, 3) but got {covariance.shape}")
        if not np.isfinite(covariance).all() or not 0 <= self.location < np.inf or not 0 <= self.unit < np.inf:
            raise InputError("joint error: covariances and variances must be finite, variances not negative")
        covariance.setflags(write=False)
        object.__setattr__(self, "covariance", covariance)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.covariance)

    def select(self, places: Sequence[int] | NDArray[np.intp]) -> JointError:
        """That of the items at these places, in this order."""
        rows = np.array(places, dtype=np.intp)
        return JointError(self.covariance[rows][:, :, rows], self.location, self.unit)

    def table(self) -> pd.DataFrame:
        """One row: number of items, standard deviations of the scale's zero and of its unit."""
        return pd.DataFrame([{"n_items": self.n_items, "sd_zero": self.location**0.5, "sd_unit": self.unit**0.5}])

    def in_short(self) -> str:
        """How many items, and the standard deviations of zero and unit."""
        return f"{counted(self.n_items, 'item')}, zero {self.location**0.5:.3f}, unit {self.unit**0.5:.3f}"
