"""Few respondents: abilities and items integrated out together, each given all the others.

The usual marginal likelihood integrates abilities out and maximises over the items. With few respondents and many items
that is the wrong way round: every item adds two parameters and as many answers as there are people, so that their
number never outweighs the noise of their estimates. Here items are draws from a density that is learnt (De Boeck, 2008,
"Random item IRT models"), and neither abilities nor items are taken as known for the other: both have posteriors, on
nodes, which are found in turns (`item_posteriors`). A pass gives everybody's posterior and every item's likelihood at
its nodes; then the items' density is learnt (`learnt_prior`) and nodes are placed anew.

A normal density of (log |a|, b) remains one when theta's location and scale change, so these are set by the
respondents, whose abilities have mean 0 and mean square 1 after each pass.

Estimates are of each item's posterior under the learnt density with longer tails (`with_long_tails`), averaged over the
standard deviation of log |a|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.driver import alternate
from irtbench.estimation.few_respondents.item_grid import ItemGrid, Rule
from irtbench.estimation.few_respondents.item_posteriors import Surroundings
from irtbench.estimation.few_respondents.learnt_prior import (
    MOST_COMPONENTS,
    learn,
    over_densities,
    split,
    with_long_tails,
    worth_a_component,
)
from irtbench.estimation.marginal.fisher_scoring import SLOPE_BOUND
from irtbench.estimation.marginal.nodes import Posteriors, nodes_near
from irtbench.estimation.status import ABILITIES_AND_PRIOR, Learning
from irtbench.models.priors import Hierarchy, Priors

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
