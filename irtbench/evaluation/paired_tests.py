"""Tests of paired scores other than the bootstrap: the permutation test, and McNemar's for right and wrong."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr

from irtbench.data.input_error import InputError
from irtbench.data.shown import Figures
from irtbench.evaluation.exact_sums import flipped_sum
from irtbench.evaluation.pairing import batches, pair_scores

Alternative = Literal["greater", "less", "two-sided"]
Method = Literal["exact", "resampled"]

#: The exact permutation test convolves the sizes of the differences term by term, up to this sum of them.
MOST_FLIPPED_SUMS = 20_000


@dataclass(frozen=True)
class PermutationTest(Figures):
    """p of a permutation test, and how it was found."""

    p: float
    alternative: Alternative
    method: Method
    n_resamples: int | None


def permutation_test(
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
    exact: bool | None = None,
) -> PermutationTest:
    """Chance of so large a difference if the two systems' scores could change places on each item (Fisher, 1935).

    p = P(sum_i s_i d_i >= sum_i d_i) with signs s_i = +1 or -1 at random (<= for ``less``; absolute values for
    ``two-sided``). For whole numbers it is worked out by convolution, otherwise estimated by (k + 1) / (B + 1), the
    order as it was counted in (Phipson & Smyth, 2010). With groups, a group's items change places together.
    Unlike the bootstrap it keeps its level in small samples, and is defined when all differences are the same.

    Parameters and errors as for ``paired_bootstrap``, but for the exact form groups may have any size.

    Examples
    --------
    >>> permutation_test([1, 1, 1, 1], [0, 0, 0, 0]).p  # 2 of 16 choices of signs
    0.125
    """
    pairs = pair_scores(first, second, groups)
    possible = pairs.are_whole and np.abs(pairs.sums).sum() <= MOST_FLIPPED_SUMS
    exact = possible if exact is None else exact
    if exact and not possible:
        raise InputError("comparison: the exact permutation test needs differences that are small whole numbers")
    total = pairs.sums.sum()
    tolerance = 1e-9 * np.abs(pairs.sums).sum()
    if exact:
        flipped = flipped_sum(pairs.sums.astype(np.int64))
        values, probability = flipped.values.astype(np.float64), flipped.probability
    else:
        rng = np.random.default_rng(0) if rng is None else rng
        magnitudes = np.sort(np.abs(pairs.sums[pairs.sums != 0]))
        drawn = [
            (2.0 * rng.integers(0, 2, (rows, magnitudes.size), dtype=np.int8) - 1) @ magnitudes
            for rows in batches(n_resamples, max(1, magnitudes.size))
        ]
        values = np.concatenate([[total], *drawn])
        probability = np.full(values.size, 1 / values.size)
    reached = {
        "greater": values >= total - tolerance,
        "less": values <= total + tolerance,
        "two-sided": np.abs(values) >= abs(total) - tolerance,
    }[alternative]
    p = min(1.0, float(probability[reached].sum()))
    return PermutationTest(p, alternative, "exact" if exact else "resampled", None if exact else n_resamples)


@dataclass(frozen=True)
class McNemar(Figures):
    """McNemar's test of right and wrong scores.

    Parameters
    ----------
    helped, hurt
        Items that only the first, only the second system has right.
    p
        Exact, conditional on their number.
    mid_p
        The same with half the chance of the counts observed, which makes up for their discreteness.
    alternative
        What p speaks against: its opposite.
    """

    helped: int
    hurt: int
    p: float
    mid_p: float
    alternative: Alternative


def mcnemar(first: ArrayLike, second: ArrayLike, *, alternative: Alternative = "two-sided") -> McNemar:
    """McNemar's exact test and its mid-p.

    Of the m = helped + hurt items on which the two differ, B ~ binomial(m, 1/2) would go to the first by chance.
    ``greater``: P(B >= helped), mid-p P(B > helped) + P(B = helped) / 2. ``two-sided``: the chance of counts no
    nearer to m / 2, mid-p with half the chance of those as near. With m = 0 both are 1.
    (McNemar, 1947; Fagerland, Lydersen & Laake, 2013, doi:10.1186/1471-2288-13-91)

    Parameters
    ----------
    first, second
        1 for right, 0 for wrong, NaN for none, in the same order of items.
    alternative
        As for ``paired_bootstrap``.

    Raises
    ------
    InputError
        If the shapes differ, no item has both scores, or a score is neither 1 nor 0.

    Examples
    --------
    >>> test = mcnemar([1] * 8 + [0] * 2, [0] * 8 + [1] * 2)  # 2 (1 + 10 + 45) / 1024, less 45 / 1024
    >>> round(test.p, 9), round(test.mid_p, 9)
    (0.109375, 0.065429688)
    """
    for scores in (first, second):
        values = np.asarray(scores, dtype=np.float64)
        wrong = ~((values == 0) | (values == 1) | np.isnan(values))
        if wrong.any():
            raise InputError(f"comparison: McNemar's test needs scores 1 and 0 but got {values[wrong][0]:g}")
    d = pair_scores(first, second).differences
    helped, hurt = int((d > 0).sum()), int((d < 0).sum())
    m = helped + hurt
    if m == 0:
        return McNemar(0, 0, 1.0, 1.0, alternative)

    def at_most(k: int) -> float:
        return float(bdtr(k, m, 0.5)) if k >= 0 else 0.0

    # by symmetry P(B >= k) = P(B <= m - k)
    k = {"greater": hurt, "less": helped, "two-sided": min(helped, hurt)}[alternative]
    below, here = at_most(k - 1), at_most(k) - at_most(k - 1)
    if alternative != "two-sided":
        return McNemar(helped, hurt, below + here, below + here / 2, alternative)
    both = here if helped == hurt else 2 * here
    return McNemar(helped, hurt, min(1.0, 2 * below + both), 2 * below + both / 2, alternative)
