"""Is one more factor needed: the likelihood ratio judged by samples of the smaller model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.analysis.model_comparison import LikelihoodRatio, likelihood_ratio
from irtbench.data.checked_settings import checked_seed
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import time_left
from irtbench.estimation.factors import FactorModel, fit_factors
from irtbench.estimation.settings import Device
from irtbench.estimation.several_abilities.answers import Answers, ResponsesOrScores
from irtbench.models.coded_scores import MISSING, CodedScores

NOT_ASKED = "no p: it takes samples of the smaller model; chi-square does not hold for one more factor"
NO_SAMPLE = "no p: in samples of the smaller model some item always has one response alone"
ENOUGH_EXCEED = 5  # samples with a statistic as large: p is then above .05 for certain, up to 99 samples
LEAST_SLOPE = 1e-12
MOST_DRAWS = 100  # for a sample in which no item is constant


def one_more_factor(
    responses: ResponsesOrScores,
    smaller: FactorModel,
    larger: FactorModel,
    *,
    n_samples: int = 0,
    seed: int = 0,
    device: Device = "auto",
    progress: Callable[[str], None] = lambda message: None,
) -> LikelihoodRatio:
    """Likelihood ratio of two exploratory models, with the p of a parametric bootstrap.

    Under the smaller model the slopes of the added factor are all 0, and its direction is then not determined: the
    likelihood ratio has no chi-square distribution (Hayashi, Bentler & Yuan, 2007). So responses are drawn from the
    smaller model as it was fitted, with the same ones missing, and both models are fitted to each sample. Of l samples,
    g have a statistic as large as the observed one; p = (g + 1) / (n + 1) after all n, or g / l as soon as g is 5
    (Besag & Clifford, 1991), which keeps its level and is soon done where nothing is to be found.

    Parameters
    ----------
    responses
        The responses both models were fitted to, right or wrong or in categories.
    smaller, larger
        The models, exploratory, converged or not.
    n_samples
        Most samples; 0 for none, and p is NaN. The least p is 1 / (n_samples + 1): below 19 none is as small as .05.
    seed
        Of the samples.
    device
        As in `FitSettings`.
    progress
        Called with a line about each sample, with the time that is left at most.

    Raises
    ------
    InputError
        If ``n_samples`` is negative, or the models are not exploratory ones of these items with one more factor each.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> one, two = (irtbench.fit_factors(responses, number) for number in (1, 2))
    >>> found = irtbench.one_more_factor(responses, one, two)
    >>> found.df, found.note
    (5, 'no p: it takes samples of the smaller model; chi-square does not hold for one more factor')
    """
    if n_samples < 0:
        raise InputError(f"one more factor: the number of samples must be at least 0 but got {n_samples}")
    exploratory = smaller.zero_loadings is None and larger.zero_loadings is None
    answers = smaller.answers(responses)
    if not exploratory or set(smaller.item_ids) != set(larger.item_ids):
        raise InputError("one more factor: expected two exploratory models of the items of the responses")
    observed = replace(likelihood_ratio(smaller, larger), p=np.nan)
    if n_samples == 0:
        return replace(observed, note=NOT_ASKED)
    rng, exceed = np.random.default_rng([checked_seed(seed), smaller.n_factors]), 0
    what = f"{larger.n_factors} factors against {smaller.n_factors}"
    for number in counted_samples(n_samples, what, progress):
        sample = draw_sample(answers, smaller, rng)
        if sample is None:
            return replace(observed, note=NO_SAMPLE)
        both = (smaller.n_factors, larger.n_factors)
        models = (fit_factors(sample, n, seed=seed, standard_errors=False, device=device) for n in both)
        exceed += likelihood_ratio(*models).statistic >= observed.statistic
        if exceed == ENOUGH_EXCEED:
            return replace(observed, p=exceed / number, n_samples=number)
    return replace(observed, p=(exceed + 1) / (n_samples + 1), n_samples=n_samples)


def counted_samples(n_samples: int, what: str, progress: Callable[[str], None]) -> Iterator[int]:
    """Numbers from 1, each with a line about the time that is left."""
    began = time.monotonic()
    for number in range(1, n_samples + 1):
        left = time_left(time.monotonic() - began, number - 1, n_samples)
        progress(f"{what}: sample {number} of at most {n_samples}{left}")
        yield number


def draw_sample(answers: Answers, model: FactorModel, rng: np.random.Generator) -> Answers | None:
    """Responses that the model would give, missing where these are, no item all right or all wrong or of one category.

    None if every one of a hundred draws has such an item.
    """
    given = answers.given
    for _ in range(MOST_DRAWS):
        theta = rng.normal(size=(given.n_respondents, model.n_factors))
        codes = drawn_codes(model, theta, rng.random((given.n_respondents, given.n_items)))
        sample: ResponseMatrix | CodedScores
        if isinstance(given, CodedScores):
            values = np.where(given.codes == MISSING, np.nan, codes)
            sample = CodedScores.of(pd.DataFrame(values, [*given.respondent_ids], [*given.item_ids]))
            varied = all(len(own) > 1 for own in sample.categories)
        else:
            sample = ResponseMatrix(np.where(given.observed, codes, np.nan), given.respondent_ids, given.item_ids)
            share = sample.proportion_correct()
            varied = bool(((share > 0) & (share < 1)).all())
        if varied:
            return Answers(sample, answers.models)
    return None


def drawn_codes(model: FactorModel, theta: NDArray[np.float64], chance: NDArray[np.float64]) -> NDArray[np.int64]:
    """Categories 0, 1, ... at these abilities: as many steps as have P(at least k) above a number drawn from 0 to 1."""
    codes = np.empty(chance.shape, dtype=np.int64)
    for j, item in enumerate(model.item_ids):
        along = theta @ model.slopes[j] / max(model.steepest[j], LEAST_SLOPE)
        (p,) = model.items.select([item]).probabilities(along)
        at_least = p[:, :0:-1].cumsum(axis=1)
        codes[:, j] = (chance[:, j, None] < at_least).sum(axis=1)
    return codes
