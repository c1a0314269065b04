"""Do two items share more than ability: LD-X2, LD-G2, signed Cramér's V and Q3 of every pair, and a p of X2 that keeps
its level, each pair against responses simulated from the fitted model.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array
from scipy.special import chdtrc, rel_entr

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, counted, significant, time_left
from irtbench.diagnostics.correlation import pairwise_correlation
from irtbench.diagnostics.person_fit import check_items_agree, check_theta, residuals
from irtbench.diagnostics.quadratic_form import Residuals, fine_enough
from irtbench.models.curves import outcomes
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LocalDependence(
    Drawn,
    columns="item_1, item_2, x2, df, p, p_adjusted, cramers_v, g2, q3, n_respondents, q3_centred, "
    "p_bootstrap, p_bootstrap_adjusted, bootstrap_samples",
):
    """Local dependence of each pair of items; all arrays have shape (n_items (n_items - 1) / 2,).

    Pairs are in the order (1, 2), (1, 3) ... (1, J), (2, 3) ...

    Parameters
    ----------
    item_1, item_2
        The items of each pair.
    x2, g2
        Pearson's and the likelihood-ratio statistic of the observed table of two items against the model's.
    p
        Of X2 as chi-square with `df` degrees of freedom; NaN with several trials of an item.
    p_adjusted
        p after Holm over the pairs.
    cramers_v
        sqrt(X2 / N), of items in categories sqrt(X2 / (N (fewer categories - 1))); negative where the items go together
        less than the model says.
    q3
        Correlation of the residuals x - P(theta); NaN if no abilities were given.
    n_respondents
        Respondents who answered both items.
    p_bootstrap, p_bootstrap_adjusted
        p of X2 by parametric bootstrap, each pair for itself and over all pairs; None until
        `dependence_bootstrap.with_bootstrap` computes them.
    bootstrap_samples
        Number of samples of the bootstrap; 0 without one.
    df
        (m_1)(m_2) of items with categories 0, ..., m; 1 of right and wrong.
    """

    item_1: tuple[str, ...]
    item_2: tuple[str, ...]
    x2: NDArray[np.float64]
    g2: NDArray[np.float64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    cramers_v: NDArray[np.float64]
    q3: NDArray[np.float64]
    n_respondents: NDArray[np.int64]
    df: NDArray[np.int64]
    p_bootstrap: NDArray[np.float64] | None = None
    p_bootstrap_adjusted: NDArray[np.float64] | None = None
    bootstrap_samples: int = 0

    @classmethod
    def none(cls) -> LocalDependence:
        """Of no pair."""
        none, no_number = np.empty(0), np.empty(0, dtype=np.int64)
        return cls((), (), none, none, none, none, none, none, no_number, no_number)

    @property
    def q3_centred(self) -> NDArray[np.float64]:
        """Q3 less its mean over the pairs, which is about -1 / (J - 1) and not 0 (Christensen et al., 2017)."""
        defined = self.q3[~np.isnan(self.q3)]
        return self.q3 - (defined.mean() if defined.size else np.nan)

    def table(self) -> pd.DataFrame:
        """One row a pair, columns of local_dependence.csv; those of the bootstrap only where it was done."""
        return super().table().drop(columns="bootstrap_samples" if self.p_bootstrap is None else [])

    def in_short(self) -> str:
        """How many pairs, and how many are dependent."""
        p = self.p_adjusted if self.p_bootstrap_adjusted is None else self.p_bootstrap_adjusted
        return f"{counted(len(self.item_1), 'pair')} of items, {significant(p)}"


def local_dependence(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    theta: NDArray[np.float64] | None = None,
    quadrature: Quadrature | None = None,
) -> LocalDependence:
    """Local dependence of every pair of items.

    X2 = sum over the four cells of (O - E)^2 / E,  G2 = 2 sum O log(O / E),
    E_11 = N sum_q w_q P_k(theta_q) P_l(theta_q), the other cells with 1 - P             (Chen & Thissen, 1997)

    N counts the respondents who answered both items. The expected table integrates over the population: expected
    counts at estimated abilities are another thing, and far too large a statistic comes of them. Cramér's V carries
    the sign of gamma(O) - gamma(E), where gamma is (ad - bc) / (ad + bc) of a table with rows a b and c d.

    Q3 is the correlation of the two items' residuals at the abilities given (Yen, 1984). Locally independent items
    have Q3 near -1 / (J - 1), not 0, since theta was estimated from them; ``q3_centred`` takes the mean away.

    X2 is not a chi-square with one degree of freedom once the parameters are estimated from the same responses: with
    complete responses it is smaller (about 1% of independent pairs fall below p = .05), with many missing larger.
    `dependence_bootstrap.with_bootstrap` gives a p that keeps its level.

    With several trials of an item the cells of a respondent are the products of the shares right and wrong, which have
    the same expectation: each respondent counts once. X2 is then too small for a chi-square, and p that of the
    bootstrap alone.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); each pair uses those who answered both.
    items
        Parameters of the same items in the same order.
    theta
        Abilities for Q3, shape (n_respondents,); expected a posteriori in R mirt's figures.
    quadrature
        The population; None for the standard normal.

    Raises
    ------
    InputError
        If the items differ or theta has another shape or is not finite.

    Warns
    -----
    RuntimeWarning
        If nobody answered both items of some pairs: theirs are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> pairs = irtbench.local_dependence(responses, items)
    >>> pairs
    <LocalDependence: 15 pairs of items, 0 with adjusted p < .05>
    >>> pairs.table()[["item_1", "item_2", "x2", "p_adjusted"]].round(2).head(3)
      item_1 item_2    x2  p_adjusted
    0  item1  item2  4.83        0.28
    1  item1  item3  3.88        0.38
    2  item1  item4  4.28        0.35
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    check_items_agree(responses, items)
    first, second = np.triu_indices(responses.n_items, 1)
    tables = PairTables.of(responses, items, normal_grid() if quadrature is None else quadrature)
    n, x2 = tables.n, tables.x2
    unanswered = n == 0
    if unanswered.any():
        warnings.warn(
            f"local dependence: nobody answered both items of {int(unanswered.sum())} of {n.size} pairs",
            RuntimeWarning,
            stacklevel=2,
        )
    top = tables.top[first], tables.top[second]
    less_together = tables.gamma(tables.observed) < tables.gamma(tables.expected)
    cramers_v = np.where(less_together, -1, 1) * np.sqrt(x2 / np.where(unanswered, np.nan, n * np.minimum(*top)))
    single, df = responses.trials is None or items.categories is not None, top[0] * top[1]
    p, q3 = chdtrc(df, x2) if single else np.full(n.size, np.nan), np.full(n.size, np.nan)
    if theta is not None:
        q3 = pairwise_correlation(residuals(responses.shares, check_theta(theta, responses), items))[first, second]
    return LocalDependence(
        item_1=tuple(items.item_ids[k] for k in first),
        item_2=tuple(items.item_ids[k] for k in second),
        x2=x2,
        g2=tables.g2,
        p=p,
        p_adjusted=adjust(p),
        cramers_v=cramers_v,
        q3=q3,
        n_respondents=n.astype(np.int64),
        df=df,
    )


@dataclass(frozen=True, eq=False)
class PairTables:
    """Tables of all categories of one item by all of another, for every pair; right and wrong are two categories.

    Parameters
    ----------
    observed, expected
        Counts, and what the model expects, of all categories of all items by all, shape (n_categories, n_categories).
    n
        Respondents who answered both items, shape (n_pairs,).
    top
        Highest category of each item, the lowest being 0, shape (n_items,).
    """

    observed: Array
    expected: Array
    n: Array
    top: NDArray[np.int64]

    @classmethod
    def of(cls, responses: ResponseMatrix, items: ItemParameters, population: Quadrature) -> PairTables:
        """What these respondents answered, and what is expected of them."""
        answered, (log_p, first) = responses.observed.astype(np.float64), outcomes(population.nodes, items)
        p, top = np.exp(log_p), np.diff(first, append=log_p.shape[1]) - 1
        if items.categories is not None:
            chosen = items.categories.chosen(responses.correct)
        else:
            right = np.nan_to_num(responses.shares)
            chosen = np.stack([answered - right, right], axis=2).reshape(len(right), p.shape[1])
        n, item = answered.T @ answered, np.repeat(np.arange(items.n_items), top + 1)
        expected = (p.T * population.weights) @ p * n[np.ix_(item, item)]
        return cls(chosen.T @ chosen, expected, n[np.triu_indices(items.n_items, 1)], top)

    def by_pair(self, cells: Array) -> Array:
        """Sum over the cells of each pair's table, shape (n_pairs,)."""
        first = np.cumsum(self.top + 1) - self.top - 1
        sums = np.add.reduceat(np.add.reduceat(cells, first, axis=0), first, axis=1)
        return np.asarray(sums[np.triu_indices(self.top.size, 1)])

    @property
    def x2(self) -> Array:
        """Pearson's statistic: infinite where something impossible happened, NaN where nobody answered both."""
        deviation = (self.observed - self.expected) ** 2
        surprise = np.where(deviation > 0, np.inf, 0.0)
        x2 = self.by_pair(np.divide(deviation, self.expected, out=surprise, where=self.expected > 0))
        return np.where(self.n > 0, x2, np.nan)

    @property
    def g2(self) -> Array:
        """The likelihood-ratio statistic, NaN where nobody answered both."""
        return np.where(self.n > 0, 2 * self.by_pair(rel_entr(self.observed, self.expected)), np.nan)

    def gamma(self, cells: Array) -> Array:
        """Goodman and Kruskal's gamma of each table of ordered categories; 0 where it is undefined."""
        later = block_diag(
            [csr_array(np.triu(np.ones((k, k)), 1)) for k in self.top + 1], format="csr"
        )  # of the same item
        above = later @ cells
        concordant, discordant = (self.by_pair(cells * (above @ other)) for other in (later.T, later))
        pairs = concordant + discordant
        return np.divide(concordant - discordant, pairs, out=np.zeros_like(pairs), where=pairs > 0)


Refit = Callable[[ResponseMatrix], ItemParameters | None]
RefitMany = Callable[[Sequence[ResponseMatrix]], Sequence[ItemParameters | None]]

FEWEST_SAMPLES = 19  # with fewer no p is as small as .05
USUAL_SAMPLES = 99
USUAL_RESPONSES = 500_000  # of which the usual number of samples takes a minute or two
LATER_SAMPLES = 10  # that are refitted together after the first nineteen
MOST_TOGETHER = 2**22  # responses: of larger data no more are in memory at once
ENOUGH_EXCEED = 10  # samples: of 99, p is then above .10 for certain


def samples_for(n_responses: int) -> int:
    """How many samples are drawn at most where nobody says: 99, fewer of very many responses, never below 19.

    Examples
    --------
    >>> samples_for(30_000), samples_for(1_000_000), samples_for(5_000_000)
    (99, 49, 19)
    """
    return max(FEWEST_SAMPLES, min(USUAL_SAMPLES, USUAL_SAMPLES * USUAL_RESPONSES // max(n_responses, 1)))


def with_bootstrap(
    found: LocalDependence,
    responses: ResponsesLike,
    items: ParametersLike,
    refit: Refit | None,
    *,
    rng: np.random.Generator,
    refit_many: RefitMany | None = None,
    n_samples: int = 199,
    suffices: Callable[[LocalDependence], bool] = lambda so_far: False,
    quadrature: Quadrature | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> LocalDependence:
    """Add p by parametric bootstrap to the local dependence of every pair.

    Of complete responses the statistic is X2. Where responses are missing it is s^2, with the score of the pair's
    dependence (a score test; Glas, 1999)

        s = sum over respondents i of E[(x_ik - P_k(theta))(x_il - P_l(theta)) | all answers of i],

    which is 0 on average without dependence, whoever answered what, as long as that depends on the answers seen. X2
    compares with what the whole population would answer, and is large of itself where abler people answer more.

    Each sample draws every respondent's ability from its posterior and responses from the fitted items, missing where
    the data are missing, refits the items and computes the statistic X*. Of B samples

        p = (1 + number of X* >= X of the pair) / (B + 1)                              (Davison & Hinkley, 1997, ch. 4)

    and, over all pairs, with m the mean of each pair's X and all its X*,

        p_adjusted = (1 + number of samples in which max over pairs of X* / m >= X / m of the pair) / (B + 1),

    which keeps the chance of any false alarm at the level (Westfall & Young, 1993) and, unlike Holm's, can be small
    with few samples. Refitting is what makes p right: a statistic at parameters estimated from the same responses is
    another than at the true ones. With several trials of an item the samples have as many, and this is the only p.

    The samples may end early, where ``suffices`` says from the nineteenth on that they tell enough: a sequential Monte
    Carlo test (Besag & Clifford, 1991). If it ends them as soon as in h samples a pair is as large as the largest of
    the data, p_adjusted of that pair is no less than h / B, which keeps its level. The number of samples is
    ``bootstrap_samples`` of the result.

    Parameters
    ----------
    found
        The result of `local_dependence` for these responses and items.
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    items
        Fitted parameters of the same items in the same order.
    refit
        Estimates the parameters of simulated responses, in the way in which ``items`` were estimated; None where it
        fails. A sample in which everyone is right or wrong on an item is refused by the fit, which counts as failed.
        None where ``refit_many`` does it.
    rng
        Random numbers.
    refit_many
        The same for several samples at once, in their order, in place of ``refit``, as `fit_many` does it several times
        more quickly. The samples are the same.
    n_samples
        Number of samples B, or the most; the smallest p is 1 / (B + 1).
    suffices
        Asked after each sample, from the nineteenth on, whether those drawn will do, as
        `dependence_bootstrap.little_to_find` does.
    quadrature
        The population; None for the standard normal.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        If fewer than 19 samples are asked for: then no p lies below .05; or without one of the two ways to refit.
    ArithmeticError
        If the refit fails in more than half of the samples, of which nineteen are drawn at least.

    Warns
    -----
    RuntimeWarning
        If it fails in some: they are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.local_dependence(responses, items)
    >>> refit = lambda sample: irtbench.fit_model(sample, standard_errors=False).items
    >>> found = irtbench.with_bootstrap(found, responses, items, refit, rng=rng, n_samples=19)
    >>> bool(found.p_bootstrap.min() >= 1 / 20)
    True
    """
    responses, items = responses_and_items(responses, items, categories=True)
    refuse_any((
        (n_samples < FEWEST_SAMPLES,
         f"local dependence: bootstrap needs at least {FEWEST_SAMPLES} samples but got {n_samples}"),
        ((refit is None) == (refit_many is None), "local dependence: expected either refit or refit_many"),
    ))  # fmt: skip
    population = normal_grid() if quadrature is None else quadrature
    first, second = np.triu_indices(responses.n_items, 1)

    def posteriors(of: ResponseMatrix, fitted: ItemParameters) -> Residuals:
        return Residuals.of_items(of, fitted, fine_enough(population, fitted))

    def statistic(of: ResponseMatrix, fitted: ItemParameters) -> NDArray[np.float64]:
        if of.is_complete if fitted.categories is None else of.observed.all():
            return PairTables.of(of, fitted, population).x2
        return np.where(found.n_respondents > 0, posteriors(of, fitted).pairs()[first, second] ** 2, np.nan)

    fitting = posteriors(responses, items)
    observed, simulated = statistic(responses, items), np.empty((n_samples, found.x2.size))
    together = max(1, MOST_TOGETHER // max(responses.n_responses, 1)) if refit is None else 1
    drawn, began, result = 0, time.monotonic(), found

    def refitted_samples() -> Iterator[tuple[ResponseMatrix, ItemParameters | None]]:
        done = 0
        while done < n_samples:
            left = time_left(time.monotonic() - began, done, n_samples)
            progress(f"local dependence: sample {done + 1} of at most {n_samples}{left}")
            size = min(LATER_SAMPLES if done else FEWEST_SAMPLES, together, n_samples - done)
            samples = [simulate_like(responses, fitting, rng) for _ in range(size)]
            fitted = refit_many(samples) if refit_many else [_tried(refit, sample) for sample in samples]
            yield from zip(samples, fitted, strict=True)
            done += size

    for number, (sample, refitted) in enumerate(refitted_samples(), start=1):
        failed = number - drawn - (refitted is not None)
        if failed > max(number, FEWEST_SAMPLES) / 2:
            raise ArithmeticError(f"local dependence: the refit failed in {failed} of {number} bootstrap samples")
        if refitted is None:
            continue
        simulated[drawn] = statistic(sample, refitted)
        drawn += 1
        if drawn >= FEWEST_SAMPLES:
            result = _with_p(found, observed, simulated[:drawn])
            if suffices(result):
                break
    if drawn < number:
        warnings.warn(
            f"local dependence: the refit failed in {number - drawn} of {number} bootstrap samples, which are left out",
            RuntimeWarning,
            stacklevel=2,
        )
    return result if drawn >= FEWEST_SAMPLES else _with_p(found, observed, simulated[:drawn])


def _tried(refit: Refit | None, sample: ResponseMatrix) -> ItemParameters | None:
    """The items of a sample; None where the fit refuses it."""
    try:
        return refit(sample) if refit else None
    except InputError:
        return None


def n_exceeding(found: LocalDependence) -> int:
    """In how many samples a pair is as large as the largest of the data; all of them where no pair has a p."""
    p = found.p_bootstrap_adjusted
    least = 1.0 if p is None or np.isnan(p).all() else float(np.nanmin(p))
    return round(least * (found.bootstrap_samples + 1)) - 1


def little_to_find(so_far: LocalDependence) -> bool:
    """Whether p of every pair, adjusted for their number, is known to be large: ten samples exceed the largest."""
    return n_exceeding(so_far) >= ENOUGH_EXCEED


def _with_p(found: LocalDependence, observed: NDArray[np.float64], simulated: NDArray[np.float64]) -> LocalDependence:
    p, p_adjusted = bootstrap_p(observed, simulated)
    return replace(found, p_bootstrap=p, p_bootstrap_adjusted=p_adjusted, bootstrap_samples=len(simulated))


def simulate_like(responses: ResponseMatrix, fitted: Residuals, rng: np.random.Generator) -> ResponseMatrix:
    """Draw responses of as many respondents, abilities from their posteriors, missing and tried as often as these."""
    correct = np.where(responses.observed, fitted.draw(rng), np.nan)
    return ResponseMatrix(correct, responses.respondent_ids, responses.item_ids, responses.trials)


@np.errstate(invalid="ignore")  # an impossible table has an infinite X2
def bootstrap_p(
    observed: NDArray[np.float64], simulated: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of simulated statistics at least as large as those observed, each alone and as the largest of all.

    Examples
    --------
    >>> p, adjusted = bootstrap_p(np.array([4.0, 1.0]), np.array([[1.0, 2.0], [3.0, 0.0], [2.0, 1.0]]))
    >>> p.tolist(), adjusted.tolist()
    ([0.25, 0.75], [0.5, 1.0])
    """
    n_samples = len(simulated)
    defined = ~np.isnan(observed)
    exceeding = sum((sample >= observed for sample in simulated), start=np.zeros(observed.shape, dtype=np.int64))
    mean = (simulated.sum(axis=0) + observed) / (n_samples + 1)
    largest = np.sort([np.nanmax(sample / mean, initial=0.0) for sample in simulated])
    as_large = n_samples - np.searchsorted(largest, observed / mean, side="left")
    p, p_adjusted = (np.where(defined, (1 + count) / (n_samples + 1), np.nan) for count in (exceeding, as_large))
    return p, p_adjusted
