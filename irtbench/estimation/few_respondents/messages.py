"""Few respondents: abilities and items integrated out together, each given all the others.

The usual marginal likelihood integrates abilities out and maximises over the items. With few respondents and many items
that is the wrong way round: every item adds two parameters and as many answers as there are people, so that their
number never outweighs the noise of their estimates. Here items are draws from a density that is learnt (De Boeck, 2008,
"Random item IRT models"), and neither abilities nor items are taken as known for the other: both have posteriors, on
nodes, which are found in turns. A pass gives everybody's posterior and every item's likelihood at its nodes; then the
items' density is learnt (`learnt_prior`) and nodes are placed anew.

A pass is belief propagation (Pearl, 1988; Yedidia, Freeman & Weiss, 2005) on the graph of respondents and items, whose
edges are responses. What respondent i adds to the likelihood of item j is an average over theta's posterior given the
responses to all other items,

    p_ij(item) = sum_q w_iq P(x_ij | theta_q, item) / P_j(x_ij | theta_q)   (up to a constant),

w_iq the posterior given all responses and P_j item j's curve averaged over its own posterior. What item j adds to the
likelihood of theta_i is an average over the item's posterior given the responses of all others,

    m_ij(theta) = sum_g u_jg P(x_ij | theta, item_g) / p_ij(item_g),

u_jg the posterior given all. So no response is counted twice.

A normal density of (log |a|, b) remains one when theta's location and scale change, so these are set by the
respondents, whose abilities have mean 0 and mean square 1 after each pass.

Estimates are of each item's posterior under the learnt density with longer tails (`with_long_tails`), averaged over the
standard deviation of log |a|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from irtbench.estimation.driver import alternate
from irtbench.estimation.few_respondents.item_grid import LEAST, ItemGrid, Rule, probabilities, right_or_wrong
from irtbench.estimation.few_respondents.learnt_prior import (
    MOST_COMPONENTS,
    learn,
    over_densities,
    split,
    with_long_tails,
    worth_a_component,
)
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.fisher_scoring import SLOPE_BOUND
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.nodes import Posteriors, nodes_near
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.status import ABILITIES_AND_PRIOR, Learning
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.categories import Alike
from irtbench.models.pyro_model.tensors import ItemTensors

CELLS = 2**18  # items x nodes x respondents at once
FEW_ANSWER = 0.5  # share of the respondents
MOST_UPDATES = 60
ROUGH, LEAST_WIDTH = 8, 0.06  # updates in which no ability is taken for known better than this
FREE, FALL = 20, 0.7  # updates after which nodes of items move by less and less, by this power of their number
PROBATION = 6  # updates after which a component more must have paid
ROUGHLY = 5  # times the tolerance, while the number of components is not known
CLOSE, FURTHEST_APART = 1.0, 1.25  # standard deviations of the narrowest posterior that nodes are apart
CLOSEST, MANY_NODES = 0.4, 300  # the same at least, where nodes are more
MOST_APART = 1.5  # of them, where a posterior is too narrow for the nodes to say how narrow
FEW_NODES = 61  # of the usual grid, with which nothing is gained by fewer
ROUNDS = 4  # of learning a component more before that, on the nodes that are there
SIGN_REACH, SIGN_NODES = 4.0, (9, 17)  # of a grid of (log |a|, b) around the prior's mean


@dataclass(frozen=True)
class Surroundings:
    """What the likelihood of an item needs to know of abilities and of all other items.

    Parameters
    ----------
    theta
        Nodes, shape (n_nodes,).
    posterior
        Of theta given all responses, shape (n_nodes, n_respondents).
    curves
        Probabilities of each category (wrong and right) at the nodes, averaged over each item's posterior, shape
        (n_categories, n_items, n_nodes).
    numbers
        Of responses in each category, shape (n_categories, n_respondents, n_items).
    outcomes
        Numbers that occur together.
    """

    theta: Tensor
    posterior: Tensor
    curves: Tensor
    numbers: Tensor
    outcomes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> Surroundings:
        """With the items as known."""
        (kinds, x), theta = kinds_of(problem, items), problem.nodes.theta[:, 0]
        posterior, given, asked = known_posteriors(problem, items)
        n = max(part.n_categories for part in kinds)
        numbers, known = asked.new_zeros(n, *asked.shape), x.new_ones(n, len(x), len(theta))
        for part in kinds:
            later = given[:, part.columns].permute(2, 0, 1)
            numbers[0, :, part.items] = asked[:, part.items] - later.sum(dim=0, dtype=asked.dtype)
            numbers[1 : part.n_categories, :, part.items] = later
            of_part = torch.cat(probabilities(part.model, part.own(x)[:, None], theta), dim=1)
            known[: part.n_categories, part.items] = of_part.transpose(0, 1)
        return cls(theta, posterior, known, numbers, outcomes_of(numbers))

    def of_items(self, chosen: Tensor) -> Surroundings:
        """With these items alone."""
        return replace(self, curves=self.curves[:, chosen], numbers=self.numbers[:, :, chosen])

    @cached_property
    def who(self) -> Tensor:
        """Respondents of each item: all, or those who answered where these are few, shape (n_items, n_who).

        An item with fewer than others has some who did not.
        """
        answered = self.numbers.sum(dim=0).T > 0
        most = int(answered.sum(dim=1).max())
        if most > FEW_ANSWER * answered.shape[1]:
            return torch.arange(answered.shape[1], device=answered.device).expand(len(answered), -1)
        return answered.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]

    def parts(self, grid: ItemGrid) -> Iterator[tuple[slice, Tensor, tuple[Tensor, ...], list[tuple[Tensor, Tensor]]]]:
        """A few items at a time: which, what each respondent's responses add to their likelihood at each node, curves.

        What is added has the shape (n_items, n_places, n_who), 1 where there is no response; last, for each set of
        numbers of responses that occurs, whose it is, shape (n_items, 1, n_who), and its probability at each place and
        node of ability, shape (n_items, n_places, n_nodes), as are the curves.
        """
        places, n_who, every = grid.linear, self.who.shape[1], torch.arange(len(grid.sign), device=self.who.device)
        for part in chunks(len(places), len(self.theta) * max(places.shape[1], n_who)):
            who, posterior = self.who[part], self.posterior
            if n_who < posterior.shape[1]:
                posterior = posterior[:, who].movedim(1, 0)
            curves = grid.of_items(part, grid.counts[part]).curves(places[part], self.theta)
            numbers = self.numbers[:, who, every[part, None]][:, :, None, :]
            added, outcomes = torch.ones_like(curves[0][:, :, :1]), []
            for times in self.outcomes:
                here = torch.stack([of == k for of, k in zip(numbers, times, strict=True)]).all(dim=0)
                curve, average = outcome(curves, times), outcome(self.curves[:, part], times)[:, None, :]
                of_others = (curve / average) @ posterior / (average.reciprocal() @ posterior)
                added = torch.where(here, of_others.clamp(min=LEAST), added)
                outcomes.append((here, curve))
            yield part, added, curves, outcomes

    def passed(self, grid: ItemGrid, mass_of: Callable[[slice, Tensor], Tensor]) -> tuple[Surroundings, Tensor]:
        """Abilities' posteriors given those of the items, and items' log-likelihoods at their nodes given abilities'.

        Parameters
        ----------
        grid
            Nodes of the items.
        mass_of
            Posterior mass of the nodes of some items, given their log-likelihoods.
        """
        levels, averages = [], []
        log_posterior = (-0.5 * self.theta**2).repeat(self.posterior.shape[1], 1)
        for part, added, curves, outcomes in self.parts(grid):
            level = added.log().sum(dim=2)
            mass = mass_of(part, level)
            share = mass[:, :, None] / added
            heard = [(share * here).mT @ curve for here, curve in outcomes]
            none = ~torch.stack([here for here, _ in outcomes]).any(dim=0).mT
            message = (torch.stack(heard).sum(dim=0) + none).log()
            message = grid.counts[part, None, None] * message
            log_posterior.index_add_(0, self.who[part].flatten(), message.flatten(0, 1))
            levels.append(level)
            averages.append(torch.stack([(mass[:, None, :] @ curve)[:, 0] for curve in curves]))
        posterior = torch.softmax(log_posterior, dim=1).T
        return replace(self, posterior=posterior, curves=torch.cat(averages, dim=1)), torch.cat(levels)

    @property
    def abilities(self) -> tuple[Tensor, Tensor]:
        """Posterior means and variances of theta, shape (n_respondents,) each."""
        mean = self.theta @ self.posterior
        return mean, self.theta**2 @ self.posterior - mean**2

    @property
    def standardised_abilities(self) -> tuple[Tensor, Tensor]:
        """Posterior means, and their covariance among abilities that keep their mean and standard deviation.

        Shapes (n_respondents,) and (n_respondents, n_respondents), of rank n_respondents - 2.
        """
        mean, variance = self.abilities
        free = torch.linalg.svd(torch.stack([torch.ones_like(mean), mean]), full_matrices=True).Vh[2:]
        return mean, free.T @ torch.linalg.inv((free / variance) @ free.T) @ free

    def log_likelihoods(self, grid: ItemGrid) -> Tensor:
        """Log-likelihood of the items at their nodes, up to a constant of each, shape (n_items, n_nodes)."""
        return torch.cat([added.log().sum(dim=2) for _, added, _, _ in self.parts(grid)])


def kinds_of(problem: Problem, items: ItemTensors) -> tuple[tuple[Alike, ...], Tensor]:
    """Models and numbers of categories that there are, and the models' parameters, shape (n_items, width)."""
    if isinstance(problem, CategoryProblem):
        return problem.scale.parts, items.matrix
    every = torch.arange(len(items), device=items.intercept.device)
    return right_or_wrong(every), torch.cat([items.linear, torch.logit(items.guessing)[:, None]], dim=1)


def known_posteriors(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor]:
    """Of theta with the items as known, (n_nodes, n_respondents), and numbers of responses by column and by item."""
    each, given, asked = [], [], []
    for batch, posterior in posteriors(problem, items, 0):
        each.append(posterior)
        given.append(batch.correct.to_dense().to(torch.int16))
        n_asked = batch.observed if batch.observed is not None else batch.correct.new_ones(len(batch), len(items))
        asked.append(n_asked.to_dense().to(torch.int16))
    return torch.cat(each).T, torch.cat(given), torch.cat(asked)


def outcomes_of(numbers: Tensor) -> tuple[tuple[int, ...], ...]:
    """Numbers of responses of each kind that occur together, but for none at all."""
    together = numbers.flatten(1).T.unique(dim=0)
    return tuple(tuple(times) for times in together.tolist() if any(times))


def outcome(curves: Iterable[Tensor], times: tuple[int, ...]) -> Tensor:
    """Probability of so many responses of each kind in one order."""
    powers = [curve if k == 1 else curve**k for curve, k in zip(curves, times, strict=True) if k]
    return math.prod(powers[1:], start=powers[0])


def chunks(n_items: int, cells: int) -> Iterator[slice]:
    """Ranges of items such that items x `cells` stay few."""
    most = max(1, CELLS // cells)
    return (slice(first, min(first + most, n_items)) for first in range(0, n_items, most))


@dataclass(frozen=True)
class Beliefs:
    """Posteriors of abilities and items, and the densities of items.

    Parameters
    ----------
    around
        Posteriors of abilities.
    grid
        Items' nodes, and their likelihood there.
    priors, start
        Learnt so far, and before anything was learnt.
    """

    around: Surroundings
    grid: ItemGrid
    priors: Priors
    start: Priors

    @property
    def parts(self) -> tuple[tuple[float, Hierarchy], ...]:
        """The components of the density, each with its weight."""
        return self.priors.pair.parts

    @property
    def has_only_components_of_items(self) -> bool:
        """Whether no component has come to hold less than an item, whose deviation would grow without end."""
        return min(weight for weight, _ in self.parts) * float(self.grid.counts.sum()) > 1 or len(self.parts) == 1

    @property
    def evidence(self) -> float:
        """Log-likelihood of the responses with the items integrated out, up to a constant."""
        return self.grid.log_evidence(self.priors)

    def updated(self, after: int = ROUGH) -> tuple[Beliefs, float]:
        """One pass, densities learnt, nodes placed anew and abilities standardised; the largest change of any.

        A posterior far from normal is found elsewhere from each place of few nodes, which would move for ever: after so
        many updates items' nodes come to lie at the mean of these places (Robbins & Monro, 1951).
        """
        least = LEAST_WIDTH if after < ROUGH else 0.0
        here = (self if self.nodes_are_close(least) else self.on_nodes_near(least)).with_likelier_signs()
        gain = max(1, after - FREE + 1) ** -FALL
        weights = here.grid.log_mass(here.priors) - here.grid.level
        around, level = here.around.passed(here.grid, lambda part, level: torch.softmax(weights[part] + level, dim=1))
        grid = replace(here.grid, level=level)
        priors, change = learn(grid, here.priors, here.start)
        found = replace(here, around=around, grid=grid.placed(priors, gain=gain), priors=priors).standardised()
        moved = (found.around.abilities[0] - here.around.abilities[0]).abs().max()
        return found, max(change, float(moved))

    def standardised(self) -> Beliefs:
        """The same curves for abilities of mean 0 and mean square 1; the densities are as learnt on this scale."""
        around = self.around
        mean, deviation = moments(around.theta, around.posterior.mean(dim=1))
        theta = (around.theta - mean) / deviation
        return replace(self, around=replace(around, theta=theta), grid=self.grid.rescaled(mean, deviation))

    def with_levels(self) -> Beliefs:
        """Items' likelihoods at their nodes, abilities being what they are."""
        return replace(self, grid=replace(self.grid, level=self.around.log_likelihoods(self.grid)))

    def nodes_are_close(self, least: float) -> bool:
        """Whether sums over the narrowest posterior, or the least wide, err by nothing, and nodes are not too many."""
        narrowest = max(float(self.around.abilities[1].min().sqrt()), least)
        closest = CLOSEST * narrowest if len(self.around.theta) > MANY_NODES else 0.0
        return closest < float(self.around.theta.diff().min()) < FURTHEST_APART * narrowest

    def on_nodes_near(self, least: float = 0.0) -> Beliefs:
        """On nodes of ability where posteriors have come to lie, none of which is taken for narrower than the least."""
        around, mass = self.around, self.grid.mass(self.priors)
        mean, variance = around.abilities
        widths = variance.sqrt().clamp(min=max(float(around.theta.diff().min()) / MOST_APART, least))
        theta = nodes_near(Posteriors(mean, widths), step=CLOSE * float(widths.min())).theta
        posterior = torch.softmax(-0.5 * ((theta - mean) / widths) ** 2, dim=0)
        near = replace(
            around, theta=theta[:, 0], posterior=posterior, curves=mass.new_ones(*around.curves.shape[:2], len(theta))
        )
        return replace(self, around=near.passed(self.grid, lambda part, level: mass[part])[0])

    def with_likelier_signs(self) -> Beliefs:
        """Slopes that are negative for no good reason made positive, see `outweigh_the_odds`.

        The likelihoods of either sign are averaged over the prior on a grid; items that are guessed keep their c, and
        steps their distances.
        """
        grid, prior = self.grid, self.priors.pair
        chosen = torch.nonzero(grid.sign < 0)[:, 0]
        if len(chosen) == 0:
            return self
        whole = replace(self.priors, hierarchy=replace(prior, components=()))
        axes = [torch.linspace(-SIGN_REACH, SIGN_REACH, n).to(grid.centre) for n in SIGN_NODES]
        n_others = grid.centre.shape[2] - 2  # which stay where they are
        offsets = torch.nn.functional.pad(torch.cartesian_prod(*axes), (0, n_others))
        centre = grid.centre[chosen, :1]
        centre[:, 0, :2] = centre.new_tensor(prior.mean)
        root = torch.diag(centre.new_tensor([*prior.deviation, *[1.0] * n_others]))
        wide = replace(
            grid.of_items(chosen, grid.counts[chosen]),
            centre=centre,
            root=root.expand(len(chosen), 1, *root.shape),
            rule=Rule(offsets, torch.zeros_like(offsets[:, 0])),
            level=torch.zeros_like(offsets[:, 0]).expand(len(chosen), -1),
        )
        as_it_is, turned = (
            replace(one, level=self.around.of_items(chosen).log_likelihoods(one))
            for one in (wide, replace(wide, sign=-wide.sign))
        )
        stays = outweigh_the_odds(
            (turned.log_mass(whole).logsumexp(dim=1) - as_it_is.log_mass(whole).logsumexp(dim=1)), grid.counts, chosen
        )
        anew, places = chosen[~stays], turned.placed(whole)
        sign, centre, root = grid.sign.clone(), grid.centre.clone(), grid.root.clone()
        sign[anew], centre[anew], root[anew] = 1.0, places.centre[~stays], places.root[~stays]
        return replace(self, grid=replace(grid, sign=sign, centre=centre, root=root))

    def with_a_component_more(self) -> Beliefs | None:
        """The density as a mixture of one more, learnt on the nodes that are there; None if that is not worth it."""
        grid, priors = split(self.grid, self.priors)
        for _ in range(ROUNDS):
            priors, _ = learn(grid, priors, self.start)
        other = replace(self, grid=grid.placed(priors), priors=priors)
        return other if grid.log_evidence(priors) > self.evidence + worth_a_component(grid) else None

    def estimates(self) -> tuple[Priors, Tensor, Tensor, Tensor]:
        """The densities with what is known of s, and of each item mean and covariance of (a, d, c), and quantiles."""
        priors, weighted = over_densities(self.grid, self.priors, self.start)
        tails = replace(self, grid=self.grid.placed(with_long_tails(self.priors)).on_points).with_levels()
        return priors, *tails.grid.estimates([(weight, with_long_tails(other)) for weight, other in weighted])


def settled(beliefs: Beliefs, *, tolerance: float) -> tuple[Beliefs, Learning]:
    """Update until nothing changes by more than this, with as many components as are worth it."""
    updates = 0

    def settle(place: Beliefs, most: int, enough: float, after: int = 0) -> tuple[Beliefs, Learning]:
        nonlocal updates

        def update() -> tuple[float, bool]:
            nonlocal place, after
            place, change = place.updated(after)
            after += 1
            # of a Guttman pattern slopes grow without end, and wander once the nodes are too coarse for them
            return change, place.priors.pair.mean[0] < math.log(SLOPE_BOUND) and place.has_only_components_of_items

        learning = alternate(ABILITIES_AND_PRIOR, update, tolerance=enough, most=most)
        updates += learning.updates
        return place.with_levels(), learning

    at, learning = settle(beliefs, MOST_UPDATES, ROUGHLY * tolerance)
    while learning.settled and len(at.parts) < MOST_COMPONENTS and (other := at.with_a_component_more()):
        other, _ = settle(other, PROBATION, ROUGHLY * tolerance)
        if other.evidence < at.evidence + worth_a_component(at.grid):
            break
        other, settled_with = settle(other, MOST_UPDATES, ROUGHLY * tolerance)
        if not other.has_only_components_of_items:
            break
        at, learning = other, settled_with
    near = at if len(at.around.theta) <= FEW_NODES else at.on_nodes_near()
    at, learning = settle(near, MOST_UPDATES, tolerance, max(ROUGH, min(learning.updates, FREE)))
    return at, replace(learning, updates=updates)


def moments(theta: Tensor, share: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of ability from the share of the respondents at each node."""
    mean = float(share @ theta)
    return mean, math.sqrt(float(share @ (theta - mean) ** 2))


def outweigh_the_odds(against: Tensor, counts: Tensor, chosen: Tensor) -> Tensor:
    """Which of the reversed items stay: those whose responses say so against the odds, the share of reversed items.

    With a dozen respondents the correlation of an item with the score is negative by chance for many items.

    Parameters
    ----------
    against
        Log marginal likelihood of a positive slope less that of a negative one, of the reversed items.
    counts, chosen
        How many items have the responses of each of all, and which of them these are.
    """
    stays = torch.ones_like(against, dtype=torch.bool)
    while bool(stays.any()):
        share = min(float(counts[chosen][stays].sum() / counts.sum()), 0.5)
        still = stays & (against < math.log(share / (1 - share)))
        if bool((still == stays).all()):
            break
        stays = still
    return stays
