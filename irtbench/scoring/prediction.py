"""The whole benchmark from a part: expected accuracy on all items from the responses to some (NumPy only)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Shown, counted, spanned
from irtbench.models.curves import icc
from irtbench.models.likelihood import some_rows
from irtbench.models.theta_posterior import STANDARD_NORMAL, posterior_of, row_batches
from irtbench.scoring.scores import own_responses

Scales = ItemBank | Scale | Sequence[Scale]

HALVINGS = 60  # of the bracket of a quantile


@dataclass(frozen=True, eq=False)
class PredictedAccuracy(Shown):
    """Accuracy on all items of the bank; all arrays have shape (n_respondents,).

    Parameters
    ----------
    respondent_ids
        The systems.
    accuracy
        Expected share right of all items.
    standard_error
        Its standard deviation given the responses seen.
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
    n_trials: NDArray[np.int64] | None = None

    def table(self) -> pd.DataFrame:
        """One row a system, columns of prediction.csv; ``accuracy`` is that on the items seen, NaN without any."""
        table = pd.DataFrame(
            {
                "respondent_id": self.respondent_ids,
                "n_seen": self.n_seen,
                "n_correct": self.n_correct,
                "accuracy": self.accuracy_seen,
                "n_items": self.n_items,
                "predicted_accuracy": self.accuracy,
                "se": self.standard_error,
                "predicted_lower": self.lower,
                "predicted_upper": self.upper,
            }
        )
        return table if self.n_trials is None else table.assign(n_trials=self.n_trials)

    def in_short(self) -> str:
        """How many systems and items, and the range of the predicted accuracies."""
        systems = counted(len(self.respondent_ids), "system")
        return f"{systems}, {counted(self.n_items, 'item')}, predicted accuracy {spanned(self.accuracy)}"


@dataclass(frozen=True, eq=False)
class Correction(Shown):
    """What the accuracy on the items outside a form was, for systems of which everything is known.

    Parameters
    ----------
    form
        The items that are seen.
    coefficients
        Of the regression of the accuracy on the items not seen: intercept, then for each scale the accuracy that the
        model expects there and the accuracy on the items seen, as far as there are such items.
    residual_sd
        Standard deviation about the regression.
    n_systems
        Systems it was learnt from.
    """

    form: frozenset[str]
    coefficients: NDArray[np.float64]
    residual_sd: float
    n_systems: int

    def table(self) -> pd.DataFrame:
        """One row a coefficient, the intercept first."""
        return pd.DataFrame({"coefficient": self.coefficients})


def predict_accuracy(
    scales: Scales,
    responses: ResponsesLike,
    *,
    correction: Correction | None = None,
    level: float = 0.95,
) -> PredictedAccuracy:
    """Expected accuracy on all items of the scales, from the responses to a part of them.

    What was seen counts as it is, the rest as the model expects it of the system's ability on each scale:

        A = (sum of x_j seen + sum over scales and j not seen of E(P_j(theta) | x)) / n

    With several trials of an item x_j is the share right, and the accuracy predicted is that of a run in which items
    not seen are tried as often as those seen are, m times with 1 / m the mean of one over the number of trials.

    Its variance includes theta's error and the chance of the responses not seen:
    n^2 Var = sum over scales of Var(sum P_j | x) + E(sum P_j (1 - P_j) | x) / m. That is all there is if the model is
    right. On a benchmark of many abilities it is not: a ``correction`` learnt from systems whose responses are all
    known (see ``learn_correction``) replaces the second sum, and its residuals give the variance.

    The interval is that of a normal distribution kept to what is possible, from all the rest wrong to all right.

    Parameters
    ----------
    scales
        A bank, or one scale or several; their items together are the benchmark, and no item is in two.
    responses
        Graded responses to any of the items; those that no scale has are left aside. With a correction, to its form.
    correction
        Learnt for this form and these scales; None to trust the model.
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
    0            r1       3                0.72  0.16
    1            r2       3                0.22  0.10
    """
    responses = as_responses(responses, item_ids=_items_of(scales))
    if not 0 < level < 1:
        raise InputError(f"prediction: level must be between 0 and 1 but got {level:g}")
    parts = _parts(scales, responses)
    total = parts.n_items.sum()
    n_unseen = parts.n_unseen.sum(axis=0)
    seen_right = parts.seen_right.sum(axis=0)
    if correction is None:
        rest_right, sd = parts.expected.sum(axis=0), np.sqrt(parts.variance.sum(axis=0))
    else:
        _demand_form(responses, correction)
        share = (_features(parts) @ correction.coefficients).clip(0, 1)
        rest_right, sd = share * n_unseen, correction.residual_sd * n_unseen
    accuracy, sd = (seen_right + rest_right) / total, sd / total
    least, most = seen_right / total, (seen_right + n_unseen) / total
    lower, upper = (_truncated_quantile(accuracy, sd, least, most, q) for q in ((1 - level) / 2, (1 + level) / 2))
    n_seen = (total - n_unseen).astype(np.int64)
    seen = responses.select_items([item for item in responses.item_ids if item in set(_items_of(scales))])
    return PredictedAccuracy(
        respondent_ids=responses.respondent_ids,
        accuracy=accuracy,
        standard_error=sd,
        lower=lower,
        upper=upper,
        level=level,
        n_seen=n_seen,
        n_correct=seen.n_correct_by_respondent,
        n_items=int(total),
        accuracy_seen=seen.accuracy(),
        n_trials=None if responses.trials is None else seen.n_by_respondent,
    )


def learn_correction(scales: Scales, responses: ResponsesLike, form: Sequence[str]) -> Correction:
    """Regress what systems got of the items outside a form on what the form says of them, by least squares.

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
        If a response is missing, the form holds all items, or there are not ten systems for each coefficient.

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
    <PredictedAccuracy: 300 systems, 6 items, predicted accuracy 0.07 to 0.81>
    """
    responses = as_responses(responses, item_ids=_items_of(scales))
    every = _items_of(scales)
    outside = responses.select_items([item for item in every if item not in set(form)])
    seen = responses.select_items(list(form))
    if outside.n_items == 0:
        raise InputError("prediction: the form holds all items; there is nothing to predict")
    if not (outside.is_complete and seen.is_complete):
        raise InputError("prediction: a correction is learnt from complete responses but some are missing")
    features = _features(_parts(scales, seen))
    if len(features) < 10 * features.shape[1]:
        raise InputError(f"prediction: a correction needs {10 * features.shape[1]} systems but got {len(features)}")
    share = outside.shares.mean(axis=1)
    coefficients = np.linalg.lstsq(features, share, rcond=None)[0]
    degrees = len(features) - features.shape[1]
    sd = float(np.sqrt(((share - features @ coefficients) ** 2).sum() / degrees))
    return Correction(frozenset(form), coefficients, sd, len(features))


@dataclass(frozen=True, eq=False)
class _Parts:
    """What is seen and what is expected on each scale; arrays of shape (n_scales, n_respondents)."""

    seen_right: NDArray[np.float64]
    n_unseen: NDArray[np.float64]
    expected: NDArray[np.float64]
    variance: NDArray[np.float64]
    n_items: NDArray[np.int64]


def _as_scales(scales: Scales) -> tuple[Scale, ...]:
    if isinstance(scales, ItemBank):
        return scales.scales
    return (scales,) if isinstance(scales, Scale) else tuple(scales)


def _items_of(scales: Scales) -> tuple[str, ...]:
    return tuple(item for scale in _as_scales(scales) for item in scale.items.item_ids)


def _parts(scales: Scales, responses: ResponseMatrix) -> _Parts:
    """Right responses seen; number, expectation and variance of those not seen, on each scale."""
    scales = _as_scales(scales)
    every = _items_of(scales)
    if len(set(every)) < len(every):
        raise InputError("prediction: an item stands in two scales; expected each in one")
    n_trials = _trials_a_response(responses)
    seen_right, n_unseen, expected, variance = np.zeros((4, len(scales), responses.n_respondents))
    for k, scale in enumerate(scales):
        own = own_responses(scale, responses)
        known = scale.items.select(own.item_ids)
        columns = [scale.items.item_ids.index(item) for item in own.item_ids]
        shares, correct = own.shares, own.correct
        for rows in row_batches(own.n_respondents, scale.items.n_items):
            share = shares[rows]
            unseen = np.ones((len(share), scale.items.n_items), dtype=np.bool_)
            unseen[:, columns] = np.isnan(share)
            posterior = posterior_of(
                correct[rows], known, scale.population or STANDARD_NORMAL, trials=some_rows(own.trials, rows)
            )
            expected[k, rows], variance[k, rows] = posterior.number_right(
                icc(posterior.nodes, scale.items), unseen, trials=n_trials[rows]
            )
            seen_right[k, rows] = np.nansum(share, axis=1)
            n_unseen[k, rows] = unseen.sum(axis=1)
    return _Parts(seen_right, n_unseen, expected, variance, np.array([scale.items.n_items for scale in scales]))


def _trials_a_response(responses: ResponseMatrix) -> NDArray[np.float64]:
    """Harmonic mean of the numbers of trials of the items a respondent answered, 1 without any, (n_respondents,)."""
    n, n_items = responses.n_trials, responses.n_items_by_respondent
    inverse = np.divide(1, n, out=np.zeros(n.shape), where=n > 0).sum(axis=1)
    return np.divide(n_items, inverse, out=np.ones(len(n)), where=n_items > 0)


def _features(parts: _Parts) -> NDArray[np.float64]:
    """Intercept, and the accuracies expected and seen on each scale, shape (n_respondents, n_coefficients)."""
    columns = [np.ones(parts.expected.shape[1])]
    for k, n_items in enumerate(parts.n_items):
        n_seen = n_items - parts.n_unseen[k]
        if (parts.n_unseen[k] > 0).all():
            columns.append(parts.expected[k] / parts.n_unseen[k])
        if (n_seen > 0).all():
            columns.append(parts.seen_right[k] / n_seen)
    return np.stack(columns, axis=1)


def _demand_form(responses: ResponseMatrix, correction: Correction) -> None:
    """Refuse respondents who did not answer just the form that a correction was learnt for."""
    lacking = sorted(correction.form - set(responses.item_ids))
    own = responses.select_items([item for item in responses.item_ids if item in correction.form])
    if lacking or not own.is_complete:
        what = name_first(lacking) if lacking else "some of it"
        raise InputError(f"prediction: the correction is for a form of {len(correction.form)} items; missing: {what}")


def _truncated_quantile(
    mean: NDArray[np.float64],
    sd: NDArray[np.float64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
    probability: float,
) -> NDArray[np.float64]:
    """Quantile of a normal distribution kept between two ends, by halving."""
    spread = np.where(sd > 0, sd, 1.0)

    def below(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return ndtr((x - mean) / spread)

    wanted = below(least) + probability * (below(most) - below(least))
    low, high = least.copy(), most.copy()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        too_low = below(middle) < wanted
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return np.where(sd > 0, (low + high) / 2, mean)
