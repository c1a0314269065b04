"""What is wanted of a form: its length or precision, its items, and how it differs from other forms."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal, TypedDict

from irtbench.data.checked_settings import Count, Inside, Range, Settings, Share
from irtbench.data.input_error import InputError

Positive = Annotated[float, Range(above=0)]
AtLeastOne = Annotated[int, Range(at_least=1)]

#: What a form of a length is best for: information, the least over the theta points relative to the shape, or the
#: population's mean; or the accuracy on all items, which `predict_accuracy` then tells.
Objective = Literal["maximin", "population", "accuracy"]


@dataclass(frozen=True)
class Limit(Settings):
    """How many items of a form have a value in a column; cells with several values part them by semicolons.

    Parameters
    ----------
    column, value
        Which items: those with this value in this column of the bank (``scale, label, group``) or of the items' table.
    at_least
        How many of them a form must have; None for no limit.
    at_most
        How many it may have; None for no limit.
    least_share, most_share
        The same two limits as shares of the form's items.

    Raises
    ------
    InputError
        If no limit is given, or the least is above the most.
    """

    column: str
    value: str
    at_least: Count | None = None
    at_most: Count | None = None
    least_share: Share | None = None
    most_share: Share | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = ((self.at_least, self.at_most), (self.least_share, self.most_share))
        if all(end is None for pair in pairs for end in pair):
            raise InputError(f"limit {self.column}={self.value}: expected at_least, at_most, least_share or most_share")
        for low, high in pairs:
            if low is not None and high is not None and low > high:
                raise InputError(f"limit {self.column}={self.value}: at least {low:g} but at most {high:g}")


@dataclass(frozen=True)
class FormWishes(Settings):
    """What a form, or several at once, must be like; exactly one of ``length, se, reliability`` is given.

    Parameters
    ----------
    length
        Items of each form, which then gets most information.
    se
        The shortest form whose standard error of theta, 1 / sqrt(I), is no larger at any of the points ``theta``, on
        every scale.
    reliability
        The shortest form of this marginal reliability over the population, on every scale.
    theta
        Abilities at which information is asked for.
    shape
        Information wanted at these points relative to each other; empty for the same at all.
    objective
        What most information is: ``maximin``, the least over the points ``theta`` relative to ``shape``; or its mean
        over the ``population``. Or, in its place, ``accuracy``: items chosen one by one that tell the accuracy on all
        items; with ``length, required, forbidden`` alone.
    limits
        Numbers or shares of items by the value of a column.
    enemies
        Sets of items of which a form has one at most.
    enemies_by
        A column: items of the same value in it are enemies (``group``: twins, items of one passage).
    required
        Items that every form has.
    forbidden
        Items that no form has.
    other_forms
        Forms in use already.
    most_overlap
        Items that a form may share with each of the other forms, and with each of those made at once; None for no
        limit.
    most_uses
        Forms that an item may be in, those in use counted; None for no limit, but 1 for several forms at once
        without ``most_overlap``.
    forms
        How many forms at once, of the same length and with information as alike as can be.
    gap
        How far, relative to its value, the objective may be from the best there can be; 0 for the best.
    seconds
        After which the best found is taken, with its gap; None for 300, or 20 for several forms at once: they are found
        soon, but that none are better is hard to prove.

    Raises
    ------
    InputError
        If wishes contradict each other, or a value is none that the field can have.
    """

    length: AtLeastOne | None = None
    se: Positive | None = None
    reliability: Inside | None = None
    theta: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0)
    shape: tuple[Positive, ...] = ()
    objective: Objective = "maximin"
    limits: tuple[Limit, ...] = ()
    enemies: tuple[tuple[str, ...], ...] = ()
    enemies_by: str | None = None
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    other_forms: tuple[tuple[str, ...], ...] = ()
    most_overlap: Count | None = None
    most_uses: AtLeastOne | None = None
    forms: AtLeastOne = 1
    gap: Annotated[float, Range(at_least=0, below=1)] = 0.0
    seconds: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("length", "se", "reliability") if getattr(self, name) is not None]
        if len(given) != 1:
            what = " and ".join(given) or "none"
            raise InputError(f"form: expected one of length, se, reliability but got {what}")
        if not self.theta:
            raise InputError("form: expected at least one theta")
        if self.shape and len(self.shape) != len(self.theta):
            raise InputError(f"form: shape has {len(self.shape)} values for {len(self.theta)} of theta")
        if self.se is not None and self.shape:
            raise InputError("form: shape goes with length; a standard error is wanted at every theta alike")
        both = sorted(set(self.required) & set(self.forbidden))
        if both:
            raise InputError(f"form: item {both[0]} is both required and forbidden")
        if any(len(set(group)) < 2 for group in self.enemies):
            raise InputError("form: enemies: expected at least two different items in each set")
        if self.objective == "accuracy":
            allowed = {"length", "required", "forbidden", "objective"}
            others = [one.name for one in fields(self) if one.name not in allowed]
            given = [name for name in others if getattr(self, name) != getattr(FormWishes, name)]
            if self.length is None or given:
                what = given[0] if given else "no length"
                raise InputError(f"form: for accuracy goes with length, required and forbidden alone but got {what}")

    @property
    def seconds_allowed(self) -> float:
        """Those given, or the default."""
        return self.seconds or (300.0 if self.forms == 1 else 20.0)

    @property
    def wanted(self) -> str:
        """The length or precision wished for: ``length 30``."""
        return next(f"{name} {value:g}" for name in ("length", "se", "reliability")
                    if (value := getattr(self, name)) is not None)  # fmt: skip


class FormKeywords(TypedDict, total=False):
    """`FormWishes` as keywords."""

    length: AtLeastOne | None
    se: Positive | None
    reliability: Inside | None
    theta: tuple[float, ...]
    shape: tuple[Positive, ...]
    objective: Objective
    limits: tuple[Limit, ...]
    enemies: tuple[tuple[str, ...], ...]
    enemies_by: str | None
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    other_forms: tuple[tuple[str, ...], ...]
    most_overlap: Count | None
    most_uses: AtLeastOne | None
    forms: AtLeastOne
    gap: Annotated[float, Range(at_least=0, below=1)]
    seconds: Positive | None
