"""Which of two models do the data prefer: likelihood ratio, criteria, one more factor, guessing, testlets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc

from irtbench.data.checked_settings import checked_seed
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Figures, Shown, time_left
from irtbench.estimation.bifactor import BifactorModel, bifactor_scores, fit_bifactor
from irtbench.estimation.dispersion import p_on_boundary
from irtbench.estimation.driver import fenced
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors
from irtbench.estimation.fit import check_estimable, problem_of
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.marginal.guessing_profile import slope_at_zero
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import Device, FitSettings
from irtbench.estimation.several_abilities.answers import Answers, ResponsesOrScores
from irtbench.estimation.status import InformationCriteria
from irtbench.estimation.threads import threads_for
from irtbench.models.coded_scores import MISSING, CodedScores
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import normal_grid

START = 0.2  # of guessing
NOT_ASKED = "no p: it takes samples of the smaller model; chi-square does not hold for one more factor"
NO_SAMPLE = "no p: in samples of the smaller model some item always has one response alone"
ENOUGH_EXCEED = 5  # samples with a statistic as large: p is then above .05 for certain, up to 99 samples
LEAST_SLOPE = 1e-12
ONE, EQUAL, FREE = "one ability", "bifactor, equal slopes", "bifactor, free slopes"  # models with testlets and without
MOST_DRAWS = 100  # for a sample in which no item is constant


@dataclass(frozen=True)
class LikelihoodRatio(Figures):
    """Test of a smaller model against a larger one that contains it.

    Parameters
    ----------
    statistic
        2 (log L_larger - log L_smaller), not below 0.
    df
        Difference of the numbers of parameters.
    p
        P(chi-squared(df) >= statistic); halved where the smaller model lies on the boundary of the larger. Of one more
        factor the p of a bootstrap, NaN where none was asked for.
    on_boundary
        Whether it does.
    n_samples
        Samples on which p rests; 0 if it is that of the chi-square.
    note
        Why there is no p; empty if there is one.
    """

    statistic: float
    df: int
    p: float
    on_boundary: bool
    n_samples: int = 0
    note: str = ""


def likelihood_ratio(
    smaller: InformationCriteria, larger: InformationCriteria, *, on_boundary: bool = False
) -> LikelihoodRatio:
    """Likelihood-ratio test of nested models fitted to the same responses by maximum likelihood.

    If one parameter of the smaller model lies on the boundary of its range (guessing c = 0), half of the statistic's
    distribution is a point at 0, and p is halved (Self & Liang, 1987). For one more exploratory factor there is no such
    distribution: see `one_more_factor`.

    Raises
    ------
    InputError
        If the larger model has no more parameters, or the models were fitted to different numbers of respondents.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> smaller = irtbench.fit_model(responses)
    >>> larger = irtbench.fit_model(responses, model="3pl", prior="none")
    >>> irtbench.likelihood_ratio(smaller, larger).p > 0.05
    True
    """
    df = larger.n_parameters - smaller.n_parameters
    refuse_any((
        (df < 1, f"comparison: expected a larger model with more parameters but it has {df} more"),
        (smaller.n_respondents != larger.n_respondents,
         f"comparison: models of {smaller.n_respondents} and {larger.n_respondents} respondents cannot be compared"),
    ))  # fmt: skip
    statistic = max(0.0, 2 * (larger.log_likelihood - smaller.log_likelihood))
    p = float(chdtrc(df, statistic))
    return LikelihoodRatio(statistic, df, p / 2 if on_boundary else p, on_boundary)


def compare_models(models: Mapping[str, InformationCriteria]) -> pd.DataFrame:
    """Information criteria of each model, a row a model, the differences to the best in the last columns.

    Columns ``model, log_likelihood, n_parameters, aic, bic, sabic, delta_aic, delta_bic``: smaller is better.

    Raises
    ------
    InputError
        If no model is given.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> models = {"no guessing": irtbench.fit_model(responses), "one half": irtbench.fit_model(responses, guessing=0.5)}
    >>> irtbench.compare_models(models)[["model", "n_parameters", "delta_aic", "delta_bic"]].round(1)
             model  n_parameters  delta_aic  delta_bic
    0  no guessing            12        0.0        0.0
    1     one half            12      421.2      421.2
    """
    if not models:
        raise InputError("comparison: no model to compare")
    table = pd.DataFrame(
        [
            {
                "model": name,
                "log_likelihood": fitted.log_likelihood,
                "n_parameters": fitted.n_parameters,
                "aic": fitted.aic,
                "bic": fitted.bic,
                "sabic": fitted.sabic,
            }
            for name, fitted in models.items()
        ]
    )
    return table.assign(delta_aic=table["aic"] - table["aic"].min(), delta_bic=table["bic"] - table["bic"].min())


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
    exploratory = smaller.zero_loadings is None and larger.zero_loadings is None
    refuse_any((
        (n_samples < 0, f"one more factor: the number of samples must be at least 0 but got {n_samples}"),
        (not exploratory or set(smaller.item_ids) != set(larger.item_ids),
         "one more factor: expected two exploratory models of the items of the responses"),
    ))  # fmt: skip
    answers = smaller.answers(responses)
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


@dataclass(frozen=True, eq=False)
class GuessingTest(
    Shown, columns="item_ids, guessing, statistic, p, p_adjusted", short="{item_ids:item}, {p_adjusted:significant}"
):
    """Likelihood-ratio tests of c = 0, one for each item; arrays of shape (n_items,).

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        The items.
    guessing
        c of the item where it alone is a 3PL.
    statistic
        2 (log L with c free - log L of the 2PL), 1 degree of freedom.
    p
        Half of P(chi-squared(1) >= statistic), since c = 0 lies on the boundary (Self & Liang, 1987).
    p_adjusted
        Adjusted over items by `method`.
    method
        ``holm`` or ``fdr_bh``.
    """

    item_ids: tuple[str, ...]
    guessing: NDArray[np.float64]
    statistic: NDArray[np.float64]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]
    method: Adjustment


def guessing_test(
    responses: ResponsesLike, *, method: Adjustment = "holm", tolerance: float = 1e-3, device: Device = "auto"
) -> GuessingTest:
    """Test each item's guessing parameter by marginal maximum likelihood.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    method
        How p is adjusted for the number of items.
    tolerance
        As for `find_mode`; every fit starts where the 2PL of all items ended.
    device
        As in `FitSettings`.

    Raises
    ------
    InputError
        If the data do not determine the parameters, see `fit_model`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> irtbench.guessing_test(responses)
    <GuessingTest: 6 items, 0 with adjusted p < .05>
    """
    responses = as_responses(responses)
    settings = FitSettings(prior="none", device=device)
    check_estimable(responses, settings.priors)
    with fenced(0), torch.no_grad(), threads_for(responses.n_respondents * settings.n_nodes):
        problem = problem_of(responses, settings, normal_grid()).in_float64()
        without = find_mode(problem, tolerance=tolerance / 100)
        rises = slope_at_zero(problem, without.items) > 0
        found = [
            with_guessing(problem, without.items, j, tolerance) if rises[j] else (0.0, without.log_likelihood)
            for j in range(responses.n_items)
        ]
    guessing = np.array([c for c, _ in found])
    statistic = np.array([max(0.0, 2 * (log_l - without.log_likelihood)) for _, log_l in found])
    p = chdtrc(1, statistic) / 2
    return GuessingTest(responses.item_ids, guessing, statistic, p, adjust(p, method), method)


def with_guessing(problem: Problem, without: ItemTensors, item: int, tolerance: float) -> tuple[float, float]:
    """Guessing of one item with all other items 2PL, and the log-likelihood.

    The steps start well away from c = 0.
    """
    only = torch.zeros_like(problem.guessing_free)
    only[item] = True
    start = replace(without, guessing=torch.where(only, START, without.guessing))
    alone = Problem.of(partial(problem.model, guessing_free=only), problem.rows, problem.nodes)
    mode = find_mode(alone, start=start, tolerance=tolerance)
    return float(mode.items.guessing[item]), mode.log_likelihood


@dataclass(frozen=True, eq=False)
class EffectOfTestlets(
    Shown,
    short="likelihood ratio {test.statistic:.1f}, p {test.p:.3g}, {preferred[bic]} by BIC, "
    "explained common variance {bifactor.explained_common_variance:.2f}",
):
    """What testlets add to one ability.

    Parameters
    ----------
    one_ability, equal_slopes, bifactor
        The models without testlets, with one specific slope for each, and the one asked about, which may have these.
    test
        Likelihood ratio of equal slopes against one ability: is there any effect.
    abilities
        A row a respondent: ``respondent_id, n_items, n_correct, accuracy, theta, se`` of the general ability of the
        model asked about, and ``theta_one_ability, se_one_ability`` of the model without testlets.
    """

    one_ability: FactorModel
    equal_slopes: BifactorModel
    bifactor: BifactorModel
    test: LikelihoodRatio
    abilities: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """Information criteria of the models, a row a model, see `compare_models`; and whether they converged."""
        models = {ONE: self.one_ability, EQUAL: self.equal_slopes}
        if self.bifactor is not self.equal_slopes:
            models[FREE] = self.bifactor
        return compare_models(models).assign(converged=[model.converged for model in models.values()])

    @property
    def preferred(self) -> dict[str, str]:
        """The model of smallest ``aic`` and ``bic`` among those that have converged; ``none`` if none has."""
        table = self.table().set_index("model").query("converged")
        return {name: "none" if table.empty else str(table[name].idxmin()) for name in ("aic", "bic")}

    @property
    def mean_error(self) -> tuple[float, float]:
        """Root mean square of theta's standard error with testlets and without."""
        errors = (self.abilities[name] for name in ("se", "se_one_ability"))
        with_testlets, without = (float(np.sqrt(np.mean(np.square(error)))) for error in errors)
        return with_testlets, without

    @property
    def correlation(self) -> float:
        """Of the abilities with testlets and without."""
        return float(np.corrcoef(self.abilities["theta"], self.abilities["theta_one_ability"])[0, 1])

    def summary(self) -> dict[str, Any]:
        """What fit.json holds besides the model itself."""
        with_testlets, without = self.mean_error
        return {
            "models": self.table(),
            "likelihood_ratio_test": vars(self.test),
            "preferred": self.preferred,
            "mean_se": with_testlets,
            "mean_se_one_ability": without,
            "correlation_with_one_ability": self.correlation,
        }

    def in_words(self) -> list[str]:
        """Whether testlets matter and what they do to the error of ability, a sentence each."""
        test, preferred, model = self.test, self.preferred, self.bifactor
        converged = self.table()["converged"]
        choice = f"{preferred['aic']} by AIC, {preferred['bic']} by BIC"
        if preferred["aic"] == preferred["bic"]:
            choice = f"{preferred['aic']} by AIC and BIC"
        if not converged.all():
            choice = f"{choice}, of those that converged" if converged.any() else "none, for none has converged"
        with_testlets, without = self.mean_error
        ratio = f"likelihood ratio {test.statistic:.1f}, p = {test.p:.3g} by a mixture of chi-squares"
        sentences = [
            f"model preferred: {choice}",
            f"any effect of testlets (equal slopes against none): {test.note or ratio}",
        ]
        if not model.converged:
            return sentences
        return [
            *sentences,
            f"explained common variance {model.explained_common_variance:.3f} (share of the general ability), "
            f"omega {model.omega:.3f}, omega_h {model.omega_hierarchical:.3f}",
            f"standard error of theta: {with_testlets:.3f} with testlets, {without:.3f} as if there were none "
            f"({with_testlets / without - 1:+.0%}); the two abilities correlate {self.correlation:.3f}",
        ]


def effect_of_testlets(
    responses: ResponsesOrScores, fitted: BifactorModel, *, seed: int = 0, device: Device = "auto"
) -> EffectOfTestlets:
    """Compare a model with testlets to that of one ability, and their abilities.

    With one specific slope for each testlet, of which but the square is in the likelihood, one ability is the model on
    the boundary where these variances are all 0. The likelihood ratio is then distributed as a mixture of chi-squares
    with 0, 1, ... degrees of freedom (Self & Liang, 1987), here with the weights of testlets that are independent of
    each other, those of a binomial distribution. With free slopes it has no such distribution: at one ability their
    directions are not determined. So the test is that of equal slopes, and free ones are compared by AIC and BIC.

    Parameters
    ----------
    responses
        The responses that the model was fitted to.
    fitted
        The model with testlets.
    seed
        As for `fit_factors`.
    device
        As in `FitSettings`.

    Raises
    ------
    InputError
        If the responses are not those of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> z = 1.5 * rng.normal(size=(300, 1)) + 1.2 * rng.normal(size=(300, 2))[:, [0] * 4 + [1] * 4]
    >>> responses = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int)
    >>> fitted = irtbench.fit_bifactor(responses, ["A"] * 4 + ["B"] * 4, specific_slopes="equal")
    >>> found = irtbench.effect_of_testlets(responses, fitted)
    >>> found.preferred["bic"], round(found.test.statistic, 1)
    ('bifactor, equal slopes', 92.3)
    >>> [round(error, 2) for error in found.mean_error]
    [0.68, 0.52]
    """
    data = fitted.answers(responses)
    if data.given.n_respondents != fitted.n_respondents:
        raise InputError("testlets: expected the responses that the model was fitted to")
    one_ability = fit_factors(data, 1, seed=seed, standard_errors=False, device=device)
    equal = fitted
    if set(fitted.alike) != set(fitted.names):
        equal = fit_bifactor(
            data, fitted.testlets, specific_slopes="equal", standard_errors=False, seed=seed, device=device
        )
    test = likelihood_ratio(one_ability, equal, on_boundary=True)
    if one_ability.converged and equal.converged:
        test = replace(test, p=p_on_boundary(test.statistic, fitted.n_testlets))
    else:
        test = replace(test, p=np.nan, note="no test, for a model without a maximum has no likelihood ratio")
    general = bifactor_scores(fitted, data, device=device)
    alone = factor_scores(one_ability, data, seed=seed, device=device)
    abilities = general.assign(theta_one_ability=alone["theta_1"], se_one_ability=alone["se_1"])
    return EffectOfTestlets(one_ability, equal, fitted, test, abilities)
