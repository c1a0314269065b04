"""The density of ability estimated with the items: a mixture of normal ones, with mean 0 and standard deviation 1.

Crowds have a tail of careless workers, or two kinds of people in them, and a normal density then distorts the items.
With as many components as BIC asks for (Mislevy, 1984, has one to several) a normal crowd keeps its normal density.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.driver import alternate
from irtbench.estimation.marginal.acceleration import FixedPoint
from irtbench.estimation.marginal.fisher_scoring import find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Learning
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

MOST_COMPONENTS = 4
MOST_UPDATES = 200
MOST_SHIFT = 0.2  # of mean and log standard deviation, of an accelerated density: one further off is not tried
SLACK = 1e-3  # by which the log-posterior may be lower, for a component at its least width
HOPELESS = 0.01  # of the likelihood that BIC asks for: where an update gains less, another component is given up


LEAST_DEVIATION = 0.3  # of a component: narrower ones make steps of items' curves where items are few
EM_STEPS = 20
LEAST_SHARE = 1e-6
MOST_WIDENINGS, ROUNDING = 50, 1e-9


@dataclass(frozen=True)
class NormalMixture:
    """sum_k share_k N(mean_k, deviation_k^2), shapes (n_components,) each.

    A component adds three parameters; location and scale of the whole are those of theta, mean 0 and standard deviation
    1, so that k components have 3 (k - 1).
    """

    share: Tensor
    mean: Tensor
    deviation: Tensor

    @classmethod
    def slices(cls, n_components: int, device: torch.device) -> NormalMixture:
        """The standard normal density cut into slices of equal mass, each with its mean, as a place to start from."""
        ends = torch.linspace(0, 1, n_components + 1, dtype=torch.float64, device=device)
        height = torch.exp(-0.5 * torch.special.ndtri(ends).square()) / math.sqrt(2 * math.pi)
        mean = -n_components * height.diff()
        deviation = (1 - mean.square().mean()).sqrt().expand(n_components)
        return cls(torch.full_like(mean, 1 / n_components), mean, deviation)

    @property
    def n_parameters(self) -> int:
        """Number of parameters besides location and scale."""
        return 3 * (len(self.share) - 1)

    @property
    def coordinates(self) -> Tensor:
        """Logarithms of shares, means and logarithms of standard deviations, shape (3 n_components,)."""
        return torch.cat([self.share.log(), self.mean, self.deviation.log()])

    @classmethod
    def at(cls, coordinates: Tensor) -> NormalMixture:
        """The mixture with these coordinates."""
        log_share, mean, log_deviation = coordinates.chunk(3)
        return cls(torch.softmax(log_share, dim=0), mean, log_deviation.exp())

    def log_components(self, theta: Tensor) -> Tensor:
        """Log of share times density up to a constant, shape (n_theta, n_components)."""
        z = (theta[:, None] - self.mean) / self.deviation
        return (self.share / self.deviation).log() - z.square() / 2

    def log_weights(self, theta: Tensor) -> Tensor:
        """Logarithm of the mass at each node, shape (n_nodes,)."""
        return torch.log_softmax(torch.logsumexp(self.log_components(theta), dim=1), dim=0)

    def fitted_to(self, theta: Tensor, respondents: Tensor) -> NormalMixture:
        """Steps of EM (Dempster, Laird & Rubin, 1977) on expected numbers of respondents at nodes."""
        mixture = self
        for _ in range(EM_STEPS):
            mine = torch.softmax(mixture.log_components(theta), dim=1) * respondents[:, None]
            total = mine.sum(dim=0).clamp(min=LEAST_SHARE * float(respondents.sum()))
            mean = (mine * theta[:, None]).sum(dim=0) / total
            variance = (mine * (theta[:, None] - mean).square()).sum(dim=0) / total
            mixture = NormalMixture(total / total.sum(), mean, variance.sqrt().clamp(min=LEAST_DEVIATION))
        return mixture

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the whole."""
        mean = float(self.share @ self.mean)
        return mean, float(self.share @ (self.deviation.square() + (self.mean - mean).square())) ** 0.5

    def standardised(self) -> tuple[NormalMixture, float, float]:
        """The density of (theta - mean) / deviation, with the mean and the standard deviation of theta.

        There no component is narrower than may be: narrower ones are widened first, and the whole with them.
        """
        wide = self
        for _ in range(MOST_WIDENINGS):
            mean, deviation = wide.moments
            if float(wide.deviation.min()) >= LEAST_DEVIATION * deviation * (1 - ROUNDING):
                break
            wide = NormalMixture(self.share, self.mean, wide.deviation.clamp(min=LEAST_DEVIATION * deviation))
        return NormalMixture(self.share, (self.mean - mean) / deviation, wide.deviation / deviation), mean, deviation


@dataclass(frozen=True)
class Populated:
    """Items under a density of ability.

    Parameters
    ----------
    problem
        With the density on its nodes.
    mode
        The items.
    n_components
        Of the density.
    """

    problem: Problem
    mode: Estimate
    n_components: int

    @property
    def bic(self) -> float:
        """Twice the negative log-posterior and the penalty of the density's parameters."""
        return 3 * self.n_components * math.log(self.problem.rows.n_respondents) - 2 * self.mode.log_posterior


def find_mode_with_population(
    problem: Problem,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
) -> tuple[Problem, Estimate]:
    """Mode of the items and the population's density together, and the problem with that density on its nodes.

    The normal density first, then a component more as long as BIC falls, up to `MOST_COMPONENTS`.
    """
    problem, mode = find_mode_on_right_nodes(problem, start, tolerance=tolerance, max_steps=max_steps)
    normal = replace(mode.status, learning=Learning("density", 0, 0.0, settled=True, remark=in_words(1)))
    best = Populated(problem, replace(mode, status=normal), 1)
    for n_components in range(2, MOST_COMPONENTS + 1):
        if not best.mode.status.converged:
            break
        more = with_components(best, problem.nodes, n_components, tolerance=tolerance, max_steps=max_steps)
        if more.bic >= best.bic:
            break
        best = more
    return best.problem, best.mode


def in_words(n_components: int) -> str:
    """Say how many components there are."""
    return "normal by BIC" if n_components == 1 else f"{n_components} normal components by BIC"


def with_components(
    best: Populated,
    nodes: NodeTensors,
    n_components: int,
    *,
    tolerance: float,
    max_steps: int,
) -> Populated:
    """Mode of the items and of a density of so many components.

    Steps on the items and on the density alternate, an EM algorithm for the density. With ten items abilities tell so
    little of it that hundreds of plain updates would not settle: updates are accelerated, and where the log-posterior
    is lower after an accelerated one, the plain one is taken. Converged when the items have a mode under a density none
    of whose cumulative masses the next plain update changes by more than ten times `tolerance`. Where the likelihood no
    longer rises and BIC asks for more than the `best` with a component less has, the updates end.
    """
    theta, wanted = nodes.theta[:, 0], best.mode.log_posterior + 1.5 * math.log(best.problem.rows.n_respondents)
    density, items, steps = NormalMixture.slices(n_components, theta.device), best.mode.items, best.mode.status.steps
    path, highest, plain = FixedPoint(), -math.inf, None  # the plain update in place of which another is tried

    def under(density: NormalMixture) -> Problem:
        return replace(best.problem, nodes=NodeTensors(nodes.theta, density.log_weights(theta), nodes.dtype))

    def mode_of_items(tolerance: float = max(tolerance, 1e-4)) -> Estimate:
        nonlocal steps
        mode = find_mode(under(density), start=items, tolerance=tolerance, max_steps=max_steps)
        steps += mode.status.steps
        return mode

    def update() -> tuple[float, bool]:
        nonlocal density, items, path, highest, plain
        mode = mode_of_items()
        if plain is not None and not (mode.status.converged and mode.log_posterior >= highest - SLACK):
            (density, items), path = plain, FixedPoint()
            mode = mode_of_items()
        if not mode.status.converged:
            return math.inf, False
        gain, highest = mode.log_posterior - highest, mode.log_posterior
        problem, before = under(density), density
        density, items = plain = standardised(
            problem, before.fitted_to(theta, problem.counts(mode.items).respondents), mode.items
        )
        change = float((density.log_weights(theta).exp() - before.log_weights(theta).exp()).cumsum(0).abs().max())
        if gain < HOPELESS * (wanted - highest):
            return change, False
        if change >= 10 * tolerance:
            further = NormalMixture.at(path.after(before.coordinates, density.coordinates))
            mean, deviation = further.moments
            if max(abs(mean), abs(math.log(deviation))) < MOST_SHIFT:
                density, items = standardised(problem, further, items)
        return change, True

    learning = alternate("density", update, tolerance=10 * tolerance, most=MOST_UPDATES)
    learning = replace(learning, remark=in_words(n_components))
    mode = mode_of_items(tolerance)
    status = replace(mode.status, steps=steps, learning=learning)
    return Populated(
        under(density), replace(mode, status=status, n_density_parameters=density.n_parameters), n_components
    )


def standardised(problem: Problem, density: NormalMixture, items: ItemTensors) -> tuple[NormalMixture, ItemTensors]:
    """A density of mean 0 and standard deviation 1, and the items with their curves.

    With theta = m + s theta', items keep their curves with a' = s a, d' = d + m a.
    """
    density, mean, deviation = density.standardised()
    return density, problem.rescaled(items, mean, deviation)
