"""What a test set of n items can show: the p to expect, the power, the size needed, and the luck of guessers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, gammaln, ndtr, ndtri, xlog1py, xlogy

from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.shown import Figures
from irtbench.evaluation.paired_tests import chance_at_most_zero

#: Shares of items by which one system is better, and shares it gets worse, of the table; and the set sizes.
EFFECTS = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1)
HURT = (0.0, 0.01, 0.02, 0.05, 0.1)
SIZES = (100, 500, 2_000, 10_000)

#: No size beyond this is looked for.
LARGEST_SIZE = 1_000_000
#: Counts of items hurt at which the least significant gain is worked out; between them it is interpolated.
N_COUNTS = 33


def expected_p(n: int, effect: float, hurt: float) -> float:
    """One-sided p of the paired bootstrap when a set of n items turns out exactly as expected.

    A share ``hurt`` of the items is answered worse by the new system and ``hurt + effect`` better. p is the chance that
    n draws, +1, -1 or 0 with these shares, add up to at most 0 (Jansen, 2019).

    Parameters
    ----------
    n
        Items in the set.
    effect
        Difference of the two accuracies, more than 0.
    hurt
        Share of items answered worse.

    Raises
    ------
    InputError
        If n is less than 1, the effect is not above 0, or the shares add up to more than 1.

    Examples
    --------
    >>> round(expected_p(100, 0.02, 0.0), 4), round(expected_p(500, 0.006, 0.014), 5)
    (0.1326, 0.27174)
    """
    _check(n, effect, hurt)
    share = np.array([hurt, 1 - 2 * hurt - effect, hurt + effect])
    return chance_at_most_zero(np.array([-1, 0, 1]), share, n)


def expected_p_table(
    *, effects: Sequence[float] = EFFECTS, hurt: Sequence[float] = HURT, sizes: Sequence[int] = SIZES
) -> pd.DataFrame:
    """``expected_p`` of every combination: columns ``n_items, hurt, effect, p``.

    Combinations of shares that add up to more than 1 are left out. Errors as for ``expected_p`` with the least effect.

    Examples
    --------
    >>> import irtbench
    >>> table = irtbench.expected_p_table(effects=[0.02], hurt=[0.0, 0.05], sizes=[100, 1000])
    >>> table.round(4)
       n_items  hurt  effect       p
    0      100  0.00    0.02  0.1326
    1      100  0.05    0.02  0.3323
    2     1000  0.00    0.02  0.0000
    3     1000  0.05    0.02  0.0370
    """
    for n in sizes:
        for share in hurt:
            _check(n, min(effects), share)
    rows = [
        (n, share, effect, expected_p(n, effect, share))
        for n in sizes
        for share in hurt
        for effect in effects
        if 2 * share + effect <= 1
    ]
    return pd.DataFrame(rows, columns=["n_items", "hurt", "effect", "p"])


def power(n: int, effect: float, hurt: float, *, alpha: float = 0.05) -> float:
    """Chance that the one-sided paired bootstrap on n items drawn at random has p <= alpha.

    sum_k P(K = k) P(H >= h(k) | K = k), where K items are hurt, binomial(n, hurt); H are helped, of the others
    binomial with (hurt + effect) / (1 - hurt); and h(k) is the least number for which p <= alpha. A set that turns out
    exactly as expected with p = alpha has a power of about one half only. In large sets h is worked out at some k and
    interpolated between them, at a cost of less than .0005.

    Parameters and errors as for ``expected_p``; alpha must lie between 0 and 1.

    Examples
    --------
    >>> import irtbench
    >>> round(irtbench.power(1000, 0.02, 0.05), 2)
    0.56
    """
    _check(n, effect, hurt)
    demand_share("power: alpha", alpha)
    spread = 7 * np.sqrt(n * hurt * (1 - hurt))
    k = np.arange(max(0, int(n * hurt - spread)), min(n, int(np.ceil(n * hurt + spread))) + 1)
    chance = np.diff(bdtr(k, n, hurt), prepend=float(bdtr(k[0] - 1, n, hurt)) if k[0] > 0 else 0.0)
    helped = _least_helped(n, k, alpha)
    reached = helped <= n - k
    # rounding must not put a share of 1 above it: .05 + .9 is more than 1 - .05
    tail = bdtrc(helped[reached] - 1, n - k[reached], min((hurt + effect) / (1 - hurt), 1.0))
    return float(chance[reached] @ tail)


@dataclass(frozen=True)
class ScorePower(Figures):
    """What so many items show of the difference of two systems' mean scores, the items drawn at random.

    Parameters
    ----------
    n_items
        Items in the set.
    difference, deviation
        Of the two scores of an item: mean, and standard deviation over items and responses.
    se
        Of the difference of the means.
    expected_p
        One-sided p where the set turns out exactly as expected.
    power
        Chance that p is at most alpha.
    alpha
        Level of the one-sided test.
    n_powered
        Smallest size of the wanted power.
    """

    n_items: int
    difference: float
    deviation: float
    se: float
    expected_p: float
    power: float
    alpha: float
    n_powered: int


def score_power(
    n: int, difference: float, deviation: float, *, alpha: float = 0.05, wanted_power: float = 0.8
) -> ScorePower:
    """Power of a paired test of two mean scores, of grades or of anything, by the normal distribution.

    power = Phi(difference sqrt(n) / deviation - z), z the quantile of 1 - alpha; the least n of a power 1 - beta is
    ((z_alpha + z_beta) deviation / difference)^2, rounded up.

    Parameters
    ----------
    n
        Items in the set.
    difference, deviation
        Mean and standard deviation over items of the difference of the two scores, both above 0.
    alpha, wanted_power
        Level, and the power that the size needed is to have.

    Raises
    ------
    InputError
        If n is less than 1, difference or deviation is not above 0, alpha or the power not between 0 and 1, or more
        than a million items are needed.

    Examples
    --------
    >>> import irtbench
    >>> irtbench.score_power(100, 0.05, 0.3).in_short()
    'n_items 100, difference 0.05, deviation 0.3, se 0.03, expected_p 0.04779, power 0.5087, alpha 0.05, n_powered 223'
    """
    refuse_any((
        (n < 1 or not (difference > 0 and deviation > 0),
         f"power: {n} items, a difference of {difference:g} and a deviation of {deviation:g}; expected all above 0"),
        (not (0 < alpha < 1 and 0 < wanted_power < 1),
         f"power: alpha {alpha:g} and power {wanted_power:g}: expected numbers between 0 and 1"),
    ))  # fmt: skip
    se, z = deviation / np.sqrt(n), ndtri(1 - alpha)
    needed = np.ceil(((z + ndtri(wanted_power)) * deviation / difference) ** 2)
    if needed > LARGEST_SIZE:
        raise InputError(f"power: a difference of {difference:g} needs {needed:.3g} items; at most {LARGEST_SIZE}")
    return ScorePower(
        n, difference, deviation, float(se), float(ndtr(-difference / se)), float(ndtr(difference / se - z)), alpha,
        max(1, int(needed)),
    )  # fmt: skip


@dataclass(frozen=True)
class SizeNeeded(Figures):
    """Items needed to show an effect.

    Parameters
    ----------
    effect, hurt, alpha, power
        What is to be shown.
    n_expected
        Smallest size whose ``expected_p`` is at most alpha: half of such sets show the effect.
    n_powered
        Smallest size found whose ``power`` is reached. Power is a saw-tooth in n, so some larger sets may just miss it.
    """

    effect: float
    hurt: float
    alpha: float
    power: float
    n_expected: int
    n_powered: int


def size_needed(effect: float, hurt: float, *, alpha: float = 0.05, wanted_power: float = 0.8) -> SizeNeeded:
    """Items needed to show that a system is better by ``effect``, where it answers a share ``hurt`` worse.

    Raises
    ------
    InputError
        As ``power``; if the power is not between 0 and 1; or if more than a million items are needed.

    Examples
    --------
    >>> import irtbench
    >>> irtbench.size_needed(0.05, 0.02)
    <SizeNeeded: effect 0.05, hurt 0.02, alpha 0.05, power 0.8, n_expected 109, n_powered 224>
    """
    demand_share("power: the wanted power", wanted_power)
    _check(1, effect, hurt)
    demand_share("power: alpha", alpha)

    def as_if_normal(z: float) -> int:
        """Size at which the expected gain is z of its standard errors."""
        return int(np.clip(z**2 * (2 * hurt + effect - effect**2) / effect**2, 1, LARGEST_SIZE))

    z_alpha, z_power = float(ndtri(1 - alpha)), float(ndtri(wanted_power))
    n_expected = _smallest(lambda n: expected_p(n, effect, hurt) <= alpha, near=as_if_normal(z_alpha))
    n_powered = _smallest(
        lambda n: power(n, effect, hurt, alpha=alpha) >= wanted_power, near=as_if_normal(z_alpha + z_power)
    )
    return SizeNeeded(effect, hurt, alpha, wanted_power, n_expected, n_powered)


@dataclass(frozen=True)
class GuessersLuck(Figures):
    """How high systems that only guess come by chance.

    Parameters
    ----------
    n_items, threshold, guess, n_guessers
        Items, the accuracy to be exceeded, the chance of a right guess, and how many systems are tried.
    n_correct
        The least number of right answers above the threshold.
    one
        Chance that one guesser exceeds the threshold.
    best
        Chance that the best of all does.
    """

    n_items: int
    threshold: float
    guess: float
    n_guessers: int
    n_correct: int
    one: float
    best: float


def guessers_luck(n_items: int, threshold: float, *, guess: float = 0.5, n_guessers: int = 10) -> GuessersLuck:
    """Chance that a guesser, and the best of several independent ones, exceeds an accuracy.

    one = P(B > threshold n), B binomial(n, guess);  best = 1 - (1 - one)^k.     (Trichelair et al., 2018)

    Raises
    ------
    InputError
        If there is no item or no guesser, or the threshold or the guessing lies outside [0, 1].

    Examples
    --------
    >>> luck = guessers_luck(273, 0.55)
    >>> luck.n_correct, round(luck.one, 3), round(luck.best, 3)
    (151, 0.045, 0.369)
    """
    refuse_any((
        (n_items < 1 or n_guessers < 1,
         f"luck: expected at least one item and one guesser but got {n_items} and {n_guessers}"),
        *((not 0 <= value <= 1, f"luck: {name} must be between 0 and 1 but got {value:g}")
          for name, value in (("threshold", threshold), ("guess", guess))),
    ))  # fmt: skip
    at_threshold = int(np.floor(threshold * n_items + 1e-9))  # .55 x 100 is 55, whatever its last bit says
    one = float(bdtrc(at_threshold, n_items, guess)) if at_threshold < n_items else 0.0
    best = float(-np.expm1(n_guessers * np.log1p(-one))) if one < 1 else 1.0
    return GuessersLuck(n_items, threshold, guess, n_guessers, at_threshold + 1, one, best)


def _check(n: int, effect: float, hurt: float) -> None:
    refuse_any((
        (n < 1, f"power: expected at least one item but got {n}"),
        (not effect > 0, f"power: the effect must be above 0 but got {effect:g}"),
        (not hurt >= 0 or 2 * hurt + effect > 1 + 1e-12,
         f"power: a share {hurt:g} hurt and {hurt + effect:g} helped; expected shares of at least 0 that add up to at "
         "most 1"),
    ))  # fmt: skip


def _least_helped(n: int, hurt: NDArray[np.int64], alpha: float) -> NDArray[np.int64]:
    """Smallest number of items helped whose p is at most alpha, for each number hurt, in order; n + 1 if none is.

    It is found at `N_COUNTS` of the numbers, as the point between two whole numbers at which log p crosses
    log alpha, which is smooth, and interpolated between these.
    """
    at = np.unique(np.linspace(hurt[0], hurt[-1], N_COUNTS).round().astype(np.int64))
    crossing = np.array([_crossing(n, int(k), alpha) for k in at])
    return np.minimum(np.ceil(np.interp(hurt, at, crossing) - 1e-9), n + 1).astype(np.int64)


def _crossing(n: int, hurt: int, alpha: float) -> float:
    """Where, between two numbers of items helped, log p goes through log alpha; n + 1 if nowhere."""

    def log_p(helped: int) -> float:
        return float(np.log(max(_bootstrap_p(n, helped, hurt), np.finfo(np.float64).tiny)))

    most = n - hurt
    if most == 0 or log_p(most) > np.log(alpha):
        return n + 1
    # the normal approximation, helped - hurt = z sqrt(helped + hurt), is off by a few items at most
    z = max(float(ndtri(1 - alpha)), 0.0)
    guess = min(most, int(hurt + (z**2 + np.sqrt(z**4 + 8 * hurt * z**2)) / 2))
    helped = _least(lambda number: number >= most or log_p(number) <= np.log(alpha), near=guess, factor=1.01)
    if helped == 0:
        return 0.0
    before, after = log_p(helped - 1), log_p(helped)
    return helped - 1 + (before - np.log(alpha)) / (before - after)


def _bootstrap_p(n: int, helped: int, hurt: int) -> float:
    """One-sided p of the paired bootstrap, to 1e-12, in the time that a search over many counts allows.

    Of n draws, m are not 0, binomial with (helped + hurt) / n; of these at most half must be +1, binomial with
    helped / (helped + hurt). Counts m beyond nine standard deviations are left out.
    """
    decided = helped + hurt
    if decided == 0:
        return 1.0
    q = decided / n
    spread = 9 * np.sqrt(n * q * (1 - q)) + 9
    m = np.arange(max(0, int(decided - spread)), min(n, int(decided + spread)) + 1)
    log_chance = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1) + xlogy(m, q) + xlog1py(n - m, -q)
    return float(np.exp(log_chance) @ bdtr(m // 2, m, helped / decided))


def _smallest(reached: Callable[[int], bool], *, near: int) -> int:
    """Smallest size at which a condition holds that holds ever after, looked for up to `LARGEST_SIZE`."""

    def reached_in_time(n: int) -> bool:
        if n > LARGEST_SIZE:
            raise InputError(f"power: more than {LARGEST_SIZE:,} items would be needed; expected a larger effect")
        return reached(n)

    return max(1, _least(lambda n: n > 0 and reached_in_time(n), near=near, factor=1.15))


def _least(holds: Callable[[int], bool], *, near: int, factor: float) -> int:
    """Smallest whole number from 0 at which a condition holds that holds ever after, looked for around ``near``."""
    high = near
    while not holds(high):
        high = int(high * factor) + 1
    low = int(min(high, near) / factor) - 1
    while low >= 0 and holds(low):
        low = int(low / factor) - 1
    return bisect_left(range(high), True, lo=max(low, -1) + 1, key=holds)
