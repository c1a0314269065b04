"""Why an item is hard: difficulty explained by features of the items (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm, t

from irtbench.analysis.meta_regression import MetaRegression, meta_regression
from irtbench.data.input_error import InputError
from irtbench.data.item_features import ItemFeatures
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, counted
from irtbench.models.curves import information
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL

Shrinkage = Literal["auto", "none", "learnt"]

FEWEST_ITEMS = 8
ITEMS_A_FEATURE = 5  # with fewer items for each feature effects are shrunk unless said otherwise
N_FOLDS = 10
N_SAMPLES = {False: 400, True: 200}  # of the parametric bootstrap of R2, without and with shrunken effects

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExplainedDifficulty(Drawn):
    """What features say of difficulty.

    Parameters
    ----------
    item_ids
        The items whose difficulty is known.
    terms
        ``intercept`` and the features.
    effect, se, lower, upper, p
        Of each on the difficulty, per unit of the feature, shape (n_terms,); of shrunken effects the posterior's
        moments, and p then is of the posterior z.
    residual_sd
        Standard deviation s of what the features leave unexplained.
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
    new_item_ids, new_predicted, new_lower, new_upper
        Items of the table of features whose difficulty is not known.
    answers_worth
        As many answers of the population as the features of a new item are worth, beside knowing that it is an item
        like the others.
    shrunk
        Whether effects were drawn to 0.
    level
        Nominal coverage of the intervals.
    """

    item_ids: tuple[str, ...]
    terms: tuple[str, ...]
    effect: Array
    se: Array
    lower: Array
    upper: Array
    p: Array
    residual_sd: float
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
    new_lower: Array
    new_upper: Array
    answers_worth: float
    shrunk: bool
    level: float

    def table(self) -> pd.DataFrame:
        """One row a term: columns of effects.csv."""
        return pd.DataFrame(
            {
                "term": self.terms,
                "effect": self.effect,
                "se": self.se,
                "lower": self.lower,
                "upper": self.upper,
                "p": self.p,
            }
        )

    def predictions_table(self) -> pd.DataFrame:
        """One row an item, the new ones last: columns of predictions.csv."""
        n_new = len(self.new_item_ids)
        unknown = np.full(n_new, np.nan)
        return pd.DataFrame(
            {
                "item_id": self.item_ids + self.new_item_ids,
                "difficulty": np.concatenate([self.difficulty, unknown]),
                "se_difficulty": np.concatenate([self.se_difficulty, unknown]),
                "predicted": np.concatenate([self.predicted, self.new_predicted]),
                "predicted_lower": np.concatenate([self.predicted_lower, self.new_lower]),
                "predicted_upper": np.concatenate([self.predicted_upper, self.new_upper]),
                "new": np.repeat([False, True], [len(self.item_ids), n_new]),
            }
        )

    def in_short(self) -> str:
        """R2 with its interval, cross-validated, and what it is worth."""
        return (
            f"{counted(len(self.item_ids), 'item')}, {counted(len(self.terms) - 1, 'feature')}, "
            f"R2 {self.r2:.2f} ({self.r2_lower:.2f} to {self.r2_upper:.2f}), "
            f"cross-validated {self.r2_cross_validated:.2f}, worth {self.answers_worth:.0f} answers"
        )


def explain_difficulty(
    items: ParametersLike,
    features: ItemFeatures | pd.DataFrame,
    *,
    standard_errors: NDArray[np.float64] | None = None,
    shrinkage: Shrinkage = "auto",
    population: Quadrature | None = None,
    level: float = 0.95,
    rng: np.random.Generator,
) -> ExplainedDifficulty:
    """Difficulty regressed on features of the items: a linear logistic test model with error, in two steps.

    The model is that of De Boeck & Wilson (2004): b_j = w_0 + x_j'w + e_j with e_j ~ N(0, s^2). Of the items known are
    estimates with standard errors, so that the regression has both errors: b_j's estimate is N(w_0 + x_j'w,
    s^2 + se_j^2), and s is found by the largest marginal likelihood (REML). With fewer than five items a feature,
    effects of features of standard deviation 1 are N(0, lambda^2), with lambda found likewise.

    Intervals and p of effects take t with as many degrees of freedom as items less terms, where effects are not
    shrunk. Items are predicted by fits to nine tenths of the others, drawn at random. The interval of R2 is that of a
    parametric bootstrap, bias-corrected (Efron, 1987).

    A prediction N(m, v) of a new item's difficulty is worth n = (1 / v - 1 / v_0) / I answers, where v_0 is the
    variance of difficulties and I the information that an answer of a person of the population tells of the difficulty
    of an item, on average over the items.

    Parameters
    ----------
    items
        Their parameters with standard errors.
    features
        Of at least these items; items beyond are new ones, whose difficulty is predicted.
    standard_errors
        Of the difficulties, shape (n_items,); None for those by the items' covariance.
    shrinkage
        Whether effects are drawn to 0: ``none``, ``learnt``, or by the number of items a feature (``auto``).
    population
        Of the people who answer; None for the standard normal.
    level
        Nominal coverage of the intervals.
    rng
        For folds and the bootstrap.

    Raises
    ------
    InputError
        If an item has no features, standard errors are not known, there are fewer than eight items, a feature is the
        same in all of them, or features determine each other where effects are not shrunk.

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
    known = as_parameters(items)
    given = features if isinstance(features, ItemFeatures) else ItemFeatures.from_frame(features)
    if not 0 < level < 1:
        raise InputError(f"difficulty: level must be between 0 and 1 but got {level:g}")
    b = known.difficulty
    se = known.standard_errors()["difficulty"] if standard_errors is None else np.asarray(standard_errors, np.float64)
    if se.shape != b.shape:
        raise InputError(f"difficulty: {se.size} standard errors for {b.size} items; expected one each")
    usable = np.isfinite(b) & np.isfinite(se)
    if not usable.any():
        raise InputError("difficulty: standard errors of the difficulties are not known; expected those of a fit")
    ids = tuple(item for item, there in zip(known.item_ids, usable, strict=True) if there)
    known, b, se = known.select(ids), b[usable], se[usable]
    columns, scale = _standardised(given.select(ids), len(b))
    shrink = shrinkage == "learnt" or (shrinkage == "auto" and len(b) < ITEMS_A_FEATURE * len(given.names))
    if not shrink and np.linalg.matrix_rank(columns - columns.mean(axis=0)) < columns.shape[1]:
        raise InputError("difficulty: features determine each other; leave one out, or expected shrinkage learnt")
    if not shrink and len(b) < columns.shape[1] + 3:
        raise InputError(f"difficulty: {len(b)} items for {columns.shape[1]} features; expected shrinkage learnt")
    found = meta_regression(b, se, columns, shrink=shrink)
    null = meta_regression(b, se, columns[:, :0], shrink=False)
    r2 = share_explained(found, null)
    df = np.inf if shrink else len(b) - columns.shape[1] - 1
    reach = float(t.ppf((1 + level) / 2, df)) if np.isfinite(df) else float(norm.ppf((1 + level) / 2))
    effect, errors = _of_terms(found, scale)
    z = np.abs(effect) / errors
    predicted, variance, mean_of_others = _left_out(b, se, columns, found, shrink, rng)
    new = tuple(item for item in given.item_ids if item not in set(known.item_ids))
    new_predicted, new_variance = found.predicted((given.select(new).values - scale.mean) / scale.sd)
    spread = [reach * np.sqrt(v) for v in (variance, new_variance)]
    lower, upper = _interval_of_r2(r2, found, null, b, se, columns, shrink, level, rng)
    return ExplainedDifficulty(
        item_ids=ids,
        terms=("intercept", *given.names),
        effect=effect,
        se=errors,
        lower=effect - reach * errors,
        upper=effect + reach * errors,
        p=2 * (t.sf(z, df) if np.isfinite(df) else norm.sf(z)),
        residual_sd=found.residual_sd,
        total_sd=null.residual_sd,
        r2=r2,
        r2_lower=lower,
        r2_upper=upper,
        r2_cross_validated=_predicted_share(b, se, predicted, mean_of_others),
        difficulty=b,
        se_difficulty=se,
        predicted=predicted,
        predicted_lower=predicted - spread[0],
        predicted_upper=predicted + spread[0],
        new_item_ids=new,
        new_predicted=new_predicted,
        new_lower=new_predicted - spread[1],
        new_upper=new_predicted + spread[1],
        answers_worth=_answers_worth(known, float(np.median(variance)), null, population or STANDARD_NORMAL),
        shrunk=shrink,
        level=level,
    )


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and standard deviation of each feature over the items."""

    mean: Array
    sd: Array


def _standardised(features: ItemFeatures, n_items: int) -> tuple[Array, Scaling]:
    if n_items < FEWEST_ITEMS:
        raise InputError(f"difficulty: {n_items} items of known difficulty; expected at least {FEWEST_ITEMS}")
    scale = Scaling(features.values.mean(axis=0), features.values.std(axis=0))
    same = [name for name, sd in zip(features.names, scale.sd, strict=True) if sd < 1e-12]
    if same:
        raise InputError(f"difficulty: {name_first(same)} is the same for all items; leave it out")
    return (features.values - scale.mean) / scale.sd, scale


def _of_terms(found: MetaRegression, scale: Scaling) -> tuple[Array, Array]:
    """Intercept and effects per unit of each feature, with standard errors."""
    back = np.diag(np.concatenate([[1.0], 1 / scale.sd]))
    back[0, 1:] = -scale.mean / scale.sd
    return back @ found.coefficients, np.sqrt(np.diagonal(back @ found.covariance @ back.T))


def share_explained(found: MetaRegression, null: MetaRegression) -> float:
    """1 - s^2 / s_0^2, not below 0; NaN where there is nothing to explain."""
    if null.residual_sd == 0:
        return float("nan")
    return max(1 - found.residual_sd**2 / null.residual_sd**2, 0.0)


def _left_out(
    b: Array, se: Array, columns: Array, found: MetaRegression, shrink: bool, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Prediction of each item by a fit without its tenth of the items, its variance, and the mean of the others."""
    predicted, variance, mean = np.empty((3, len(b)))
    order = rng.permutation(len(b))
    for fold in np.array_split(order, min(N_FOLDS, len(b))):
        others = np.setdiff1d(order, fold)
        fitted = meta_regression(b[others], se[others], columns[others], shrink=shrink, near=found)
        predicted[fold], variance[fold] = fitted.predicted(columns[fold])
        mean[fold] = meta_regression(b[others], se[others], columns[others][:, :0], shrink=False).coefficients[0]
    return predicted, variance, mean


def _predicted_share(b: Array, se: Array, predicted: Array, mean: Array) -> float:
    """1 - mean squared error of the predictions over that of the mean, the estimates' own error taken off both."""
    error, total = (float(np.sum((b - by) ** 2 - se**2)) for by in (predicted, mean))
    return 1 - max(error, 0.0) / total if total > 0 else float("nan")


def _interval_of_r2(
    r2: float,
    found: MetaRegression,
    null: MetaRegression,
    b: Array,
    se: Array,
    columns: Array,
    shrink: bool,
    level: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Bias-corrected percentiles of R2 refitted to estimates drawn from the model."""
    if np.isnan(r2):
        return r2, r2
    fitted = columns @ found.coefficients[1:]
    explained = np.sqrt(max(null.residual_sd**2 - found.residual_sd**2, 0.0))
    if fitted.std() > 0:  # fitted effects explain more in these items than they would in others
        fitted = fitted * explained / fitted.std()
    drawn = np.empty(N_SAMPLES[shrink])
    for k in range(drawn.size):
        sample = fitted + rng.normal(0, np.sqrt(found.residual_sd**2 + se**2))
        drawn[k] = share_explained(
            meta_regression(sample, se, columns, shrink=shrink, near=found),
            meta_regression(sample, se, columns[:, :0], shrink=False),
        )
    drawn = drawn[~np.isnan(drawn)]
    below = (np.sum(drawn < r2) + 0.5 * np.sum(drawn == r2)) / drawn.size
    shift = norm.ppf(np.clip(below, 1 / (2 * drawn.size), 1 - 1 / (2 * drawn.size)))
    ends = norm.cdf(2 * shift + norm.ppf([(1 - level) / 2, (1 + level) / 2]))
    lower, upper = np.quantile(drawn, ends)
    return float(lower), float(upper)


def _answers_worth(items: ItemParameters, variance: float, null: MetaRegression, population: Quadrature) -> float:
    """Answers that tell as much of a new item's difficulty as its features do, by the items' average information."""
    # a^2 P Q, the information of an answer on ability, is that on difficulty too
    told = float((population.weights @ information(population.nodes, items)).mean())
    before = null.residual_sd**2
    return max(1 / variance - 1 / before, 0.0) / told if before > 0 and variance > 0 else float("nan")
