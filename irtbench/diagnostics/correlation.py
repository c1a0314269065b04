"""Correlations of items: of columns with missing values, and tetrachoric ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Shown, counted, spanned
from irtbench.models.coded_scores import MISSING, CodedScores, Levels


def pairwise_covariance(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariance of every two columns over the rows where both are observed, and the number of those rows.

    Each of shape (n_columns, n_columns), the covariance with n - 1 in the denominator; NaN where n is below 2.

    Examples
    --------
    >>> pairwise_covariance(np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 1.0]]))[0][0, 1].item()
    -0.5
    """
    n, total, _, product = _sums_by_pair(values)
    return (product - total * total.T / np.maximum(n, 1)) / np.where(n > 1, n - 1, np.nan), n


def pairwise_correlation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of every two columns over the rows where both are observed, shape (n_columns, n_columns).

    NaN where one of the two does not vary there.

    Examples
    --------
    >>> pairwise_correlation(np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 1.0]]))[0, 1].item()
    -1.0
    """
    n, total, squares, product = _sums_by_pair(values)
    variation = squares - total**2 / np.maximum(n, 1)
    rounding = np.maximum(1e-12, n * np.finfo(np.float64).eps)  # of a sum of n, relative
    variation[variation <= rounding * squares] = np.nan
    return np.clip((product - total * total.T / np.maximum(n, 1)) / np.sqrt(variation * variation.T), -1.0, 1.0)


def _sums_by_pair(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Rows with both columns k and l; over them the sum and the sum of squares of k, and the sum of products.

    Each of shape (n_columns, n_columns), from the columns' means as origin: there the differences keep their digits.
    """
    seen = (~np.isnan(values)).astype(np.float64)
    origin = np.nansum(values, axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen > 0, values - origin, 0.0)
    return seen.T @ seen, centred.T @ seen, (centred**2).T @ seen, centred.T @ centred


#: Gauss and Legendre's rules, and the angle up to which each is right to the last bits.
RULES = tuple((angle, np.polynomial.legendre.leggauss(n)) for angle, n in ((1.0, 16), (1.18, 20), (np.inf, 48)))
EMPTY_CELL = 0.5  # respondents put into a cell that has none; an empty cell alone would mean a correlation of +-1
LARGEST_ANGLE = np.arcsin(0.9999)
LEAST_EIGENVALUE = 1e-4  # share of the mean eigenvalue that is left to directions without any
MOST_STEPS = 60
MOST_CATEGORIES = 10  # of an item, before neighbours are joined
FARTHEST = 8.0  # a threshold behind which nobody is
LEAST_CELL = 1e-14
MOST_AT_ONCE = 100_000  # corners of tables


@dataclass(frozen=True, eq=False)
class Tetrachoric(Shown):
    """Tetrachoric correlations of items, polychoric of items in categories.

    Parameters
    ----------
    item_ids
        The items.
    correlations
        Positive definite, with a unit diagonal, shape (n_items, n_items).
    n_empty
        Pairs of items with two categories each and an empty cell in their table.
    n_negative
        Eigenvalues that were not positive before the matrix was made positive definite.
    note
        What was done to the matrix, in words; empty if nothing was.
    kind
        ``tetrachoric``, or ``polychoric``.
    """

    item_ids: tuple[str, ...]
    correlations: NDArray[np.float64]
    n_empty: int
    n_negative: int
    note: str
    kind: Literal["tetrachoric", "polychoric"] = "tetrachoric"

    @property
    def eigenvalues(self) -> NDArray[np.float64]:
        """In descending order; their sum is the number of items, shape (n_items,)."""
        return np.asarray(np.linalg.eigvalsh(self.correlations)[::-1], dtype=np.float64)

    def table(self) -> pd.DataFrame:
        """One row an item: its correlations with all."""
        table = pd.DataFrame(self.correlations, columns=list(self.item_ids))
        table.insert(0, "item_id", self.item_ids, allow_duplicates=True)
        return table

    def in_short(self) -> str:
        """How many items, and the range of their correlations."""
        pairs = self.correlations[np.triu_indices(len(self.item_ids), 1)]
        return f"{counted(len(self.item_ids), 'item')}, correlations {spanned(pairs)}"


def tetrachoric(responses: ResponsesLike) -> Tetrachoric:
    """Tetrachoric correlation of every two items over the respondents who answered both.

    The r at which a bivariate standard normal has the table's share of both right,

        P(u > h, v > k; r) = n_11 / n,   P(u > h) = n_1. / n,   P(v > k) = n_.1 / n          (Pearson, 1900)

    A cell without respondents counts half of one. Pairwise correlations need not be those of any normal variables:
    eigenvalues that are not positive are raised to a little above zero and the diagonal is set to 1 again. Of items in
    categories there is `polychoric`.

    Raises
    ------
    InputError
        If there are fewer than two items, an item was answered alike by everyone, or two items by nobody together.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.tetrachoric(responses)
    >>> found
    <Tetrachoric: 6 items, correlations 0.32 to 0.62>
    >>> found.eigenvalues.round(2)
    array([3.23, 0.71, 0.65, 0.58, 0.52, 0.31])
    """
    responses = as_responses(responses)
    refuse_any(
        (not 0 < share < 1, f"tetrachoric correlations: item {item} has no right or no wrong response; leave it out")
        for item, share in zip(responses.item_ids, responses.proportion_correct(), strict=True)
    )
    return correlations_of_codes(codes_of(responses), responses.item_ids, "tetrachoric")


def polychoric(responses: ArrayLike | pd.DataFrame | CodedScores, *, levels: Levels = None) -> Tetrachoric:
    """Polychoric correlation of every two items in ordered categories over the respondents who answered both.

    The r of the largest likelihood of the table n_ab of two items, whose categories are those of a bivariate standard
    normal between thresholds that give each item's shares (Olsson, 1979, in two steps):

        log L = sum_ab n_ab log P(h_a < u < h_a+1, k_b < v < k_b+1; r)

    Of two categories each it is the `tetrachoric` correlation, with its half of a respondent in an empty cell. Of an
    item with more than ten categories neighbours are joined, to ten of about the same size.

    Parameters
    ----------
    responses
        Scores in categories, as `fit_categories` takes them; missing ones are left out pair by pair.
    levels
        Labels in their order; None where scores are numbers.

    Raises
    ------
    InputError
        As `tetrachoric`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> normal = 0.8 * rng.normal(size=(500, 1)) + 0.6 * rng.normal(size=(500, 4))
    >>> irtbench.diagnostics.polychoric(np.digitize(normal, [-1, 0, 0.7]))
    <Tetrachoric: 4 items, correlations 0.53 to 0.65>
    """
    scores = CodedScores.of(responses, levels=levels).wide()
    refuse_any(
        (len(np.unique(column[column != MISSING])) < 2,
         f"polychoric correlations: item {item} has no two categories; leave it out")
        for item, column in zip(scores.item_ids, scores.codes.T, strict=True)
    )  # fmt: skip
    return correlations_of_codes(codes_of(scores), scores.item_ids, "polychoric")


def codes_of(responses: ResponseMatrix | CodedScores) -> NDArray[np.int64]:
    """Categories 0, 1, ... of each item, -1 where missing; of many categories neighbours are joined."""
    if isinstance(responses, ResponseMatrix):
        return np.where(responses.observed, responses.values, MISSING).astype(np.int64)
    codes = responses.codes.astype(np.int64)
    for column in codes.T:
        given = column != MISSING
        counts = np.bincount(column[given])
        place = np.arange(counts.size)
        if (counts > 0).sum() > MOST_CATEGORIES:
            place = (MOST_CATEGORIES * (np.cumsum(counts) - counts / 2) / counts.sum()).astype(np.int64)
        column[given] = np.unique(place[column[given]], return_inverse=True)[1]
    return codes


def correlations_of_codes(
    codes: NDArray[np.int64], item_ids: tuple[str, ...], kind: Literal["tetrachoric", "polychoric"]
) -> Tetrachoric:
    """Correlations of such categories, of which every item has two or more."""
    if len(item_ids) < 2:
        raise InputError(f"{kind} correlations: {len(item_ids)} items; expected at least 2")
    pairs = first, second = np.triu_indices(len(item_ids), 1)
    chosen = [(codes == k).astype(np.float64) for k in range(codes.max() + 1)]
    cells = np.array([[(a.T @ b)[pairs] for b in chosen] for a in chosen])
    unanswered = np.flatnonzero(cells.sum(axis=(0, 1)) == 0)
    if unanswered.size:
        names = item_ids[first[unanswered[0]]], item_ids[second[unanswered[0]]]
        raise InputError(
            f"{kind} correlations: nobody answered both {names[0]} and {names[1]} "
            f"({unanswered.size} such pairs); expected an overlap of all items"
        )
    two = codes.max(axis=0) == 1
    four = two[first] & two[second]
    empty = (cells[:2, :2] == 0) & four
    cells[:2, :2][empty] = EMPTY_CELL
    correlations = np.eye(len(item_ids))
    correlations[pairs] = correlations_of_tables(cells)
    correlations.T[pairs] = correlations[pairs]
    n_empty = int(empty.any(axis=(0, 1)).sum())
    correlations, n_negative, moved = nearest_positive_definite(correlations)
    notes = []
    if n_empty:
        notes.append(f"{n_empty} of {first.size} pairs have an empty cell, counted as half a respondent")
    if n_negative:
        notes.append(
            f"{n_negative} of {len(item_ids)} eigenvalues were not positive and were raised, "
            f"which moved correlations by {moved:.3f} at most"
        )
    return Tetrachoric(item_ids, correlations, n_empty, n_negative, "; ".join(notes), kind)


def correlations_of_tables(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Polychoric correlations of tables of counts, shape (n_categories, n_categories, n_tables) -> (n_tables,).

    Examples
    --------
    Two halves and 1/3 of all in the first cell: r = sin(2 pi (1/3 - 1/4)) = 1/2 (Sheppard, 1898).

    >>> correlations_of_tables(np.array([[[20.0], [10.0]], [[10.0], [20.0]]])).round(10).tolist()
    [0.5]
    """
    size = (cells.shape[0] - 1) ** 2 * cells.shape[2]
    return np.concatenate([_maximum(part) for part in np.array_split(cells, 1 + size // MOST_AT_ONCE, axis=2)])


def _maximum(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """Steps of Fisher's scoring in the angle arcsin r, halved towards the bracket where they leave it."""
    n = cells.sum(axis=(0, 1))
    of_first, of_second = (  # +-inf beyond the last category of an item
        ndtri(np.minimum(cells.sum(axis=axis).cumsum(axis=0)[:-1] / n, 1.0)).clip(-FARTHEST, FARTHEST)
        for axis in (1, 0)
    )
    below = ndtr(of_first), ndtr(of_second)
    low, high = np.full(n.size, -LARGEST_ANGLE), np.full(n.size, LARGEST_ANGLE)
    angle = np.zeros(n.size)
    moving = np.arange(n.size)  # the tables whose angle still moves: nearly all have stopped after six steps
    for _ in range(MOST_STEPS):
        t = angle[moving]
        corners = of_first[:, None, moving], of_second[None, :, moving], t
        up_to = np.zeros((cells.shape[0] + 1, cells.shape[1] + 1, t.size))
        up_to[-1, -1], up_to[1:-1, -1], up_to[-1, 1:-1] = 1.0, below[0][:, moving], below[1][:, moving]
        slope = np.zeros_like(up_to)
        up_to[1:-1, 1:-1], slope[1:-1, 1:-1] = orthant(*corners), _density(*corners)
        p, slope = (np.diff(np.diff(of, axis=0), axis=1) for of in (up_to, slope))
        p = np.maximum(p, LEAST_CELL)
        score = (cells[:, :, moving] * slope / p).sum(axis=(0, 1))
        information = n[moving] * (slope**2 / p).sum(axis=(0, 1))
        low[moving], high[moving] = np.where(score > 0, t, low[moving]), np.where(score < 0, t, high[moving])
        new = t + np.divide(score, information, out=np.zeros_like(t), where=information > 0)
        within = (new >= low[moving]) & (new <= high[moving])
        angle[moving] = np.where(within, new, (low[moving] + high[moving]) / 2)
        moving = moving[np.abs(angle[moving] - t) >= 1e-10]
        if moving.size == 0:
            break
    return np.sin(angle)


def orthant(h: NDArray[np.float64], k: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(u < h, v < k) of standard normal u, v with correlation sin t, by Gauss and Legendre's rule.

    Phi(h) Phi(k) + integral from 0 to t of exp(-(h^2 - 2 h k sin s + k^2) / (2 cos^2 s)) ds / (2 pi)  (Owen, 1956)
    """
    nodes, weights = next(rule for angle, rule in RULES if np.abs(t).max(initial=0.0) <= angle)
    s = t[..., None] / 2 * (1 + nodes)
    integral = t / 2 * (_density(h[..., None], k[..., None], s) @ weights)
    return ndtr(h) * ndtr(k) + integral


def _density(h: NDArray[np.float64], k: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Derivative of the orthant by the angle."""
    sine = np.sin(t)
    return np.exp(-(h**2 - 2 * h * k * sine + k**2) / (2 * (1 - sine**2))) / (2 * np.pi)


def nearest_positive_definite(
    correlations: NDArray[np.float64],
) -> tuple[NDArray[np.float64], int, float]:
    """Raise eigenvalues that are not positive; also how many there were, and the largest change of a correlation."""
    values, vectors = np.linalg.eigh(correlations)
    negative = values <= 0
    if not negative.any():
        return correlations, 0, 0.0
    product = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    size = np.sqrt(np.diagonal(product))
    smoothed = product / np.outer(size, size)
    np.fill_diagonal(smoothed, 1.0)
    return smoothed, int(negative.sum()), float(np.abs(smoothed - correlations).max())
