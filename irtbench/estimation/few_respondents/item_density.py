"""The density of (log |a|, b) under which the items are likeliest: normal, or a mixture of up to three normal ones.

Difficulties are often skewed: a test has a long tail of easy items. Where items are integrated out and respondents are
few, a normal density would pull the tail in, and abilities and their unit with it. How many components there are is
chosen by BIC, items being what is counted.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from irtbench.estimation.few_respondents.item_quadrature import ItemQuadrature
from irtbench.models.priors import Hierarchy

MOST_COMPONENTS = 3
LEAST_DEVIATION = 0.02  # items alike in slope would drive it to nothing
LEAST_OF_A_COMPONENT = 0.1  # of b: a component of a mixture is no spike
LARGEST_UPDATE = 0.5  # of means, log standard deviations and log weights, for the nodes lie where they were
STEPS = 12  # of the search, which goes on with the next update
SHARED, OWN = 3, 3  # numbers that all components share, and that each has of its own
TAILS = ((0.5, 0.8), (0.35, 1.4), (0.15, 2.5))  # weights and widths: about a t density of four degrees of freedom
APART, NARROWER = 0.8, 0.6  # the halves of a component, in its standard deviations


def learn(quadrature: ItemQuadrature, prior: Hierarchy) -> Hierarchy:
    """The density of (log |a|, b) under which the items are likeliest, abilities being given.

    As many components as `prior` has, which share the density of log |a| and the regression of b on it: the items far
    out in b, of which nearly everybody gets right all or none, say nothing of a slope of their own. No parameter moves
    far from `prior`, since the nodes lie where the items' posteriors are under that.
    """
    from scipy.optimize import minimize  # a tenth of a second that other fits need not wait for

    n_items, n_components = len(quadrature.nodes), len(prior.parts)
    nodes = quadrature.nodes.view(n_items, n_components, -1, 2)
    log_weights = quadrature.log_weights.view(n_items, n_components, -1)

    def negative_log_likelihood(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        with torch.enable_grad():
            at = nodes.new_tensor(values).requires_grad_()
            mean, log_deviation, slope = at[:SHARED]
            mean_b, log_rest, share = at[SHARED:].view(n_components, OWN, 1).unbind(1)
            first = (nodes[..., 0] - mean) * (-log_deviation).exp()
            second = (nodes[..., 1] - mean_b - slope * first) * (-log_rest).exp()
            density = -0.5 * (first**2 + second**2) - log_deviation - log_rest - math.log(2 * math.pi)
            log_mass = log_weights + density + torch.log_softmax(share, dim=0)
            loss = -torch.logsumexp(log_mass.flatten(1), dim=1).mean()
            loss.backward()
        assert at.grad is not None
        return loss.item(), at.grad.cpu().numpy()

    start = packed(prior)
    lower, upper = start - LARGEST_UPDATE, start + LARGEST_UPDATE
    for places, least in (
        (slice(1, 2), LEAST_DEVIATION),
        (slice(SHARED + 1, None, OWN), LEAST_DEVIATION if n_components == 1 else LEAST_OF_A_COMPONENT),
    ):
        lower[places] = np.minimum(np.maximum(lower[places], math.log(least)), start[places])
    lower[SHARED + 2] = upper[SHARED + 2] = start[SHARED + 2]  # weights sum to 1
    found = minimize(
        negative_log_likelihood,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(lower, upper, strict=True)),
        options={"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-8},
    )
    return unpacked(found.x)


def packed(prior: Hierarchy) -> NDArray[np.float64]:
    """Mean and log sd of log |a|, rise of b with one sd of it; then of each component mean, log rest and log weight.

    Mean and rest are of b, the rest being its standard deviation at a given a.
    """
    _, first = prior.parts[0]
    rise = first.correlation * first.deviation[1]
    rows = [first.mean[0], math.log(first.deviation[0]), rise]
    for weight, part in prior.parts:
        rest = math.sqrt(max(part.deviation[1] ** 2 - rise**2, LEAST_DEVIATION**2))
        rows += [part.mean[1], math.log(rest), math.log(weight)]
    return np.array(rows)


def unpacked(values: NDArray[np.float64]) -> Hierarchy:
    """The density of such numbers."""
    mean, log_deviation, rise = values[:SHARED].tolist()
    own = values[SHARED:].reshape(-1, OWN)
    weights = np.exp(own[:, 2] - own[:, 2].max())
    parts = []
    for weight, (mean_b, log_rest, _) in zip((weights / weights.sum()).tolist(), own.tolist(), strict=True):
        deviation = math.hypot(rise, math.exp(log_rest))
        moments = (mean, mean_b), (math.exp(log_deviation), deviation)
        parts.append((weight, Hierarchy(*moments, rise / deviation, of="difficulty")))
    return Hierarchy.mixture(parts)


def largest_difference(before: Hierarchy, after: Hierarchy) -> float:
    """Largest change of a mean, a standard deviation or the correlation of the whole."""
    pairs = zip((*before.mean, *before.deviation), (*after.mean, *after.deviation), strict=True)
    return max(abs(after.correlation - before.correlation), *(abs(new - old) for old, new in pairs))


def split(prior: Hierarchy) -> Hierarchy:
    """The mixture with its heaviest component in two halves, of easier and of harder items; b goes with no log |a|.

    A long tail of easy items makes a single component's log |a| and b go together.
    """
    _, first = prior.parts[0]
    parts = sorted((weight, part.mean[1], part.deviation[1]) for weight, part in prior.parts)
    weight, mean, deviation = parts.pop()
    parts += [(weight / 2, mean + side * APART * deviation, NARROWER * deviation) for side in (-1, 1)]
    own = [[mean, math.log(deviation), math.log(weight)] for weight, mean, deviation in parts]
    return unpacked(np.r_[first.mean[0], math.log(first.deviation[0]), 0.0, np.ravel(own)])


def with_long_tails(prior: Hierarchy) -> Hierarchy:
    """The density with the tails of a t density in b given log |a|, each component as `TAILS` normal ones.

    How far out the furthest items are a few of them say, of which all but one or two got right, so that a normal
    density learnt from items that are not normal leaves out those in the tail.
    """
    parts = []
    for weight, part in prior.parts:
        together = part.correlation * part.deviation[1]
        alone = part.deviation[1] * math.sqrt(1 - part.correlation**2)
        for share, width in TAILS:
            whole = math.hypot(together, width * alone)
            parts.append(
                (share * weight, replace(part, deviation=(part.deviation[0], whole), correlation=together / whole))
            )
    return Hierarchy.mixture(parts)


def worth_a_component(n_items: int) -> float:
    """By how much a component more must raise the log-likelihood: BIC, items being what is counted."""
    return 0.5 * OWN * math.log(n_items)
