"""Gold labels from a crowd's answers: by majority, by the model of Dawid and Skene, or by a latent-class model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_softmax, softmax

from irtbench.data.given import AnswersLike, ItemsLike
from irtbench.data.grading import NormalisationRule
from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown
from irtbench.evaluation.agreement import EmptyAnswer, answers_that_count, counts_of

GoldMethod = Literal["majority", "dawid-skene", "latent-class"]


@dataclass(frozen=True, eq=False)
class GoldLabels(Shown, columns="item_ids, gold=label, gold_probability=probability"):
    """The label of each item by the crowd.

    Its table has one row an item.

    Parameters
    ----------
    item_ids
        Items with at least one answer.
    label
        The label; empty where several are equally likely.
    probability
        Share of the answers (majority), or posterior probability under the model; shape (n_items,).
    method
        How they were found.
    """

    item_ids: tuple[str, ...]
    label: tuple[str, ...]
    probability: NDArray[np.float64]
    method: GoldMethod


def majority_labels(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> GoldLabels:
    """The most common answer to each item, with its share; no label where several are equally common.

    Parameters and errors as for ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.majority_labels(answers).table().round(2)
      item_id gold  gold_probability
    0      i1  yes              0.75
    1      i2   no              0.75
    2      i3   no              0.67
    """
    rows, _ = answers_that_count(answers, items, normalise, empty)
    counts, item_ids, categories = counts_of(rows)
    return most_likely(counts / counts.sum(axis=1, keepdims=True), item_ids, categories, "majority")


def dawid_skene_labels(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
    n_iterations: int = 100,
) -> GoldLabels:
    """The most probable label of each item if every respondent has a confusion matrix of their own.

    P(z_i = k | answers) is proportional to p_k prod_r e_r[k, answer of r], with p and e_r by maximum likelihood
    (Dawid & Skene, 1979), as crowd-kit computes it: ``pip install 'irtbench[crowd]'``. A respondent with few answers
    has a confusion matrix made of little: below some twenty answers each, look at the majority too.

    Parameters
    ----------
    answers, items, normalise, empty
        As for ``agreement``.
    n_iterations
        Most iterations of EM; it stops earlier once the likelihood rises by less than 1e-5.

    Raises
    ------
    InputError
        As for ``agreement``, or if crowd-kit is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.dawid_skene_labels(answers).label  # doctest: +SKIP
    ('yes', 'no', 'no')
    """
    try:
        from crowdkit.aggregation.classification.dawid_skene import DawidSkene
    except ImportError:
        raise InputError(
            "gold labels: the model of Dawid and Skene needs crowd-kit; install it: pip install 'irtbench[crowd]', "
            "or take the majority"
        ) from None
    rows, _ = answers_that_count(answers, items, normalise, empty)
    model = DawidSkene(n_iter=n_iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how crowd-kit calls pandas is not for our users to mend
        model.fit(rows.rename(columns={"item_id": "task", "respondent_id": "worker", "answer": "label"}))
    found = model.probas_.reindex(pd.unique(rows["item_id"]))
    return most_likely(
        found.to_numpy(dtype=np.float64), tuple(map(str, found.index)), tuple(map(str, found)), "dawid-skene"
    )


def most_likely(
    probability: NDArray[np.float64], item_ids: tuple[str, ...], labels: tuple[str, ...], method: GoldMethod
) -> GoldLabels:
    """The label of highest probability of each item; none where several have it."""
    highest = probability.max(axis=1)
    single = np.isclose(probability, highest[:, None], rtol=0, atol=1e-9).sum(axis=1) == 1
    best = probability.argmax(axis=1)
    label = tuple(labels[k] if alone else "" for k, alone in zip(best, single, strict=True))
    return GoldLabels(item_ids, label, highest, method)


Array = NDArray[np.float64]

N_NODES = 5  # of items' ease
MOST_CONFUSED = 6  # labels, up to which every respondent may mistake each for each
ABILITY, BIAS, CONFUSION = 0, 1, 2  # what a respondent's parameters are
ABILITY_MEAN, VARIANCES = 1.5, np.array([1.0, 0.5, 0.25])  # at the start; counted as those of one respondent later
EASE_SD = 0.5  # at the start, and a priori; counted as of as many items as there are
SHARES_KNOWN, ITEMS_KNOWN = 0.1, 5  # labels are equally frequent a priori, of each this share of the items and so many
FIRST_STEPS, MOST_STEPS, CHANGE = 20, 500, 1e-4  # priors wait for the first; the end, by the labels' probabilities
NEWTON_STEPS, LONGEST_STEP, NEWTON_END = 3, 1.0, 1e-3


@dataclass(frozen=True, eq=False)
class LatentLabels(
    GoldLabels, columns="item_ids, gold=label, gold_probability=probability, gold_difficulty=difficulty"
):
    """The label of each item by a latent-class model, how hard the items are and how accurate the respondents.

    Parameters
    ----------
    difficulty
        Of each item, - log of what every ability is multiplied with, given its answers; 0 is average, shape (n_items,).
    respondents
        A row a respondent: ``respondent_id, n_answers, accuracy``, the chance of the true label of an average item,
        drawn to the crowd's where the answers are few.
    converged
        Whether the labels' probabilities changed by less than .0001 on average in the last step.
    """

    difficulty: Array
    respondents: pd.DataFrame
    converged: bool


def latent_class_labels(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
) -> LatentLabels:
    """The most probable label of each item if respondents differ in ability and leaning, and items in difficulty.

    With z_i the truth of an item and e_i its ease, respondent r gives the label k with a probability proportional to

        exp(bias_rk + [k = z_i] ability_r exp(e_i) + [k != z_i] confusion_rzk),    e_i ~ N(0, s^2),

    the confusions, for 3 to 6 labels, saying which label is taken for which. Without ease
    this is the model of Dawid and Skene (1979), for two labels without bias that of GLAD (Whitehill et al., 2009).
    Truth and ease (5 nodes) are summed out. The respondents' parameters are normal about means of the crowd: their
    mode given all answers, with its covariance, takes part in the labels' probabilities, so that nobody is believed
    more than a few answers allow. Means, variances, s (half of s^2 is .25, a priori) and the labels' shares are learnt
    by EM.

    Parameters
    ----------
    answers, items, normalise, empty
        As for ``agreement``. Labels are named by their answers alone: no key is used.

    Raises
    ------
    InputError
        As for ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> irtbench.evaluation.latent_class_labels(answers).label
    ('yes', 'no', 'no')
    """
    rows, _ = answers_that_count(answers, items, normalise, empty)
    item, item_ids = pd.factorize(rows["item_id"])
    respondent, respondent_ids = pd.factorize(rows["respondent_id"])
    label, labels = pd.factorize(rows["answer"], sort=True)
    model = _LatentClasses(item, respondent, label)
    converged = model.fit()
    found = most_likely(model.truth, tuple(map(str, item_ids)), tuple(map(str, labels)), "latent-class")
    respondents = pd.DataFrame(
        {
            "respondent_id": respondent_ids,
            "n_answers": np.bincount(respondent),
            "accuracy": model.accuracy(),
        }
    )
    return LatentLabels(**vars(found), difficulty=model.difficulty, respondents=respondents, converged=converged)


class _LatentClasses:
    """EM over items' states s = (truth, ease); a respondent's logits of the labels are X_s times their parameters."""

    def __init__(self, item: NDArray[np.intp], respondent: NDArray[np.intp], label: NDArray[np.intp]) -> None:
        n_items, n, k = item.max() + 1, respondent.max() + 1, label.max() + 1
        self.given = csr_array((np.ones(len(item)), (item, label * n + respondent)), shape=(n_items, k * n))
        self.n_labels, self.n_respondents = k, n
        nodes, weights = hermegauss(N_NODES)
        self.nodes, self.log_weights, self.ease_sd = nodes, np.log(weights / weights.sum()), EASE_SD
        pairs = [(z, other) for z in range(k) for other in range(k) if other != z] if 2 < k <= MOST_CONFUSED else []
        self.role = np.repeat([ABILITY, BIAS, CONFUSION], [1, k, len(pairs)])
        self.design = np.zeros((k, k, N_NODES, len(self.role)))  # by label given, truth, ease
        self.design[range(k), :, :, range(1, k + 1)] = 1
        for column, (z, other) in enumerate(pairs, start=k + 1):
            self.design[other, z, :, column] = 1
        self.mean = np.where(self.role == ABILITY, ABILITY_MEAN, 0.0)
        self.variance = VARIANCES[self.role]
        self.parameters = np.tile(self.mean, (n, 1))
        votes = np.zeros((n_items, k))
        np.add.at(votes, (item, label), 1.0)
        self.truth = (votes + 0.5) / (votes + 0.5).sum(axis=1, keepdims=True)
        self.share = self.truth.mean(axis=0)
        self.state = (self.truth[:, :, None] * np.exp(self.log_weights)).reshape(n_items, -1)

    def fit(self) -> bool:
        """Alternate until the labels' probabilities stay; say whether they did."""
        for step in range(MOST_STEPS):
            before, learn = self.truth, step >= FIRST_STEPS
            self._set_design()
            self._fit_respondents()
            if learn:
                self._learn_priors()
            self._find_states(learn_ease=learn)
            if step > FIRST_STEPS and np.abs(self.truth - before).mean() < CHANGE:
                return True
        return False

    @property
    def difficulty(self) -> Array:
        """Expected - ease of each item."""
        return -self._of_ease(self.ease_sd * self.nodes)

    def accuracy(self) -> Array:
        """Chance that a respondent labels an item of average ease rightly."""
        chances = np.exp(self._probabilities()[0]).reshape(self.n_labels, self.n_respondents, self.n_labels, -1)
        return np.asarray(np.einsum("zrz->rz", chances[..., N_NODES // 2]) @ self.share)

    def _of_ease(self, values: Array) -> Array:
        """Mean over the items' states of a function of the ease."""
        return np.asarray(self.state.reshape(len(self.state), self.n_labels, -1).sum(axis=1) @ values)

    def _set_design(self) -> None:
        truths = range(self.n_labels)
        self.design[truths, truths, :, ABILITY] = np.exp(self.ease_sd * self.nodes)
        self.rows = self.design.reshape(self.n_labels, -1, len(self.role))
        self.products = np.einsum("ksp,ksq->kspq", self.rows, self.rows).reshape(*self.rows.shape[:2], -1)

    def _probabilities(self) -> tuple[Array, Array]:
        """Logs of the labels' probabilities, shape (labels, n, states), and the mean rows, (n, states, parameters)."""
        logs = log_softmax(self.parameters @ self.rows.transpose(0, 2, 1), axis=0)
        means = sum(np.exp(log)[:, :, None] * rows for log, rows in zip(logs, self.rows, strict=True))
        return logs, np.asarray(means)

    def _fit_respondents(self) -> None:
        """Their mode by Newton's method, and its covariance, from expected numbers of answers in each state."""
        counts = (self.given.T @ self.state).reshape(self.n_labels, self.n_respondents, -1)
        n = counts.sum(axis=0)
        diagonal = np.arange(len(self.role))
        for _ in range(NEWTON_STEPS):
            logs, means = self._probabilities()
            expected = n * np.exp(logs)
            slope = ((counts - expected) @ self.rows).sum(axis=0) - (self.parameters - self.mean) / self.variance
            curvature = (expected @ self.products).sum(axis=0).reshape(len(n), diagonal.size, -1)
            curvature -= np.swapaxes(means * n[:, :, None], 1, 2) @ means
            curvature[:, diagonal, diagonal] += 1 / self.variance
            step = np.linalg.solve(curvature, slope[..., None])[..., 0]
            longest = np.abs(step).max(axis=1, keepdims=True)
            self.parameters += step * np.minimum(1, LONGEST_STEP / np.maximum(longest, LONGEST_STEP))
            if longest.max() < NEWTON_END:
                break
        self.covariance = np.linalg.inv(curvature)

    def _learn_priors(self) -> None:
        """Means and variances of the respondents' parameters; biases have the mean 0."""
        n = self.n_respondents
        self.mean[ABILITY] = self.parameters[:, ABILITY].mean()
        confusions = self.role == CONFUSION
        self.mean[confusions] = self.parameters[:, confusions].sum(axis=0) / (n + 1)
        squared = (self.parameters - self.mean) ** 2 + np.einsum("rpp->rp", self.covariance)
        for role in np.unique(self.role):
            own = self.role == role
            self.variance[own] = (squared[:, own].sum() + VARIANCES[role]) / (n * own.sum() + 1)

    def _find_states(self, *, learn_ease: bool) -> None:
        """Probabilities of truth and ease of each item, the respondents' errors averaged to their second order."""
        logs, means = self._probabilities()
        errors = self.covariance.reshape(self.n_respondents, -1)
        spread = (np.exp(logs) * (errors @ self.products.transpose(0, 2, 1))).sum(axis=0)
        spread -= np.einsum("rsp,rsp->rs", means @ self.covariance, means)
        table = (logs - spread / 2).reshape(self.given.shape[1], -1)
        log_state = self.given @ table + (np.log(self.share)[:, None] + self.log_weights).ravel()
        self.state = softmax(log_state, axis=1)
        self.truth = self.state.reshape(len(self.state), self.n_labels, -1).sum(axis=2)
        equal = ITEMS_KNOWN + SHARES_KNOWN * len(self.truth)
        self.share = (self.truth.sum(axis=0) + equal) / (len(self.truth) + self.n_labels * equal)
        if learn_ease:
            squared = self._of_ease((self.ease_sd * self.nodes) ** 2).mean()
            self.ease_sd = float(np.sqrt((squared + EASE_SD**2) / 2))
