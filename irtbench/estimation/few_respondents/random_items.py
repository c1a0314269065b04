"""Few respondents and many items: abilities are parameters, items are draws from a density that is learnt.

The usual marginal likelihood integrates abilities out and maximises over the items. With a dozen respondents and
thousands of items that is the wrong way round: every item adds two parameters and twelve answers, so that their number
never outweighs the noise of their estimates. Here the items are integrated out (De Boeck, 2008, "Random item IRT
models"), and what is maximised has one parameter for each respondent and five for the density of the items:

    l(theta, prior) = sum_j log integral prod_i P(x_ij | theta_i, a, b) N(log |a|, b | prior) d(log |a|, b)
                      - sum_i theta_i^2 / 2

A normal density of (log |a|, b) remains one when theta's location and scale change, so these are free: theta has mean 0
and standard deviation 1 among the respondents. The last term, of the population, matters to none but those who got
everything right or wrong.

What is then told of each item is its posterior under the learnt density with longer tails (`with_long_tails`): of an
item that all but one or two got right the density says more than they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.driver import alternate
from irtbench.estimation.few_respondents.item_density import (
    MOST_COMPONENTS,
    largest_difference,
    learn,
    split,
    with_long_tails,
    worth_a_component,
)
from irtbench.estimation.few_respondents.item_posteriors import MOST_RESPONDENTS, outweigh_the_odds
from irtbench.estimation.few_respondents.item_quadrature import (
    ItemModes,
    ItemQuadrature,
    chunks,
    item_quadrature,
    log_odds,
    outcomes,
    posterior_quantiles,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.status import ABILITIES_AND_PRIOR, Learning
from irtbench.models.priors import Hierarchy
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import DenseRows

KNOWN = 0.25  # abilities count as known if the root mean square of their posterior standard deviations is below this
MOST_UPDATES = 50
PROBATION = 6  # updates after which a component more must have paid
START = Hierarchy((0.0, 0.0), (0.5, 1.5), 0.0, of="difficulty")


@dataclass(frozen=True)
class RandomItems:
    """Abilities and the density of the items at the maximum, and each item's posterior there.

    Parameters
    ----------
    theta
        Abilities, of mean 0 and standard deviation 1, shape (n_respondents,).
    theta_covariance
        Their sampling covariance on that scale, shape (n_respondents, n_respondents).
    prior
        Density of (log |a|, b).
    mean, covariance
        Posterior moments of each item's (a, d), shapes (n_items, 2) and (n_items, 2, 2).
    quantiles
        Posterior quantiles of each item's a and b, shape (3, n_items, 2).
    log_likelihood
        Of all responses, the items integrated out.
    learning
        How the updates of abilities and prior ended; the change is of an ability or a parameter of the prior.
    """

    theta: Tensor
    theta_covariance: Tensor
    prior: Hierarchy
    mean: Tensor
    covariance: Tensor
    quantiles: Tensor
    log_likelihood: float
    learning: Learning


def known_abilities(problem: Problem, items: ItemTensors) -> Tensor | None:
    """Posterior means of theta, shape (n_respondents,); None where theta is not known well enough to be taken as given.

    That is so where the root mean square of the posterior standard deviations is above .25, an item is guessed, rows
    are sparse, or respondents are more than 500.
    """
    if problem.guesses or not isinstance(problem.rows, DenseRows) or len(problem.rows) > MOST_RESPONDENTS:
        return None
    nodes = replace(problem.nodes, dtype=torch.float64)
    row = replace(problem, nodes=nodes).row(items)
    theta = nodes.theta[:, 0]
    means, variances = [], []
    for batch in problem.batches(dtype=torch.float64):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        mean = posterior @ theta
        means.append(mean)
        variances.append(posterior @ theta**2 - mean**2)
    deviation = float(torch.cat(variances).mean().clamp(min=0).sqrt())
    return torch.cat(means) if deviation < KNOWN else None


def fit_random_items(
    rows: DenseRows,
    theta: Tensor,
    reversed_: Tensor,
    *,
    tolerance: float,
    progress: Callable[[str], None] = lambda message: None,
) -> RandomItems:
    """Maximise over abilities and the density of the items, in turns.

    Parameters
    ----------
    rows
        Complete or incomplete responses.
    theta
        Abilities to start from, shape (n_respondents,).
    reversed_
        Items that may have a negative slope, shape (n_items,). Each has the sign that its marginal likelihood is for.
    tolerance
        Converged when no ability and no parameter of the prior changed by more in an update.
    progress
        Told of each update.
    """
    theta = standardise(theta)
    modes = starting_modes(rows, torch.where(reversed_, -1.0, 1.0).to(theta))
    at = Place(theta, START, modes)

    def settle(place: Place, most: int) -> tuple[Place, Learning]:
        def update() -> tuple[float, bool]:
            nonlocal place
            before, place = place, updated(rows, place)
            moved = float((place.theta - before.theta).abs().max())
            return max(moved, largest_difference(before.prior, place.prior)), True

        learning = alternate(ABILITIES_AND_PRIOR, update, tolerance=tolerance, most=most, progress=progress)
        return place, learning

    at, learning = settle(at, MOST_UPDATES)
    n_updates, fit = learning.updates, objective(rows, at)
    while learning.settled and len(at.prior.parts) < MOST_COMPONENTS:
        other, other_learning = settle(replace(at, prior=split(at.prior)), PROBATION)
        n_updates += other_learning.updates
        if objective(rows, other) < fit + worth_a_component(rows.n_items):
            break
        at, learning = settle(other, MOST_UPDATES)
        n_updates, fit = n_updates + learning.updates, objective(rows, at)
    learning = replace(learning, updates=n_updates)
    theta, prior, modes = at.theta, at.prior, at.modes
    quadrature = item_quadrature(rows, theta, modes, prior)
    _, information, missing = ability_derivatives(rows, theta, quadrature, prior, with_missing=True)
    theta_covariance = standardised_covariance(torch.diag(information + 1) - missing, theta)
    log_likelihood = float(quadrature.log_evidence(prior).sum())
    tails = with_long_tails(prior)
    quadrature = item_quadrature(rows, theta, modes, tails)
    mean, covariance = quadrature.moments(tails)
    quantiles = posterior_quantiles(rows, theta, quadrature, tails)
    return RandomItems(theta, theta_covariance, prior, mean, covariance, quantiles, log_likelihood, learning)


@dataclass(frozen=True)
class Place:
    """Abilities, the density of the items, and where their posteriors are highest."""

    theta: Tensor
    prior: Hierarchy
    modes: ItemModes


def updated(rows: DenseRows, at: Place) -> Place:
    """The density learnt once more, and a step of the abilities under it."""
    modes = with_likelier_signs(rows, at.theta, at.modes, at.prior)
    quadrature = item_quadrature(rows, at.theta, modes, at.prior)
    learnt = learn(quadrature, at.prior)
    score, information, _ = ability_derivatives(rows, at.theta, quadrature, learnt)
    return Place(standardise(at.theta + (score - at.theta) / (information + 1)), learnt, quadrature.modes)


def objective(rows: DenseRows, at: Place) -> float:
    """Log-likelihood with the items integrated out; theta's own density is the same wherever it is standardised."""
    return float(item_quadrature(rows, at.theta, at.modes, at.prior).log_evidence(at.prior).sum())


def standardise(theta: Tensor) -> Tensor:
    """Move theta's location and scale so that its mean is 0 and its standard deviation 1."""
    return (theta - theta.mean()) / theta.std(correction=0)


def starting_modes(rows: DenseRows, sign: Tensor) -> ItemModes:
    """Log |a| = 0, and b such that somebody of middling ability gets the item right as often as all do."""
    right, observed = rows.right.sum(dim=0), rows.asked.sum(dim=0)
    p = (right + 0.5).to(sign) / (observed + 1)
    return ItemModes(torch.stack([torch.zeros_like(p), -sign * torch.logit(p)], dim=1), sign)


def with_likelier_signs(rows: DenseRows, theta: Tensor, modes: ItemModes, prior: Hierarchy) -> ItemModes:
    """The modes with the slopes that are negative for no good reason made positive, see `outweigh_the_odds`."""
    reversed_ = torch.nonzero(modes.sign < 0)[:, 0]
    if len(reversed_) == 0:
        return modes
    own = rows.of_items(reversed_)
    as_it_is = modes.select(reversed_)
    turned = ItemModes(as_it_is.places * as_it_is.places.new_tensor([1.0, -1.0]), -as_it_is.sign)
    against = item_quadrature(own, theta, turned, prior).log_evidence(prior)
    against = against - item_quadrature(own, theta, as_it_is, prior).log_evidence(prior)
    stays = outweigh_the_odds(against, len(modes.sign))
    places, sign = modes.places.clone(), modes.sign.clone()
    places[reversed_] = torch.where(stays[:, None], as_it_is.places, turned.places)
    sign[reversed_] = torch.where(stays, -1.0, 1.0).to(sign)
    return ItemModes(places, sign)


def ability_derivatives(
    rows: DenseRows, theta: Tensor, quadrature: ItemQuadrature, prior: Hierarchy, *, with_missing: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of the log-likelihood by theta, the items integrated out.

    The score of an ability at a node is a (x - P), and its mean over an item's posterior that item's score. The
    information is that of items seen, a^2 P Q, less the missing information: the covariance over the item's
    posterior of the scores of all respondents (Louis, 1982).

    Returns
    -------
    score
        Shape (n_respondents,).
    information
        As if items were seen, shape (n_respondents,).
    missing
        Shape (n_respondents, n_respondents); zeros unless asked for.
    """
    mass = quadrature.mass(prior)
    n = len(theta)
    total, information, missing = theta.new_zeros(n), theta.new_zeros(n), theta.new_zeros(n, n)
    for chunk in chunks(n, len(mass)):
        right, wrong = outcomes(rows, chunk, theta)
        observed = (right + wrong)[:, None, :]
        p = torch.sigmoid(log_odds(quadrature.nodes[chunk], quadrature.sign[chunk, None], theta))
        slope, weight = quadrature.slopes[chunk, :, None], mass[chunk, :, None]
        score = slope * (right[:, None, :] - observed * p)
        own = (weight * score).sum(dim=1)
        total += own.sum(dim=0)
        information += (weight * slope**2 * observed * p * (1 - p)).sum(dim=(0, 1))
        if with_missing:
            excess = (weight.sqrt() * (score - own[:, None, :])).flatten(0, 1)
            missing += excess.T @ excess
    return total, information, missing


def standardised_covariance(information: Tensor, theta: Tensor) -> Tensor:
    """Inverse of the information among the abilities that keep their mean and their standard deviation.

    Of the n abilities n - 2 are free; the covariance has rank n - 2.
    """
    kept = torch.stack([torch.ones_like(theta), theta])
    free = torch.linalg.svd(kept, full_matrices=True).Vh[2:]
    return free.T @ torch.linalg.inv(free @ information @ free.T) @ free
