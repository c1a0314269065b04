"""Is an item harder for one group than for another at the same ability: differential item functioning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, Unpack, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import chdtrc, expit

from irtbench.analysis.item_differences import (
    DELTA_PER_LOGIT,
    FEWEST_IN_GROUP,
    FEWEST_ITEMS,
    Grade,
    ItemDifferences,
    Statistics,
    agreeing_items,
    coded,
    ets_class,
    jodoin_gierl_class,
    nagelkerke,
    purified_anchors,
)
from irtbench.analysis.linked_groups import (
    ComparedItems,
    GroupLikelihood,
    LinkedGroups,
    in_every_group,
    link,
)
from irtbench.data.checked_settings import shows_fields
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import demand_choice, demand_share, refuse_any
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import ResponseMatrix, Responses, name_first
from irtbench.diagnostics.empirical_curve import ordinal_regression, score_statistic
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit_categories import RASCH_KINDS, Models, check_categories, models_of, settings_of
from irtbench.estimation.settings import WORDS, FitKeywords, FitSettings, fit_settings
from irtbench.estimation.status import Status
from irtbench.estimation.threads import threads_for
from irtbench.models.coded_scores import MISSING, CodedScores, Levels
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import Nominal

Method = Literal["likelihood_ratio", "logistic"]
Size = Literal["negligible", "moderate", "large"]

SIZES: dict[Grade, Size] = {"A": "negligible", "B": "moderate", "C": "large"}
MOST_ROUNDS = 10
MOST_TO_REFIT = 60  # items; the time grows with their square
FIRMNESS = 1e-4  # keeps the coefficients of a perfect prediction finite, with the weight of next to nothing


@dataclass(frozen=True, eq=False)
class ItemBias(
    ItemDifferences,
    columns="item_ids, delta, size, rms_difference, r2_change, x2, df, p, p_adjusted, x2_uniform, p_uniform, "
    "x2_crossing, p_crossing, anchor, n_reference, n_focal, method, r2_class",
):
    """Difference of each item between two groups of the same ability; all arrays have shape (n_items,).

    Its table has one row an item, the columns of bias.csv.

    Parameters
    ----------
    item_ids
        The items, in the order of the responses.
    method
        ``likelihood_ratio`` or ``logistic``.
    delta
        Difference in difficulty on the ETS delta scale, 2.35 times the difference in logits; negative where the item
        is harder for the focal group.
    size
        ETS classes A, B and C in words: large if delta is 1.5 or more to either side and significantly above
        1, negligible if below 1 or not significant, else moderate.
    rms_difference
        Root mean square difference of the two groups' curves over the abilities of the focal group; sees crossing
        curves, which delta does not.
    r2_change
        Change of Nagelkerke's R2 by the group (logistic method; NaN otherwise).
    x2, df, p, p_adjusted
        Test of any difference, two degrees of freedom; of items in categories and by likelihood as many as an item has
        slopes and intercepts.
    x2_uniform, p_uniform
        Of a difference in difficulty alone, the same for all categories, one degree of freedom.
    x2_crossing, p_crossing
        Of a difference in discrimination, and in distances between steps, beyond it, the other degrees of freedom.
    anchor
        Items constrained equal in both groups at the end: those whose p, not adjusted, was not below alpha.
    n_reference, n_focal
        Respondents of each group who answered the item.
    focal_mean, focal_sd
        Ability of the focal group, where the reference group has mean 0 and standard deviation 1.
    rounds
        Number of sets of anchors tried: all items, those that agree, and those after each test.
    status
        How the fit of the last ended.
    sizes
        Respondents of the reference and of the focal group.
    df
        See x2.
    merged
        Items of which some category was given by one group alone, and counts as the one next to it.
    """

    method: Method
    delta: NDArray[np.float64]
    size: tuple[Size, ...]
    rms_difference: NDArray[np.float64]
    r2_change: NDArray[np.float64]
    x2: NDArray[np.float64]
    x2_uniform: NDArray[np.float64]
    p_uniform: NDArray[np.float64]
    x2_crossing: NDArray[np.float64]
    p_crossing: NDArray[np.float64]
    anchor: NDArray[np.bool_]
    n_reference: NDArray[np.int64]
    n_focal: NDArray[np.int64]
    focal_mean: float
    focal_sd: float
    rounds: int
    status: Status
    sizes: tuple[int, int]
    df: NDArray[np.int64]
    merged: tuple[str, ...] = ()

    @property
    def r2_class(self) -> tuple[Grade, ...]:
        """Classes of the change of R2, see `jodoin_gierl_class`; empty otherwise than by the logistic method."""
        return jodoin_gierl_class(self.r2_change)


@shows_fields(FitSettings, words=WORDS)
def item_bias(
    responses: ResponsesLike | Responses,
    focal: NDArray[np.bool_],
    *,
    models: Models | None = None,
    levels: Levels = None,
    method: Method = "likelihood_ratio",
    purify: bool = True,
    alpha: float = 0.05,
    adjustment: Adjustment = "fdr_bh",
    settings: FitSettings | None = None,
    **keywords: Unpack[FitKeywords],
) -> ItemBias:
    """Differential item functioning of every item, with purified anchors.

    Ability is N(0, 1) in the reference group and N(mean, sd^2) in the focal group; a difference between the groups in
    ability is no bias. The anchors, items with the same parameters in both groups, make the scale common.

    ``likelihood_ratio`` (Thissen, Steinberg & Wainer, 1993): twice the gain in marginal log-likelihood when the item
    gets a slope and an intercept of its own in the focal group. While anchors are sought the other items are fixed at
    their fit; at last, with up to 60 items, all are fitted again with each item free.

    ``logistic`` (Swaminathan & Rogers, 1990): the same by regressing the response on ability, group and their
    product, tested by Rao's score statistic, which with few responses keeps its level better than the likelihood ratio.
    Ability is the posterior mean given the responses to the other items and the group's own population:
    matching on it or on a sum score without regard to the group mistakes a difference in ability for bias, since
    the same score then means another ability.

    Purification: the first anchors are the items that agree when each group is estimated alone and linked by the half
    of the items that agree best, see `agreeing_items`; so a minority of items biased one way is not among them. The
    others get parameters of their own in each group, and all items are tested against the anchors. Those of a p below
    ``alpha``, not adjusted, are no anchors any more and all others are, until they stay: a biased item that is kept
    does more harm than a clean one that is not.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); missing ones are left out. Of several trials
        of an item each is a response, independent of the others given ability: where they are not, tests reject too
        often.
    models, levels
        Where responses are scores in categories: their model, ``grm`` or ``gpcm`` (and 2pl, 3pl where mixed), and the
        labels in their order, see `fit_categories`. A category that one of the groups never gave counts as the one
        next to it. The regression is an ordinal one, of cumulative logits (French & Miller, 1996).
    focal
        Who belongs to the focal group (machines, say); the others are the reference. Shape (n_respondents,).
    method
        See above.
    purify
        False: all items are anchors.
    alpha
        Level at which an item ceases to be an anchor; not adjusted.
    adjustment
        Of p over the items.
    settings
        The items' model (guessing is common to both groups), prior (none or weak) and device; None for a 2PL without
        a prior.
    keywords
        The same one by one: ``model="3pl"``; see `FitSettings`.

    Raises
    ------
    InputError
        If guessing goes with the logistic method, or has no prior where items are in categories, ``focal`` has another
        shape, a group has fewer than 10 respondents or no response to an item, there are fewer than three items, or all
        responses to an item are the same.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> focal = np.arange(300) < 150
    >>> found = irtbench.item_bias(responses, focal)
    >>> found
    <ItemBias: 6 items, 0 with adjusted p < .05>
    >>> found.table()[["item_id", "delta", "size", "p_adjusted"]].round(2).head(3)
      item_id  delta        size  p_adjusted
    0   item1  -1.42  negligible        0.46
    1   item2   0.05  negligible        0.91
    2   item3   1.56    moderate        0.40
    """
    settings = fit_settings(settings, keywords)
    demand_choice("item bias: method", method, Method)
    focal, scores = np.asarray(focal, dtype=np.bool_), cast(Any, responses)
    given = as_responses(responses) if models is None else CodedScores.of(scores, levels=levels)
    refuse_any([
        (models in RASCH_KINDS, f"item bias: {models}: has no slopes of items, which may differ; expected grm or gpcm"),
    ])  # fmt: skip
    each = (Logistic(),) * given.n_items if models is None else models_of(models, given.item_ids)
    settings = settings if models is None else settings_of(each, settings, {})
    refuse_any((
        (method == "logistic" and (settings.estimates_guessing or settings.guessing > 0),
         "item bias: logistic regression knows no guessing; expected method likelihood_ratio with it"),
        (settings.prior_items or settings.kind not in ("2pl", "3pl") or settings.priors.hierarchy,
         "item bias: expected model 2pl or 3pl, prior none or weak, and no prior_items"),
        (any(isinstance(model, Nominal) for model in each),
         "item bias: categories of a nominal item have no order, and none is harder; expected grm, gpcm"),
    ))  # fmt: skip
    compared, merged = _compared(given, focal, each, settings, alpha)
    n_items, observed = given.n_items, coded(given) != MISSING
    one = _by_likelihood_ratio if method == "likelihood_ratio" else _by_regression
    df = compared.entries.sum(axis=1) if method == "likelihood_ratio" else np.full(n_items, 2)

    def test(anchor: NDArray[np.bool_]) -> tuple[Statistics, Statistics, tuple[LinkedGroups, Statistics]]:
        linked = link(compared, focal, freed=~anchor)
        found = np.array([one(linked, item) for item in range(n_items)])
        return found[:, 0] / df, chdtrc(df, found[:, 0]), (linked, found)

    first = np.ones(n_items, dtype=np.bool_)
    if purify:
        first = agreeing_items(compared.estimated, focal, observed)
    with fenced(0), torch.no_grad(), threads_for(compared.pooled.n_cells):
        anchor, (_, _, (linked, found)), rounds, _ = purified_anchors(
            test, first, alpha=alpha, purify=purify, most_rounds=MOST_ROUNDS
        )
        if method == "likelihood_ratio" and n_items <= MOST_TO_REFIT and linked.mode.status.converged:
            found[:, :2] = [_refitted(linked, item, *found[item, :2]) for item in range(n_items)]
    x2, x2_uniform, shift, rms_difference, r2_change = found.T
    p, delta = chdtrc(df, x2), DELTA_PER_LOGIT * shift
    x2_crossing = np.maximum(x2 - x2_uniform, 0.0)
    mean, log_deviation = linked.problem.prior.populations(linked.mode.items)
    return ItemBias(
        item_ids=given.item_ids,
        method=method,
        delta=delta,
        size=_sizes(delta, x2_uniform, alpha),
        rms_difference=rms_difference,
        r2_change=r2_change,
        x2=x2,
        p=p,
        p_adjusted=adjust(p, adjustment),
        x2_uniform=x2_uniform,
        p_uniform=chdtrc(1, x2_uniform),
        x2_crossing=x2_crossing,
        p_crossing=chdtrc(df - 1, x2_crossing),
        anchor=anchor,
        n_reference=observed[~focal].sum(axis=0),
        n_focal=observed[focal].sum(axis=0),
        focal_mean=float(mean),
        focal_sd=float(log_deviation.exp()),
        rounds=rounds + bool(not first.all()),
        status=linked.mode.status,
        sizes=(int((~focal).sum()), int(focal.sum())),
        df=df,
        merged=merged,
    )


def comparable_items(responses: ResponseMatrix, focal: NDArray[np.bool_]) -> tuple[str, ...]:
    """Items that both groups were asked and that not all got right or all got wrong."""
    p = responses.proportion_correct()
    asked = responses.observed[focal].any(axis=0) & responses.observed[~focal].any(axis=0)
    return tuple(responses.item_ids[j] for j in np.flatnonzero(asked & (p > 0) & (p < 1)))


def comparable_in_categories(
    scores: pd.DataFrame | CodedScores, members: Sequence[NDArray[np.bool_]], levels: Levels = None
) -> tuple[str, ...]:
    """Items of which every group gave the same two categories or more."""
    given = CodedScores.of(scores, levels=levels)
    asked = np.array([(given.codes[part] != MISSING).any(axis=0) for part in members]).all(axis=0)
    shared = replace(given, codes=np.where(asked, given.codes, MISSING).astype(np.int8))
    together = in_every_group(shared, members).categories
    return tuple(item for item, own in zip(given.item_ids, together, strict=True) if len(own) > 1)


def _compared(
    given: ResponseMatrix | CodedScores,
    focal: NDArray[np.bool_],
    each: Sequence[ItemModel],
    settings: FitSettings,
    alpha: float,
) -> tuple[ComparedItems, tuple[str, ...]]:
    """Responses to be compared, and the items of which categories were made one; refuses what tests cannot use."""
    ids, observed = given.item_ids, coded(given) != MISSING
    refuse_any((
        (focal.shape != (len(observed),), f"item bias: focal has shape {focal.shape} for {len(observed)} respondents"),
    ))  # fmt: skip
    demand_share("item bias: alpha", alpha)
    groups = [
        (name, int(part.sum()), [*compress(ids, ~observed[part].any(axis=0))])
        for name, part in (("reference", ~focal), ("focal", focal))
    ]
    refuse_any((
        (len(ids) < FEWEST_ITEMS, f"item bias: {len(ids)} items; expected at least {FEWEST_ITEMS}, to have anchors"),
        *(reason for name, size, lacking in groups for reason in (
            (size < FEWEST_IN_GROUP,
             f"item bias: {size} respondents in the {name} group; expected at least {FEWEST_IN_GROUP}"),
            (lacking, f"item bias: nobody in the {name} group answered item {name_first(lacking)}"),
        )),
    ))  # fmt: skip
    p = np.full(len(ids), 0.5) if isinstance(given, CodedScores) else given.proportion_correct()
    constant = [*compress(ids, (p == 0) | (p == 1))]
    together = in_every_group(given, (~focal, focal)) if isinstance(given, CodedScores) else given
    alike = [*compress(ids, [len(own) < 2 for own in together.categories])]
    refuse_any((
        (constant, f"item bias: all responses are the same for item {name_first(constant)}; leave such items out"),
        (alike, f"item bias: no two categories that both groups gave to item {name_first(alike)}; leave such items "
         "out"),
    ))  # fmt: skip
    if isinstance(together, CodedScores):
        check_categories(together, each)
    merged = compress(ids, (coded(together) != coded(given)).any(axis=0))
    return ComparedItems(together, each, settings), tuple(merged)


def _by_likelihood_ratio(linked: LinkedGroups, item: int) -> tuple[float, float, float, float, float]:
    """X2 of both parameters, X2 of the intercept, its shift, RMS difference of the curves, and no R2."""
    common = linked.others_fixed(item, slope=False, intercept=False)
    uniform = linked.others_fixed(item, slope=False, intercept=True, start=common)
    either = linked.others_fixed(item, slope=True, intercept=True, start=uniform)
    shift = linked.shifted(item, uniform)
    curves = linked.expected_shares(item, either)
    rms = float((linked.groups[1].log_weights.exp() @ (curves[1] - curves[0]) ** 2).sqrt())
    gains = [max(2 * (found.log_posterior - common.log_posterior), 0.0) for found in (either, uniform)]
    return max(gains), gains[1], shift, rms, np.nan


def _refitted(linked: LinkedGroups, item: int, x2: float, x2_uniform: float) -> tuple[float, float]:
    """X2 of both parameters and of the intercept, all others refitted; as they were where a group answered alike."""
    if linked.alike[:, item].any():
        return x2, x2_uniform
    common, uniform, either = (
        linked.refitted(item, slope=slope, intercept=intercept).log_posterior
        for slope, intercept in ((False, False), (False, True), (True, True))
    )
    gains = [max(2 * (free - common), 0.0) for free in (either, uniform)]
    return max(gains), gains[1]


def _by_regression(linked: LinkedGroups, item: int) -> tuple[float, float, float, float, float]:
    """X2 of group and product, X2 of group, its coefficient, RMS difference of the curves, and the change of R2."""
    outcomes = linked.compared.outcomes(item)
    counts = np.concatenate([outcomes[part] for part in (~linked.focal, linked.focal)])
    theta = np.concatenate([_ability(linked, item, part) for part in linked.groups])
    group = np.repeat([0.0, 1.0], [len(part.rows) for part in linked.groups])
    answered = counts.sum(axis=1) > 0
    counts, theta, group = (values[answered] for values in (counts, theta, group))
    columns = np.stack([theta, group, group * theta], axis=1)
    same, uniform, either = (ordinal_regression(columns[:, :width], counts, FIRMNESS) for width in (1, 2, 3))
    in_focal, n_steps = columns[group == 1], counts.shape[1] - 1
    steps, beta = either.coefficients[:n_steps], either.coefficients[n_steps:]
    shares = [expit(steps + (in_focal[:, :width] @ beta[:width])[:, None]).mean(axis=1) for width in (3, 1)]
    totals = counts.sum(axis=0)
    r2_change = nagelkerke(either.log_likelihood, totals) - nagelkerke(same.log_likelihood, totals)
    return (
        score_statistic(columns, counts, FIRMNESS, same),
        score_statistic(columns[:, :2], counts, FIRMNESS, same),
        float(uniform.coefficients[n_steps + 1]),
        float(np.sqrt(np.mean((shares[0] - shares[1]) ** 2))),
        r2_change,
    )


def _ability(linked: LinkedGroups, item: int, group: GroupLikelihood) -> NDArray[np.float64]:
    """Posterior mean of a group's respondents given all responses but those to the item, in their own population."""
    posterior = torch.softmax(group.without(item, linked.compared.columns(item)) + group.log_weights, dim=1)
    return (posterior @ linked.theta).cpu().numpy()


@np.errstate(invalid="ignore", divide="ignore")
def _sizes(delta: NDArray[np.float64], x2_uniform: NDArray[np.float64], alpha: float) -> tuple[Size, ...]:
    """ETS classes in words, the standard error of delta taken from its test."""
    error = np.abs(delta) / np.sqrt(x2_uniform)
    return tuple(SIZES[grade] for grade in ets_class(delta, error, chdtrc(1, x2_uniform) < alpha))
