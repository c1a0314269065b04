"""A p of local dependence that keeps its level: each pair against responses simulated from the fitted model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import time_left
from irtbench.diagnostics.local_dependence import LocalDependence, PairTables
from irtbench.diagnostics.quadratic_form import Residuals, fine_enough
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, normal_grid

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
    if n_samples < FEWEST_SAMPLES:
        raise InputError(f"local dependence: bootstrap needs at least {FEWEST_SAMPLES} samples but got {n_samples}")
    population = normal_grid() if quadrature is None else quadrature
    first, second = np.triu_indices(responses.n_items, 1)

    def residuals(of: ResponseMatrix, fitted: ItemParameters) -> Residuals:
        return Residuals.of_items(of, fitted, fine_enough(population, fitted))

    def statistic(of: ResponseMatrix, fitted: ItemParameters) -> NDArray[np.float64]:
        if of.is_complete if fitted.categories is None else of.observed.all():
            return PairTables.of(of, fitted, population).x2
        return np.where(found.n_respondents > 0, residuals(of, fitted).pairs()[first, second] ** 2, np.nan)

    fitting = residuals(responses, items)
    observed, simulated = statistic(responses, items), np.empty((n_samples, found.x2.size))
    if (refit is None) == (refit_many is None):
        raise InputError("local dependence: expected either refit or refit_many")
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
