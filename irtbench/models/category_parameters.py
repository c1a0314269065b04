"""Items in categories with their parameters: probabilities, information, abilities, simulation (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, positions_of
from irtbench.data.shown import Shown, counted
from irtbench.models.coded_scores import MISSING, MOST_CATEGORIES, PAIR, CodedScores
from irtbench.models.item_models.item_model import NUMPY, ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.quadrature import Quadrature, normal_grid

if TYPE_CHECKING:
    from irtbench.models.item_parameters import ItemParameters


SMALLEST_GUESSING = 1e-9  # of an item with an estimated asymptote, whose logit has to be finite
SCORING_NODES = normal_grid(121, bound=8.0)
REACH, POINTS = 6.0, 2_401  # of abilities at which it is seen which category is the most likely
DIFFERENCE, STEP = 1e-5, 1e-4  # of parameters, and of abilities, for derivatives
BETWEEN = "|"  # categories, in a table
#: Columns of a table of items that are no parameters, and the order of those that several models share.
WORDS = ("item_id", "model", "categories", "scale", "key", "label", "group", "text")
COLUMNS = (
    "item_id", "model", "n_categories", "categories", "discrimination", "difficulty", "guessing", "upper_asymptote",
)  # fmt: skip
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class CategoryParameters(Shown):
    """Items of one scale in categories: `ItemParameters` of more than right and wrong.

    Parameters
    ----------
    item_ids, models
        The items and their models.
    categories
        The responses that each item's categories stand for, the lowest first.
    steps_at
        Parameters on the scales without bounds that an `ItemModel` takes, shape (n_items, width); 0 behind the last of
        an item.
    n_free
        Number of parameters that are an item's own, shape (n_items,).
    covariance
        Sampling covariance of each item's parameters as they are read, shape (n_items, width, width); None where it is
        not known.
    """

    item_ids: tuple[str, ...]
    models: tuple[ItemModel, ...]
    categories: tuple[tuple[Any, ...], ...]
    steps_at: NDArray[np.float64]
    n_free: NDArray[np.int64]
    covariance: NDArray[np.float64] | None = None

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @cached_property
    def top(self) -> NDArray[np.int64]:
        """Highest category of each item, the lowest being 0, shape (n_items,)."""
        return np.array([len(own) - 1 for own in self.categories], dtype=np.int64)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """Place of each item's lowest category among those of all items, one after another, shape (n_items,)."""
        return np.cumsum(self.top + 1) - self.top - 1

    @cached_property
    def alike(self) -> tuple[tuple[ItemModel, NDArray[np.int64], NDArray[np.float64]], ...]:
        """Items of one model and as many categories, each kind at once: the model, the places of their categories among
        those of all items, shape (n, n_categories), and their parameters, shape (n, n_parameters, 1).
        """  # fmt: skip
        kinds: dict[tuple[ItemModel, int], list[int]] = {}
        for k, (model, top) in enumerate(zip(self.models, self.top.tolist(), strict=True)):
            kinds.setdefault((model, top), []).append(k)
        return tuple(
            (
                model,
                self.first[rows, None] + np.arange(top + 1),
                self.steps_at[rows, : len(self.names[rows[0]]), None],
            )
            for (model, top), rows in kinds.items()
        )

    def select(self, item_ids: Sequence[str]) -> CategoryParameters:
        """Keep these items, which are there, in this order."""
        rows = positions_of(item_ids, self.item_ids)
        return replace(
            self,
            item_ids=tuple(item_ids),
            models=tuple(self.models[k] for k in rows),
            categories=tuple(self.categories[k] for k in rows),
            steps_at=self.steps_at[rows],
            n_free=self.n_free[rows],
            covariance=None if self.covariance is None else self.covariance[rows],
        )

    @cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names of each item's parameters."""
        return tuple(
            tuple(name for name, _ in model.parameters(len(own), 1))
            for model, own in zip(self.models, self.categories, strict=True)
        )

    @property
    def parameters(self) -> NDArray[np.float64]:
        """As they are read, in the order of `names`, shape (n_items, width); 0 behind the last of an item."""
        found = np.zeros_like(self.steps_at)
        for row, own, model, names in zip(found, self.steps_at, self.models, self.names, strict=True):
            row[: len(names)] = model.read(own[: len(names)])
        return found

    def table(self) -> pd.DataFrame:
        """One row an item, as items.csv has it, with standard errors (delta method) where they are known.

        ``item_id, model, n_categories, categories``, then slope, mean step and steps where the model has them
        (``discrimination, difficulty, step_1, step_2, ...``), asymptotes, or the model's own parameters.
        """
        rows = []
        for j, (item, model, own, names) in enumerate(
            zip(self.item_ids, self.models, self.categories, self.names, strict=True)
        ):
            n, natural = len(own), self.parameters[j, : len(names)]
            found = model.columns(natural, n)
            row = {"item_id": item, "model": model.name, "n_categories": n, "categories": BETWEEN.join(map(str, own))}
            rows.append(row | found)
            if self.covariance is not None:
                rates = rates_of(partial(column_values, model, n), natural)
                variance = np.einsum("cp,pq,cq->c", rates, self.covariance[j, : len(natural), : len(natural)], rates)
                errors = np.sqrt(np.maximum(variance, 0.0)).tolist()
                rows[-1] |= {f"se_{name}": se for name, se in zip(found, errors, strict=True)}
        table = pd.DataFrame(rows)
        first = [name for name in COLUMNS if name in table]
        rest = [name for name in table.columns if name not in first]
        others, errors = ([name for name in rest if str(name).startswith("se_") == is_se] for is_se in (False, True))
        return table[[*first, *others, *errors]]

    def category_table(self, population: Quadrature) -> pd.DataFrame:
        """One row a category of an item, where it is the most likely, and whether its step is in order.

        ``item_id, category, expected_share`` (of this population), ``step`` (empty for the lowest, and of models that
        have none), ``step_reversed`` (1 where it lies below the step before it), ``never_most_likely``,
        ``most_likely_from, most_likely_to`` (empty where nowhere, or without end), within 6 standard deviations of the
        population's mean.
        """
        theta = (population.mean + population.deviation * np.linspace(-REACH, REACH, POINTS)).round(6)
        steps = self.table().filter(regex=r"^step_").to_numpy(dtype=np.float64)
        rows = []
        for j, (p, share) in enumerate(
            zip(self.probabilities(theta), self.probabilities(population.nodes), strict=True)
        ):
            own, top = np.append(np.nan, steps[j, : self.top[j]]), p.argmax(axis=1)
            for k, category in enumerate(self.categories[j]):
                there = np.flatnonzero(top == k)
                ends = there[[0, -1]] if there.size else np.array([0, 0])
                rows.append((
                    self.item_ids[j], category, float(population.weights @ share[:, k]),
                    own[k] if k < len(own) else np.nan, int(1 < k < len(own) and own[k] < own[k - 1]),
                    int(not there.size), *np.where((ends > 0) & (ends < POINTS - 1), theta[ends], np.nan),
                ))  # fmt: skip
        names = "item_id category expected_share step step_reversed never_most_likely most_likely_from most_likely_to"
        return pd.DataFrame(rows, columns=names.split())

    def gaps(self, levels: Sequence[Any] = ()) -> dict[str, list[Any]]:
        """Categories between an item's lowest and highest that it has not and others have; in the order of `levels`."""
        order = [*levels] or sorted({one for own in self.categories for one in own})
        found = {
            item: [one for one in order[order.index(own[0]) : order.index(own[-1])] if one not in own]
            for item, own in zip(self.item_ids, self.categories, strict=True)
        }
        return {item: missing for item, missing in found.items() if missing}

    def coefficients(self) -> pd.DataFrame:
        """Slopes and intercepts: one row a parameter: ``item_id, model, n_categories, parameter, value`` and, where it
        is known, ``standard_error``.
        """  # fmt: skip
        errors = np.full(self.parameters.shape, np.nan)
        if self.covariance is not None:
            errors = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        rows = [
            (item, model.name, len(own), name, value, error)
            for item, model, own, names, values, of in zip(
                self.item_ids, self.models, self.categories, self.names, self.parameters, errors, strict=True
            )
            for name, value, error in zip(names, values, of, strict=False)
        ]
        names = ["item_id", "model", "n_categories", "parameter", "value", "standard_error"]
        table = pd.DataFrame(rows, columns=names)
        return table if self.covariance is not None else table.drop(columns="standard_error")

    def mirt_columns(self) -> pd.DataFrame:
        """Parameters as ``coef(model)`` of R's mirt has them, a row an item; empty what an item has not."""
        rows = [
            {"item_id": item} | model.mirt_columns(x[: len(names)], len(own))
            for item, model, own, names, x in zip(
                self.item_ids, self.models, self.categories, self.names, self.parameters, strict=True
            )
        ]
        return pd.DataFrame(rows)

    @classmethod
    def from_table(cls, table: pd.DataFrame, models: Sequence[ItemModel]) -> CategoryParameters:
        """Items of these models from the columns that `table` has.

        Without ``categories`` these are 0, 1, ..., ``n_categories`` of them or as many as there are steps.

        Raises
        ------
        InputError
            If a column that an item's model needs is not there or empty, or steps of a graded item do not rise.
        """
        categories, natural = [], []
        table = table.rename(columns=str)
        steps = [str(name) for name in table.columns if str(name).startswith("step_")]
        for row, model in zip(table.to_dict(orient="records"), models, strict=True):
            numbers = {
                str(name): float(value) for name, value in row.items() if name not in WORDS and not pd.isna(value)
            }
            if isinstance(texts := row.get("categories"), str) and texts:
                own: tuple[Any, ...] = as_written(texts.split(BETWEEN))
            else:
                own = tuple(range(int(numbers.get("n_categories", 1 + max(1, sum(name in numbers for name in steps))))))
            if not 2 <= len(own) <= MOST_CATEGORIES:
                raise InputError(f"item {row['item_id']}: {len(own)} categories; expected from 2 to {MOST_CATEGORIES}")
            try:
                natural.append(model.from_columns(numbers, len(own)))
                categories.append((own, model.unbounded(natural[-1])))
            except KeyError as error:
                raise InputError(
                    f"item {row['item_id']}: column {error.args[0]}: empty or not there, and {model.name} needs it"
                ) from None
            except InputError as error:
                raise InputError(f"item {row['item_id']}: {error}") from None
        width = max(len(x) for _, x in categories)
        x = np.stack([np.pad(own, (0, width - len(own))) for _, own in categories])
        common = all("discrimination" in row and row["discrimination"] == 1 for row in table.to_dict(orient="records"))
        n_free = np.array([len(own) - common for _, own in categories])  # a slope of 1 for all is none of an item's own
        return cls(tuple(map(str, table["item_id"])), tuple(models), tuple(own for own, _ in categories), x, n_free)

    def probabilities(self, theta: ArrayLike) -> list[NDArray[np.float64]]:
        """Of each item's categories at each ability, shapes (n_theta, n_categories)."""
        return np.split(np.exp(self.log_probabilities(theta)), self.first[1:], axis=1)

    def expected_score(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Expected category of each item, the lowest being 0, shape (n_theta, n_items)."""
        return np.stack([p @ np.arange(p.shape[1]) for p in self.probabilities(theta)], axis=1)

    def score_moments(self, theta: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Mean, variance and fourth central moment of each item's category, the lowest being 0, (n_theta, n_items)."""
        mean, each = self.expected_score(theta), self.probabilities(theta)
        from_mean = [np.arange(p.shape[1]) - of[:, None] for p, of in zip(each, mean.T, strict=True)]
        variance, fourth = (
            np.stack([(p * d**power).sum(axis=1) for p, d in zip(each, from_mean, strict=True)], axis=1)
            for power in (2, 4)
        )
        return mean, variance, fourth

    def log_probabilities(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Of all categories of all items, one after another, shape (n_theta, n_categories of all)."""
        at = np.atleast_1d(np.asarray(theta, dtype=np.float64))[None]
        found = np.empty((at.size, int((self.top + 1).sum())))
        for model, columns, x in self.alike:
            found[:, columns] = np.moveaxis(model.log_probabilities(x, at, NUMPY), -1, 0)
        return np.maximum(found, np.log(TINY))

    def information(self, theta: ArrayLike) -> NDArray[np.float64]:
        """Fisher information of each item on ability, sum of P'^2 / P over categories, shape (n_theta, n_items).

        The derivatives are differences of the probabilities at abilities close by.
        """
        return CategoryDerivatives.at(self, theta).information

    def parameter_derivatives(self, theta: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """Derivatives of an item's log P by its parameters as they are read, an array for each item.

        Their shapes are (n_theta, n_categories, n_parameters).
        """
        for model, natural, names in zip(self.models, self.parameters, self.names, strict=True):

            def log_p(x: NDArray[np.float64], model: ItemModel = model) -> NDArray[np.float64]:
                return np.asarray(model.log_probabilities(model.unbounded(x)[:, None], theta[None], NUMPY).T)

            yield rates_of(log_p, natural[: len(names)])

    def chosen(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 for the category of each response, 0 for the others, shape (n_respondents, n_categories of all)."""
        rows, columns = np.nonzero(~np.isnan(values))
        found = np.zeros((len(values), int((self.top + 1).sum())))
        found[rows, self.first[columns] + values[rows, columns].astype(np.int64)] = 1.0
        return found

    def log_likelihood(self, values: NDArray[np.float64], theta: ArrayLike) -> NDArray[np.float64]:
        """Of each pattern of categories 0, 1, ... (NaN where missing) at each ability, (n_respondents, n_theta)."""
        return self.chosen(values) @ self.log_probabilities(theta).T

    def matrix(self, table: ArrayLike | pd.DataFrame) -> ResponseMatrix:
        """Responses to some of these items as the matrix that `score_responses` takes: category k of 0, ..., m as k
        right of m.
        """  # fmt: skip
        known = self
        if isinstance(table, pd.DataFrame):
            there = {*(table["item_id"].astype(str) if {*PAIR} <= {*table.columns} else table.columns)}
            known = self.select([item for item in self.item_ids if item in there])
        return CodedScores.of(table, known.item_ids, known.categories).to_matrix()

    def scores(self, table: ArrayLike | pd.DataFrame) -> pd.DataFrame:
        """Ability of each respondent: ``respondent_id, theta, se, n_items``, posterior mean and standard deviation.

        The items are taken as known: where few respondents, or no more than there are items, answered them, standard
        errors are too small (of 40 respondents and 80 items errors were 1.8 times as large).
        The columns are these items', in any order where they have names; responses that no item has a category for are
        an error.
        """
        from irtbench.models.theta_posterior import STANDARD_NORMAL, posterior_of  # which has categories

        scores = CodedScores.of(table, self.item_ids, self.categories)
        values = np.where(scores.codes == MISSING, np.nan, scores.codes)
        theta, se = posterior_of(values, self.as_items(), STANDARD_NORMAL).summary(0.95)[:, :2].T
        ids = list(scores.respondent_ids)
        return pd.DataFrame({"respondent_id": ids, "theta": theta, "se": se, "n_items": scores.n_by_respondent})

    def simulate(self, theta: ArrayLike, *, rng: np.random.Generator) -> pd.DataFrame:
        """Draw responses of respondents with these abilities, a column an item, as the data had them."""
        codes = self.draw(theta, rng=rng).T
        drawn = {
            item: np.array(own, dtype=object)[k]
            for item, own, k in zip(self.item_ids, self.categories, codes, strict=True)
        }
        return pd.DataFrame(drawn).infer_objects()

    def draw(self, theta: ArrayLike, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """The categories 0, 1, ... of such responses, shape (n_respondents, n_items)."""
        columns = [
            (rng.random(len(p))[:, None] > np.cumsum(p[:, :-1], axis=1)).sum(axis=1) for p in self.probabilities(theta)
        ]
        return np.stack(columns, axis=1)

    @classmethod
    def of_right_or_wrong(cls, items: ItemParameters) -> CategoryParameters:
        """Items that are right (1) or wrong (0) as such of two categories."""
        lower = items.guessing_estimated | (items.guessing > 0)
        models = tuple(Logistic(lower=bool(guessed)) for guessed in lower)
        natural = np.stack([items.discrimination, items.intercept, items.guessing], axis=1)[:, : 2 + lower.any()]
        x = natural.copy()
        if lower.any():
            x[:, 2] = np.where(lower, logit(np.clip(items.guessing, SMALLEST_GUESSING, 1 - SMALLEST_GUESSING)), 0.0)
        covariance = None if items.covariance is None else items.covariance[:, : natural.shape[1], : natural.shape[1]]
        return cls(items.item_ids, models, ((0, 1),) * items.n_items, x, items.n_free, covariance)

    def moved(self, slope: float, intercept: float) -> CategoryParameters:
        """The items on the scale with theta = slope theta_own + intercept, their covariance turned with them."""
        turn = turned(*self.moves, slope, intercept)
        x = np.zeros_like(self.steps_at)
        for row, natural, model, names in zip(
            x, np.einsum("jab,jb->ja", turn, self.parameters), self.models, self.names, strict=True
        ):
            row[: len(names)] = model.unbounded(natural[: len(names)])
        covariance = None if self.covariance is None else turn @ self.covariance @ turn.transpose(0, 2, 1)
        return replace(self, steps_at=x, covariance=covariance)

    def draws(self, n_draws: int, *, rng: np.random.Generator) -> list[CategoryParameters]:
        """Sets of the items, each with parameters drawn from its sampling distribution, and no covariance.

        On the scales without bounds, where steps of graded items rise whatever is drawn. Known items stay.
        """
        if self.covariance is None:
            return [self] * n_draws
        x, normal = np.repeat(self.steps_at[None], n_draws, axis=0), rng.normal(size=(n_draws, *self.steps_at.shape))
        for j, (model, own, names) in enumerate(zip(self.models, self.steps_at, self.names, strict=True)):
            n = len(names)
            back = np.linalg.inv(rates_of(model.read, own[:n]))
            values, vectors = np.linalg.eigh(back @ self.covariance[j, :n, :n] @ back.T)
            x[:, j, :n] += (normal[:, j, :n] * np.sqrt(values.clip(0))) @ vectors.T
        return [replace(self, steps_at=each, covariance=None) for each in x]

    def joined(self, others: CategoryParameters) -> CategoryParameters:
        """These items and others behind them; covariances are known where those of both are."""
        width = max(self.steps_at.shape[1], others.steps_at.shape[1])
        rooms = [(0, width - part.steps_at.shape[1]) for part in (self, others)]
        x = [np.pad(part.steps_at, ((0, 0), room)) for part, room in zip((self, others), rooms, strict=True)]
        covariance = None
        if self.covariance is not None and others.covariance is not None:
            each = zip((self.covariance, others.covariance), rooms, strict=True)
            covariance = np.concatenate([np.pad(own, ((0, 0), room, room)) for own, room in each])
        return CategoryParameters(
            self.item_ids + others.item_ids,
            self.models + others.models,
            self.categories + others.categories,
            np.concatenate(x),
            np.concatenate([self.n_free, others.n_free]),
            covariance,
        )

    @cached_property
    def moves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Which parameters are slopes, and what others gain of them by a shift of theta.

        Shapes (n_items, width) and (n_items, width, width).
        On a scale A theta + B they are (1 - s + (s + B L) / A) times what they were, s the first and L the second.
        """
        width = self.steps_at.shape[1]
        slopes, loads = np.zeros((self.n_items, width)), np.zeros((self.n_items, width, width))
        for s, own, model, names in zip(slopes, loads, self.models, self.names, strict=True):
            n = len(names)
            halved, shifted = (
                np.stack([model.moved(unit, *line) for unit in np.eye(n)], axis=1) for line in ((2.0, 0.0), (1.0, 1.0))
            )
            s[:n] = 2 * (1 - np.diag(halved))
            own[:n, :n] = shifted - np.eye(n)
        return slopes, loads

    def as_items(self) -> ItemParameters:
        """These items as a scale has them: slope and difficulty, with the categories that give the curves.

        Where a model has no slope and mean step they are those of its expected score: four times the slope where half
        of the score is expected, and the ability there.
        """
        from irtbench.models.item_parameters import ItemParameters  # which has categories

        grid = SCORING_NODES.nodes
        share = self.expected_score(grid) / self.top
        middle = np.abs(share - 0.5).argmin(axis=0)
        own = [model.columns(x[: len(names)], len(c)) for model, x, names, c in zip(
            self.models, self.parameters, self.names, self.categories, strict=True)]  # fmt: skip
        steepest = 4 * np.gradient(share, grid, axis=0)[middle, np.arange(self.n_items)]
        a = [row.get("discrimination", slope) for row, slope in zip(own, steepest, strict=True)]
        b = [row.get("difficulty", place) for row, place in zip(own, grid[middle], strict=True)]
        c = [row.get("guessing", 0.0) for row in own]
        free = ["guessing" in row for row in own]
        found = ItemParameters.from_difficulty(a, b, c, item_ids=self.item_ids, guessing_estimated=free)
        return replace(found, categories=self)

    def as_right_or_wrong(self) -> ItemParameters | None:
        """The items as right (1) and wrong (0) where all are so; None where any is not."""
        from irtbench.models.item_parameters import ItemParameters

        two = all(isinstance(model, Logistic) and not model.upper for model in self.models)
        if not two or any(tuple(map(float, own)) != (0.0, 1.0) for own in self.categories):
            return None
        natural = np.pad(self.parameters, ((0, 0), (0, 3 - self.parameters.shape[1])))
        lower, covariance = np.array([model.name == "3pl" for model in self.models]), None
        if self.covariance is not None:
            room = 3 - self.covariance.shape[1]
            covariance = np.pad(self.covariance, ((0, 0), (0, room), (0, room)))
        return ItemParameters(
            self.item_ids, natural[:, 0], natural[:, 1], np.where(lower, natural[:, 2], 0.0), lower, covariance
        )

    def in_short(self) -> str:
        """Items and their models."""
        models = ", ".join(dict.fromkeys(model.name for model in self.models))
        return f"{counted(len(self.item_ids), 'item')} ({models})"


@dataclass(frozen=True, eq=False)
class CategoryDerivatives:
    """Derivatives of log probabilities of categories by theta, as differences; `AbilityDerivatives` of categories.

    Parameters
    ----------
    items
        The items.
    p, slope, second
        Probabilities of all categories, one after another, and first and second derivatives of their logarithms, shape
        (n_theta, n_categories of all).
    """

    items: CategoryParameters
    p: NDArray[np.float64]
    slope: NDArray[np.float64]
    second: NDArray[np.float64]

    @classmethod
    def at(cls, items: CategoryParameters, theta: ArrayLike) -> CategoryDerivatives:
        """At these abilities."""
        at = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        below, here, above = (items.log_probabilities(at + step) for step in (-STEP, 0.0, STEP))
        return cls(items, np.exp(here), (above - below) / (2 * STEP), (above - 2 * here + below) / STEP**2)

    def by_item(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums over each item's categories, shape (n_theta, n_items)."""
        return np.add.reduceat(terms, self.items.first, axis=1)

    @cached_property
    def information(self) -> NDArray[np.float64]:
        """I = sum of P'^2 / P."""
        return self.by_item(self.p * self.slope**2)

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """J = sum of P' P'' / P, of Warm's weighted likelihood."""
        return self.by_item(self.p * self.slope * (self.slope**2 + self.second))

    def score(self, values: NDArray[np.float64], trials: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Score of each response, one respondent at each ability, shape (n_theta, n_items); 0 where it is missing."""
        return self.chosen(values, self.slope)

    def observed_information(
        self, values: NDArray[np.float64], trials: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Minus the second derivative of each response's log probability; 0 where it is missing."""
        return -self.chosen(values, self.second)

    def total_score(self, values: NDArray[np.float64], trials: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Score of each pattern at each ability, shape (n_respondents, n_theta)."""
        return self.items.chosen(values) @ self.slope.T

    @staticmethod
    def counted(values: NDArray[np.float64], trials: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """How often each item's information counts, shape of the values."""
        return (~np.isnan(values)).astype(np.float64)

    def chosen(self, values: NDArray[np.float64], terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """These terms of the category of each response, 0 where it is missing, shape (n_theta, n_items)."""
        given = ~np.isnan(values)
        columns = self.items.first + np.where(given, values, 0.0).astype(np.int64)
        return np.where(given, np.take_along_axis(terms, columns, axis=1), 0.0)


def turned(
    slopes: NDArray[np.float64], loads: NDArray[np.float64], slope: float, intercept: float
) -> NDArray[np.float64]:
    """What parameters with these `moves` are multiplied by on the scale with theta = slope theta_own + intercept."""
    each = np.eye(slopes.shape[1])
    return (each * slopes[:, :, None] + intercept * loads) / slope + each * (1 - slopes[:, :, None])


def column_values(model: ItemModel, n_categories: int, natural: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the columns of items.csv hold of an item."""
    return np.array([*model.columns(natural, n_categories).values()])


def rates_of(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Derivatives of a function's values by each parameter, along the last axis, as differences."""
    steps = DIFFERENCE * np.eye(len(x))
    return np.stack([function(x + step) - function(x - step) for step in steps], axis=-1) / (2 * DIFFERENCE)


def as_written(texts: Sequence[str]) -> tuple[Any, ...]:
    """Categories of a table: numbers where all are, whole ones as such, else labels."""
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return tuple(texts)
    return tuple(int(number) if number.is_integer() else number for number in numbers)
