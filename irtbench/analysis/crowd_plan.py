"""How many respondents, items each and attention checks a wanted precision takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from irtbench.analysis.design_information import (
    MOST_ITEMS,
    DesignInformation,
    ExpectedPrecision,
    ability_precision,
    design_information,
    errors_beyond_information,
    thinned,
)
from irtbench.data.checked_settings import Inside, Range, Settings
from irtbench.data.input_error import InputError
from irtbench.data.shown import Drawn, Figures
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters

MOST_CHECKS = 50
MOST_TRIED, CLOSE = 5, 0.1  # numbers of respondents, until the errors simulated ask for no other
LEFT_FOR_ABILITY = 0.9  # share of the variance of theta that its own posterior may take, the rest is for the items
THINNED_TO = 200  # items, where there are more: what a response tells of its item does not depend on the others' number


@dataclass(frozen=True)
class PlanSettings(Settings):
    """What is wanted of a crowd, and what is known of it; None leaves a wish out.

    Parameters
    ----------
    se_difficulty
        Standard error of b that ``share`` of the items is to reach.
    se_theta
        Root mean squared error of a respondent's ability over the population.
    percentile_width
        Mean width of the interval of a percentile, as a share: .3 is thirty percentiles.
    n_each
        Items that each respondent answers; None: as few as ``se_theta`` and ``percentile_width`` allow, else all.
    n_respondents
        Respondents, if their number is given; None: as few as the wishes allow.
    share
        Share of the items that is to reach ``se_difficulty``.
    level
        Coverage of the percentile's interval.
    guess
        Chance that somebody who does not read answers an attention check right.
    slip
        Chance that somebody who reads answers it wrong.
    guesser_passes
        Highest chance allowed that somebody who does not read passes the checks.
    reader_fails
        Highest chance allowed that somebody who reads fails them.
    careless
        Share of the people recruited who do not read.

    Raises
    ------
    InputError
        If a value lies outside its range, or none of the wishes and neither number is given.
    """

    se_difficulty: Annotated[float, Range(above=0)] | None = None
    se_theta: Annotated[float, Range(above=0, below=1)] | None = None
    percentile_width: Inside | None = None
    n_each: Annotated[int, Range(at_least=2)] | None = None
    n_respondents: Annotated[int, Range(at_least=1)] | None = None
    share: Annotated[float, Range(above=0, at_most=1)] = 0.9
    level: Inside = 0.95
    guess: Inside = 1 / 3
    slip: Annotated[float, Range(at_least=0, below=0.5)] = 0.015
    guesser_passes: Inside = 0.05
    reader_fails: Inside = 0.05
    careless: Annotated[float, Range(at_least=0, below=1)] = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_respondents is None and self.se_difficulty is None and self.se_theta is None:
            raise InputError("plan: expected a wanted standard error of b or theta, or the number of respondents")


@dataclass(frozen=True)
class AttentionChecks(Figures):
    """Attention checks, and how well they tell readers from others.

    Parameters
    ----------
    n_checks, fewest_right
        Checks for each respondent, and how many of them must be right.
    guesser_passes, reader_fails
        Chances with this rule.
    """

    n_checks: int
    fewest_right: int
    guesser_passes: float
    reader_fails: float


@dataclass(frozen=True, eq=False)
class CrowdPlan(
    Drawn,
    short="{n_items:item}, {n_each} each, {checks.n_checks:attention check}, {n_respondents:respondent}, "
    "{n_recruited} to recruit",
):
    """What to order, and what to expect of it.

    Parameters
    ----------
    n_items, n_each
        Items in all, and those each respondent answers, attention checks left out.
    n_respondents
        Respondents whose answers count.
    n_recruited
        People to recruit, for some do not read, and some who read fail the checks.
    checks
        Attention checks.
    n_answers
        Answers to pay for, checks included.
    n_by_item
        Answers that count for each item, on average.
    precision
        Standard errors to expect: root mean squared errors of a fit without a prior.
    not_converged
        Share of simulated fits without a prior that do not converge, for lack of answers; 0 where none was needed.
    settings
        What was wanted.
    items
        The items of ``precision``.
    """

    n_items: int
    n_each: int
    n_respondents: int
    n_recruited: int
    checks: AttentionChecks
    n_answers: int
    n_by_item: float
    precision: ExpectedPrecision
    not_converged: float
    settings: PlanSettings
    items: ItemParameters

    def summary(self) -> dict[str, object]:
        """What plan.json holds."""
        se_b = self.precision.se_difficulty
        return {
            "n_items": self.n_items,
            "n_each": self.n_each,
            "n_respondents": self.n_respondents,
            "n_recruited": self.n_recruited,
            "n_answers": self.n_answers,
            "n_by_item": self.n_by_item,
            "n_checks": self.checks.n_checks,
            "checks_right": self.checks.fewest_right,
            "guesser_passes": self.checks.guesser_passes,
            "reader_fails": self.checks.reader_fails,
            "se_difficulty": float(np.quantile(se_b, self.settings.share)),
            "se_difficulty_median": float(np.median(se_b)),
            "se_discrimination_median": float(np.median(self.precision.se_discrimination)),
            "se_theta": self.precision.se_theta,
            "se_theta_items": self.precision.se_theta_items,
            "percentile_width": self.precision.percentile_width,
            "level": self.precision.level,
            "not_converged": self.not_converged,
        }

    def item_table(self) -> pd.DataFrame:
        """One row an item: its parameters, and the standard errors to expect."""
        return pd.DataFrame(
            {
                "item_id": self.items.item_ids,
                "discrimination": self.items.discrimination,
                "difficulty": -self.items.intercept / self.items.discrimination,
                "intercept": self.items.intercept,
                "se_discrimination": self.precision.se_discrimination,
                "se_difficulty": self.precision.se_difficulty,
            }
        )


def attention_checks(
    *, guess: float, slip: float = 0.015, guesser_passes: float = 0.05, reader_fails: float = 0.05
) -> AttentionChecks:
    """Fewest attention checks that few who do not read pass and few who read fail.

    With n checks of which r must be right: P(Binomial(n, guess) >= r) <= ``guesser_passes`` and
    P(Binomial(n, 1 - slip) < r) <= ``reader_fails``; the smallest n for which there is such an r, and the strictest r.

    Raises
    ------
    InputError
        If more than fifty would be needed.

    Examples
    --------
    >>> found = attention_checks(guess=1 / 3)
    >>> found.n_checks, found.fewest_right, round(found.guesser_passes, 3), round(found.reader_fails, 3)
    (3, 3, 0.037, 0.044)
    """
    for n in range(1, MOST_CHECKS + 1):
        for right in range(n, 0, -1):
            passes = float(bdtrc(right - 1, n, guess))
            fails = float(bdtr(right - 1, n, 1 - slip))
            if passes <= guesser_passes and fails <= reader_fails:
                return AttentionChecks(n, right, passes, fails)
    raise InputError(
        f"plan: more than {MOST_CHECKS} attention checks would be needed; expected checks that are harder to guess or "
        "higher chances of error"
    )


def plan_crowd(
    items: ParametersLike,
    settings: PlanSettings,
    *,
    rng: np.random.Generator,
    progress: Callable[[str], None] = lambda message: None,
) -> CrowdPlan:
    """Fewest items each, then fewest respondents, that reach what is wanted.

    Items each: the smallest number whose expected posterior variance and percentile width (``ability_precision``) are
    small enough, leaving a tenth of the variance allowed for the error of the items. Respondents: standard errors fall
    with 1 / sqrt(n), so that n = (se of one respondent / se wanted)^2 (``design_information``). With fewer than 500
    answers an item simulated samples of the design are fitted without a prior: errors are larger there, .06 with 330
    answers, a quarter with 75.

    Parameters
    ----------
    items
        The items as they are believed to be, see ``design_information``; of more than 500, every so many-th is used.
    settings
        What is wanted.
    rng
        Draws patterns.
    progress
        Called with a line about the step at hand.

    Raises
    ------
    InputError
        If the wish is out of reach with all the items, and as ``design_information``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> wanted = irtbench.PlanSettings(se_difficulty=0.2, n_each=6)
    >>> plan = irtbench.plan_crowd(irtbench.typical_items(10), wanted, rng=np.random.default_rng(1))
    >>> plan
    <CrowdPlan: 10 items, 6 each, 3 attention checks, 1258 respondents, 1386 to recruit>
    >>> plan.table()[["n_answers", "n_by_item", "se_difficulty", "se_theta"]].round(2)
       n_answers  n_by_item  se_difficulty  se_theta
    0      12474      754.8            0.2      0.63
    """
    items = as_parameters(items)
    checks = attention_checks(
        guess=settings.guess, slip=settings.slip, guesser_passes=settings.guesser_passes,
        reader_fails=settings.reader_fails,
    )  # fmt: skip
    n_each = settings.n_each or _items_each(items, settings, rng, progress)
    part, _ = thinned(items, max(THINNED_TO, n_each) if items.n_items > MOST_ITEMS else items.n_items)
    information = design_information(part, n_each, level=settings.level, rng=rng, progress=progress)
    factor = part.n_items / items.n_items  # of the answers to an item if there were only the items used for it
    precision, not_converged = _simulated(information, factor, settings, rng, progress)
    n, kept = precision.n_respondents, (1 - settings.careless) * (1 - checks.reader_fails)
    n_recruited = int(np.ceil(n / kept))
    return CrowdPlan(
        n_items=items.n_items, n_each=n_each, n_respondents=n, n_recruited=n_recruited, checks=checks,
        n_answers=n_recruited * (n_each + checks.n_checks), n_by_item=n * n_each / items.n_items, precision=precision,
        not_converged=not_converged, settings=settings, items=information.items,
    )  # fmt: skip


def _simulated(
    information: DesignInformation,
    factor: float,
    settings: PlanSettings,
    rng: np.random.Generator,
    progress: Callable[[str], None],
) -> tuple[ExpectedPrecision, float]:
    """Errors with so many respondents as suffice in simulated fits, and the share of these that do not converge."""
    n, seed = settings.n_respondents or _respondents(information, factor, settings), int(rng.integers(2**32))
    stretch, not_converged, tried = np.ones((2, information.items.n_items)), 0.0, n
    for _ in range(MOST_TRIED):
        progress(f"errors with {tried} respondents")
        drawn, own = max(1, round(tried * factor)), np.random.default_rng(seed)
        stretch, not_converged = errors_beyond_information(information, drawn, rng=own)
        if settings.n_respondents or settings.se_difficulty is None:
            break
        n = 2 * tried if np.isnan(stretch).any() else _respondents(information, factor, settings, stretch[1])
        if abs(n / tried - 1) < CLOSE:
            break
        tried = int(np.ceil(np.sqrt(n * tried)))
    precision = information.precision(n * factor)
    a, b = stretch * np.array([precision.se_discrimination, precision.se_difficulty])
    return replace(precision, n_respondents=n, se_discrimination=a, se_difficulty=b), not_converged


def _items_each(
    items: ItemParameters, settings: PlanSettings, rng: np.random.Generator, progress: Callable[[str], None]
) -> int:
    if settings.se_theta is None and settings.percentile_width is None:
        return items.n_items
    seed = int(rng.integers(2**32))

    def short_of(n_each: int) -> str:
        progress(f"abilities from {n_each} items")
        error, width = ability_precision(items, n_each, level=settings.level, rng=np.random.default_rng(seed))
        if settings.se_theta is not None and error**2 > LEFT_FOR_ABILITY * settings.se_theta**2:
            return f"a standard error of theta of {error:.3f}"
        if settings.percentile_width is not None and width > settings.percentile_width:
            return f"a percentile's interval {width:.3f} wide"
        return ""

    if reached := short_of(items.n_items):
        raise InputError(f"plan: all {items.n_items} items give {reached} only; expected a wider wish or more items")
    return bisect_left(range(items.n_items), True, lo=2, key=lambda n_each: not short_of(n_each))


def _respondents(
    information: DesignInformation, factor: float, settings: PlanSettings, stretch: NDArray[np.float64] | float = 1.0
) -> int:
    one = information.precision(1)
    needed = [2.0]
    if settings.se_difficulty is not None:
        needed.append((float(np.quantile(stretch * one.se_difficulty, settings.share)) / settings.se_difficulty) ** 2)
    if settings.se_theta is not None:
        left = settings.se_theta**2 - information.posterior_variance
        if left <= 0:
            raise InputError(
                f"plan: {information.n_each} items each give a standard error of theta of "
                f"{np.sqrt(information.posterior_variance):.3f} however many answer; expected more items each"
            )
        needed.append(one.se_theta_items**2 / left)
    return int(np.ceil(max(needed) / factor))
