"""What a fit of several abilities works on, exploratory or with a pattern of zero slopes.

Nodes are a lattice where posteriors lie; where that of four abilities and more would have too many nodes they are
quasi-Monte Carlo points, whose error is estimated but not bounded. Exploratory slopes are reported on principal axes,
on which they satisfy sum_j a_jk a_jm = 0. The steps start from the principal axes of the items' correlations, turned to
the pattern.

Items of right and wrong without asymptotes have sums of their own in the E step (`Problem`); all others have the
probabilities of their categories (`CategoryProblem`).

The lattice is as fine as the narrowest posterior asks. For a normal posterior of
covariance S the trapezoid rule on nodes h_k apart errs by about 2 exp(-2 pi^2 j' S j), with
j_k = m_k / h_k over whole numbers m. With h_k a share r of the standard deviation of ability k given the others, this
is at most 2 exp(-2 pi^2 / (r^2 l)), l the largest eigenvalue of the posterior's precision scaled to a diagonal of 1. A
curve of slopes a asks for nodes no further apart than 1.4 / |a_k| (see `marginal.nodes`).

The axes of the lattice are those on which slopes are simplest (varimax; Kaiser, 1958), since abilities known from
different items are then about independent of each other, and spacings the widest.

A respondent's likelihood is concave on the log scale, so that a few steps of Fisher scoring find its top and curvature
without any nodes. Of the lattice only the nodes stay that hold some respondent's mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.nodes import STEEPEST, describe_nodes
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.abilities_mode import Abilities, Curvature, with_slopes
from irtbench.estimation.several_abilities.answers import Answers
from irtbench.estimation.several_abilities.rotation_freedom import (
    in_planes,
    principal_axes,
    towards_pattern,
    turns,
    with_positive_sums,
)
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import factor_quadrature, normal_grid

CPU = torch.device("cpu")
MOST_NODES = 60_000  # with more, four abilities and more are integrated by quasi-Monte Carlo
CHECKED_FINER, CHECKED_WIDER, CHECKED_OFFSET = 0.8, 1.25, 0.37  # the lattice that a result is checked on
INFORMATION_ROOM = 1.5  # standard errors need no closer nodes
MOST_PARAMETERS = 3_000  # whose information is computed at once
NORMAL_OGIVE = 1.702
LARGEST_COMMUNALITY = 0.8
SMALLEST_SIZE = 0.01  # of a principal axis
VARIMAX_STEPS = 20
SCORING_STEPS, LONGEST_STEP, SMALL_STEP = 25, 1.0, 1e-5
MOST_CELLS = 2**17  # respondents x columns at once
REACH = 8.0  # standard deviations of a posterior on either side of its top that the lattice covers
RADIUS = math.sqrt(50.0)  # abilities further from 0 have a density of exp(-25) of that at 0
LEFT_OUT = 1e-7  # respondents, a response, that the nodes left out hold together
MOST_ON_LATTICE = 3_000_000  # nodes before those without mass are left out


@dataclass(frozen=True)
class AbilityModes:
    """The top of each respondent's posterior, and its curvature.

    Parameters
    ----------
    theta
        Shape (n_respondents, n_factors).
    precision
        Minus the second derivatives of the log posterior there, shape (n_respondents, n_factors, n_factors).
    log_likelihood
        Laplace's approximation to the log marginal likelihood, shape (n_respondents,).
    """

    theta: Tensor
    precision: Tensor
    log_likelihood: Tensor


def ability_modes(abilities: Abilities, items: ItemTensors, start: Tensor | None = None) -> AbilityModes:
    """Find everybody's most likely abilities by Fisher scoring; without guessing the log posterior is concave.

    `start` are abilities to begin with, shape (n_respondents, n_factors); None for 0.
    """
    scale, n_factors, rows = abilities.scale, abilities.scale.n_abilities, abilities.problem.rows
    identity = torch.eye(n_factors, dtype=torch.float64, device=rows.device)
    start = identity.new_zeros(rows.n_respondents, n_factors) if start is None else start
    found = AbilityModes(start.clone(), start.new_zeros(*start.shape, n_factors), start.new_zeros(len(start)))
    first = 0
    for batch in rows.batches(MOST_CELLS // len(scale.item_of_column), torch.float64):
        some, first = torch.arange(first, first + len(batch), device=rows.device), first + len(batch)
        correct, observed = batch.correct_by_item, batch.observed_by_item
        for _ in range(SCORING_STEPS):
            theta = found.theta[some]
            height, gradient, precision = -0.5 * theta.square().sum(dim=1), -theta, identity
            for part in scale.parts:
                log_p, _, by_theta = part.derivatives(items.matrix, theta.T)
                later = correct[part.columns]
                asked = torch.ones_like(later[:, 0]) if observed is None else observed[part.items]
                chosen = torch.cat([(asked - later.sum(dim=1))[:, None], later], dim=1)
                height = height + (chosen * log_p).sum(dim=(0, 1))
                gradient = gradient + (chosen[:, None] * by_theta).sum(dim=(0, 2)).T
                weighted = (log_p.exp_() * asked[:, None])[:, None] * by_theta
                each = [(weighted * by_theta[:, k, None]).sum(dim=(0, 2)).T for k in range(n_factors)]
                precision = precision + torch.stack(each, dim=1)
            step = torch.linalg.solve(precision, gradient)
            step = step / (step.norm(dim=1, keepdim=True) / LONGEST_STEP).clamp(min=1.0)
            found.theta[some], found.precision[some], found.log_likelihood[some] = theta + step, precision, height
            far = step.abs().amax(dim=1) > SMALL_STEP
            if not bool(far.any()):
                break
            some, correct = some[far], correct[:, far]
            observed = None if observed is None else observed[:, far]
    return replace(found, log_likelihood=found.log_likelihood - 0.5 * torch.logdet(found.precision))


def widest_spacing(modes: AbilityModes, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Standard deviation of the narrowest posterior on each axis, and the spacing right for the steepest item there.

    Both of shape (n_factors,). The former is given the other abilities, and less where abilities go together.
    """
    scale = torch.diagonal(modes.precision, dim1=1, dim2=2).sqrt()
    largest = torch.linalg.eigvalsh(modes.precision / (scale[:, :, None] * scale[:, None, :]))[:, -1:]
    narrowest = (1 / (scale * largest.sqrt())).amin(dim=0)
    return narrowest, STEEPEST / slopes.abs().amax(dim=0).clamp(min=1e-300)


def simplest_axes(slope: Tensor) -> Tensor:
    """The rotation to axes on which squared slopes vary most (varimax), shape (n_factors, n_factors)."""
    rotation = torch.eye(slope.shape[1], dtype=slope.dtype, device=slope.device)
    for _ in range(VARIMAX_STEPS):
        turned = slope @ rotation
        left, _, right = torch.linalg.svd(slope.T @ (turned**3 - turned * turned.square().mean(dim=0)))
        rotation = left @ right
    return rotation


def lattice(
    abilities: Abilities,
    items: ItemTensors,
    *,
    room: float,
    start: Tensor | None = None,
    radius: float = RADIUS,
    finer: float = 1.0,
    offset: float = 0.0,
) -> tuple[NodeTensors, AbilityModes]:
    """Nodes for the posteriors at these items, all within their reach, and where these are.

    Parameters
    ----------
    abilities, items
        Whose posteriors.
    room
        Distance of nodes in standard deviations of the narrowest posterior.
    start
        As of `ability_modes`.
    radius
        Of the ball about 0 within which nodes lie.
    finer
        Factor of all distances.
    offset
        How far the nodes are moved, in spacings.
    """
    slopes = items.matrix[:, : abilities.scale.n_abilities]
    rotation, modes = simplest_axes(slopes), ability_modes(abilities, items, start)
    turned = AbilityModes(modes.theta @ rotation, rotation.T @ modes.precision @ rotation, modes.log_likelihood)
    narrowest, steepest = widest_spacing(turned, slopes @ rotation)
    spacing = finer * torch.minimum(room * narrowest, steepest * min(room, 1.0))
    nodes = grid_in_ball(turned, spacing, radius=radius, offset=offset)
    return replace(nodes, theta=nodes.theta @ rotation.T), modes


def grid_in_ball(modes: AbilityModes, spacing: Tensor, *, radius: float, offset: float) -> NodeTensors:
    """Nodes so far apart within a ball about 0, as far as posteriors reach.

    Parameters
    ----------
    modes
        Whose posteriors.
    spacing
        Distance of nodes on each axis, shape (n_factors,); wider where there would be far too many.
    radius
        Of the ball.
    offset
        How far the nodes are moved, in spacings.
    """
    deviation = torch.diagonal(torch.linalg.inv(modes.precision), dim1=1, dim2=2).sqrt()
    lowest = (modes.theta - REACH * deviation).amin(dim=0).clamp(min=-radius)
    highest = (modes.theta + REACH * deviation).amax(dim=0).clamp(max=radius)
    n_nodes = float(((highest - lowest) / spacing).clamp(min=1).prod())
    spacing = spacing * max(1.0, (n_nodes / MOST_ON_LATTICE) ** (1 / len(spacing)))
    axes = []
    for low, high, step in zip(lowest.tolist(), highest.tolist(), spacing.tolist(), strict=True):
        first, last = math.ceil(low / step - offset), math.floor(high / step - offset)
        whole = torch.arange(first, last + 1, dtype=torch.float64, device=spacing.device)
        axes.append((whole + offset) * step)
    theta = torch.cartesian_prod(*axes).reshape(-1, len(axes))
    theta = theta[theta.square().sum(dim=1) <= radius**2]
    cell = float(spacing.log().sum()) - 0.5 * len(axes) * math.log(2 * math.pi)
    return NodeTensors(theta, cell - 0.5 * theta.square().sum(dim=1))


def where_there_is_mass(
    abilities: Abilities, items: ItemTensors, nodes: NodeTensors, modes: AbilityModes
) -> NodeTensors:
    """Leave out nodes that hold next to no mass of any respondent.

    Parameters
    ----------
    abilities, items
        Whose respondents, at which items.
    nodes
        All of them.
    modes
        Of their posteriors, for the size of each respondent's likelihood.
    """
    problem, mass = abilities.problem, torch.zeros_like(nodes.log_weights)
    for rows, some, joint in replace(problem, nodes=nodes).log_joints(items):
        mass[some] += (joint - modes.log_likelihood[rows, None]).exp_().sum(dim=0)
    ordered, order = mass.sort()
    n_left_out = int((ordered.cumsum(0) < LEFT_OUT * problem.rows.n_responses).sum())
    kept = order[n_left_out:].sort().values
    return NodeTensors(nodes.theta[kept], nodes.log_weights[kept])


@dataclass(frozen=True)
class Factors(Abilities):
    """Several abilities, all of which an item may have a slope on.

    Parameters
    ----------
    free_slopes
        Where a pattern lets slopes be estimated, shape (n_items, n_factors); None if exploratory.
    seed
        Of quasi-Monte Carlo points.
    near
        Abilities near the respondents', shape (n_respondents, n_factors); None where they are not known yet.
    """

    free_slopes: Tensor | None = None
    seed: int = 0
    near: Tensor | None = None

    def starts(self) -> list[ItemTensors]:
        """One of an exploratory model, two of a pattern."""
        items = self.problem.starting_values()
        loadings = loadings_of(item_correlations(self), self.problem.n_factors)
        free = self.free_slopes
        if free is None:
            return [with_slopes(items, slopes_of(loadings, self.scale))]
        turned = torch.where(free, towards_pattern(loadings, free), 0.0)
        # or each ability takes the common part of the items that have slopes on it
        common = torch.where(free, items.matrix[:, :1].abs().clamp(min=0.5), 0.0)
        return [with_slopes(items, slopes) for slopes in (slopes_of(turned, self.scale), common)]

    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """On a lattice for the posteriors, or on quasi-Monte Carlo points, which stay."""
        if not self.bounded:
            return self
        every, modes = lattice(self, items, room=room, start=self.near)
        nodes = where_there_is_mass(self, items, every, modes)
        bounded = self.problem.n_factors <= 3 or len(nodes.theta) <= MOST_NODES
        nodes = nodes if bounded else sobol_nodes(self.problem.n_factors, self.seed, self.problem.rows.device)
        return replace(self.on(nodes), bounded=bounded, near=modes.theta)

    def others(self, items: ItemTensors, *, room: float) -> NodeTensors:
        """A lattice that is finer, wider and moved, or points scrambled otherwise."""
        if not self.bounded:
            return sobol_nodes(self.problem.n_factors, self.seed + 1, self.problem.rows.device)
        radius = CHECKED_WIDER * RADIUS
        finer = {"finer": CHECKED_FINER, "offset": CHECKED_OFFSET}
        return lattice(self, items, room=room, start=self.near, radius=radius, **finer)[0]

    @property
    def words(self) -> str:
        """Which nodes these are."""
        number = len(self.problem.nodes.theta)
        if self.problem.n_factors == 1:
            return describe_nodes(self.problem.nodes)
        if self.bounded:
            return f"lattice of {number} nodes where posteriors lie"
        return f"quasi-Monte Carlo, {number} points, their error estimated and not bounded"

    def named(self, items: ItemTensors) -> ItemTensors:
        """On principal axes, or with abilities on which the sum of slopes is positive."""
        slopes = items.matrix[:, : self.problem.n_factors]
        slopes = principal_axes(slopes) if self.free_slopes is None else slopes
        return with_slopes(items, with_positive_sums(slopes))

    def of_slopes(self, directions: Tensor) -> Tensor:
        """Directions of slopes, shape (n, n_items, n_factors), in the free parameters, shape (n, n_free)."""
        free = self.problem.free
        whole = torch.nn.functional.pad(directions, (0, free.shape[1] - self.problem.n_factors))
        return whole.flatten(1)[:, free.flatten()]

    def determined(self, items: ItemTensors) -> Tensor:
        """Directions in which axes do not turn; none does where items share slopes."""
        if self.problem.prior.shared is not None:
            return super().determined(items)
        slopes, free = items.matrix[:, : self.problem.n_factors], self.problem.free[:, : self.problem.n_factors]
        return complement(self.of_slopes(turns(slopes, free)))

    def reported(self, items: ItemTensors) -> Tensor:
        """Those that keep slopes on principal axes; where a pattern lets axes turn they are fixed."""
        if self.free_slopes is not None:
            return self.determined(items)
        return complement(self.of_slopes(in_planes(items.matrix[:, : self.problem.n_factors], 1.0)))

    def curvature(self, items: ItemTensors) -> Curvature | None:
        """The information on nodes as many as standard errors need; None where it would be too large."""
        if self.problem.n_estimated > MOST_PARAMETERS:
            return None
        return super(Factors, self.placed(items, room=INFORMATION_ROOM)).curvature(items)


def complement(rows: Tensor) -> Tensor:
    """Orthonormal columns that span what is orthogonal to some rows."""
    if not len(rows):
        return torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    return torch.linalg.qr(rows.T, mode="complete").Q[:, len(rows) :]


def sobol_nodes(n_factors: int, seed: int, device: torch.device = CPU) -> NodeTensors:
    """Scrambled Sobol' points for many abilities, or the usual coarse grid for few."""
    quadrature = factor_quadrature(n_factors, seed=seed)
    places, log_weights = (torch.from_numpy(part).to(device) for part in (quadrature.nodes, quadrature.log_weights))
    return NodeTensors(places.reshape(len(log_weights), -1), log_weights)


def factor_problem(
    answers: Answers,
    n_factors: int,
    zero_loadings: NDArray[np.bool_] | None,
    seed: int = 0,
    *,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> Factors:
    """Several abilities behind answers, without a prior but of asymptotes, on nodes to begin with.

    `dtype` is that of the sums.
    """
    scale, priors = answers.scale(n_factors, device), answers.priors
    free = None if zero_loadings is None else torch.from_numpy(~zero_loadings).to(device)
    nodes = replace(sobol_nodes(n_factors, seed, device), dtype=dtype)
    if n_factors == 1:
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=dtype, device=device)
    rows = answers.rows(scale)
    if answers.linear:
        zeros = torch.zeros(len(scale), dtype=torch.float64, device=device)
        model = partial(
            logistic_model, priors=priors, guessing_free=zeros.to(torch.bool), guessing_fixed=zeros, slopes_free=free
        )
        problem: Problem = Problem.of(model, rows, nodes)
    else:
        known = None if free is None else known_slopes(scale, free)
        problem = CategoryProblem.of(partial(category_model, items=scale, priors=priors, known=known), rows, nodes)
    if answers.one_slope:
        every = torch.ones_like(problem.free[:, :n_factors]) if free is None else free
        width = problem.free.shape[1]
        sets = [(torch.nonzero(every[:, k])[:, 0] * width + k).tolist() for k in range(n_factors)]
        problem = answers.designed(problem, scale, sets)
    return Factors(problem, scale, free_slopes=free, seed=seed)


def known_slopes(scale: CategoryItems, free: Tensor) -> Tensor:
    """Slopes of 0 where they are not free, NaN for what is estimated, shape (n_items, width)."""
    known = torch.full(scale.free.shape, torch.nan, dtype=torch.float64, device=free.device)
    known[:, : free.shape[1]][~free] = 0.0
    return known


def slopes_of(loadings: Tensor, scale: CategoryItems) -> Tensor:
    """Slopes from loadings, none so large that it leaves an item no variance of its own."""
    communality = loadings.square().sum(dim=1, keepdim=True)
    loadings = loadings * (LARGEST_COMMUNALITY / communality.clamp(min=LARGEST_COMMUNALITY)).sqrt()
    unique = (1 - communality.clamp(max=LARGEST_COMMUNALITY)).sqrt()
    pairs = zip(scale.models, scale.n_categories, strict=True)
    unit = loadings.new_tensor([model.start(np.full(k, 1 / k), 1.0)[0] for model, k in pairs])
    return NORMAL_OGIVE * loadings / unique * unit[:, None]


def loadings_of(correlation: Tensor, n_factors: int) -> Tensor:
    """Loadings on the principal axes of correlations, whose diagonal does not matter, shape (n_items, n_factors)."""
    # the largest correlation of each item with another is taken for its communality
    off_diagonal = correlation - torch.diag(torch.diagonal(correlation))
    reduced = off_diagonal + torch.diag(off_diagonal.abs().max(dim=1).values)
    sizes, axes = torch.linalg.eigh(reduced)
    return axes[:, -n_factors:].flip(1) * sizes[-n_factors:].flip(0).clamp(min=SMALLEST_SIZE).sqrt()


def item_correlations(abilities: Abilities) -> Tensor:
    """Correlations of the items' scores over those who answered both, shape (n_items, n_items)."""
    problem, scale = abilities.problem, abilities.scale
    score = problem.rows.n_correct.new_zeros(len(scale.item_of_column), len(scale))
    score[torch.arange(len(score), device=score.device), scale.item_of_column] = scale.column_scores
    both = both_scores = score.new_zeros(len(scale), len(scale))
    number = abilities.problem.n_by_item.clamp(min=1)
    mean, square = (problem.rows.n_correct @ part / number for part in (score, score.square()))
    deviation = (square - mean.square()).clamp(min=1e-12).sqrt()
    for batch in problem.batches(dtype=torch.float64):
        own = batch.correct @ score
        observed = torch.ones_like(own) if batch.observed is None else batch.observed
        standard = (own - observed * mean) / deviation
        both_scores, both = both_scores + standard.T @ standard, both + observed.T @ observed
    return both_scores / both.clamp(min=1)
