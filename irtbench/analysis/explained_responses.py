"""Why an item is hard, of responses: items and the regression of their difficulty on features, fitted at once.

    b_j ~ N(w_0 + x_j'w, s^2),   log a_j ~ N(m, t^2),   theta_i ~ N(0, 1)

(an item response model with random items and item predictors: De Boeck, 2008; Rasch: a_j = 1, theta_i ~ N(0, sd^2);
of items in categories b_j is the mean step, and distances of steps ~ N(m', t'^2)). The engine is that of the learnt
prior, in which items and abilities are integrated out together (`estimation.few_respondents`): the mean of that prior
is an item's own, w_0 + x_j'w. With its prior taken out (a normal density by a normal density) the posterior of b_j is
what the responses alone say of it: an estimate with an error, which an item that all got right has too. On these w and
s are learnt anew (`meta_regression`: w integrated out, so that s is REML's), and so on until nothing changes.

What items share through abilities that are not known, the zero and the unit of the scale, enters the errors at the end.
Items with few grades have all grades of the table: of a grade that nobody gave an item the prior knows the step, and
without it the mean of the others would be nearer to the middle than the item is.

The linear logistic test model, the last here, is the same without s, tested against the Rasch model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtri
from torch import Tensor

from irtbench.analysis.explained_difficulty import Design, ExplainedDifficulty, Shrinkage, explained
from irtbench.analysis.meta_regression import Effects, Estimates, meta_regression, with_intercept
from irtbench.data.checked_settings import shows_fields
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_choice, demand_share, refuse_any
from irtbench.data.items import ItemFeatures
from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.data.shown import counted
from irtbench.estimation.driver import alternate, fenced
from irtbench.estimation.few_respondents.empirical_bayes import START, reaching, starting_grid
from irtbench.estimation.few_respondents.item_grid import START_DISTANCES, check_learnable, weighted_moments
from irtbench.estimation.few_respondents.learnt_prior import LEAST_DEVIATION
from irtbench.estimation.few_respondents.messages import Beliefs, Surroundings
from irtbench.estimation.fit import fit_model, problem_of
from irtbench.estimation.fit_categories import RASCH_KINDS, models_of, own_parameters_of, problem_in_categories
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.fisher_scoring import find_mode_on_right_nodes, rough_start
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS, inverse_information
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.settings import WORDS, Device, FitKeywordsOfAnyModel, FitSettings
from irtbench.estimation.status import ABILITIES_AND_PRIOR, Learning
from irtbench.estimation.threads import threads_for
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import Quadrature, normal_grid, normal_population

Kind = Literal["rasch", "2pl"]
GradedKind = Literal["grm", "gpcm", "pcm", "rsm"]
Array = NDArray[np.float64]
Progress = Callable[[str], None]

FEWEST_RESPONDENTS = 3
ENOUGH_GRADES = 100  # of an item, for one that nobody was given to be none of its scale's
LEAST_RESIDUAL = 0.25  # of the prior under which items are looked at, whatever s is
LEAST_KNOWN = 0.05  # of an item by its responses, as a share of its prior's precision: about that of one answer
LEAST_RELIABILITY = 1e-4  # of abilities: with less they say nothing of the unit in which difficulty is measured
FURTHEST_START = 4.0  # of an intercept
MOST_UPDATES = 60
TOLERANCE, OF_RANDOM_NODES = 2e-3, 5e-3  # of an effect of a standardised feature, and where items' nodes are random
BEFORE = Learning(ABILITIES_AND_PRIOR, 0, float("inf"), settled=False)


def explain_responses(
    responses: ResponsesLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    model: Kind = "2pl",
    shrinkage: Shrinkage = "auto",
    curved: bool = False,
    level: float = 0.95,
    rng: np.random.Generator,
    device: Device = "auto",
    progress: Progress = lambda message: None,
) -> ExplainedDifficulty:
    """Difficulty regressed on features of the items, both fitted to the responses at once.

    The model is that of `explain_difficulty`, in which b_j is no estimate but a parameter of the likelihood, with
    abilities and items integrated out (`fit_explanatory_items`): no item is left out for being answered all right or
    all wrong, and with ten answers an item effects, residual and R2 are what they are with many. The standard deviation
    of the difficulties, with which R2 compares the residual, is that of the same model without features, whose
    estimates are also those that predictions of items left out are compared with, and that are reported.

    Parameters
    ----------
    responses
        Graded responses.
    features
        Of at least the items with a response; the others are new ones, whose difficulty is predicted.
    model
        ``2pl`` or ``rasch``.
    shrinkage, curved, level, rng
        As for `explain_difficulty`.
    device
        As in `FitSettings`.
    progress
        Called with a line about each update.

    Raises
    ------
    InputError
        As `explain_difficulty`, but for the standard errors; and of fewer than three respondents, or responses that are
        the same to every item, or tell no abilities apart.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(3)
    >>> length = rng.normal(size=40)
    >>> items = irtbench.ItemParameters.from_difficulty(np.full(40, 1.2), 0.8 * length + rng.normal(0, 0.4, 40))
    >>> responses = irtbench.simulate_responses(rng.normal(size=200), items, rng=rng, missing=0.8)
    >>> features = irtbench.ItemFeatures(items.item_ids, ("length",), length[:, None])
    >>> found = irtbench.explain_responses(responses, features, rng=rng)
    >>> found.table().round(1)[["term", "effect", "se"]]
            term  effect   se
    0  intercept    -0.3  0.1
    1     length     1.0  0.1
    """
    data = with_responses(responses)
    design = Design.of(features, data.item_ids, shrinkage, level, curved=curved)
    with threads_for(data.n_respondents * data.n_items), fenced(int(rng.integers(2**31))), torch.no_grad():
        return ExplanatoryFit.of_responses(data, model, device).explained_by(design, level, rng, progress)


def explain_grades(
    grades: ArrayLike | pd.DataFrame,
    features: ItemFeatures | pd.DataFrame,
    *,
    model: GradedKind = "grm",
    levels: Levels = None,
    shrinkage: Shrinkage = "auto",
    curved: bool = False,
    level: float = 0.95,
    rng: np.random.Generator,
    progress: Progress = lambda message: None,
) -> ExplainedDifficulty:
    """Mean steps of items in categories regressed on features of the items, both fitted to the grades at once.

    The model is that of `explain_responses`, of grades: abilities and items are integrated out under a prior of slope,
    mean step and distances of steps that is learnt with the regression, so that items with few grades, or all of one
    kind, count too. Standard errors include those of the zero and the unit of ability.

    Parameters
    ----------
    grades
        A row a respondent and a column an item, NaN or None where missing.
    features
        Of at least the items with a grade; the others are new ones, whose difficulty is predicted.
    model
        ``grm``, ``gpcm``, or ``pcm``, whose slopes are one and whose difficulties are in logits; ``rsm`` as ``pcm``.
    levels
        The categories that all items have, the lowest first, or those of each item by its name; None for all values of
        the table, of an item with 100 grades or more for those up to the highest that it was given.
    shrinkage, curved, level, rng
        As for `explain_difficulty`.
    progress
        Called with a line about each update.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(3)
    >>> length, theta = rng.normal(size=12), rng.normal(size=(60, 1, 1))
    >>> z = 1.2 * (theta - 0.8 * length[:, None]) + rng.logistic(size=(60, 12, 1))
    >>> grades = pd.DataFrame((z > [-1.0, 0.0, 1.0]).sum(axis=2), columns=[f"item{j}" for j in range(12)])
    >>> features = irtbench.ItemFeatures(tuple(grades.columns), ("length",), length[:, None])
    >>> irtbench.analysis.explain_grades(grades, features, rng=rng).table().round(1)[["term", "effect", "se"]]
            term  effect   se
    0  intercept     0.1  0.2
    1     length     0.7  0.1
    """
    if not isinstance(grades, pd.DataFrame):
        grades = pd.DataFrame(np.asarray(grades))
        grades.columns = numbered("item", grades.shape[1])
    grades = grades.dropna(axis=1, how="all").dropna(how="all")
    demand_different(len(grades), bool((grades.nunique() > 1).any()))
    if not isinstance(levels, Mapping):
        levels = {str(item): own for item, own in categories_of(grades, levels).items()}
    scores = CodedScores.of(grades, levels=levels)
    design = Design.of(features, scores.item_ids, shrinkage, level, curved=curved)
    with threads_for(scores.n_respondents * scores.n_items), fenced(0), torch.no_grad():
        return ExplanatoryFit.of_grades(scores, model).explained_by(design, level, rng, progress)


def with_responses(given: ResponsesLike) -> ResponseMatrix:
    """Those of items and respondents that have any."""
    data = as_responses(given)
    data = data.select_items([item for item, n in zip(data.item_ids, data.n_by_item, strict=True) if n]).answered()
    right = data.n_correct_by_item
    demand_different(data.n_respondents, bool(((right > 0) & (right < data.n_by_item)).any()))
    return data


def demand_different(n_respondents: int, different: bool) -> None:
    """Refuse responses that are the same to every item, or of fewer people than have a mean and a deviation."""
    refuse_any((
        (n_respondents < FEWEST_RESPONDENTS,
         f"difficulty: {n_respondents} respondents; expected at least {FEWEST_RESPONDENTS}"),
        (not different, "difficulty: all responses are the same to every item; expected better and worse ones"),
    ))  # fmt: skip


def categories_of(grades: pd.DataFrame, levels: Sequence[Any] | None) -> dict[Any, list[Any]]:
    """Of each item these, or all values of the table; an item with many grades has none above its highest."""
    every = list(levels or sorted({value for own in grades for value in grades[own].dropna().tolist()}))
    varied = [item for item in grades if grades[item].nunique() > 1]
    many = set() if levels else {item for item in varied if grades[item].notna().sum() >= ENOUGH_GRADES}
    return {item: [k for k in every if item not in many or k <= grades[item].max()] for item in grades}


@dataclass(frozen=True, eq=False)
class ExplanatoryItems:
    """What was found.

    Parameters
    ----------
    items
        At the posterior means.
    estimates
        Of the difficulties, as the responses alone have them, with their errors.
    population
        Of ability.
    learning
        How the updates ended; the change is of an ability, an effect, or a number of the prior.
    sd
        Posterior standard deviations of the difficulties, shape (n_items,).
    slope
        Mean and standard deviation of log a among items; 0 and 0 where slopes are one.
    """

    items: ItemParameters
    estimates: Estimates
    population: Quadrature
    learning: Learning
    sd: Array
    slope: tuple[float, float]


def fit_explanatory_items(
    responses: ResponsesLike,
    columns: Array,
    *,
    kind: Kind = "2pl",
    shrink: bool = False,
    seed: int = 0,
    device: Device = "auto",
    progress: Progress = lambda message: None,
) -> ExplanatoryItems:
    """Fit items with the regression of their difficulty.

    Slopes are positive: an item that the able get wrong has a slope near 0, and its difficulty that of its features.
    """
    given = with_responses(responses)
    with threads_for(given.n_respondents * given.n_items), fenced(seed), torch.no_grad():
        return ExplanatoryFit.of_responses(given, kind, device).settled(columns, shrink, progress).found()


@dataclass(frozen=True)
class ExplanatoryFit:
    """Items, abilities and the learnt prior, the means of difficulties among it.

    Parameters
    ----------
    data, problem
        The responses, and their model.
    beliefs
        What is known of items and abilities.
    alike
        Whether slopes are one.
    learning
        How updates ended.
    """

    data: ResponseMatrix | CodedScores
    problem: Problem
    beliefs: Beliefs
    alike: bool
    learning: Learning = BEFORE

    @classmethod
    def of_responses(cls, responses: ResponseMatrix, kind: Kind, device: Device = "cpu") -> ExplanatoryFit:
        """Where updates start from: items alike in slope, difficulties by the proportion correct."""
        demand_choice("difficulty: model", kind, Kind)
        problem = problem_of(responses, FitSettings(prior="hierarchical", device=device), normal_grid()).in_float64()
        intercept = problem.starting_values().intercept.clamp(-FURTHEST_START, FURTHEST_START)
        start = ItemTensors(torch.ones_like(intercept)[:, None], intercept, torch.zeros_like(intercept))
        return cls.of(responses, problem, start, alike=kind == "rasch")

    @classmethod
    def of_grades(cls, scores: CodedScores, model: GradedKind) -> ExplanatoryFit:
        """Where updates start from, of items in categories."""
        demand_choice("difficulty: model", model, GradedKind)
        alike, n_categories = model in RASCH_KINDS, [len(own) for own in scores.categories]
        models = models_of("gpcm" if alike else model, scores.item_ids)
        check_learnable(models, n_categories)
        items = CategoryItems(models, n_categories, 1, torch.device("cpu"))
        problem = problem_in_categories(scores, items, FitSettings(prior="hierarchical"))
        return cls.of(scores, problem, rough_start(problem)[0], alike=alike)

    @classmethod
    def of(
        cls, data: ResponseMatrix | CodedScores, problem: Problem, start: ItemTensors, *, alike: bool
    ) -> ExplanatoryFit:
        """With the prior that learning starts from."""
        near = reaching(with_adapted_nodes(problem, start, room=ROOM), start)
        priors = Priors.named("hierarchical", guessing_estimated=False)
        grid = starting_grid(near, start, priors)
        hierarchy = replace(START, deviation=(LEAST_DEVIATION, START.deviation[1])) if alike else START
        priors = replace(priors, hierarchy=hierarchy, distances=dict.fromkeys(grid.names, START_DISTANCES))
        return cls(data, problem, Beliefs(Surroundings.of(near, start), grid, priors, priors), alike)

    @property
    def unit(self) -> float:
        """Standard deviation of ability: where slopes are one, they are 1 on its scale."""
        return float(np.exp(self.beliefs.priors.pair.mean[0])) if self.alike else 1.0

    @property
    def expected(self) -> Array:
        """Difficulties by the features, shape (n_items,)."""
        return np.asarray(self.beliefs.grid.expected.cpu().numpy() + self.beliefs.priors.pair.mean[1])

    def explained_by(
        self, design: Design, level: float, rng: np.random.Generator, progress: Progress
    ) -> ExplainedDifficulty:
        """The regression on the features, compared with the same items without any."""
        progress("items with the regression on their features")
        full = self.settled(design.columns, design.shrink, progress)
        progress("items without features")
        plain = full.about(np.zeros(len(design.columns))).settled(design.columns[:, :0], False, progress).found()
        about = full.found()
        found = explained(about.items, about.estimates, plain.estimates, design, about.population, level, rng)
        return replace(found, with_items=True, converged=about.learning.settled and plain.learning.settled)

    def about(self, expected: Array) -> ExplanatoryFit:
        """The same with other means of the difficulties."""
        grid = self.beliefs.grid
        return replace(self, beliefs=replace(self.beliefs, grid=grid.about(torch.from_numpy(expected).to(grid.level))))

    def settled(self, columns: Array, shrink: bool, progress: Progress) -> ExplanatoryFit:
        """Beliefs and the regression on these columns updated in turns until neither changes."""
        fit, effects = self, np.full(columns.shape[1] + 1, np.inf)

        def update() -> tuple[float, bool]:
            nonlocal fit, effects
            beliefs, change = fit.beliefs.updated()
            fit, before = replace(fit, beliefs=beliefs), effects
            effects = meta_regression(fit.estimates()[0], columns, shrink=shrink).coefficients
            fit = fit.about(columns @ effects[1:])
            return max(change, float(np.abs(effects - before).max())), True

        tolerance = OF_RANDOM_NODES if self.beliefs.grid.n_distances else TOLERANCE
        learning = alternate(
            ABILITIES_AND_PRIOR, update, tolerance=tolerance, most=MOST_UPDATES, fewest=3, progress=progress
        )
        return replace(fit, learning=learning)

    def estimates(self) -> tuple[Estimates, Tensor]:
        """What responses alone say of the difficulties, and the mass of the nodes, under no too narrow a prior."""
        grid, prior = self.beliefs.grid, self.beliefs.priors.pair
        prior = replace(prior, deviation=(prior.deviation[0], max(prior.deviation[1], LEAST_RESIDUAL)))
        mass = grid.mass(replace(self.beliefs.priors, hierarchy=prior))
        mean, covariance = (part.cpu().numpy() for part in weighted_moments(mass, grid.values[..., 1:2]))
        return without_prior(mean[:, 0], covariance[:, 0, 0], self.expected, prior.deviation[1]), mass

    def found(self) -> ExplanatoryItems:
        """Posterior means of the items, and estimates of the difficulties with the errors that items share.

        Of N abilities with reliability r the mean has the variance 1 / (N r), the log of the unit 1 / (2 N r^2), unless
        slopes of one are the unit; that error is in proportion to what is expected, for by estimates small ones would
        seem the better known. Of very many items, whose covariance matrix would be large, errors are each item's own.
        """
        beliefs = replace(self.beliefs, grid=self.beliefs.grid.placed(self.beliefs.priors).on_points)
        fine = replace(self, beliefs=beliefs.with_levels())
        (given, mass), grid, unit = fine.estimates(), fine.beliefs.grid, self.unit
        estimates, prior = Estimates(unit * given.values, unit * given.sd), self.beliefs.priors.pair
        if len(given.values) <= MOST_COUPLED_ITEMS:
            variance = beliefs.around.abilities[1]
            n, reliability, expected = len(variance), 1 - float(variance.mean()), self.expected
            if reliability < LEAST_RELIABILITY:
                raise InputError(
                    "difficulty: the responses tell no abilities apart, so that it has no scale; expected more "
                    "responses of each respondent, to items that go together"
                )
            of_unit = 0.0 if self.alike else 1 / (2 * n * reliability**2)
            shared = 1 / (n * reliability) + of_unit * np.outer(expected, expected)
            estimates = Estimates.of_covariance(estimates.values, unit**2 * (np.diag(given.sd**2) + shared))
        mean, covariance = (part.cpu().numpy() for part in weighted_moments(mass, grid.values[..., :2]))
        return ExplanatoryItems(
            self.items(weighted_moments(mass, grid.parameters)[0], mean),
            estimates,
            normal_population(0.0, unit),
            self.learning,
            unit * np.sqrt(covariance[:, 1, 1]),
            (0.0, 0.0) if self.alike else (prior.mean[0], prior.deviation[0]),
        )

    def items(self, parameters: Tensor, mean: Array) -> ItemParameters:
        """Items in categories at the means of their parameters as they are read, others at those of (log a, b)."""
        if isinstance(self.data, ResponseMatrix):
            slope = np.ones(len(mean)) if self.alike else np.exp(mean[:, 0])
            return ItemParameters.from_difficulty(slope, self.unit * mean[:, 1], item_ids=self.data.item_ids)
        assert isinstance(self.problem, CategoryProblem)
        steps = self.problem.of_read(parameters).matrix.numpy()
        steps[:, 0] = 1.0 if self.alike else steps[:, 0]
        models, own = tuple(self.problem.scale.models), own_parameters_of(self.problem.free, None)
        return CategoryParameters(self.data.item_ids, models, self.data.categories, steps, own).as_items()


def without_prior(mean: Array, variance: Array, prior_mean: Array | float, prior_sd: float) -> Estimates:
    """A posterior with its prior taken out."""
    precision = np.maximum(1 / variance - prior_sd**-2, LEAST_KNOWN * prior_sd**-2)
    return Estimates(mean + (mean - prior_mean) / (prior_sd**2 * precision), precision**-0.5)


EXACT, MOST_STEPS = 1e-6, 200  # standard errors


@dataclass(frozen=True, eq=False)
class LinearLogisticTest(Effects):
    """The linear logistic test model (LLTM) and its test against free difficulties.

    Its table has one row a term, the columns of lltm.csv.

    Parameters
    ----------
    terms
        ``intercept`` and the features.
    effect, se, lower, upper
        Of each on the difficulty in logits, shape (n_terms,); standard errors from the observed information. They take
        the model at its word: with a residual, see `explain_difficulty`, they are larger.
    ability_sd, se_ability_sd
        Standard deviation of ability.
    log_likelihood, log_likelihood_rasch
        Marginal, of this model and of the Rasch model.
    x2, df, p
        Likelihood ratio of the two.
    correlation
        Of the difficulties in both.
    converged
        Whether the estimates are a maximum.
    rasch
        The fit of the Rasch model.
    """

    ability_sd: float
    se_ability_sd: float
    log_likelihood: float
    log_likelihood_rasch: float
    x2: float
    df: int
    p: float
    correlation: float
    converged: bool
    rasch: FittedModel

    def in_short(self) -> str:
        """The test."""
        return (
            f"{counted(len(self.terms) - 1, 'feature')}, log-likelihood {self.log_likelihood:.2f}, "
            f"against Rasch x2 {self.x2:.1f}, df {self.df}, p {self.p:.3g}"
        )


@shows_fields(FitSettings, words=WORDS, without=("kind",))
def linear_logistic_test(
    responses: ResponsesLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    level: float = 0.95,
    **keywords: Unpack[FitKeywordsOfAnyModel],
) -> LinearLogisticTest:
    """Fit the LLTM by marginal maximum likelihood and test it against the Rasch model (Fischer, 1973).

    logit P = theta - (w_0 + x_j'w) with theta ~ N(0, sd^2): a 2PL whose slopes are all sd and whose intercepts are
    linear in w. As a rule the test rejects: features never say all of a difficulty.

    Parameters
    ----------
    responses
        Graded responses; missing ones are left out of the likelihood.
    features
        Of at least the items of the responses.
    level
        Nominal coverage of the intervals.
    keywords
        Settings of the Rasch fit, see `fit_model`.

    Raises
    ------
    InputError
        If an item has no features, features determine each other or are as many as the items, or as `fit_model`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> negated = np.tile([0.0, 1.0], 5)
    >>> items = irtbench.ItemParameters.from_difficulty(np.ones(10), -0.5 + 1.0 * negated)
    >>> responses = irtbench.simulate_responses(rng.normal(size=800), items, rng=rng)
    >>> features = irtbench.ItemFeatures(items.item_ids, ("negated",), negated[:, None])
    >>> irtbench.linear_logistic_test(responses, features).table().round(1)
            term  effect   se  lower  upper
    0  intercept    -0.4  0.1   -0.5   -0.3
    1    negated     1.0  0.1    0.9    1.1
    """
    demand_share("lltm: level", level)
    responses = as_responses(responses)
    given = features if isinstance(features, ItemFeatures) else ItemFeatures.from_frame(features)
    own = given.select(responses.item_ids)
    design = _design(own)
    rasch = fit_model(responses, kind="rasch", **keywords)
    found, values, errors = _constrained(responses, design, rasch.settings)
    sd, *effects = values
    effect, reach = np.array(effects), float(ndtri((1 + level) / 2)) * errors[1:]
    x2, df = max(2 * (rasch.log_likelihood - found.log_likelihood), 0.0), design.shape[0] - design.shape[1]
    return LinearLogisticTest(
        terms=("intercept", *own.names), effect=effect, se=errors[1:], lower=effect - reach, upper=effect + reach,
        ability_sd=sd, se_ability_sd=float(errors[0]), log_likelihood=found.log_likelihood,
        log_likelihood_rasch=rasch.log_likelihood, x2=x2, df=df, p=float(chdtrc(df, x2)),
        correlation=float(np.corrcoef(design @ effect, rasch.items.difficulty)[0, 1]),
        converged=found.status.converged and rasch.converged, rasch=rasch,
    )  # fmt: skip


def _design(features: ItemFeatures) -> NDArray[np.float64]:
    """The features and an intercept, which do not determine each other, shape (n_items, n_terms)."""
    design = with_intercept(features.values)
    n_items, n_terms = design.shape
    if n_terms >= n_items or np.linalg.matrix_rank(design) < n_terms:
        raise InputError(
            f"lltm: {len(features.names)} features of {n_items} items determine each other, or are as many; "
            "expected fewer, none a sum of others"
        )
    return design


def _constrained(
    responses: ResponseMatrix, design: NDArray[np.float64], settings: FitSettings
) -> tuple[Estimate, list[float], NDArray[np.float64]]:
    """The mode, with the standard deviation of ability and w there, and their standard errors."""
    n_items, n_terms = design.shape
    with threads_for(responses.n_respondents * n_items), fenced(0), torch.no_grad():
        grid = normal_grid(settings.n_nodes)
        free = problem_of(responses, FitSettings(device=settings.device), grid).in_float64()
        by_few = np.zeros((1 + n_terms, n_items, 3))  # of slope, intercept and guessing by the sd of ability and w
        by_few[0, :, 0], by_few[1:, :, 1] = 1.0, -design.T
        problem = free.with_shared(torch.from_numpy(by_few).to(free.rows.device))
        start = problem.starting_values()
        problem, found = find_mode_on_right_nodes(problem, start, tolerance=EXACT, max_steps=MOST_STEPS)
        covariance, loose = inverse_information(problem, found.items)
    found = replace(found, status=found.status.unless_loose(loose.tolist()))
    assert problem.prior.shared is not None
    values = problem.prior.shared.values(found.items.matrix).tolist()
    return found, values, covariance.diagonal().sqrt().cpu().numpy()
