"""Gradient and observed information of every kind of problem are the derivatives of its log-posterior."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from builders.problem import right_or_wrong
from builders.simulated import simulated
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.bifactor import numbered_groups
from irtbench.estimation.fit import problem_of
from irtbench.estimation.fit_categories import models_of
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.designed_problem import DesignedProblem, common_slope
from irtbench.estimation.marginal.m_step import item_derivatives
from irtbench.estimation.marginal.observed_information import observed_information, own_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.multiple_groups import group_problem
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.several_abilities.abilities_mode import Abilities
from irtbench.estimation.several_abilities.answers import Answers
from irtbench.estimation.several_abilities.bifactor_problem import bifactor_problem
from irtbench.estimation.several_abilities.factor_problem import factor_problem
from irtbench.models.coded_scores import CodedScores
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.item_tensors import GUESSING, ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import scores_on_device
from irtbench.models.quadrature import normal_grid

CPU, STEP = torch.device("cpu"), 1e-4
NODES = NodeTensors.from_quadrature(normal_grid(31), dtype=torch.float64, device=CPU)


def crowd(missing: float, trials: bool) -> ResponseMatrix:
    responses, _, _ = simulated(60, 6, seed=3, missing=missing, guessing=0.1)
    responses = responses.select_respondents(responses.observed.any(axis=1))
    if not trials:
        return responses
    rng = np.random.default_rng(0)
    n = np.where(responses.observed, rng.integers(1, 4, responses.values.shape), 0)
    values = np.where(n > 0, rng.binomial(n, 0.5), np.nan)
    return ResponseMatrix(values, responses.respondent_ids, responses.item_ids, n)


def by_settings(responses: ResponseMatrix, **keywords: object) -> Problem:
    return problem_of(responses, FitSettings(**keywords), normal_grid(31))


def in_groups(responses: ResponseMatrix, kind: str) -> Problem:
    """Three groups, an item free in both others, one in its intercept in the second alone."""
    members = [np.arange(responses.n_respondents) % 3 == group for group in range(3)]
    differs = np.zeros((6, 2), dtype=bool)
    differs[1], differs[3, 1] = True, True
    problem, _ = group_problem(responses, members, FitSettings(kind=kind), differs=differs)
    differs_by_group = problem.prior.differs.clone()
    differs_by_group[3, -problem.prior.width :] = False
    return problem.with_differs(differs_by_group)


def grades(responses: ResponseMatrix) -> CodedScores:
    """Grades of 2, 3 and 4 categories, missing where responses are."""
    rng = np.random.default_rng(4)
    drawn = rng.integers(0, [2, 3, 4, 3, 2, 4], responses.values.shape)
    return CodedScores.of(np.where(responses.observed, drawn, np.nan))


def graded(responses: ResponseMatrix) -> Answers:
    """Grades under models of several abilities."""
    scores = grades(responses)
    kinds = ("2pl", "grm", "gpcm", "gpcm", "grm", "grm")
    return Answers(scores, models_of(dict(zip(scores.item_ids, kinds, strict=True)), scores.item_ids))


def of_two_abilities(answers: Answers) -> Abilities:
    return factor_problem(answers, 2, np.eye(2, dtype=bool)[[0, 0, 0, 1, 1, 1]])


def with_testlets(answers: Answers) -> Abilities:
    return bifactor_problem(answers, numbered_groups(["A", "A", "A", "B", "B", None]))


def in_categories(responses: ResponseMatrix, *, alike: bool = False) -> Problem:
    """Grades under all models, or under the partial credit model."""
    scores = grades(responses)
    item_ids, categories = scores.item_ids, scores.categories
    kinds = ("gpcm",) * 6 if alike else ("3pl", "grm", "gpcm", "nominal", "2pl", "grm")
    models = models_of(dict(zip(item_ids, kinds, strict=True)), item_ids)
    items = CategoryItems(models, [len(own) for own in categories], 1, CPU)
    model = partial(category_model, items=items, priors=Priors.named("weak", guessing_estimated=True))
    problem = CategoryProblem.of(
        model, scores_on_device(scores, (items.item_of_column, items.category_of_column), CPU), NODES
    )
    return DesignedProblem.made_of(problem, common_slope(items.free, items.where("slope"))) if alike else problem


PROBLEMS: dict[str, Callable[[ResponseMatrix], Problem | Abilities]] = {
    "2pl": by_settings,
    "2pl, c fixed": partial(by_settings, guessing=0.2),
    "3pl": partial(by_settings, kind="3pl"),
    "4pl": partial(by_settings, kind="4pl"),
    "two abilities": lambda responses: of_two_abilities(right_or_wrong(responses)),
    "testlets": lambda responses: with_testlets(right_or_wrong(responses)),
    "groups 2pl": partial(in_groups, kind="2pl"),
    "groups 3pl": partial(in_groups, kind="3pl"),
    "groups 4pl": partial(in_groups, kind="4pl"),
}
OF_CATEGORIES: dict[str, Callable[[ResponseMatrix], Problem | Abilities]] = {
    "categories": in_categories,
    "one slope": partial(in_categories, alike=True),
    "two abilities of categories": lambda responses: of_two_abilities(graded(responses)),
    "testlets of categories": lambda responses: with_testlets(graded(responses)),
}
CASES = [
    *((name, made, *shape) for name, made in PROBLEMS.items() for shape in ((0, 0), (0.3, 0), (0.3, 1))),
    *((name, made, missing, 0) for name, made in OF_CATEGORIES.items() for missing in (0, 0.3)),
]  # fmt: skip


def somewhere(problem: Problem) -> ItemTensors:
    """Parameters that are no maximum."""
    matrix = problem.starting_values().matrix
    matrix = matrix + torch.from_numpy(np.random.default_rng(1).normal(0, 0.2, matrix.shape)) * problem.free
    if problem.guesses:
        matrix[:, GUESSING] = torch.where(problem.guessing_free, 0.15, problem.prior.fixed.guessing)
    return ItemTensors.from_matrix(matrix)


def moved(problem: Problem, items: ItemTensors, step: Tensor) -> ItemTensors:
    """After a step of the free parameters, of logit c where c is estimated."""
    along = torch.zeros_like(items.matrix).masked_scatter(problem.free, step)
    matrix = items.matrix + along
    if problem.guesses:
        c = torch.sigmoid(torch.logit(items.guessing) + along[:, GUESSING])
        matrix[:, GUESSING] = torch.where(problem.guessing_free, c, items.guessing)
    return ItemTensors.from_matrix(matrix)


def posterior_at(problem: Problem, items: ItemTensors) -> tuple[float, Tensor]:
    """The log-posterior, and its gradient by the free parameters, logit c among them."""
    here = problem.evaluate(items)
    found = item_derivatives(problem, items, here.counts).gradient.clone()
    if problem.guesses:
        rate = items.guessing * (1 - items.guessing)
        found[:, GUESSING] *= torch.where(problem.guessing_free, rate, 1.0)
    return here.log_posterior, found[problem.free]


@pytest.mark.parametrize(
    ("name", "made", "missing", "trials"), CASES, ids=lambda part: None if callable(part) else str(part)
)
def test_gradient_and_information_are_derivatives(
    name: str, made: Callable[[ResponseMatrix], Problem | Abilities], missing: float, trials: bool
) -> None:
    given = made(crowd(missing, bool(trials)))
    problem = (given.problem if isinstance(given, Abilities) else given).in_float64()
    items = somewhere(problem)
    heights, slopes = [], []
    for step in STEP * torch.eye(int(problem.free.sum()), dtype=torch.float64):
        (above, up), (below, down) = (posterior_at(problem, moved(problem, items, sign * step)) for sign in (1, -1))
        heights.append((above - below) / (2 * STEP))
        slopes.append((up - down) / (2 * STEP))
    here = posterior_at(problem, items)[1]
    torch.testing.assert_close(here, here.new_tensor(heights), atol=2e-5, rtol=1e-6)
    found = given.information(items) if isinstance(given, Abilities) else observed_information(problem, items)
    torch.testing.assert_close(found, -torch.stack(slopes), atol=2e-5, rtol=1e-5)
    if not isinstance(given, Abilities) and name != "one slope" and not name.startswith("groups"):
        width = problem.free.shape[1]
        whole = torch.zeros(problem.free.numel(), problem.free.numel(), dtype=torch.float64)
        whole[problem.free.flatten().nonzero(), problem.free.flatten().nonzero().T] = found
        each = torch.arange(len(problem.free))
        blocks = whole.view(len(each), width, len(each), width)[each, :, each, :]
        pairs = problem.free[:, :, None] & problem.free[:, None, :]
        torch.testing.assert_close(
            torch.where(pairs, own_information(problem, items), 0.0), blocks, atol=1e-8, rtol=1e-8
        )
