"""Whether what was fitted is a scale of ability at all: data of two kinds of people can fit something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.links import linked
from irtbench.data.responses import name_first
from irtbench.data.shown import counted
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.nodes import information
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.threads import processes_of, total
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

Array = NDArray[np.float64]
MOST_NEGATIVE = 1 / 3  # share of items with a negative slope
LEAST_CORRELATION = 0.3  # of theta with the standardised number right
CLEARLY = 0.9  # share of the covariances of items with theta that has one sign
OVERDISPERSED = 1.2  # mean square of numbers right about their expectation, 1 if trials are independent
LOOK_AT = (
    "look for items with a wrong key or reversed coding, for two kinds of people (irtbench dimensions), and for "
    "respondents with few responses (irtbench doctor)"
)
DEGENERATE = 0.95  # correlation of log a and d in a learnt prior
WEAKLY_KNOWN = 0.9  # a parameter is not identified where its posterior is wider than this share of the prior
STEEP = 4.0  # slope above which it must be known: .85 of the item's variance
PARAMETERS = {"slope": "slope", "difficulty": "difficulty", "guessing": "guessing", "upper": "upper asymptote"}
LINKING = 256  # respondents at once, of whom the first few mostly link all items
FAR = 4.0  # difficulty, in standard deviations of ability, where hardly anybody is
SKEWED, PEAKED, SURE = 0.2, 0.4, 2.6  # of skewness and excess kurtosis in size, and both in standard errors


@dataclass(frozen=True)
class AbilityShape:
    """How the respondents' abilities depart from the normal density that was assumed, by the fit's expected counts.

    With the density phi(theta) (1 + s H_3(theta) / 6 + k H_4(theta) / 24) in place of phi, H Hermite polynomials, the
    mean of H_3 over the respondents' posteriors is about s rho^3, that of H_4 about k rho^4, rho the reliability; under
    phi itself their variances are 6 rho^3 / n and 24 rho^4 / n. Where the density is far from normal, items have taken
    up a part of that, and s and k are too small (.6 for a gamma density of skewness 1).

    Parameters
    ----------
    skewness, excess_kurtosis
        s and k.
    z_skewness, z_kurtosis
        Each in its standard errors under the normal density, which are some too large: items are estimated with it.
    """

    skewness: float
    excess_kurtosis: float
    z_skewness: float
    z_kurtosis: float

    @property
    def in_words(self) -> str:
        """What is to be done where it is not normal, clearly and by much; else an empty string."""
        skewed = abs(self.skewness) > SKEWED and abs(self.z_skewness) > SURE
        if not skewed and not (abs(self.excess_kurtosis) > PEAKED and abs(self.z_kurtosis) > SURE):
            return ""
        how = f"skewness {self.skewness:.1f}" if skewed else f"excess kurtosis {self.excess_kurtosis:.1f}"
        return (
            f"ability does not look normal under this model ({how}): extreme items are biased then, and good items and "
            "pairs rejected; try population estimated, or another model (guessing)"
        )


def find_doubts(problem: Problem, found: Estimate, priors: Priors) -> tuple[str, ...]:
    """Say what speaks against taking theta for ability.

    On a scale of ability most items are easier for the able, and who knows more answers more items right than expected
    of them. Otherwise the model has found another difference between respondents.

    Parameters
    ----------
    problem, found
        The fit.
    priors
        The prior it ended with.
    """
    doubts, items = [], found.items
    share = float((problem.slopes(items)[:, 0] < 0).double().mean())
    if share > MOST_NEGATIVE:
        doubts.append(f"{share:.0%} of the slopes are negative: this is not a scale of ability; {LOOK_AT}")
    correlation = 1.0 if rises_with_theta(problem, found) else correlation_with_score(problem, items)
    if correlation < LEAST_CORRELATION:
        doubts.append(
            f"ability and the number of correct responses correlate {correlation:.2f}: this is not a scale of ability; "
            + LOOK_AT
        )
    hierarchy = priors.hierarchy
    if hierarchy is not None and abs(hierarchy.correlation) > DEGENERATE:
        other = "--model rasch" if problem.rows.n_items > len(problem.rows) else "--prior weak"
        doubts.append(
            f"the learnt prior is degenerate (correlation {hierarchy.correlation:.2f}): the responses are too few or "
            f"not of one ability; take {other}, more respondents, or count the abilities (irtbench dimensions)"
        )
    if problem.rows.most_trials is not None and len(problem.rows.n_correct) == problem.rows.n_items:
        ratio = dispersion_of_trials(problem, items)
        if ratio > OVERDISPERSED:
            doubts.append(
                f"trials of an item are more alike than independent ones (mean square {ratio:.2f} in place of 1): "
                "standard errors are too small"
            )
    return (*doubts, *unlinked(problem))


def shape_of_ability(problem: Problem, found: Estimate) -> AbilityShape | None:
    """What the expected counts say of the shape of ability, where a normal one was assumed; None without counts."""
    if found.counts is None or not found.status.converged or found.n_density_parameters:
        return None
    of_all = found.counts.n.sum(dim=1) @ information(problem, found.items)
    return shapes_of_ability(problem.nodes, found.counts.respondents[None], of_all[None])[0]


def shapes_of_ability(nodes: NodeTensors, respondents: Tensor, of_test: Tensor) -> list[AbilityShape]:
    """The same of each scale.

    Parameters
    ----------
    nodes
        Of all.
    respondents, of_test
        Their expected number at each node, and the information of all responses there, shape (n_scales, n_nodes) each.
    """
    theta, n = nodes.theta[:, 0], respondents.sum(dim=1)
    rho = (of_test / (n[:, None] + of_test)) @ nodes.log_weights.exp()
    s = respondents @ (theta**3 - 3 * theta) / n / rho**3
    k = respondents @ (theta**4 - 6 * theta**2 + 3) / n / rho**4
    numbers = torch.stack([s, k, s * (n * rho**3 / 6).sqrt(), k * (n * rho**4 / 24).sqrt()], dim=1)
    return [AbilityShape(*own) for own in numbers.tolist()]


def unlinked(problem: Problem, differs: NDArray[np.bool_] | None = None) -> tuple[str, ...]:
    """What is doubtful where no respondent links some items to the others, and no anchors do.

    Items that differ between groups (`differs`, shape (n_items,)) are one item in each.
    """
    groups = problem.observed if isinstance(problem.observed, tuple) else (problem.observed,)
    if differs is None and any(rows.complete for rows in groups):
        return ()
    n_items = groups[0].n_items
    known, every = ~problem.free[:n_items].any(dim=1).cpu().numpy(), np.arange(n_items)
    places = [every if differs is None else every + k * n_items * differs for k in range(len(groups))]
    block = np.arange(n_items * len(groups))
    block[:n_items] = np.where(known, known.argmax(), every)
    for rows, place in zip(groups, places, strict=True):
        for batch in rows.batches(LINKING, torch.float64):
            asked = torch.ones(len(batch), n_items) if batch.observed is None else batch.observed
            respondent, item = asked.cpu().to_sparse_coo().indices().numpy()
            block = linked(block, respondent, place[item])
            if not block[places].any():
                break
    if processes_of(rows) is not None:
        (ties,) = total(rows, torch.nn.functional.one_hot(torch.from_numpy(block), len(block)))
        block = linked(block, *ties.T.nonzero().T.numpy())
    sizes = sorted(np.unique(block[np.unique(places)], return_counts=True)[1].tolist(), reverse=True)
    if len(sizes) == 1:
        return ()
    named = " (irtbench doctor names them)" if differs is None else ""
    return (
        f"no respondent links {len(sizes)} blocks of items (of {name_first(sizes)} items): "
        "difficulties, and abilities, of two blocks can be compared only if equally able people answered them; have "
        f"common items answered, or fit each block by itself{named}",
    )


def not_identified(
    item_ids: tuple[str, ...], slopes: Array, slope_errors: Array, difficulty: Array, difficulty_errors: Array
) -> dict[str, list[str]]:
    """Items whose slope, or difficulty, the responses hardly determine: what fit.json says of them.

    A slope beyond 4 whose standard error is more than half of it, the larger of several of an item; a difficulty beyond
    4 standard deviations of ability whose standard error is more than one. NaN is not known to be so.
    """
    steep = (np.abs(slopes) > STEEP) & (slope_errors > np.abs(slopes) / 2)
    far = (np.abs(difficulty) > FAR) & (difficulty_errors > 1)
    return {
        "slope_not_identified": [item_ids[j] for j in np.flatnonzero(steep.reshape(len(item_ids), -1).any(axis=1))],
        "difficulty_not_identified": [item_ids[j] for j in np.flatnonzero(far)],
    }


def weakly_identified(
    items: ItemParameters, priors: Priors, guessed: NDArray[np.bool_], mean: float, sd: float
) -> dict[str, list[str]]:
    """Items of whose guessing, slope or difficulty the data say little, or less than their prior; as fit.json has them.

    Guessing, where it was to be estimated (``guessed``): without a prior that fixed at 0, with one that whose posterior
    of logit c is about as wide. Slope and difficulty where ability is N(mean, sd^2): `not_identified`, and slopes whose
    posterior's standard deviation is above nine tenths of the prior's.
    """
    errors, c = items.standard_errors(), items.guessing
    unknown, slope_error = guessed & ~(items.guessing_estimated & (c > 0)), errors["discrimination"]
    if priors.guessing is not None and items.covariance is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.sqrt(items.covariance[:, 2, 2]) / (c * (1 - c))
        unknown |= items.guessing_estimated & (width > WEAKLY_KNOWN * priors.guessing.logit_deviation)
    found = not_identified(
        items.item_ids, sd * items.discrimination, sd * slope_error,
        (items.difficulty - mean) / sd, errors["difficulty"] / sd,
    )  # fmt: skip
    if priors.slope is not None:
        found["slope_not_identified"] += [
            item for item, own in zip(items.item_ids, slope_error > WEAKLY_KNOWN * priors.slope[1], strict=True)
            if own and item not in found["slope_not_identified"]
        ]  # fmt: skip
    return {"guessing_not_identified": [items.item_ids[j] for j in np.flatnonzero(unknown)], **found}


def named_items(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """The items of fit.json whose estimates the data or the prior do not bear out, by what the summary says of them."""
    named = {
        f"{words} not identified by the data": list(found.get(f"{what}_not_identified", ()))
        for what, words in PARAMETERS.items()
    }
    decided = list(found.get("prior_decides", ()))
    named[
        f"the prior of guessing decides about {counted(len(decided), 'item')}, estimated outside of the interval that "
        "the responses give"
    ] = decided
    return {words: items for words, items in named.items() if items}


def rises_with_theta(problem: Problem, found: Estimate) -> bool:
    """Whether next to all items go with theta, by the expected counts of the fit: then so does the number right.

    An item's covariance with theta is the sum of E[theta] over those who were right, less its proportion correct times
    that over all who answered; nearly all of it is positive.
    """
    counts = found.counts
    if counts is None:
        return False
    right, n_right = problem.of_columns(counts.right[:, 0]), problem.of_columns(problem.rows.n_correct)
    return bool(all_rise(right, n_right, counts.n.sum(dim=1), counts.n @ problem.nodes.theta[:, 0]))


def all_rise(right: Tensor, n_right: Tensor, n_observed: Tensor, of_all: Tensor) -> Tensor:
    """Whether next to all items of a scale go with theta, by sums over who was right, and all, shape (..., n_items)."""
    covariance = right - n_right / n_observed * of_all
    return covariance.sum(dim=-1).abs() > CLEARLY * covariance.abs().sum(dim=-1)


def correlation_with_score(problem: Problem, items: ItemTensors) -> float:
    """Correlation over respondents of theta's posterior mean with the standardised number right.

    (sum x - sum p) / sqrt(sum p (1 - p)) over the items answered, p the items' proportions correct: with missing
    responses people answer items of different difficulty. 1 where nothing varies.
    """
    p = problem.of_columns(problem.rows.n_correct) / problem.n_by_item
    moments = p.new_zeros(5)
    for batch, posterior in posteriors(problem, items, 0):
        mean = posterior @ problem.nodes.theta[:, 0]
        right = batch.correct @ problem.column_scores - batch.observed_sums(p)
        score = right / batch.observed_sums(p * (1 - p)).clamp(min=1e-12).sqrt()
        moments += torch.stack([mean.sum(), score.sum(), mean @ mean, score @ score, mean @ score])
    (moments,) = total(problem.rows, moments)
    return correlation(*(moments / problem.rows.n_respondents).tolist())


def dispersion_of_trials(problem: Problem, items: ItemTensors) -> float:
    """Sum of (k - n P)^2 over that of n P (1 - P), where an item was tried twice or more, at theta's posterior mean.

    1 in expectation, or a little less, where trials are independent given theta. Above it respondents find items easier
    or harder than their ability says, at every trial again. 1 where nothing was tried twice.
    """
    square = variance = 0.0
    for batch, posterior in posteriors(problem, items, 0):
        assert batch.observed is not None
        theta = posterior @ problem.nodes.theta
        k, n = batch.correct.to_dense(), batch.observed.to_dense()
        p = problem.probability_right(items, theta)
        repeated = n > 1
        square += float(((k - n * p) ** 2)[repeated].sum())
        variance += float((n * p * (1 - p))[repeated].sum())
    return square / variance if variance > 0 else 1.0


def correlation(x: float, y: float, x_square: float, y_square: float, product: float) -> float:
    """Pearson's correlation from the means of x, y, x^2, y^2 and x y; 1 where one of the two does not vary."""
    sizes = (x_square - x**2) * (y_square - y**2)
    return (product - x * y) / sizes**0.5 if sizes > 0 else 1.0


def outnumbered(n_items: int, n_respondents: int) -> tuple[str, ...]:
    """What is doubtful where slopes of more items than respondents are estimated without a prior; else nothing."""
    if n_items <= n_respondents:
        return ()
    return (
        f"{n_items} items outnumber {n_respondents} respondents: slopes are known badly, and intervals of ability too "
        "short; one slope for all items, or more respondents, would do",
    )
