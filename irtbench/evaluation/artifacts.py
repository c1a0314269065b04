"""Artifacts: items that can be answered without their question.

Baselines see the options alone (after the Plausible Answer Detector and the Odd-One-Out Solver of OpenBookQA, Mihaylov
et al. 2018, doi:10.18653/v1/D18-1260, with linear models in place of their networks). What they get right beyond
chance, the items give away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.items import ChoiceItems
from irtbench.data.multiple_testing import adjust
from irtbench.data.shown import Drawn, Shown

#: A word or a mark: "$5.10" is four.
TOKEN = r"\w+|[^\w\s]"


FIGURES = ("accuracy", "chance", "corrected", "p", "p_adjusted")


@dataclass(frozen=True, eq=False)
class Baseline(
    Shown,
    columns="baseline=name, accuracy, chance, corrected, p, p_adjusted",
    short="{name}, accuracy {accuracy:.3f} (chance {chance:.3f}), adjusted p {p_adjusted:.3g}",
):
    """One question-blind baseline on a set of items.

    Its table has one row.

    Parameters
    ----------
    name
        ``plausible_answer``, ``odd_one_out`` or ``longest_option``.
    accuracy
        Share of the items it gets right, over all repeats of the cross-validation.
    chance
        The share a blind guess gets right: the mean of 1 / options.
    corrected
        (accuracy - chance) / (1 - chance): the share of the items it must know, if it guesses the others.
    p, p_adjusted
        Chance that a blind guess gets as many right, and with Holm's correction for the baselines tried.
    right
        Share of the repeats in which it gets each item right, shape (n_items,).
    """

    name: str
    accuracy: float
    chance: float
    corrected: float
    p: float
    p_adjusted: float
    right: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Artifacts(Drawn, short="{item_ids:item}, {suspect.sum} of them given away"):
    """What question-blind baselines find.

    Parameters
    ----------
    item_ids
        The items.
    baselines
        The baselines.
    suspect
        Items given away: a baseline that is better than chance gets them right in more than half of the repeats; shape
        (n_items,).
    alpha
        Adjusted p below which a baseline is better than chance.
    """

    item_ids: tuple[str, ...]
    baselines: tuple[Baseline, ...]
    suspect: NDArray[np.bool_]
    alpha: float

    def table(self) -> pd.DataFrame:
        """One row an item: the share of right answers of each baseline, and ``suspect`` as 1 or 0."""
        shares = {baseline.name: baseline.right for baseline in self.baselines}
        return pd.DataFrame({"item_id": self.item_ids, **shares, "suspect": self.suspect.astype(np.int64)})

    def summary(self) -> pd.DataFrame:
        """One row a baseline."""
        rows = [
            {"baseline": baseline.name, "n_items": len(self.item_ids)}
            | {name: getattr(baseline, name) for name in FIGURES}
            | {"n_given_away": int((baseline.right > 0.5).sum()) if baseline.p_adjusted < self.alpha else 0}
            for baseline in self.baselines
        ]
        return pd.DataFrame(rows)


def artifacts(
    items: ChoiceItems, *, n_folds: int = 10, n_repeats: int = 5, alpha: float = 0.05, rng: np.random.Generator
) -> Artifacts:
    """Run the baselines and say which items they give away.

    - ``plausible_answer``: logistic regression on the words and pairs of words of an option, and its number of words:
      which option reads like a right one;
    - ``odd_one_out``: logistic regression on how an option relates to the others of its item (likeness in words and in
      letters, length, shared beginnings): which one stands out, or does not;
    - ``longest_option``: the one with most letters, with equal parts where several are longest. It learns nothing.

    The first two are cross-validated: an item's options are scored by a model fitted to items of other groups.
    Items without a group that have the same options count as one.
    A right guess is no evidence by itself, so items count as given away only by a baseline that is better than chance
    on the whole set; of those, chance / accuracy or more may still be luck, which ``corrected`` takes out of the share
    but no flag can take out of a single item.

    Parameters
    ----------
    items
        Items with options and the right one.
    n_folds
        Parts of the cross-validation; groups are not parted. Fewer if there are fewer groups.
    n_repeats
        Cross-validations with other parts, so that no item is flagged by one lucky division.
    alpha
        Adjusted p below which a baseline is better than chance.
    rng
        Divides the items.

    Raises
    ------
    InputError
        If there are fewer than two items (or groups), or a setting is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> options = tuple((f"the long right answer {k}", f"no {k}") for k in range(20))
    >>> choices = irtbench.ChoiceItems(tuple(f"q{k}" for k in range(20)), options, (0,) * 20, (None,) * 20)
    >>> found = irtbench.artifacts(choices, n_folds=2, n_repeats=1, rng=np.random.default_rng(1))
    >>> found
    <Artifacts: 20 items, 20 of them given away>
    """
    refuse_any(
        (value < least, f"artifacts: {name} must be at least {least} but got {value}")
        for name, value, least in (("n_folds", n_folds, 2), ("n_repeats", n_repeats, 1))
    )
    demand_share("artifacts: alpha", alpha)
    group, options = _groups(items), _Options.of(items)
    groups = np.arange(group.max() + 1)  # all items of a group are in one part
    folds = [rng.permutation(groups % min(n_folds, groups.size))[group] for _ in range(n_repeats)]
    right = {
        "plausible_answer": _cross_validated(_words(options), options, folds, strength=10.0),
        "odd_one_out": _cross_validated(_relations(options), options, folds, strength=1.0),
        "longest_option": options.credit(options.n_letters),
    }
    chance = 1 / items.n_options
    p = [chance_tail(chance, int(np.floor(share.sum() + 1e-9))) for share in right.values()]
    baselines = tuple(
        Baseline(
            name=name,
            accuracy=float(share.mean()),
            chance=float(chance.mean()),
            corrected=corrected_for_chance(float(share.mean()), float(chance.mean())),
            p=own,
            p_adjusted=float(adjusted),
            right=share,
        )
        for (name, share), own, adjusted in zip(right.items(), p, adjust(np.array(p)), strict=True)
    )
    given_away = [baseline.right > 0.5 for baseline in baselines if baseline.p_adjusted < alpha]
    suspect = np.any(given_away, axis=0) if given_away else np.zeros(items.n_items, dtype=np.bool_)
    return Artifacts(items.item_ids, baselines, suspect, alpha)


def corrected_for_chance(accuracy: float, chance: float) -> float:
    """Share of the items that must be known if the others are guessed: (accuracy - chance) / (1 - chance).

    Negative below chance.
    """
    return (accuracy - chance) / (1 - chance)


def chance_tail(chance: NDArray[np.float64], n_right: int) -> float:
    """Probability that guesses with these chances get at least ``n_right`` right.

    The number right is Poisson-binomial; its distribution is the convolution of the items' own, built item by item.
    """
    distribution = np.ones(1)
    for p in chance:
        distribution = np.convolve(distribution, [1 - p, p])
    return float(min(1.0, distribution[n_right:].sum()))


@dataclass(frozen=True, eq=False)
class _Options:
    """All options of all items, one after the other."""

    texts: tuple[str, ...]
    item: NDArray[np.int64]
    is_right: NDArray[np.bool_]
    n_letters: NDArray[np.float64]

    @classmethod
    def of(cls, items: ChoiceItems) -> _Options:
        texts = tuple(text for options in items.options for text in options)
        item = np.repeat(np.arange(items.n_items), items.n_options)
        first = np.cumsum(items.n_options) - items.n_options
        is_right = np.zeros(item.size, dtype=np.bool_)
        is_right[first + np.array(items.right, dtype=np.int64)] = True
        return cls(texts, item, is_right, np.array([len(text) for text in texts], dtype=np.float64))

    def credit(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 where the right option alone has the highest score, 1 / m where m options share it; shape (n_items,)."""
        best = np.full(self.item[-1] + 1, -np.inf)
        np.maximum.at(best, self.item, scores)
        chosen = scores >= best[self.item] - 1e-12
        return np.bincount(self.item, chosen & self.is_right) / np.bincount(self.item, chosen)


def _groups(items: ChoiceItems) -> NDArray[np.int64]:
    """Number of each item's group, or of all items with the same options where none is given; shape (n_items,).

    The right options of twins that share their options differ: a model that had seen one would be wrong on the other.
    """
    names = [
        tuple(sorted(options)) if group is None else group
        for options, group in zip(items.options, items.group, strict=True)
    ]
    number, distinct = pd.factorize(pd.Series(names, dtype=object))
    if len(distinct) < 2:
        raise InputError(
            f"artifacts: expected at least 2 groups of items, to learn of one from another, but got {len(distinct)}"
        )
    return number


def _cross_validated(
    features: csr_matrix | NDArray[np.float64], options: _Options, folds: list[NDArray[np.int64]], *, strength: float
) -> NDArray[np.float64]:
    """Share of the repeats in which the right option looks most like a right one, shape (n_items,)."""
    from sklearn.linear_model import LogisticRegression  # an extra: what shows results is loaded without it
    from sklearn.model_selection import PredefinedSplit, cross_val_predict

    model, shares = LogisticRegression(C=strength, max_iter=1_000), []
    for fold in folds:
        parts = PredefinedSplit(fold[options.item])
        scores = cross_val_predict(model, features, options.is_right, cv=parts, method="decision_function")
        shares.append(options.credit(scores))
    return np.mean(shares, axis=0)


def _words(options: _Options) -> csr_matrix:
    """Words, marks and pairs of them in each option."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(ngram_range=(1, 2), token_pattern=TOKEN, sublinear_tf=True)
    return csr_matrix(vectors.fit_transform(options.texts))


def _relations(options: _Options) -> NDArray[np.float64]:
    """How each option relates to the others of its item, whatever it says; columns of mean 0 and standard deviation 1.

    Mean and greatest cosine with another option in words, and in triples of letters; length in letters against the
    item's mean; whether another option begins with the same word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import StandardScaler

    columns = []
    for vectors in (
        TfidfVectorizer(token_pattern=TOKEN, use_idf=False),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), use_idf=False),
    ):
        columns += _likeness(csr_matrix(vectors.fit_transform(options.texts)), options.item)
    mean_length = np.bincount(options.item, options.n_letters) / np.bincount(options.item)
    columns.append(np.log(options.n_letters / mean_length[options.item]))
    begins = pd.Series([text.casefold().split()[0] for text in options.texts])
    shared = begins.groupby([options.item, begins]).transform("size") > 1
    return np.asarray(StandardScaler().fit_transform(np.column_stack([*columns, shared])))


def _likeness(vectors: csr_matrix, item: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """Mean and greatest cosine of each option with another of its item; rows of ``vectors`` have length 1."""
    mean, greatest = np.zeros(item.size), np.zeros(item.size)
    for places in np.split(np.arange(item.size), np.flatnonzero(np.diff(item)) + 1):
        cosine = (vectors[places] @ vectors[places].T).toarray()
        np.fill_diagonal(cosine, np.nan)
        mean[places], greatest[places] = np.nanmean(cosine, axis=1), np.nanmax(cosine, axis=1)
    return [mean, greatest]
