"""The whole benchmark from a part: expected accuracy on all items from the responses to some (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import expit, logit, ndtri

from irtbench.bank.bank import ItemBank, scales_of
from irtbench.bank.scale import Scale
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import ResponseMatrix, name_first, positions_of
from irtbench.data.shown import Drawn, Shown
from irtbench.models.curves import icc, share_moments, simulate_responses
from irtbench.models.theta_posterior import STANDARD_NORMAL, posterior_of, row_batches, some_rows
from irtbench.scoring.scores import category_responses, own_responses

Array = NDArray[np.float64]
Scales = ItemBank | Scale | Sequence[Scale]

N_FEATURES = 8  # of the items, from the bank's curves and as many from known systems' responses
FEATURES_VARIANCE = 3.0  # that they give the logit of an item's share right, a priori
LEVEL_SD = 2.5  # of the logit common to all items, a priori: nearly nothing is known
SAME = 1e-9  # deviations that are none
NEWTON_STEPS, LONGEST_STEP, NEWTON_END = 50, 2.0, 1e-8
OUTLIER = 3.0  # standard errors between what a system's answers say and what is expected, from which it counts alone
CHANCE = 2.0  # standard deviations of the responses seen, by which a system beyond those known is at least
OWN_ERROR = 0.5  # share of e^2 that is a system's own at least; of the rest, the form's, all have alike
FARTHEST = 0.75  # standard errors by which systems are drawn together at most
LEAST_GROUP = 4  # systems that are drawn together
KNOWN_SHARE = 0.98  # of the population that the abilities of those known reach over, without a norm sample
N_DRAWN = 500  # systems drawn from the bank, to see what a form is
LEAST_SYSTEMS, FOLDS = 10, 5
SHRINKAGE = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7)  # of the covariances between items, of which cross-validation takes one


@dataclass(frozen=True, eq=False)
class PredictedAccuracy(
    Drawn,
    columns="respondent_ids, n_seen, n_correct, accuracy=accuracy_seen, n_items, predicted_accuracy=accuracy, "
    "se=standard_error, predicted_lower=lower, predicted_upper=upper, beyond_known, n_trials",
    short="{respondent_ids:system}, {n_items:item}, predicted accuracy {accuracy:spanned}",
):
    """Accuracy on all items of the bank; all arrays have shape (n_respondents,).

    Its table has one row a system, the columns of prediction.csv.

    Parameters
    ----------
    respondent_ids
        The systems.
    accuracy
        Expected share right of all items.
    standard_error
        Of the regression across the system's own items, which the interval rests on; that of ``accuracy`` is smaller
        where the system is like those known.
    lower, upper
        Ends of the interval.
    level
        Of the interval.
    n_seen, n_correct
        Items seen of each, and the responses to them that are right.
    n_items
        Items of the bank.
    accuracy_seen
        Mean over the items seen of the share right, NaN without any.
    beyond_known
        ``above`` or ``below`` where the accuracy expected lies beyond that of all systems known, and by more than
        twice the chance of the responses seen; ``beside`` where the answers contradict what is expected of systems
        like those known by more than three standard errors; else ``no``.
    n_trials
        Responses of each, where there were several trials of an item; else None.
    """

    respondent_ids: tuple[str, ...]
    accuracy: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float
    n_seen: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    n_items: int
    accuracy_seen: NDArray[np.float64]
    beyond_known: tuple[str, ...]
    n_trials: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Record:
    """How the regression across items did on a form, among systems whose share right of the other items is known.

    By how much the mean of (share - R)^2 is surely more than that of e^2, relative to it; and r, how far what is known
    was off R.
    """

    excess: float
    contradiction: float

    @classmethod
    def of(cls, share: Array, own: Array, sd: Array, expected: Array, variance: Array | float) -> Record:
        """From the shares, and what was expected of them in both ways."""
        error = (share - own) ** 2 / (sd**2).mean()
        excess = max(0.0, float(error.mean() - 1 - 2 * error.std() / np.sqrt(len(error))))
        away = (expected - own) ** 2 / ((1 + excess) * sd**2 + variance)
        return cls(excess, max(float(away.mean()), SAME))


@dataclass(frozen=True, eq=False)
class Correction(Shown):
    """What systems of which everything is known say of the items outside a form.

    Parameters
    ----------
    form
        The items that are seen.
    coefficients
        Of the regression of the accuracy on the items not seen: intercept, then each item of the form.
    residual_sd
        Root mean square error of that regression in cross-validation.
    features
        Of every item of the scales, by the bank's curves and by the known systems' responses, shape
        (n_items, n_features).
    weight
        Of this regression next to what the bank expects, 0 to 1, by least squares among the systems.
    record
        How the regression across a system's own items did on this form, among the known systems.
    known
        Least and greatest accuracy on all items among the systems.
    n_systems
        Systems it was learnt from.
    """

    form: tuple[str, ...]
    coefficients: Array
    residual_sd: float
    features: Array
    weight: float
    record: Record
    known: tuple[float, float]
    n_systems: int

    def table(self) -> pd.DataFrame:
        """One row a coefficient, the intercept first."""
        return pd.DataFrame({"item_id": ["", *self.form], "coefficient": self.coefficients})


def predict_accuracy(
    scales: Scales,
    responses: ResponsesLike,
    *,
    correction: Correction | None = None,
    level: float = 0.95,
) -> PredictedAccuracy:
    """Expected accuracy on all items of the scales, from the responses to a part of them.

    What was seen counts as it is; the share right of the rest, s, is expected in two ways.

    By the system's own answers: a logistic regression across the items it answered,

        logit P(right on item j) = level + f_j w,    level ~ N(m, 2.5^2), w ~ N(0, I),

    with features f_j of the items: the principal components of the bank's curves (8, scaled to a variance of 3).
    It knows which items are alike and nothing of how able systems are: its expectation R and standard error e (that
    of level and w by their curvature, and the chance of the responses not seen) hold for any system, if the form is
    a fair sample of the items or its features tell how it is not. Systems drawn from the bank, or those that a
    ``correction`` was learnt from, show it: where the mean of their (s - R)^2 exceeds that of e^2, e^2 is multiplied by
    the ratio less two standard errors. The interval, normal in logit s, rests on e, and reaches half a response further
    to both sides: the share right of the rest comes in steps.

    By what is known of others: K, the mean of the rest over the posterior of ability on each scale,
    sum over j not seen of E(P_j(theta) | x), with variance v; with a ``correction`` also the regression on the form
    learnt from systems whose responses are all known; what the two lead to counts by their least squares mixture among
    these systems.

    For a system like those known K is the better, for one beyond them it is biased, and the answers say which:

        s = R' + (K - R') / max(1, r / r0)^2,    r = mean of (K - R)^2 / (e^2 + v) over the systems,

    r0 the same r of systems drawn from the bank, or of those learnt from if that is more. One whose own r / max(1, r0)
    is above 3^2 counts with that, so that it is not drawn to the others. R' is R, of four systems or more drawn to
    their mean M as far as their spread is error (Efron & Morris, 1973), and by .75 e at most:

        R' = R + (M - R) g / (g + t),    t = sum of (R - M)^2 / (n - 3) - mean of g, or 0,    g = e^2 / 2,

    for at least half of e^2 is a system's own; the rest is the form's, and alike for all. So systems that are predicted
    together say together how far what is known can be trusted for them; the intervals do not depend on who else is
    predicted if all answer the same items, and s is kept within them.

    With several trials of an item its response is the share right, and the accuracy predicted is that of a run in which
    items not seen are tried as often as those seen are, m times with 1 / m the mean of one over the number of trials.
    Of items in categories a response is the share of the item's points, and counts as so many trials as its variance,
    by the bank, is less than that of a right or wrong one of the same mean.

    Parameters
    ----------
    scales
        A bank, or one scale or several; their items together are the benchmark, and no item is in two.
    responses
        Graded responses to any of the items, or scores (a data frame) of items in categories; those that no scale has
        are left aside. With a correction, to its form.
    correction
        Learnt for this form and these scales; its features join the bank's. None for the bank alone.
    level
        Nominal coverage of the interval.

    Raises
    ------
    InputError
        If an item is in two scales, the level lies outside (0, 1), or a respondent did not answer just the items of
        the correction's form.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> form = [[1, 1, 1, None, None, None], [1, 0, 0, None, None, None]]
    >>> irtbench.predict_accuracy(scale, form).table()[["respondent_id", "n_seen", "predicted_accuracy", "se"]].round(2)
      respondent_id  n_seen  predicted_accuracy    se
    0            r1       3                0.72  0.27
    1            r2       3                0.22  0.19
    """
    pool = _as_scales(scales)
    ids = _items_of(pool)
    responses = _as_known(pool, responses)
    demand_share("prediction: level", level)
    if len(set(ids)) < len(ids):
        raise InputError("prediction: an item is in two scales; expected each in one")
    seen = own_responses(ids, responses)
    known = _known_range(pool) if correction is None else correction.known
    features = _bank_features(pool) if correction is None else correction.features
    expected, records, shares = [_by_model(pool, seen)], [_record_by_the_bank(pool, seen, features)], [1.0]
    if correction is not None:
        expected.insert(0, _by_correction(seen, correction))
        records.insert(0, correction.record)
        shares = [correction.weight, 1 - correction.weight]
    own, sd = _across_items(pool, seen, features)
    sd = sd * np.sqrt(1 + records[0].excess)
    n_seen = seen.n_items_by_respondent
    rest = len(ids) - n_seen
    judged = (n_seen > 0) & (rest > 0)
    usual = [record.contradiction for record in records]
    usual[0] = max(usual)  # a form chosen for the systems learnt from is seldom contradicted by them
    share, off = _drawn_to_known(own, sd, expected, judged, usual, shares)
    right = np.nansum(seen.shares, axis=1)
    reach = ndtri((1 + level) / 2) * sd / (own * (1 - own))
    lower, upper = expit(logit(own) - reach), expit(logit(own) + reach)
    accuracy = (right + rest * share.clip(lower, upper)) / len(ids)
    half = 0.5 / _trials_a_response(pool, seen)  # a step of accuracy, for the continuity correction
    n_counted = seen.observed @ (1 / _weights(pool)[positions_of(seen.item_ids, ids)])
    below, above = ((n_counted[:, None] * np.array([end * (1 - end) for end in known])) ** 0.5 * (CHANCE / len(ids))).T
    beyond = np.select(
        [accuracy > known[1] + above, accuracy < known[0] - below, judged & (off > OUTLIER**2)],
        ["above", "below", "beside"],
        "no",
    )
    return PredictedAccuracy(
        respondent_ids=responses.respondent_ids,
        accuracy=accuracy,
        standard_error=rest * sd / len(ids),
        lower=(right + (rest * lower - half).clip(0)) / len(ids),
        upper=(right + np.minimum(rest * upper + half, rest)) / len(ids),
        level=level,
        n_seen=n_seen.astype(np.int64),
        n_correct=seen.n_correct_by_respondent,
        n_items=len(ids),
        accuracy_seen=seen.accuracy(),
        beyond_known=tuple(str(word) for word in beyond),
        n_trials=None if responses.trials is None else seen.n_by_respondent,
    )


def learn_correction(scales: Scales, responses: ResponsesLike, form: Sequence[str]) -> Correction:
    """Learn from systems of which everything is known what a form says of the other items.

    The accuracy on the items outside is regressed on the responses to the form by the systems' covariances, those
    between two items shrunk: b = C^-1 c, c the covariance of the form's items with that accuracy. The shrinkage is that
    of least mean absolute error in cross-validation (five folds). To the bank's features of the items come as many, the
    principal components of the systems' responses, each system's mean taken off.

    Parameters
    ----------
    scales
        As for ``predict_accuracy``.
    responses
        Responses of many systems to all items, none missing; those that built the bank will do.
    form
        The items that will be seen.

    Raises
    ------
    InputError
        If a response is missing, the form holds all items, or there are fewer than ten systems.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> form = ["item1", "item3", "item5"]
    >>> correction = irtbench.learn_correction(scale, responses, form)
    >>> new = responses.select_items(form)
    >>> irtbench.predict_accuracy(scale, new, correction=correction)
    <PredictedAccuracy: 300 systems, 6 items, predicted accuracy 0.09 to 0.83>
    """
    pool = _as_scales(scales)
    ids = _items_of(pool)
    responses = _as_known(pool, responses)
    members = set(form)
    outside = responses.select_items([item for item in ids if item not in members])
    seen = responses.select_items(list(form))
    n = responses.n_respondents
    refuse_any((
        (outside.n_items == 0, "prediction: the form holds all items; there is nothing to predict"),
        (not (outside.is_complete and seen.is_complete),
         "prediction: a correction is learnt from complete responses but some are missing"),
        (n < LEAST_SYSTEMS, f"prediction: a correction needs {LEAST_SYSTEMS} systems but got {n}"),
        (seen.n_items == 0, "prediction: the form holds no item; expected those that will be seen"),
    ))  # fmt: skip
    whole, x, y = responses.select_items(ids).shares, seen.shares, outside.shares.mean(axis=1)
    fold = y.argsort(kind="stable").argsort() % FOLDS
    errors = np.empty((len(SHRINKAGE), n))
    for k in range(FOLDS):
        inside, left = fold != k, fold == k
        for place, shrinkage in enumerate(SHRINKAGE):
            coefficients = _shrunk_regression(x[inside], y[inside], shrinkage)
            errors[place, left] = coefficients[0] + x[left] @ coefficients[1:] - y[left]
    best = int(np.abs(errors).mean(axis=1).argmin())
    accuracy = whole.mean(axis=1)
    features = np.hstack([_bank_features(pool), _leading(whole / np.sqrt(n))]) / np.sqrt(2)
    own, sd = _across_items(pool, seen, features)
    by_bank, _ = _by_model(pool, seen)
    away = y + errors[best] - by_bank
    return Correction(
        form=tuple(form),
        coefficients=_shrunk_regression(x, y, SHRINKAGE[best]),
        residual_sd=float(np.sqrt((errors[best] ** 2).mean())),
        features=features,
        weight=float(np.clip(away @ (y - by_bank) / max(away @ away, SAME), 0, 1)),
        record=Record.of(y, own, sd, y + errors[best], float((errors[best] ** 2).mean())),
        known=(float(accuracy.min()), float(accuracy.max())),
        n_systems=n,
    )


def _as_scales(scales: Scales) -> tuple[Scale, ...]:
    return scales_of(scales) if isinstance(scales, ItemBank | Scale) else tuple(scales)


def _items_of(scales: Sequence[Scale]) -> tuple[str, ...]:
    return tuple(item for scale in scales for item in scale.items.item_ids)


def _by_model(scales: Sequence[Scale], responses: ResponseMatrix) -> tuple[Array, Array]:
    """Share of the items not seen that the bank expects right, and its variance, each of shape (n_respondents,)."""
    right, variance = np.zeros((2, responses.n_respondents))
    n_trials = _trials_a_response(scales, responses)
    for scale in scales:
        own = own_responses(scale.items.item_ids, responses)
        known, columns = scale.items.select(own.item_ids), positions_of(own.item_ids, scale.items.item_ids)
        correct = own.correct
        for rows in row_batches(own.n_respondents, scale.items.n_items):
            unseen = np.ones((len(correct[rows]), scale.items.n_items), dtype=np.bool_)
            unseen[:, columns] = np.isnan(correct[rows])
            posterior = posterior_of(
                correct[rows], known, scale.population or STANDARD_NORMAL, trials=some_rows(own.trials, rows)
            )
            p, chance = share_moments(posterior.nodes, scale.items)
            mean, spread = posterior.number_right(p, unseen, trials=n_trials[rows], chance=chance)
            right[rows] += mean
            variance[rows] += spread
    n_rest = np.maximum(len(_items_of(scales)) - responses.n_items_by_respondent, 1)
    return right / n_rest, variance / n_rest**2


def _by_correction(responses: ResponseMatrix, correction: Correction) -> tuple[Array, Array]:
    """The same by a correction, for respondents who answered just the form that it was learnt for."""
    lacking = sorted(set(correction.form) - set(responses.item_ids))
    own = responses.select_items([item for item in correction.form if item not in lacking])
    if lacking or not own.is_complete:
        what = name_first(lacking) or "some of it"
        raise InputError(f"prediction: the correction is for a form of {len(correction.form)} items; missing: {what}")
    expected = (correction.coefficients[0] + own.shares @ correction.coefficients[1:]).clip(0, 1)
    return expected, np.full(len(expected), correction.residual_sd**2)


def _across_items(scales: Sequence[Scale], responses: ResponseMatrix, features: Array) -> tuple[Array, Array]:
    """Share of the items not seen expected by a logistic regression across those seen, and its standard error."""
    design = np.column_stack([np.ones(len(features)), features])
    columns, counted = positions_of(responses.item_ids, _items_of(scales)), _weights(scales)
    asked, n_trials = design[columns], _trials_a_response(scales, responses)
    products = np.einsum("ja,jb->jab", asked, asked).reshape(len(asked), -1)
    precision = np.diag([1 / LEVEL_SD**2, *np.ones(features.shape[1])])
    start = np.append(_mean_logit(scales), np.zeros(features.shape[1]))
    tried = responses.n_trials if (counted == 1).all() else responses.observed  # points of a category are one response
    weight = tried * counted[columns]
    correct = np.nan_to_num(responses.shares) * weight
    share, sd = np.empty((2, responses.n_respondents))
    for rows in row_batches(responses.n_respondents, len(design)):
        n, right = weight[rows], correct[rows]
        found = np.tile(start, (len(n), 1))
        for _ in range(NEWTON_STEPS):
            p = expit(found @ asked.T)
            slope = (right - n * p) @ asked - (found - start) @ precision
            curvature = ((n * p * (1 - p)) @ products).reshape(len(n), *precision.shape) + precision
            step = np.linalg.solve(curvature, slope[..., None])[..., 0]
            longest = np.abs(step).max(axis=1, keepdims=True)
            found += step * np.minimum(1, LONGEST_STEP / np.maximum(longest, LONGEST_STEP))
            if longest.max() < NEWTON_END:
                break
        unseen = np.ones((len(n), len(design)))
        unseen[:, columns] = n == 0
        unseen /= np.maximum(unseen.sum(axis=1, keepdims=True), 1)
        p = expit(found @ design.T)
        share[rows] = (unseen * p).sum(axis=1)
        chance = (unseen**2 * p * (1 - p) / counted).sum(axis=1) / n_trials[rows]
        derivative = (unseen * p * (1 - p)) @ design
        spread = np.linalg.solve(curvature, derivative[..., None])[..., 0]
        sd[rows] = np.sqrt((derivative * spread).sum(axis=1) + chance)
    whole = (responses.n_items_by_respondent == len(design)).nonzero()[0]
    share[whole], sd[whole] = 0.5, 0.0
    return share, sd


def _record_by_the_bank(scales: Sequence[Scale], responses: ResponseMatrix, features: Array) -> Record:
    """Of systems drawn from the bank, who answer what the respondents do, each item once."""
    some = (responses.n_items_by_respondent > 0) & (responses.n_items_by_respondent < len(features))
    if not some.any():
        return Record(0.0, 1.0)
    rng, parts = np.random.default_rng(0), []
    for scale in scales:
        density = scale.population or STANDARD_NORMAL
        theta = rng.choice(density.nodes, N_DRAWN, p=density.weights / density.weights.sum())
        parts.append(simulate_responses(theta, scale.items, rng=rng))
    whole, drawn, tried = (
        np.hstack([getattr(part, name) for part in parts]) for name in ("shares", "correct", "n_trials")
    )
    columns = positions_of(responses.item_ids, _items_of(scales))
    asked = responses.observed[np.resize(np.flatnonzero(some), N_DRAWN)]
    seen = ResponseMatrix(
        np.where(asked, drawn[:, columns], np.nan), parts[0].respondent_ids, responses.item_ids,
        np.where(asked, tried[:, columns], 0),
    )  # fmt: skip
    left = np.ones(whole.shape, dtype=np.bool_)
    left[:, columns] = ~asked
    share = (whole * left).sum(axis=1) / left.sum(axis=1)
    return Record.of(share, *_across_items(scales, seen, features), *_by_model(scales, seen))


def _drawn_to_known(
    own: Array,
    sd: Array,
    expected: Sequence[tuple[Array, Array]],
    judged: NDArray[np.bool_],
    usual: Sequence[float],
    shares: Sequence[float],
) -> tuple[Array, Array]:
    """The share of the items not seen, drawn to what is expected of systems like those known; and how far that is off.

    ``expected`` are shares and their variances: what each leads to counts by ``shares``. How far is by the squared
    distance over the variances, and ``usual`` how far it is for systems like those known.
    """
    drawn, found, offs = _drawn_together(own, sd, judged), [], []
    for (share, variance), known in zip(expected, usual, strict=True):
        error = sd**2 + variance
        off = np.divide((share - own) ** 2, error, out=np.zeros_like(own), where=error > 0)
        together = max(1.0, off[judged].mean() / known) if judged.any() else 1.0
        off /= max(1.0, known)
        alone = np.where(judged & (off > OUTLIER**2), off, 1.0)
        found.append(drawn + (share - drawn) / np.maximum(together, alone) ** 2)
        offs.append(off)
    return np.average(found, axis=0, weights=shares), offs[0]


def _drawn_together(own: Array, sd: Array, judged: NDArray[np.bool_]) -> Array:
    """Estimates drawn to their mean, as far as their spread is error."""
    n = np.count_nonzero(judged)
    if n < LEAST_GROUP:
        return own
    error, away = OWN_ERROR * sd**2, own[judged].mean() - own
    spread = max((away[judged] ** 2).sum() / (n - 3) - error[judged].mean(), 0.0)
    share = np.divide(error, error + spread, out=np.zeros_like(own), where=judged & (error > 0))
    return np.asarray(own + (share * away).clip(-FARTHEST * sd, FARTHEST * sd))


def _bank_features(scales: Sequence[Scale]) -> Array:
    """Principal components of the items' curves over the population, shape (n_items, n_features).

    Each row that is taken apart is the share right of all items at one ability on one scale, and average on the others.
    """
    densities = [scale.population or STANDARD_NORMAL for scale in scales]
    curves = [icc(density.nodes, scale.items) for density, scale in zip(densities, scales, strict=True)]
    average = [density.weights @ curve for density, curve in zip(densities, curves, strict=True)]
    away = block_diag(*(curve - mean for curve, mean in zip(curves, average, strict=True)))
    weights = np.concatenate([density.weights for density in densities])
    return _leading((np.concatenate(average) + away) * np.sqrt(weights)[:, None])


def _leading(rows: Array) -> Array:
    """The leading principal components of items, each row centred, scaled to their variance a priori."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    _, vectors = np.linalg.eigh(centred @ centred.T)
    features: Array = centred.T @ vectors[:, ::-1][:, :N_FEATURES]
    total = (centred**2).sum() / centred.shape[1]
    return features * np.sqrt(FEATURES_VARIANCE / total) if total > 0 else np.zeros_like(features)


def _mean_logit(scales: Sequence[Scale]) -> float:
    """Logit of the accuracy that the bank expects of its population."""
    densities = ((scale.items, scale.population or STANDARD_NORMAL) for scale in scales)
    return float(logit(np.concatenate([of.weights @ icc(of.nodes, items) for items, of in densities]).mean()))


def _known_range(scales: Sequence[Scale]) -> tuple[float, float]:
    """Least and greatest accuracy that the bank expects of the norm sample, or of nearly all of its population."""
    right, tails = np.zeros(2), [(1 - KNOWN_SHARE) / 2, (1 + KNOWN_SHARE) / 2]
    for scale in scales:
        density, norms = scale.population or STANDARD_NORMAL, scale.norms
        known = np.interp(tails, density.weights.cumsum(), density.nodes) if norms is None else norms.theta
        expected = icc(np.linspace(known.min(), known.max(), density.nodes.size), scale.items).sum(axis=1)
        right += expected.min(), expected.max()
    least, most = right / len(_items_of(scales))
    return float(least), float(most)


def _shrunk_regression(x: Array, y: Array, shrinkage: float) -> Array:
    """Intercept and slopes of y on x, with this share taken off the covariances between two columns and with y."""
    middle, centre = x.mean(axis=0), y.mean()
    deviation = x - middle
    covariance = deviation.T @ deviation / len(x)
    own = np.diag(covariance) + 1e-6  # an item that all answer alike says nothing
    covariance = (1 - shrinkage) * covariance
    np.fill_diagonal(covariance, own)
    slopes = np.linalg.solve(covariance, (1 - shrinkage) * (deviation.T @ (y - centre)) / len(x))
    return np.asarray(np.concatenate([[centre - middle @ slopes], slopes]))


def _as_known(scales: Sequence[Scale], responses: ResponsesLike) -> ResponseMatrix:
    """Responses as ours; scores of items in categories as points of the item's."""
    if any(scale.items.categories is not None for scale in scales) and not isinstance(responses, ResponseMatrix):
        if not isinstance(responses, pd.DataFrame):
            responses = pd.DataFrame(np.asarray(responses), columns=list(_items_of(scales)))
        return category_responses(ItemBank(tuple(scales)), responses)
    return as_responses(responses, item_ids=_items_of(scales))


def _weights(scales: Sequence[Scale]) -> Array:
    """How many right or wrong responses one to each item counts as: 1 of such, more of one in categories."""
    found = []
    for scale in scales:
        density = scale.population or STANDARD_NORMAL
        p, chance = share_moments(density.nodes, scale.items)
        found.append((density.weights @ (p * (1 - p))) / (density.weights @ chance))
    return np.concatenate(found)


def _trials_a_response(scales: Sequence[Scale], responses: ResponseMatrix) -> Array:
    """Harmonic mean of the numbers of trials of the items a respondent answered, 1 without any, (n_respondents,).

    Items in categories are tried once.
    """
    if any(scale.items.categories is not None for scale in scales):
        return np.ones(responses.n_respondents)
    n, n_items = responses.n_trials, responses.n_items_by_respondent
    inverse = np.divide(1, n, out=np.zeros(n.shape), where=n > 0).sum(axis=1)
    return np.asarray(np.divide(n_items, inverse, out=np.ones(len(n)), where=n_items > 0))
