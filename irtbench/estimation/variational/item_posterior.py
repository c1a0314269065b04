"""The posterior of the item parameters: Pyro's SVI with a normal guide that starts at the mode.

Ability is integrated out in the model (`models.pyro_model.model`), so the guide is over items only; `item_guide` says
in which coordinates. What is approximated is the posterior around the mode, where slopes keep their signs. Without
a prior that favours one of the two there is a mirror image with theta's sign turned, of which the guide says nothing.

Without a prior of slopes it is asked whether there is a posterior at all. As an item's slope grows, rising or falling,
the item becomes a step and the likelihood tends to a positive number, so that under a flat prior the posterior is
improper, strictly speaking. A large fall from the mode says that what lies out there does not matter. Far out the other
items have other parameters than at the mode, for the step says much of ability: where the fall with these fixed is not
large by itself they are estimated anew.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pyro.infer import SVI
from pyro.optim import ClippedAdam
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.shown import Shown
from irtbench.estimation.driver import maximise, own_parameters
from irtbench.estimation.few_respondents.item_grid import Rule
from irtbench.estimation.item_quantiles import QUANTILES, quantile_columns
from irtbench.estimation.marginal.fisher_scoring import SLOPE_BOUND, find_mode
from irtbench.estimation.marginal.item_likelihood import relative_to, right_and_wrong
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.observed_information import NormalMoments
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import PosteriorKind
from irtbench.estimation.status import Learning
from irtbench.estimation.variational.importance_weights import (
    ELBO_DRAWS,
    MOST_DIVERGENCE,
    ItemReliability,
    Target,
    WeightedDraws,
    divergence,
    elbo_draws,
    item_reliability,
    weighted_draws,
)
from irtbench.estimation.variational.item_guide import ItemGuide, Spread, natural_parameters
from irtbench.estimation.variational.loss import MarginalELBO
from irtbench.models.pyro_model.rows import DenseRows
from irtbench.models.pyro_model.tensors import GUESSING, INTERCEPT, ItemTensors, curve

logger = logging.getLogger(__name__)

WINDOW = 100  # steps over which the guide's parameters are averaged
FIRST_RATE, LAST_RATE = 0.05, 0.0005  # Adam's, in standard deviations of the Laplace approximation
SMALLEST_DROP = 10.0  # of the log-likelihood towards endless slopes: with less a flat prior leaves mass out there
HERMITE_NODES = 11  # in each dimension
MOST_HELD = 2**22  # values of parameters at points of it
ONE_DEVIATION = [0.15865525393145707, 0.8413447460685429]  # levels of a normal density's mean -+ one deviation
QUANTILE_DRAWS = 4_000  # of the guide, where none are weighted


@dataclass(frozen=True, eq=False)
class ItemPosterior(Shown):
    """Moments of the posterior of the item parameters, and how they were found.

    Parameters
    ----------
    kind
        ``normal``: the correlations of the Laplace approximation, with means and standard deviations learnt;
        ``lowrank``: correlations learnt as well.
    mean
        Posterior mean of (a, d, c) of each item, or (a, d, c, u), shape (n_items, 3 or 4); c itself where it is
        fixed.
    covariance
        Posterior covariance of them, shape (n_items, 3, 3) or (n_items, 4, 4); zeros where c is fixed.
    quantiles
        The 2.5, 50 and 97.5% quantiles of (a, b, c), or (a, b, c, u), of each item, shape (3, n_items, 3 or 4),
        b = -d / a being computed in each draw; c itself where it is fixed. A mean of b need not exist where a slope may
        be zero.
    difficulty_deviation
        Half the distance of the 15.9 and 84.1% quantiles of b, shape (n_items,): what the standard deviation would be
        were b normal. That of b itself need not exist.
    reliability
        What the weighted draws of each item are worth; None where the moments are the guide's own.
    item_ids
        Names of the items, or their numbers.
    elbo
        Evidence lower bound, E_q[log p(x, phi) - log q(phi)]. A flat prior counts as a density of 1, so that bounds
        compare only under the same prior.
    elbo_error
        Standard error of that expectation, which is over draws, as if they were independent (they are spread evenly).
    divergence
        Kullback-Leibler divergence of the guide q from the posterior in nats, estimated as log mean w - mean log w with
        w = p(x, phi) / q(phi) over draws; too small where the posterior has far tails that no draw has met.
    effective_draws
        How many draws of the posterior the weighted draws are worth that mean and covariance were taken from; None
        where the weights were too uneven, so that mean and covariance are the guide's.
    slope_inflation
        Slopes of the mean by those of the mode, sum a_mean a_mode / sum a_mode^2. A prior density of each slope by
        itself, flat or nearly so, favours all of them large at once, by about 1 / sqrt(1 - n_items / n_respondents)
        where abilities are known well; a hierarchy of log |a| does not.
    steps
        Number of steps of the optimiser.
    converged, stopped_because
        Whether means and standard deviations had settled, and the reason in words.
    seed
        Of the draws.
    population
        Ability by Rasch items, whose slopes are 1: its standard deviation is estimated in their place; else None.
    """

    kind: PosteriorKind
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    difficulty_deviation: NDArray[np.float64]
    reliability: ItemReliability | None
    item_ids: tuple[str, ...]
    elbo: float
    elbo_error: float
    divergence: float
    effective_draws: float | None
    slope_inflation: float
    steps: int
    converged: bool
    stopped_because: str
    seed: int
    population: NormalMoments | None = None

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            "kind": self.kind,
            "elbo": self.elbo,
            "elbo_error": self.elbo_error,
            "divergence": self.divergence,
            "effective_draws": self.effective_draws,
            "sd_doubtful": list(self.doubtful_items),
            "slope_inflation": self.slope_inflation,
            "steps": self.steps,
            "converged": self.converged,
            "stopped_because": self.stopped_because,
        }

    @property
    def doubtful_items(self) -> tuple[str, ...]:
        """Items whose standard deviations may be too small, see `item_reliability`."""
        if self.reliability is None:
            return ()
        return tuple(self.item_ids[j] for j in self.reliability.doubtful)

    @property
    def difficulty(self) -> NDArray[np.float64]:
        """Posterior median of b = -d / a of each item, shape (n_items,)."""
        return self.quantiles[1, :, 1]

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Quantiles as columns of items.csv: ``discrimination_lower, ..., difficulty_lower, ..., guessing_upper``.

        NaN for guessing that is fixed.
        """
        return quantile_columns(self.quantiles, self.covariance[:, 2, 2] > 0)

    @property
    def standard_deviations(self) -> NDArray[np.float64]:
        """Of (a, d, c) of each item, or (a, d, c, u), of the shape of `mean`."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))

    def table(self) -> pd.DataFrame:
        """One row an item: posterior quantiles, as items.csv has them."""
        return pd.DataFrame({"item_id": self.item_ids, **self.columns()})


def fit_posterior(
    problem: Problem,
    items: ItemTensors,
    kind: PosteriorKind,
    *,
    seed: int,
    item_ids: Sequence[str] | None = None,
    **how: Any,
) -> ItemPosterior:
    """Fit a normal density to the posterior of the items around their mode, by stochastic variational inference.

    The ELBO of the model is maximised by Adam on reparametrised draws, with the path derivative
    (Roeder, Wu & Duvenaud, 2017), whose noise vanishes as the guide approaches the posterior. The guide's parameters
    are averaged over windows of 100 steps (Polyak & Juditsky, 1992); the result is the average of the last two.

    The guide is normal in the coordinates of `item_guide`. A guide fitted by the ELBO keeps out of tails, so moments of
    (a, d, c) are those of draws weighted to the posterior (`weighted_draws`); where the weights are too uneven, as with
    hundreds of parameters, they are the guide's own, by Gauss-Hermite quadrature. The mean and covariance of a
    hierarchy are fixed, as is an estimated population. See `check_posterior_exists` for what is refused, and
    `fit_guide` for `how` steps are taken.
    """
    check_posterior_exists(problem, items, item_ids)
    n_columns = 0 if kind == "normal" else round(int(problem.free.sum()) ** 0.5)
    with own_parameters(), torch.enable_grad():
        guide = ItemGuide(problem, items, n_columns, seed)
        end = fit_guide(problem, guide, **how)
        target = Target(guide, problem)
        bounds = elbo_draws(target)
        elbo, apart = float(bounds.mean()), divergence(bounds)
        if not math.isfinite(elbo):
            raise improper(elbo, end.updates)
        draws = weighted_draws(target, seed) if apart < MOST_DIVERGENCE else None
    names, reliability = tuple(item_ids or map(str, range(1, len(items) + 1))), None
    if draws is None:
        mean, covariance = item_moments(problem, *guide.moments(guide.spread))
    else:
        natural = problem.as_read(draws.values)
        mean, covariance = draws.moments(natural)
        reliability = item_reliability(draws.weights, natural)
    reason = f"{end.remark}; {moments_in_words(draws, reliability, names)}"
    logger.info("posterior (%s): %s (%d steps)", kind, reason, end.updates)
    quantiles, deviation = quantiles_of(problem, guide_draws(guide) if draws is None else draws)
    slopes, population = items.slope[:, 0], None
    inflation = float(mean[:, 0] @ slopes / (slopes @ slopes))
    if problem.prior.by_theta:
        population = NormalMoments(0.0, float(mean[0, 0]), 0.0, float(covariance[0, 0, 0].sqrt()))
        mean[:, 0], covariance[:, 0], covariance[:, :, 0] = 1.0, 0.0, 0.0
    return ItemPosterior(
        kind=kind, mean=mean.cpu().numpy(), covariance=covariance.cpu().numpy(), quantiles=quantiles.cpu().numpy(),
        difficulty_deviation=deviation.cpu().numpy(), reliability=reliability, item_ids=names, elbo=elbo,
        elbo_error=float(bounds.std()) / math.sqrt(ELBO_DRAWS), divergence=apart,
        effective_draws=None if draws is None else draws.effective, slope_inflation=inflation,
        steps=end.updates, converged=end.settled, stopped_because=reason, seed=seed, population=population,
    )  # fmt: skip


@torch.no_grad()
def guide_draws(guide: ItemGuide) -> WeightedDraws:
    """Draws of the guide itself, all of the same weight."""
    coordinates, spread, normals = guide.coordinates, guide.spread, guide.normals
    drawn = [coordinates.natural(coordinates(spread.at(next(normals)))) for _ in range(QUANTILE_DRAWS)]
    return WeightedDraws(torch.stack(drawn), drawn[0].new_zeros(QUANTILE_DRAWS))


def quantiles_of(problem: Problem, draws: WeightedDraws) -> tuple[Tensor, Tensor]:
    """Quantiles of (a, b, c) of each item, shape (3, n_items, 3), and `difficulty_deviation`, shape (n_items,)."""
    slope, intercept, *asymptotes = problem.as_read(draws.values).unbind(-1)
    if problem.prior.by_theta:
        slope = torch.ones_like(slope)
    values = torch.stack([slope, -intercept / slope, *asymptotes], dim=-1)
    found = draws.quantiles(values, [*QUANTILES.values(), *ONE_DEVIATION])
    return found[: len(QUANTILES)], (found[-1, :, 1] - found[-2, :, 1]) / 2


def moments_in_words(draws: WeightedDraws | None, reliability: ItemReliability | None, names: Sequence[str]) -> str:
    """Where the moments are from, and of which items they are doubtful."""
    if draws is None or reliability is None:
        return "moments are the guide's own, since weights of draws would be too uneven"
    doubtful = [names[j] for j in reliability.doubtful]
    more = f"; standard deviations doubtful for item {name_first(doubtful)}" if doubtful else ""
    return f"moments from {len(draws):,} weighted draws ({draws.effective:,.0f} effective){more}"


def fit_guide(
    problem: Problem, guide: ItemGuide, n_particles: int = 4, tolerance: float = 0.02, max_steps: int = 2_000
) -> Learning:
    """Take steps of Adam on the ELBO until averages of two windows agree.

    The guide's parameters are the average of both windows then. Adam's rate falls so slowly that a mean could still
    move by .05 of its standard deviation in the last window.

    Raises
    ------
    InputError
        If the bound is not finite.
    """
    decay = (LAST_RATE / FIRST_RATE) ** (1 / max_steps)
    optimiser = ClippedAdam({"lr": FIRST_RATE, "lrd": decay, "clip_norm": 1e9})
    svi = SVI(problem.model, guide, optimiser, loss=MarginalELBO(num_particles=n_particles))
    averages, total, values = list[Tensor](), torch.zeros_like(guide.values), guide.values.data

    @torch.no_grad()
    def settled(step: int, loss: float) -> Learning | None:
        if not math.isfinite(loss):
            raise improper(-loss, step)
        total.add_(values)
        if step % WINDOW:
            return None
        averages.append(total / WINDOW)
        total.zero_()
        change = largest_change(guide, *map(Spread, averages[-2:])) if len(averages) > 1 else math.inf
        if step + WINDOW <= max_steps and not change < tolerance:
            return None
        values.copy_(torch.stack(averages[-2:]).mean(dim=0))
        moved = (
            f"means and standard deviations moved by up to {change:.2g} standard deviations "
            f"between windows of {WINDOW} steps"
        )
        words = f"{moved}, below {tolerance:g}" if change < tolerance else f"no convergence in {step} steps: {moved}"
        return Learning("guide", step, change, change < tolerance, words)

    return maximise(svi, problem.rows, problem.nodes, stopped=settled)


def largest_change(guide: ItemGuide, before: Spread, after: Spread) -> float:
    """Largest change of a mean or a standard deviation, in standard deviations."""
    (mean, covariance), (new_mean, new_covariance) = guide.moments(before), guide.moments(after)
    width = torch.diagonal(covariance, dim1=1, dim2=2).sqrt()
    new_width = torch.diagonal(new_covariance, dim1=1, dim2=2).sqrt()
    free = new_width > 0
    moved = torch.maximum((new_mean - mean).abs(), (new_width - width).abs())
    return float((moved[free] / new_width[free]).max())


def improper(elbo: float, steps: int) -> InputError:
    """The error for an ELBO that is not finite."""
    return InputError(
        f"posterior: the ELBO is {elbo} after {steps} steps, so the posterior is improper or far from normal; "
        "expected a proper one (prior weak)"
    )


def check_posterior_exists(problem: Problem, items: ItemTensors, item_ids: Sequence[str] | None) -> None:
    """Refuse problems that have no posterior, or none that this guide is made for; see `fit_posterior`."""
    if not isinstance(problem.rows, DenseRows):
        raise InputError("posterior: Pyro's SVI needs a response matrix, not a sparse list; expected no posterior")
    if problem.n_factors != 1:
        raise InputError(f"posterior: {problem.n_factors} abilities; expected one (the axes of several may turn)")
    if bool(problem.guessing_free.any()) and problem.prior.guessing_is_flat:
        raise InputError(
            "posterior: guessing without a prior has an improper posterior (the likelihood does not fall as logit c "
            "goes to minus infinity); expected prior weak or hierarchical"
        )
    if problem.prior.slope_is_flat:
        n_items, n_respondents = problem.rows.n_items, len(problem.rows)
        if n_items >= n_respondents:
            # for all slopes times r the likelihood falls as r^-n_respondents, and there are r^(n_items - 1) of them
            raise InputError(
                f"posterior: {n_items} items and {n_respondents} respondents: without a prior of slopes the posterior "
                "is improper unless respondents outnumber items; expected prior hierarchical"
            )
        drop = drop_at_endless_slopes(problem, items)
        worst = int(drop.argmin())
        if not float(drop[worst]) >= SMALLEST_DROP:
            name = f"item {worst + 1} of {n_items}" if item_ids is None else f"item {item_ids[worst]}"
            name = name if problem.prior.shared is None else "all items"
            raise InputError(
                f"posterior: {name}: without a prior of its slope the posterior is improper (the log-likelihood "
                f"falls by only {float(drop[worst]):.1f}, less than {SMALLEST_DROP:g}, as the slope grows without "
                "end); expected prior weak or hierarchical"
            )


def item_moments(problem: Problem, mean: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of (a, d, c) of each item, or (a, d, c, u), by Gauss-Hermite quadrature over its coordinates.

    Parameters
    ----------
    problem
        Which parameters are free.
    mean, covariance
        Of the coordinates, as `ItemGuide.moments` returns them.
    """
    rule, sign = Rule.hermite(mean.shape[1], HERMITE_NODES, mean), problem.prior.slope_sign
    mass = torch.softmax(rule.log_weights - 0.5 * rule.offsets.square().sum(dim=1), dim=0)
    sizes, directions = torch.linalg.eigh(covariance)
    roots = directions * sizes.clamp(min=0).sqrt()[:, None, :]
    origin = problem.as_read(natural_parameters(mean, sign, problem.free[:, 2:]))
    first, second = torch.zeros_like(mean), torch.zeros_like(covariance)
    at_once = max(1, MOST_HELD // mean.numel())
    for some, share in zip(rule.offsets.split(at_once), mass.split(at_once), strict=True):
        psi = mean + torch.einsum("jab,pb->pja", roots, some)
        away = problem.as_read(natural_parameters(psi, sign, problem.free[:, 2:])) - origin
        first += torch.einsum("p,pja->ja", share, away)
        second += torch.einsum("p,pja,pjb->jab", share, away, away)
    return origin + first, second - first[:, :, None] * first[:, None, :]


MOST_PLACES = 120  # abilities at which a step is tried
REFITTED_BELOW = 60.0  # of the fall with the other items fixed; estimating them anew takes up to three quarters of it
LEFT_BY_REFIT = 0.25  # of a fall, by other parameters estimated anew
REFIT_TOLERANCE, REFIT_STEPS = 0.01, 50


def step_places(problem: Problem) -> Tensor:
    """Abilities between neighbouring nodes at which a step is tried, shape (n_places,)."""
    theta = problem.nodes.theta[:, 0]
    stride = -(-len(theta) // MOST_PLACES)
    return ((theta[:-1] + theta[1:]) / 2)[::stride]


@torch.no_grad()
def change_with_others_fixed(problem: Problem, items: ItemTensors) -> Tensor:
    """Change of the log-likelihood as each item becomes a step, all other items fixed.

    With P the item's curve at the mode and S the step, respondent i's likelihood changes by the factor
    E[S / P | x_i] where the response is correct, by E[(1 - S) / (1 - P) | x_i] where it is not, and by
    E[(S / P)^k ((1 - S) / (1 - P))^m | x_i] with k correct of k + m trials.

    Returns
    -------
    Tensor
        Shape (n_items, 2, n_places): rising and falling steps.
    """
    rising = SLOPE_BOUND * (problem.nodes.theta[:, 0][:, None] - step_places(problem))
    logits, at_mode = torch.cat([rising, -rising], dim=1), items.logits(problem.nodes.basis)
    change = items.intercept.new_zeros(len(items), logits.shape[1])
    for batch, posterior in posteriors(problem, items, logits.shape[1]):
        for j in range(len(items)):
            right = batch.correct[:, j]
            wrong = (1 if batch.observed is None else batch.observed[:, j]) - right
            step, now = (curve(z, items.guessing[j]) for z in (logits, at_mode[j, :, None]))
            for k, m in right_and_wrong(right, wrong):
                ratio, _, _ = relative_to(step, (now.p, now.q), k, m)
                change[j] += (posterior[(right == k) & (wrong == m)] @ ratio).log().sum(dim=0)
    return change.unflatten(1, (2, -1))


@torch.no_grad()
def drop_at_endless_slopes(problem: Problem, items: ItemTensors) -> Tensor:
    """How far the log-likelihood falls from the mode as the slope of one item grows without end, shape (n_items,).

    The step is tried between all neighbouring nodes with the other items fixed. Where that fall is below
    `REFITTED_BELOW` the other items are estimated anew, with the best of these steps and with one at the ability
    that as many are above as got the item right. Where all have one slope it grows for
    all, difficulties as they are, and a quarter of the fall counts.
    """
    here = problem.evaluate(items).log_posterior
    if problem.prior.shared is not None:
        steeper = items.linear * (SLOPE_BOUND / items.slope)
        steep = problem.evaluate(ItemTensors(steeper[:, :1], steeper[:, 1], items.guessing)).log_posterior
        return items.intercept.new_full((len(items),), (here - steep) * LEFT_BY_REFIT)
    change = change_with_others_fixed(problem, items)
    drop = -change.flatten(1).amax(dim=1)
    for j in torch.nonzero(drop < REFITTED_BELOW)[:, 0].tolist():
        for sign, place in likely_steps(problem, items, change[j], j):
            there = refitted_with_step(problem, items, j, sign * SLOPE_BOUND, place)
            drop[j] = min(float(drop[j]), here - there)
    return drop


def likely_steps(problem: Problem, items: ItemTensors, change: Tensor, j: int) -> set[tuple[float, float]]:
    """Signs and places of the steps with which the other items are worth estimating anew."""
    places = step_places(problem)
    best = int(change.flatten().argmax())
    sign = 1.0 if float(items.slope[j, 0]) >= 0 else -1.0
    share = (problem.nodes.log_weights.exp() @ torch.sigmoid(items.logits(problem.nodes.basis)[j])).clamp(0.001, 0.999)
    median = float(torch.special.ndtri(share))
    nearest = int((places + sign * median).abs().argmin())
    return {
        (1.0 if best < len(places) else -1.0, float(places[best % len(places)])),
        (sign, float(places[int(change[0 if sign > 0 else 1].argmax())])),
        (sign, float(places[nearest])),
    }


def refitted_with_step(problem: Problem, items: ItemTensors, j: int, slope: float, place: float) -> float:
    """The log-posterior with one item fixed as a step, all others at their mode."""
    fixed = torch.zeros(3, *problem.free.shape, dtype=torch.float64, device=problem.rows.device)
    for k, column in enumerate((0, INTERCEPT, GUESSING)):
        fixed[k, j, column] = 1.0
    slopes, intercept = items.slope.clone(), items.intercept.clone()
    slopes[j], intercept[j] = slope, -slope * place
    others = replace(problem, fixed_directions=fixed)
    start = ItemTensors(slopes, intercept, items.guessing)
    return find_mode(others, start=start, tolerance=REFIT_TOLERANCE, max_steps=REFIT_STEPS).log_posterior
