"""Why an item is graded low: mean steps of items in categories and their regression on features, fitted at once.

    b_j ~ N(w_0 + x_j'w, s^2),   log a_j ~ N(m, t^2),   distances of steps ~ N(m', t'^2),   theta_i ~ N(0, 1)

What `explained_responses` is for right and wrong, on the engine of the learnt prior, in which items and abilities are
integrated out together (`estimation.few_respondents`): the mean of that prior is an item's own, w_0 + x_j'w. With its
prior taken out the posterior of b_j is what the grades alone say of it, on which w is learnt anew (`meta_regression`).
Items with few grades have all grades of the table: of a grade that nobody gave an item the prior knows the step, and
without it the mean of the others would be nearer to the middle than the item is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from irtbench.analysis.explained_difficulty import Design, ExplainedDifficulty, Shrinkage, explained, features_of
from irtbench.analysis.explained_responses import LEAST_RESIDUAL, MOST_UPDATES, without_prior
from irtbench.analysis.meta_regression import Array, Estimates, meta_regression
from irtbench.data.items import ItemFeatures
from irtbench.estimation.driver import alternate, fenced
from irtbench.estimation.few_respondents.category_grid import (
    START_DISTANCES,
    CategoryGrid,
    CategorySurroundings,
    check_learnable,
)
from irtbench.estimation.few_respondents.empirical_bayes import START, reaching
from irtbench.estimation.few_respondents.item_grid import weighted_moments
from irtbench.estimation.few_respondents.learnt_prior import LEAST_DEVIATION
from irtbench.estimation.few_respondents.messages import Beliefs
from irtbench.estimation.fit_categories import RASCH_KINDS, models_of, own_parameters_of
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.mode import rough_start
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes
from irtbench.estimation.status import ABILITIES_AND_PRIOR
from irtbench.estimation.threads import threads_for
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.coded_scores import CodedScores, Levels
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import scores_on_device
from irtbench.models.quadrature import normal_grid, normal_population

GradedKind = Literal["grm", "gpcm", "pcm", "rsm"]
ENOUGH_GRADES = 100  # of an item, for one that nobody was given to be none of its scale's
TOLERANCE = 5e-3  # of an effect of a standardised feature; nodes are random


def explain_grades(
    grades: pd.DataFrame,
    features: ItemFeatures | pd.DataFrame,
    *,
    model: GradedKind = "grm",
    levels: Levels = None,
    shrinkage: Shrinkage = "auto",
    curved: bool = False,
    level: float = 0.95,
    rng: np.random.Generator,
    progress: Callable[[str], None] = lambda message: None,
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
        Of at least these items; items beyond are new ones, whose difficulty is predicted.
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
    if not isinstance(levels, Mapping):
        levels = {str(item): own for item, own in categories_of(grades, levels).items()}
    scores = CodedScores.of(grades, levels=levels)
    design = Design.of(
        features_of(features, scores.item_ids, shrinkage, level), scores.item_ids, shrinkage, curved=curved
    )
    with threads_for(scores.n_respondents * scores.n_items), fenced(0), torch.no_grad():
        full = GradesFit.of(scores, model).settled(design.columns, design.shrink, progress)
        plain = full.about(np.zeros(scores.n_items)).settled(design.columns[:, :0], False, progress)
        (estimates, items), (without, _) = (one.found(scores) for one in (full, plain))
    found = explained(items, estimates, without, design, normal_population(0.0, full.unit), level, rng)
    return replace(found, with_items=True, converged=full.converged and plain.converged)


def categories_of(grades: pd.DataFrame, levels: Sequence[Any] | None) -> dict[Any, list[Any]]:
    """Of each item these, or all values of the table; an item with many grades has none above its highest."""
    every = list(levels or sorted({value for own in grades for value in grades[own].dropna().tolist()}))
    varied = [item for item in grades if grades[item].nunique() > 1]
    many = set() if levels else {item for item in varied if grades[item].notna().sum() >= ENOUGH_GRADES}
    return {item: [k for k in every if item not in many or k <= grades[item].max()] for item in grades}


@dataclass(frozen=True)
class GradesFit:
    """Items, abilities and the learnt prior, the means of mean steps among it.

    Parameters
    ----------
    problem
        The grades and their model.
    beliefs
        What is known of items and abilities.
    alike
        Whether slopes are one.
    converged
        Whether updates came to an end.
    """

    problem: CategoryProblem
    beliefs: Beliefs
    alike: bool
    converged: bool = False

    @classmethod
    def of(cls, scores: CodedScores, model: GradedKind) -> GradesFit:
        """Where updates start from."""
        alike, n_categories, device = model in RASCH_KINDS, [len(own) for own in scores.categories], torch.device("cpu")
        items = CategoryItems(models_of("gpcm" if alike else model, scores.item_ids), n_categories, 1, device)
        check_learnable(items.models, n_categories)
        priors = Priors.named("hierarchical", guessing_estimated=False)
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=device)
        model_of_rows = partial(category_model, items=items, priors=priors, known=None)
        problem = CategoryProblem.of(model_of_rows, scores_on_device(scores, items.columns, device), nodes)
        start = rough_start(problem).items
        around = CategorySurroundings.of(reaching(with_adapted_nodes(problem, start, room=ROOM), start), start)
        grid = CategoryGrid.near(around, start)
        hierarchy = replace(START, deviation=(LEAST_DEVIATION, START.deviation[1])) if alike else START
        priors = replace(priors, hierarchy=hierarchy, distances=dict.fromkeys(grid.names, START_DISTANCES))
        return cls(problem, Beliefs(around, grid, priors, priors), alike)

    @property
    def grid(self) -> CategoryGrid:
        """Nodes of the items."""
        assert isinstance(self.beliefs.grid, CategoryGrid)
        return self.beliefs.grid

    @property
    def unit(self) -> float:
        """Standard deviation of ability: where slopes are one, they are 1 on its scale."""
        return float(np.exp(self.beliefs.priors.pair.mean[0])) if self.alike else 1.0

    def about(self, expected: Array) -> GradesFit:
        """The same with other means of the mean steps."""
        return replace(self, beliefs=replace(self.beliefs, grid=self.grid.about(torch.from_numpy(expected))))

    def settled(self, columns: Array, shrink: bool, progress: Callable[[str], None]) -> GradesFit:
        """Beliefs and the regression on these columns updated in turns until neither changes."""
        fit, effects = self, np.full(columns.shape[1] + 1, np.inf)

        def update() -> tuple[float, bool]:
            nonlocal fit, effects
            beliefs, change = fit.beliefs.updated()
            fit, before = replace(fit, beliefs=beliefs), effects
            effects = meta_regression(fit.estimates()[0], columns, shrink=shrink).coefficients
            fit = fit.about(columns @ effects[1:])
            return max(change, float(np.abs(effects - before).max())), True

        learning = alternate(
            ABILITIES_AND_PRIOR, update, tolerance=TOLERANCE, most=MOST_UPDATES, fewest=3, progress=progress
        )
        return replace(fit, converged=learning.settled)

    def estimates(self) -> tuple[Estimates, torch.Tensor]:
        """What grades alone say of the mean steps, and the posterior mass of the nodes, under no too narrow a prior."""
        grid, prior = self.grid, self.beliefs.priors.pair
        prior = replace(prior, deviation=(prior.deviation[0], max(prior.deviation[1], LEAST_RESIDUAL)))
        mass = grid.mass(replace(self.beliefs.priors, hierarchy=prior))
        mean, covariance = (part.numpy() for part in weighted_moments(mass, grid.values[..., 1:2]))
        expected = grid.expected.numpy() + prior.mean[1]
        return without_prior(mean[:, 0], covariance[:, 0, 0], expected, prior.deviation[1]), mass

    def found(self, scores: CodedScores) -> tuple[Estimates, ItemParameters]:
        """Estimates of the mean steps with the errors that items share, and the items' posterior means.

        Of N abilities with reliability r the mean has the variance 1 / (N r), the log of the unit 1 / (2 N r^2);
        that error is in proportion to what is expected, for by estimates small ones would seem the better known.
        """
        beliefs = replace(self.beliefs, grid=self.grid.placed(self.beliefs.priors).on_points)
        fine = replace(self, beliefs=beliefs.with_levels())
        (given, mass), unit, variance = fine.estimates(), self.unit, fine.beliefs.around.abilities[1]
        n, reliability = len(variance), 1 - float(variance.mean())
        expected = self.grid.expected.numpy() + self.beliefs.priors.pair.mean[1]
        shared = 1 / (n * reliability) + np.outer(expected, expected) / (2 * n * reliability**2)
        errors = Estimates.of_covariance(unit * given.values, unit**2 * (np.diag(given.sd**2) + shared))
        steps = self.problem.of_read(weighted_moments(mass, fine.grid.parameters)[0]).matrix.numpy()
        steps[:, 0] = 1.0 if self.alike else steps[:, 0]
        items = CategoryParameters(
            scores.item_ids,
            tuple(self.problem.scale.models),
            scores.categories,
            steps,
            own_parameters_of(self.problem.free, None),
        )
        return errors, items.as_items()
