"""Why an item is hard: difficulty explained by features of the items (NumPy only).

Of items that are known already the regression is a second step, which has their errors; of responses it is fitted with
the items (`explained_responses`). Either way what is known of each difficulty is an estimate with an error, from which
all else follows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from irtbench.analysis.meta_regression import Effects, Estimates, MetaRegression, meta_regression
from irtbench.data.input_error import InputError, demand_choice, demand_share, refuse_any
from irtbench.data.items import ItemFeatures
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, counted
from irtbench.models.curves import information
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL

Shrinkage = Literal["auto", "none", "learnt"]

FEWEST_ITEMS = 8
ITEMS_A_FEATURE, SEVERAL_FEATURES = 5, 5  # with fewer items for each, or so many features, effects are shrunk
N_FOLDS = 10
MOST_CURVES = 60  # principal components of what features may bend
LOWEST, HIGHEST = np.log(1e-3), np.log(1e6)  # of the numbers of answers that features may be worth
N_SAMPLES = {False: 400, True: 200}  # of the parametric bootstrap of R2, without and with shrunken effects

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExplainedDifficulty(Effects, Drawn, columns="term=terms, effect, se, lower, upper, p"):
    """What features say of difficulty.

    Its table has one row a term, the columns of effects.csv.

    Parameters
    ----------
    item_ids
        The items whose difficulty is known.
    terms
        ``intercept`` and the features.
    effect, se, lower, upper, p
        Of each on the difficulty, per unit of the feature, shape (n_terms,); of shrunken effects the posterior's
        moments, and p then is of the posterior z.
    residual_sd, residual_lower, residual_upper
        Standard deviation s of what the features leave unexplained, and its 95% interval by the marginal likelihood.
    total_sd
        Standard deviation of the difficulties themselves, estimation error taken off.
    r2, r2_lower, r2_upper
        Share of the variance of the true difficulties that the features explain, 1 - s^2 / s_0^2 with s_0 that of the
        model without features; and its interval.
    r2_cross_validated
        Share of the variance of the true difficulties predicted for items left out of the fit; negative where the
        mean of the other items predicts better.
    difficulty, se_difficulty
        Estimates that were explained, shape (n_items,).
    predicted, predicted_lower, predicted_upper
        Of each item, from a fit without it, with the interval for its true difficulty.
    new_item_ids, new_predicted, new_sd, new_lower, new_upper
        Items of the table of features whose difficulty is not known; the standard deviation is that of the normal
        density of the same interval.
    answers_worth
        After how many answers of people of the population a new item without features would be known as well as by its
        features.
    shrunk
        Whether effects were drawn to 0.
    with_items
        Whether the regression was fitted with the items.
    converged
        Whether that fit came to an end.
    level
        Nominal coverage of the intervals.
    """

    item_ids: tuple[str, ...]
    p: Array
    residual_sd: float
    residual_lower: float
    residual_upper: float
    total_sd: float
    r2: float
    r2_lower: float
    r2_upper: float
    r2_cross_validated: float
    difficulty: Array
    se_difficulty: Array
    predicted: Array
    predicted_lower: Array
    predicted_upper: Array
    new_item_ids: tuple[str, ...]
    new_predicted: Array
    new_sd: Array
    new_lower: Array
    new_upper: Array
    answers_worth: float
    shrunk: bool
    with_items: bool
    converged: bool
    level: float

    def predictions_table(self) -> pd.DataFrame:
        """One row an item, the new ones last: columns of predictions.csv."""
        unknown = np.full(len(self.new_item_ids), np.nan)
        return pd.DataFrame(
            {
                "item_id": self.item_ids + self.new_item_ids,
                "difficulty": np.concatenate([self.difficulty, unknown]),
                "se_difficulty": np.concatenate([self.se_difficulty, unknown]),
                "predicted": np.concatenate([self.predicted, self.new_predicted]),
                "predicted_lower": np.concatenate([self.predicted_lower, self.new_lower]),
                "predicted_upper": np.concatenate([self.predicted_upper, self.new_upper]),
                "new": np.repeat([False, True], [len(self.item_ids), unknown.size]),
            }
        )

    def prior_table(self) -> pd.DataFrame:
        """One row a new item, the prior of its difficulty: columns of prior_items.csv."""
        return pd.DataFrame({"item_id": self.new_item_ids, "mean": self.new_predicted, "sd": self.new_sd})

    def in_short(self) -> str:
        """R2 with its interval, cross-validated, and what it is worth."""
        worth = self.answers_worth
        return (
            f"{counted(len(self.item_ids), 'item')}, {counted(len(self.terms) - 1, 'feature')}, "
            f"R2 {self.r2:.2f} ({self.r2_lower:.2f} to {self.r2_upper:.2f}), "
            f"cross-validated {self.r2_cross_validated:.2f}"
            + (f", worth {counted(round(worth), 'answer')}" if np.isfinite(worth) else "")
        )


def explain_difficulty(
    items: ParametersLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    standard_errors: NDArray[np.float64] | None = None,
    joint_error: JointError | None = None,
    shrinkage: Shrinkage = "auto",
    population: Quadrature | None = None,
    curved: bool = False,
    level: float = 0.95,
    rng: np.random.Generator,
) -> ExplainedDifficulty:
    """Difficulty of items that are known regressed on features: a linear logistic test model with error, in two steps.

    The model is that of De Boeck & Wilson (2004): b_j = w_0 + x_j'w + e_j with e_j ~ N(0, s^2). Of the items known are
    estimates with standard errors, so that the regression has both errors: b_j's estimate is N(w_0 + x_j'w,
    s^2 + se_j^2), and s is found by the largest marginal likelihood (REML). With five features or more, or fewer than
    five items a feature, effects of features of standard deviation 1 are N(0, lambda^2), with lambda found likewise.
    Where responses are at hand and few an item, `explain_responses` is better, which takes no estimate for normal.

    Intervals and p of effects take t with as many degrees of freedom as items less terms, where effects are not
    shrunk. Items are predicted by fits to nine tenths of the others, drawn at random. The interval of R2 is that of a
    parametric bootstrap, bias-corrected (Efron, 1987).

    A prediction N(m, v) of a new item's difficulty is worth the n answers after which, of an item like these without a
    prediction, as much is known on average: the mean over the items of 1 / (1 / v_0 + n I_j) is v, where v_0 is the
    variance of difficulties and I_j what an answer of a person of the population tells of b_j, the slope being known no
    better than that log a is N(m, t^2), with the t^2 of the items, and what the answers say of it. Where an answer
    tells I of every item that is n = (1 / v - 1 / v_0) / I.

    Parameters
    ----------
    items
        Their parameters with standard errors; the difficulty of items in categories is the mean of their steps.
    features
        Of at least these items; items beyond are new ones, whose difficulty is predicted.
    standard_errors
        Of the difficulties, shape (n_items,); None for those by the items' covariance.
    joint_error
        Of all items together, which then replaces the standard errors: what their errors have in common, the zero and
        the unit of the scale above all. None where errors are taken as independent.
    shrinkage
        Whether effects are drawn to 0: ``none``, ``learnt``, or ``auto``: with five features or more, or fewer than
        five items a feature.
    population
        Of the people who answer; None for the standard normal.
    curved
        Whether difficulty may bend in the features and they may depend on each other: next to straight lines a Gaussian
        process of them, exp(-d^2 / 2) with d the root mean square distance of standardised features, both drawn to 0.
        Effects are then those of the straight lines.
    level
        Nominal coverage of the intervals.
    rng
        For folds and the bootstrap.

    Raises
    ------
    InputError
        If an item has no features, standard errors are not known, there are fewer than eight items, or every feature is
        the same in all of them. One that is, and where effects are not shrunk one that others determine, is left out
        with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(3)
    >>> length = rng.normal(size=40)
    >>> items = irtbench.ItemParameters.from_difficulty(np.full(40, 1.2), 0.8 * length + rng.normal(0, 0.4, 40))
    >>> responses = irtbench.simulate_responses(rng.normal(size=500), items, rng=rng)
    >>> fitted = irtbench.fit_model(responses)
    >>> features = irtbench.ItemFeatures(fitted.items.item_ids, ("length",), length[:, None])
    >>> found = irtbench.explain_difficulty(fitted.items, features, rng=rng)
    >>> found.table().round(1)[["term", "effect", "se"]]
            term  effect   se
    0  intercept    -0.2  0.1
    1     length     0.8  0.1
    """
    known = as_parameters(items, categories=True)
    b, se = known.difficulty, errors_of_difficulty(known) if standard_errors is None else standard_errors
    se = np.asarray(se, dtype=np.float64)
    if se.shape != b.shape:
        raise InputError(f"difficulty: {se.size} standard errors for {b.size} items; expected one each")
    places = np.flatnonzero(np.isfinite(b) & (np.isfinite(se) | (joint_error is not None)))
    if not places.size:
        raise InputError("difficulty: standard errors of the difficulties are not known; expected those of a fit")
    known, estimates = known.select([known.item_ids[place] for place in places]), Estimates(b[places], se[places])
    if joint_error is not None:  # db = -(b da + dd) / a
        by = -np.stack([b, np.ones(b.size)], axis=1)[places] / known.discrimination[:, None]
        joint = joint_error.select(places.tolist()).covariance[:, :2][:, :, :, :2]
        estimates = Estimates.of_covariance(b[places], np.einsum("ja,jalb,lb->jl", by, joint, by))
    design = Design.of(features, known.item_ids, shrinkage, level, curved=curved)
    return explained(known, estimates, estimates, design, population, level, rng)


def errors_of_difficulty(items: ItemParameters) -> Array:
    """Standard errors, of items in categories those of the mean step; NaN where they are not known."""
    if items.categories is None:
        return items.standard_errors()["difficulty"]
    table, unknown = items.categories.table(), np.full(items.n_items, np.nan)
    return table.get("se_difficulty", pd.Series(unknown)).to_numpy(dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Design:
    """Features of the items of known difficulty, with mean 0 and standard deviation 1; and curves in them, if wanted.

    Curves are the principal components, over the items, of the kernel exp(-d^2 / 2) of items whose features are d
    standard deviations apart, in root mean square; with effects drawn to 0 as those of the features are, what they add
    is a Gaussian process.

    Parameters
    ----------
    given
        The features of these items and of new ones.
    columns
        Shape (n_items, n_features + n_curves).
    mean, sd
        Of the features as they are given, shape (n_features,).
    shrink
        Whether effects are to be drawn to 0.
    items, directions
        Features of the items of which curves are made, and what makes curves of the kernel with them; no curves where
        there are none of these.
    """

    given: ItemFeatures
    columns: Array
    mean: Array
    sd: Array
    shrink: bool
    items: Array
    directions: Array

    @classmethod
    def of(
        cls,
        given: ItemFeatures | pd.DataFrame,
        item_ids: Sequence[str],
        shrinkage: Shrinkage,
        level: float,
        *,
        curved: bool = False,
    ) -> Design:
        """Refuse too few items, and more features than effects can be estimated of where they are not shrunk."""
        given = features_of(given, item_ids, shrinkage, level)
        n_items, features = len(item_ids), given.select(item_ids)
        mean, sd = features.values.mean(axis=0), features.values.std(axis=0)
        columns = (features.values - mean) / sd
        shrink = curved or shrunk(len(given.names), n_items, shrinkage)
        refuse_any((
            (curved and shrinkage == "none",
             "difficulty: curves need effects that are drawn to 0; expected shrinkage auto or learnt"),
            (not shrink and n_items < columns.shape[1] + 3,
             f"difficulty: {n_items} items for {columns.shape[1]} features; expected shrinkage learnt"),
        ))  # fmt: skip
        directions = np.empty((n_items, 0))
        if curved:
            sizes, axes = np.linalg.eigh(kernel(columns, columns))
            directions = (axes / np.sqrt(np.maximum(sizes, 1e-12)))[:, ::-1][:, :MOST_CURVES]
        plain = cls(given, columns, mean, sd, shrink, columns, directions)
        return replace(plain, columns=plain.columns_of(features.values))

    def columns_of(self, values: Array) -> Array:
        """Columns of items with these features."""
        standard = (values - self.mean) / self.sd
        if not self.directions.shape[1]:
            return standard
        return np.hstack([standard / np.sqrt(len(self.sd)), kernel(standard, self.items) @ self.directions])

    def effects(self, found: MetaRegression) -> tuple[Array, Array]:
        """Intercept and effects per unit of each feature, with standard errors; without those of curves."""
        n = len(self.sd) + 1
        unit = np.sqrt(len(self.sd)) if self.directions.shape[1] else 1.0
        back = np.diag(np.concatenate([[1.0], 1 / (unit * self.sd)]))
        back[0, 1:] = -self.mean / (unit * self.sd)
        return back @ found.coefficients[:n], np.sqrt(np.diagonal(back @ found.covariance[:n, :n] @ back.T))


def kernel(one: Array, other: Array) -> Array:
    """How alike items are by their standardised features, 1 where they are the same."""
    return np.asarray(np.exp(-cdist(one, other, "sqeuclidean") / (2 * one.shape[1])))


def shrunk(n_features: int, n_items: int, shrinkage: Shrinkage) -> bool:
    """Whether effects are drawn to 0."""
    demand_choice("difficulty: shrinkage", shrinkage, Shrinkage)
    several = n_features >= SEVERAL_FEATURES or n_items < ITEMS_A_FEATURE * n_features
    return shrinkage == "learnt" or (shrinkage == "auto" and several)


def features_of(
    given: ItemFeatures | pd.DataFrame, item_ids: Sequence[str], shrinkage: Shrinkage, level: float
) -> ItemFeatures:
    """The features as ours, without those that say nothing of these items: the same for all, or what others say."""
    demand_share("difficulty: level", level)
    given = given if isinstance(given, ItemFeatures) else ItemFeatures.from_frame(given)
    values = given.select(item_ids).values
    spread = values.std(axis=0)
    varied = [k for k in range(len(given.names)) if spread[k] > 1e-12]
    refuse_any((
        (len(item_ids) < FEWEST_ITEMS,
         f"difficulty: {len(item_ids)} items of known difficulty; expected at least {FEWEST_ITEMS}"),
        (not varied, "difficulty: every feature is the same for all items; expected one that differs"),
    ))  # fmt: skip
    standard = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    shared = shrunk(len(varied), len(item_ids), shrinkage)  # features that determine each other then share effects
    rank = [0 if shared else np.linalg.matrix_rank(standard[:, varied[:n]]) for n in range(len(varied) + 1)]
    chosen = [k for n, k in enumerate(varied) if shared or rank[n + 1] > rank[n]]
    for out, why in (
        ([k for k in range(len(given.names)) if k not in varied], "is the same for all items"),
        ([k for k in varied if k not in chosen], "says what the features before it say"),
    ):
        if out:
            names = name_first([given.names[k] for k in out])
            warnings.warn(f"difficulty: {names} {why}, and is left out", RuntimeWarning, stacklevel=4)
    return ItemFeatures(given.item_ids, tuple(given.names[k] for k in chosen), given.values[:, chosen])


def explained(
    items: ItemParameters,
    estimates: Estimates,
    plain: Estimates,
    design: Design,
    population: Quadrature | None,
    level: float,
    rng: np.random.Generator,
) -> ExplainedDifficulty:
    """All that follows from estimates with errors: those under the model with features, and those without."""
    given, columns = design.given, design.columns
    df = np.inf if design.shrink else len(columns) - columns.shape[1] - 1
    found = meta_regression(estimates, columns, shrink=design.shrink, interval=True)
    null = meta_regression(plain, columns[:, :0])
    normal = float(ndtri((1 + level) / 2))
    reach = float(stdtrit(df, (1 + level) / 2)) if np.isfinite(df) else normal
    effect, errors = design.effects(found)
    z = np.abs(effect) / errors
    predicted, variance, mean_of_others = _left_out(estimates, plain, design, found, rng)
    new = tuple(item for item in given.item_ids if item not in set(items.item_ids))
    new_predicted, new_variance = found.predicted(design.columns_of(given.select(new).values))
    spread, new_spread = reach * np.sqrt(variance), reach * np.sqrt(new_variance)
    r2, lower, upper = _share_explained_with_interval(found, null, estimates, design, level, rng)
    return ExplainedDifficulty(
        item_ids=items.item_ids,
        terms=("intercept", *given.names),
        effect=effect,
        se=errors,
        lower=effect - reach * errors,
        upper=effect + reach * errors,
        p=2 * (stdtr(df, -z) if np.isfinite(df) else ndtr(-z)),
        residual_sd=found.residual_sd,
        residual_lower=found.residual_lower,
        residual_upper=found.residual_upper,
        total_sd=null.residual_sd,
        r2=r2,
        r2_lower=lower,
        r2_upper=upper,
        r2_cross_validated=_predicted_share(plain, null, predicted, mean_of_others),
        difficulty=plain.values,
        se_difficulty=np.sqrt(plain.variances),
        predicted=predicted,
        predicted_lower=predicted - spread,
        predicted_upper=predicted + spread,
        new_item_ids=new,
        new_predicted=new_predicted,
        new_sd=new_spread / normal,
        new_lower=new_predicted - new_spread,
        new_upper=new_predicted + new_spread,
        answers_worth=_answers_worth(items, float(np.median(variance)), null, population or STANDARD_NORMAL),
        shrunk=design.shrink,
        with_items=False,
        converged=True,
        level=level,
    )


def share_explained(found: MetaRegression, null: MetaRegression) -> float:
    """1 - s^2 / s_0^2, not below 0; NaN where there is nothing to explain."""
    return max(1 - found.residual_sd**2 / null.residual_sd**2, 0.0) if null.residual_sd else float("nan")


def _left_out(
    estimates: Estimates, plain: Estimates, design: Design, found: MetaRegression, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Prediction of each item by a fit without its tenth of the items, its variance, and the mean of the others."""
    n_items, columns = len(estimates.values), design.columns
    predicted, variance, mean = np.empty((3, n_items))
    order = rng.permutation(n_items)
    for fold in np.array_split(order, min(N_FOLDS, n_items)):
        others = np.setdiff1d(order, fold)
        fitted = meta_regression(estimates.select(others), columns[others], shrink=design.shrink, near=found)
        predicted[fold], variance[fold] = fitted.predicted(columns[fold])
        mean[fold] = meta_regression(plain.select(others), columns[others, :0]).coefficients[0]
    return predicted, variance, mean


def _predicted_share(plain: Estimates, null: MetaRegression, predicted: Array, mean: Array) -> float:
    """1 - mean squared error of the predictions over that of the mean, the estimates' own error taken off both.

    Items count by how well they are known, 1 / (s_0^2 + se^2)^2.
    """
    own = plain.variances
    weight = (null.residual_sd**2 + own) ** -2.0
    error, total = (float(weight @ ((plain.values - by) ** 2 - own)) for by in (predicted, mean))
    return 1 - max(error, 0.0) / total if total > 0 else float("nan")


def _share_explained_with_interval(
    found: MetaRegression,
    null: MetaRegression,
    estimates: Estimates,
    design: Design,
    level: float,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """R2 with bias-corrected percentiles of it refitted to estimates drawn from the model, between which it lies.

    Each sample has features drawn from those of the items, as these are from others like them, and gives them to any
    errors: with its own, an item that nobody solves, of large error and large difficulty, would weigh little whatever
    is drawn for it, and the variance to explain come out too small.
    """
    r2, columns = share_explained(found, null), design.columns
    if np.isnan(r2):
        return r2, r2, r2
    fitted = columns @ found.coefficients[1:]
    explained = np.sqrt(max(null.residual_sd**2 - found.residual_sd**2, 0.0))
    fitted *= explained / (fitted.std() or 1.0)  # fitted effects explain more in these items than they would in others

    def redrawn() -> float:
        items = rng.integers(fitted.size, size=fitted.size)
        sample = estimates.drawn(fitted[items], found.residual_sd, rng)
        again = meta_regression(sample, columns[items], shrink=design.shrink, near=found)
        return share_explained(again, meta_regression(sample, columns[:, :0]))

    drawn = np.array([redrawn() for _ in range(N_SAMPLES[design.shrink])])
    drawn = drawn[~np.isnan(drawn)]
    below = (np.sum(drawn < r2) + 0.5 * np.sum(drawn == r2)) / drawn.size
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if tails[0] < below < tails[1]:
        lower, upper = np.quantile(drawn, ndtr(2 * ndtri(below) + ndtri(tails)))
    else:  # the bias is larger than the scatter: percentiles say nothing, and it is taken off as it is
        lower, upper = (r2 + np.quantile(drawn, tails) - np.median(drawn)).clip(0, 1)
    return r2, float(lower), float(upper)


def _answers_worth(items: ItemParameters, variance: float, null: MetaRegression, population: Quadrature) -> float:
    """Answers after which items without features are known as well as features say, on average; see the explanation."""
    before, known = null.residual_sd**2, items.discrimination > 0
    if not (before > 0 and variance > 0 and known.any()):
        return float("nan")
    items = items.select([name for name, there in zip(items.item_ids, known, strict=True) if there])
    spread = float(np.log(items.discrimination).std())
    away = population.nodes[:, None] - items.difficulty
    info = population.weights[:, None] * information(population.nodes, items)  # of b: as much as of ability
    own, across, of_slope = (np.sum(info * part, axis=0) for part in (1.0, -away, away**2))

    def left(log_answers: float) -> float:
        n = float(np.exp(log_answers))
        by_slope = n * across**2 * spread**2 / (1 + n * of_slope * spread**2)
        return float(np.mean(1 / (1 / before + n * (own - by_slope)))) - variance

    if left(HIGHEST) > 0:
        return float("nan")
    return 0.0 if left(LOWEST) <= 0 else float(np.exp(brentq(left, LOWEST, HIGHEST)))
