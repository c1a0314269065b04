"""The density of items, (log |a|, b) or (log |a|, d), and the mean of that of c, under which all items are likeliest.

What is maximised is the likelihood of the responses with each item integrated out over its nodes. With few responses an
item that is flat in the standard deviation s of log |a|, and often highest at zero: slopes would then be taken for
alike, with intervals too short for all of them. So s^2 has itself a density, the scaled inverse chi-square of 2 degrees
of freedom at .5^2, as if two slopes had been seen before: s lies between .26 and 3.1 with 95%. The standard deviation
of b given log |a|, of which the responses say much more, has the density Gamma(2, rate -> 0), which is proportional to
it and keeps a mode off zero (Chung, Rabe-Hesketh, Dorie, Gelman & Liu, 2013). The mean of c has the density that c had
before anything was learnt. And items are averaged over s and the mean of c, by their posteriors on the scales of log
and logit.

Difficulties are often skewed: a test has a long tail of easy items. A normal density would pull the tail in, and
abilities and their unit with it. So with few respondents it may be a mixture of up to three; how many components there
are is chosen by BIC, items being what is counted.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.few_respondents.item_grid import ItemGrid, weighted_moments
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.tensors import GUESSING

SEEN_DISTANCE = 1.0  # the same of the distances of steps
SEEN, SEEN_DEVIATION = 2.0, 0.5  # the density of s: as many slopes seen before, of that standard deviation of log |a|
PLACES = (-2.4, -1.2, 0.0, 1.2, 2.4)  # of log s, in its standard deviations: sums so far apart integrate normal ones
PLACES_OF_MEAN = (-1.7, 0.0, 1.7)  # of the logit of the mean of c, likewise
WIDEST = 0.6  # standard deviation of log s that places are made for
LEAST_KNOWN = 0.05  # share of a prior's variance that responses are taken to remove at least
SURE = 0.05  # with a smaller one nothing is gained by other places than the middle one
MOST_COMPONENTS = 3
LEAST_DEVIATION = 0.02  # items alike in slope would drive it to nothing
LEAST_OF_A_COMPONENT = 0.1  # of b: a component of a mixture is no spike
LARGEST_UPDATE, LARGEST_OF_RANDOM = 0.5, 0.1  # of a mean, log standard deviation or log weight, by nodes
STEPS = 12  # of the search, which goes on with the next update
SHARED, OWN = 3, 3  # places of numbers that all components share before that of c, and how many each has
TAILS = ((0.5, 0.8), (0.35, 1.4), (0.15, 2.5))  # weights and widths: about a t density of four degrees of freedom
APART, NARROWER = 0.8, 0.6  # the halves of a component, in its standard deviations


def learn(grid: ItemGrid, priors: Priors, start: Priors) -> tuple[Priors, float]:
    """The densities under which the items are likeliest, and the largest change of one of their numbers.

    As many components as there are, which share the density of log |a| and the regression of b on it: the items far
    out in b, of which nearly everybody gets right all or none, say nothing of a slope of their own. No number moves
    far from the `priors` so far, since the nodes lie where the items' posteriors are under these; less far where nodes
    are random, for beyond them the likelihood is that of the few furthest.
    """
    from scipy.optimize import minimize  # a tenth of a second that other fits need not wait for

    n_items, n_components = float(grid.counts.sum()), len(priors.pair.parts)
    nodes = grid.nodes.unflatten(1, (n_components, -1))
    beta = learnt_beta(priors, grid.free)
    log_weights = grid.log_weights
    log_c, log_other = (torch.where(grid.free[:, None], logsigmoid(side * grid.logit), 0.0) for side in (1.0, -1.0))

    def negative_log_likelihood(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        with torch.enable_grad():
            at = nodes.new_tensor(values).requires_grad_()
            (mean, log_deviation, slope, logit), own, distances = in_parts(at, n_components)
            mean_b, log_rest, share = own[..., None].unbind(1)
            first = (nodes[..., 0] - mean) * (-log_deviation).exp()
            second = (nodes[..., 1] - mean_b - slope * first) * (-log_rest).exp()
            density = -0.5 * (first**2 + second**2) - log_deviation - log_rest + torch.log_softmax(share, dim=0)
            log_mass = log_weights + density.flatten(1) + grid.log_density_of_distances(distances)
            if beta is not None:
                shapes = beta * torch.sigmoid(logit), beta * torch.sigmoid(-logit)
                constant = torch.where(grid.free, torch.lgamma(shapes[0]) + torch.lgamma(shapes[1]), 0.0)
                log_mass = log_mass + shapes[0] * log_c + shapes[1] * log_other - constant[:, None]
            worth = log_density_of(at, n_components, beta, start)
            loss = -(grid.counts @ torch.logsumexp(log_mass, dim=1) + worth) / n_items
            loss.backward()
        assert at.grad is not None
        return loss.item(), at.grad.cpu().numpy()

    if beta is None:
        log_weights = log_weights + grid.log_prior_of_guessing(priors)
    begin, furthest = packed(priors, beta), LARGEST_OF_RANDOM if grid.n_distances else LARGEST_UPDATE
    lower, upper = begin - furthest, begin + furthest
    for places, least in (
        (slice(1, 2), LEAST_DEVIATION),
        (slice(SHARED + 2, SHARED + 1 + OWN * n_components, OWN),
         LEAST_DEVIATION if n_components == 1 else LEAST_OF_A_COMPONENT),
    ):  # fmt: skip
        lower[places] = np.minimum(np.maximum(lower[places], math.log(least)), begin[places])
    lower[SHARED + 3] = upper[SHARED + 3] = begin[SHARED + 3]  # weights sum to 1
    if start.hierarchy is not None and start.pair.deviation[0] <= LEAST_DEVIATION:  # slopes are one
        lower[1:SHARED] = upper[1:SHARED] = begin[1:SHARED]
    found = minimize(
        negative_log_likelihood,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(lower, upper, strict=True)),
        options={"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-8},
    )
    learnt = unpacked(found.x, priors, beta)
    return learnt, float(np.abs(numbers_of(learnt) - numbers_of(priors)).max())


def learnt_beta(priors: Priors, free: Tensor) -> float | None:
    """Weight of a Beta density of c, whose mean is learnt; None where no item is guessed, or its density is normal."""
    if priors.guessing is None or priors.guessing.density != "beta" or not bool(free.any()):
        return None
    return priors.guessing.first + priors.guessing.second


def log_density_of_deviation(log_deviation: Tensor, seen: float = SEEN_DEVIATION) -> Tensor:
    """Of log s under the scaled inverse chi-square density of s^2, up to a constant."""
    return -SEEN * (log_deviation + 0.5 * seen**2 * (-2 * log_deviation).exp())


def packed(priors: Priors, beta: float | None = None) -> NDArray[np.float64]:
    """Mean and log sd of log |a|, rise of b with one sd of it, logit of the mean of c; then of each component its own.

    These are mean, log rest and log weight; mean and rest are of b, the rest being its deviation at a given a. Last,
    mean and log sd of each sort of distances of steps.
    """
    _, first = priors.pair.parts[0]
    rise = first.correlation * first.deviation[1]
    logit = 0.0 if beta is None or priors.guessing is None else math.log(priors.guessing.first / priors.guessing.second)
    rows = [first.mean[0], math.log(first.deviation[0]), rise, logit]
    for weight, part in priors.pair.parts:
        rest = math.sqrt(max(part.deviation[1] ** 2 - rise**2, LEAST_DEVIATION**2))
        rows += [part.mean[1], math.log(rest), math.log(weight)]
    return np.array(rows + [value for mean, s in priors.distances.values() for value in (mean, math.log(s))])


def in_parts(numbers: Tensor, n_components: int) -> tuple[Tensor, Tensor, Tensor]:
    """Those that all components share, those that each has, and those of distances."""
    shared, own = SHARED + 1, SHARED + 1 + OWN * n_components
    return numbers[:shared], numbers[shared:own].reshape(n_components, OWN), numbers[own:].reshape(-1, 2)


def unpacked(values: NDArray[np.float64], priors: Priors, beta: float | None = None) -> Priors:
    """The priors with the densities of such numbers."""
    shared, own, behind = in_parts(torch.from_numpy(values), len(priors.pair.parts))
    mean, log_deviation, rise, logit = shared.tolist()
    weights = torch.softmax(own[:, 2], dim=0)
    parts = []
    for weight, (mean_b, log_rest, _) in zip(weights.tolist(), own.tolist(), strict=True):
        deviation = math.hypot(rise, math.exp(log_rest))
        moments = (mean, mean_b), (math.exp(log_deviation), deviation)
        parts.append((weight, Hierarchy(*moments, rise / deviation, of=priors.pair.of)))
    guessing = priors.guessing
    if beta is not None:
        mean_c = 1 / (1 + math.exp(-logit))
        guessing = GuessingPrior("beta", beta * mean_c, beta * (1 - mean_c))
    distances = {
        name: (mean, math.exp(log_s)) for name, (mean, log_s) in zip(priors.distances, behind.tolist(), strict=True)
    }
    return replace(priors, hierarchy=Hierarchy.mixture(parts), guessing=guessing, distances=distances)


def numbers_of(priors: Priors) -> NDArray[np.float64]:
    """Means, standard deviations and correlation of the whole, the mean of c, and those of distances of steps."""
    prior, guessing = priors.pair, priors.guessing
    mean_c = 0.0 if guessing is None else guessing.first / (guessing.first + guessing.second)
    distances = [value for pair in priors.distances.values() for value in pair]
    return np.array([*prior.mean, *prior.deviation, prior.correlation, mean_c, *distances])


def split(grid: ItemGrid, priors: Priors) -> tuple[ItemGrid, Priors]:
    """The mixture with its heaviest component in two halves, of easier and of harder items, on the nodes it has.

    Neither goes with log |a|: a long tail of easy items makes a single component's log |a| and b go together.
    """
    parts = [(weight, replace(part, correlation=0.0)) for weight, part in priors.pair.parts]
    heaviest = max(range(len(parts)), key=lambda k: parts[k][0])
    order = [k for k in range(len(parts)) if k != heaviest]
    weight, whole = parts[heaviest]
    (log_a, b), (s, rest) = whole.mean, whole.deviation
    halves = [
        (weight / 2, replace(whole, mean=(log_a, b + side * APART * rest), deviation=(s, NARROWER * rest)))
        for side in (-1, 1)
    ]
    hierarchy = Hierarchy.mixture([*(parts[k] for k in order), *halves])
    return grid.with_components([*order, heaviest, heaviest]), replace(priors, hierarchy=hierarchy)


def worth_a_component(grid: ItemGrid) -> float:
    """By how much a component more must raise the log-likelihood: BIC, items being what is counted."""
    return 0.5 * OWN * math.log(float(grid.counts.sum()))


def with_long_tails(priors: Priors) -> Priors:
    """The densities with the tails of a t density in b given log |a|, each component as `TAILS` normal ones.

    How far out the furthest items are a few of them say, of which all but one or two got right, so that a normal
    density learnt from items that are not normal leaves out those in the tail.
    """
    return replace(priors, hierarchy=Hierarchy.mixture([(w, longer(part)) for w, part in priors.pair.parts]))


def longer(part: Hierarchy) -> Hierarchy:
    """One component with long tails, as a mixture."""
    together = part.correlation * part.deviation[1]
    alone = part.deviation[1] * math.sqrt(1 - part.correlation**2)
    wholes = [(share, math.hypot(together, width * alone)) for share, width in TAILS]
    return Hierarchy.mixture(
        [
            (share, replace(part, deviation=(part.deviation[0], whole), correlation=together / whole))
            for share, whole in wholes
        ]
    )


def moved(priors: Priors, beta: float | None, log_ratio: float, step: float) -> Priors:
    """With another standard deviation of log |a|, the regression of b on it as it was, and another mean of logit c."""
    values = packed(priors, beta)
    values[1] += log_ratio
    values[2] *= math.exp(log_ratio)
    values[SHARED] += step
    return unpacked(values, priors, beta)


def over_densities(grid: ItemGrid, priors: Priors, start: Priors) -> tuple[Priors, list[tuple[float, Priors]]]:
    """The priors with what is known of s, and those with other s and other means of c, weighted by their posterior.

    What is known of log s has about the standard deviation 1 / sqrt(2 sum (1 - r)^2), r being the share of the prior's
    variance that is left in an item's posterior: the information of values that are known with error. For the logit of
    the mean of c it is that of logit c by sqrt(sum (1 - r)).
    """
    prior = priors.pair
    variance = weighted_moments(grid.mass(priors), grid.nodes)[1].diagonal(dim1=1, dim2=2)
    known = grid.counts * (1 - variance[:, 0] / prior.deviation[0] ** 2).clamp(0, 1)
    width = float((2 * known @ (known / grid.counts)).clamp(min=WIDEST**-2).rsqrt())
    places, beta, width_of_mean = PLACES if width > SURE else (0.0,), learnt_beta(priors, grid.free), 0.0
    if beta is not None and priors.guessing is not None:
        deviation = priors.guessing.logit_deviation
        known = grid.counts * grid.free * (1 - variance[:, GUESSING] / deviation**2).clamp(LEAST_KNOWN, 1)
        width_of_mean = deviation / math.sqrt(float(known.sum()))
    means = PLACES_OF_MEAN if width_of_mean > SURE else (0.0,)
    steps = [(width * by_s, width_of_mean * by_c) for by_s in places for by_c in means]
    others = [moved(priors, beta, *step) for step in steps]
    numbers = [torch.from_numpy(packed(other, beta)) for other in others]
    before = [float(log_density_of(own, len(prior.parts), beta, start)) for own in numbers]
    worth = [grid.log_evidence(other) + own for other, own in zip(others, before, strict=True)]
    weights = torch.softmax(grid.level.new_tensor(worth), dim=0)
    log_s = grid.level.new_tensor([by_s for by_s, _ in steps])
    spread = float((weights @ (log_s - weights @ log_s) ** 2).sqrt()) if len(places) > 1 else width
    learnt = replace(priors, hierarchy=replace(prior, uncertainty=spread))
    return learnt, list(zip(weights.tolist(), others, strict=True))


def log_density_of(numbers: Tensor, n_components: int, beta: float | None, start: Priors) -> Tensor:
    """Of such numbers before responses were seen, up to a constant: deviations, and the logit of the mean of c."""
    (_, log_deviation, _, logit), own, distances = in_parts(numbers, n_components)
    worth = log_density_of_deviation(log_deviation) + own[:, 1].sum()
    worth = worth + log_density_of_deviation(distances[:, 1], SEEN_DISTANCE).sum()
    if beta is not None and start.guessing is not None:
        worth = worth + start.guessing.first * logsigmoid(logit) + start.guessing.second * logsigmoid(-logit)
    return worth
