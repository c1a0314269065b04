"""People against machines: which items are harder or easier for a few systems than for equally able people.

Item j has the logit a_j theta_s + d_j + t_j + w_jf for system s of family f. The shift t_j ~ N(0, tau^2 + v_j) is the
item's own, with v_j the calibration error of the known parameters; w_jf ~ N(0, omega^2) is what the systems of one
family share beyond it. Shifts are integrated out on a grid, abilities by Laplace's approximation (NumPy and SciPy).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import chdtrc, chdtri, logsumexp, ndtri

from irtbench.analysis.item_differences import DELTA_PER_LOGIT, ItemDifferences
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import demand_share, refuse_any
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.shown import Shown
from irtbench.models.curves import curve, logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters, responses_and_items
from irtbench.models.theta_posterior import ability_posterior, known_items, sum_score_distribution

Array = NDArray[np.float64]

STEP, BOUND = 0.1, 6.0  # of the grid of shifts, in logits
GRID = np.arange(-round(BOUND / STEP), round(BOUND / STEP) + 1) * STEP
FEW = 0.4 * STEP**2  # a variance below this is on three nodes, which have it exactly
LOWEST = 1e-300  # weight of a node without mass
MEAN_DEVIATION = 10.0  # of the prior of the systems' mean ability: next to flat
CELLS_AT_ONCE = 2**23  # systems x items x nodes worked on at once
TOLERANCE = 1e-7  # of the gradient, an item: beyond, differences of log-likelihoods are rounding
MOST_STEPS, FIRST_RADIUS = 50, 10.0


@dataclass(frozen=True, eq=False)
class Slopes:
    """Value and derivatives by ability of the log-likelihood, item by item.

    Parameters
    ----------
    log_likelihood
        Of each item's responses, shape (n_items,).
    gradient
        Shape (n_items, n_systems).
    hessian
        Shape (n_items, n_systems, n_systems).
    posterior
        Of each item's shift t_j on the grid, shape (n_items, n_nodes).
    """

    log_likelihood: Array
    gradient: Array
    hessian: Array
    posterior: Array


@dataclass(frozen=True, eq=False)
class Mode:
    """The abilities of greatest posterior density, given the standard deviations.

    Parameters
    ----------
    theta
        Shape (n_systems,).
    precision
        Negative Hessian of the log posterior there, shape (n_systems, n_systems).
    evidence
        Log marginal likelihood by Laplace's approximation.
    slopes
        Of each item at the mode.
    """

    theta: Array
    precision: Array
    evidence: float
    slopes: Slopes


@dataclass(frozen=True, eq=False)
class ShiftLikelihood:
    """The systems' responses and the known items.

    Parameters
    ----------
    responses
        1, 0 or NaN, shape (n_systems, n_items).
    items
        Their known parameters.
    calibration_variance
        Of the logit of each item for a system of middling ability, shape (n_items,).
    families
        The number of each system's family, 0 and up, shape (n_systems,).
    """

    responses: Array
    items: ItemParameters
    calibration_variance: Array
    families: NDArray[np.intp]

    def slopes(self, theta: Array, tau: float, omega: float) -> Slopes:
        """Value and derivatives at these abilities and standard deviations; a part of the items after the other."""
        n_parts = max(1, -(-self.responses.size * GRID.size // CELLS_AT_ONCE))
        parts = [self._slopes(theta, tau, omega, p) for p in np.array_split(np.arange(self.items.n_items), n_parts)]
        return Slopes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _slopes(
        self, theta: Array, tau: float, omega: float, part: NDArray[np.intp]
    ) -> tuple[Array, Array, Array, Array]:
        """Arrays of shape (n_systems or n_families, n_items, n_nodes), the shift of a node being t_j + w_jf."""
        x, a, c = self.responses[:, part, None], self.items.discrimination[part], self.items.guessing[part, None]
        sign, observed = np.where(x == 1, 1.0, -1.0), ~np.isnan(x)
        s = logistic(sign * ((theta[:, None] * a + self.items.intercept[part])[:, :, None] + GRID))
        p = np.where(x == 1, c, 0.0) + (1 - c) * s
        rate = (1 - c) * s * (1 - s) / p
        first = observed * sign * a[:, None] * rate
        second = observed * a[:, None] ** 2 * (rate * (1 - 2 * s) - rate**2)
        family = self.families if omega else np.zeros_like(self.families)  # without shifts of their own all are one
        value = np.tensordot(np.eye(family.max() + 1)[family].T, observed * np.log(p), 1)
        highest, kernel = value.max(axis=2, keepdims=True), family_kernel(omega)
        own = np.exp(value - highest)
        smooth = np.maximum(own @ kernel.T, LOWEST)
        log_prior = np.log(np.maximum(grid_weights(tau**2 + self.calibration_variance[part]), LOWEST))
        joint = log_prior + (np.log(smooth) + highest).sum(axis=0)
        total = logsumexp(joint, axis=1)
        q = np.exp(joint - total[:, None])
        within = (own * ((q / smooth) @ kernel))[family]  # posterior of the whole shift
        mean, curved = (np.einsum("sjk,sjk->js", each, within) for each in (first, second))
        products = (first * within).transpose(1, 0, 2) @ first.transpose(1, 2, 0)
        if omega:  # systems of two families have the item's shift alone in common
            given = (own[family] * first) @ kernel.T / smooth[family]
            apart = (given * q).transpose(1, 0, 2) @ given.transpose(1, 2, 0)
            products = np.where(family[:, None] == family, products, apart)
        hessian = products - mean[:, :, None] * mean[:, None, :]
        hessian[:, np.arange(len(theta)), np.arange(len(theta))] += curved
        return total, mean, hessian, q

    def mode(self, tau: float, omega: float, sigma: float, *, start: Array) -> Mode:
        """Newton's method for abilities with the prior N(m, sigma^2) and m next to unknown."""
        n, share = len(start), MEAN_DEVIATION**2 / (sigma**2 + len(start) * MEAN_DEVIATION**2)
        prior = (np.eye(n) - share) / sigma**2
        at = lru_cache(maxsize=2)(lambda theta: self.slopes(np.array(theta), tau, omega))
        theta = minimize(
            lambda x: 0.5 * x @ prior @ x - at(tuple(x)).log_likelihood.sum(),
            start,
            jac=lambda x: prior @ x - at(tuple(x)).gradient.sum(axis=0),
            hess=lambda x: prior - at(tuple(x)).hessian.sum(axis=0),
            method="trust-exact",
            options={
                "gtol": TOLERANCE * self.items.n_items,
                "maxiter": MOST_STEPS,
                "initial_trust_radius": FIRST_RADIUS,
            },
        ).x
        slopes = at(tuple(theta))
        precision = prior - slopes.hessian.sum(axis=0)
        lost = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(prior)[1]
        evidence = slopes.log_likelihood.sum() - 0.5 * (theta @ prior @ theta + lost)
        return Mode(theta, precision, float(evidence), slopes)


def grid_weights(variance: Array) -> Array:
    """Weights of the grid's nodes for N(0, variance), shape (n, n_nodes)."""
    variance = np.asarray(variance, dtype=np.float64)[:, None]
    weights = np.exp(-0.5 * GRID**2 / np.maximum(variance, FEW))
    weights /= weights.sum(axis=1, keepdims=True)
    near = variance / (2 * STEP**2) * (np.abs(np.abs(GRID) - STEP) < STEP / 2)
    three = near + (1 - variance / STEP**2) * (np.abs(GRID) < STEP / 2)
    return np.asarray(np.where(variance < FEW, three, weights))


def family_kernel(omega: float) -> Array:
    """Weights of a family's whole shift given the item's, rows sum to 1, shape (n_nodes, n_nodes)."""
    middle = GRID.size // 2
    apart = np.abs(np.arange(GRID.size)[:, None] - np.arange(GRID.size))
    kernel = np.append(grid_weights(np.array([omega**2]))[0, middle:], np.zeros(middle))[apart]
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


FEWEST_SYSTEMS, FEWEST_ITEMS = 3, 5
TAUS = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.6])
OMEGAS = np.array([0, 0.2, 0.4, 0.6, 0.8, 1.1, 1.5, 2.0])
NEGLIGIBLE = 8.0  # log evidence below the largest at which a standard deviation is no longer looked at
LEAST_WEIGHT = 1e-3  # of the largest: standard deviations less likely than this are passed over
SIGMA = (0.1, 3.0)  # bounds of the standard deviation of the systems' abilities
N_DRAWS = 256  # of abilities, for each item's p
CELLS = 2**22  # items x draws x numbers right worked on at once
ALIKE = 6  # decimals to which distances are compared, so that equal ones are ties on every machine
NEAREST = 0.1  # share of the people from whom a system's double is drawn, the nearest in ability
FEWEST_TIMES = 3  # people must be so many times as many as the systems


@dataclass(frozen=True, eq=False)
class ItemShifts(
    ItemDifferences,
    columns="item_ids, shift, se, shift_lower=lower, shift_upper=upper, delta, p, p_adjusted, n_systems, "
    "n_correct, expected_correct",
    short="{system_ids:system} x {item_ids:item}, tau {tau:.2f} ({tau_lower:.2f} to {tau_upper:.2f}), p {p_tau:.3g}, "
    "{p_adjusted:significant}",
):
    """Each item's shift for the systems, in logits; positive where it is easier for them than for people.

    Its table has one row an item, the columns of bias.csv.

    Parameters
    ----------
    item_ids, system_ids
        The items and the systems.
    shift, se, lower, upper
        Posterior mean, standard deviation and interval of each item's shift, shape (n_items,).
    p, p_adjusted
        Of no shift, item by item.
    n_systems, n_correct, expected_correct
        Systems that answered the item, how many were right, and how many of people as able would be.
    tau, tau_lower, tau_upper
        Standard deviation of the shifts over items, and the ends of its profile-likelihood interval.
    x2, p_tau
        Likelihood ratio of no shifts at all (tau = 0), half a chi-square with one degree of freedom.
    omega
        Standard deviation of what the systems of a family share beyond it; NaN without families.
    families
        The family of each system; empty where each is its own.
    theta, se_theta
        The systems' abilities with the shifts allowed for, shape (n_systems,).
    level
        Nominal coverage of the intervals.
    """

    system_ids: tuple[str, ...]
    shift: Array
    se: Array
    lower: Array
    upper: Array
    n_systems: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    expected_correct: Array
    tau: float
    tau_lower: float
    tau_upper: float
    x2: float
    p_tau: float
    omega: float
    families: tuple[str, ...]
    theta: Array
    se_theta: Array
    level: float

    @property
    def delta(self) -> Array:
        """The shift on the ETS delta scale."""
        return DELTA_PER_LOGIT * self.shift

    def systems_table(self) -> pd.DataFrame:
        """One row a system: columns of systems.csv."""
        family = {"family": self.families} if self.families else {}
        return pd.DataFrame({"respondent_id": self.system_ids} | family | {"theta": self.theta, "se": self.se_theta})


def item_shifts(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    families: Sequence[str] | None = None,
    adjustment: Adjustment = "fdr_bh",
    level: float = 0.95,
    rng: np.random.Generator,
) -> ItemShifts:
    """Items that are harder or easier for a few systems than for people as able, by random effects.

    The items' parameters are those of people. For system s item j has the logit a_j theta_s + d_j + u_j, with the same
    shift u_j ~ N(0, tau^2) for all systems. Five to thirty systems tell too little of a single item for a test with
    parameters of its own; together the items tell how far they shift, tau, and this draws each u_j towards 0 by as much
    as its data ask for (empirical Bayes).

    Abilities are N(m, s^2), m unknown and s estimated before any shift, and integrated out by Laplace's approximation;
    shifts are integrated on a grid. The error of the items' known parameters, where they come with a covariance, is
    part of the model: it is no shift. tau is tested by the likelihood ratio, half a chi-square since 0 is the boundary
    (Self & Liang, 1987); intervals of shifts average over tau with flat weights.

    p of an item is that of the number of systems that got it right, the sufficient statistic of its shift: its
    distribution without a shift is Poisson-binomial at abilities drawn from their posterior by the other items, and p
    is two-sided and mid-p.

    Systems of one family (a model and its fine-tunes) err together: beyond the shift common to all, each family has its
    own at each item, N(0, omega^2), so that ten variants of a model do not count as ten. Its standard deviation is
    estimated, tau is tested together with it, and p of an item has it in its distribution.

    Parameters
    ----------
    responses
        Of the systems, one for each item; missing ones are left out.
    items
        Parameters of at least these items, estimated from people.
    families
        The family of each system; None where each is its own.
    adjustment
        Of p over the items.
    level
        Nominal coverage of the intervals.
    rng
        For the draws behind p.

    Raises
    ------
    InputError
        If there are fewer than three systems or five items, several trials of an item, items whose slopes are 0,
        families that are not one a system or all the same, or ``level`` lies outside (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> people = irtbench.ItemParameters.from_difficulty(np.full(30, 1.3), np.linspace(-2, 2, 30))
    >>> harder = irtbench.ItemParameters.from_difficulty(np.full(30, 1.3), people.difficulty + 2.0 * np.eye(30)[14])
    >>> systems = irtbench.simulate_responses(rng.normal(0.5, 0.5, 20), harder, rng=rng)
    >>> found = irtbench.item_shifts(systems, people, rng=rng)
    >>> found.table()[["item_id", "n_correct", "expected_correct", "p"]].round(1)[14:15]
       item_id  n_correct  expected_correct    p
    14  item15          2              12.8  0.0
    """
    demand_share("item shifts: level", level)
    responses, items = responses_and_items(responses, items)
    known = known_items(responses, items)
    numbers = _check(responses.n_respondents, responses.n_items, families)
    refuse_any((
        (responses.trials is not None,
         "item shifts: several trials of an item; expected one response of each system to an item"),
        (not known.discrimination.any(), "item shifts: all slopes are 0; expected items that tell of ability"),
    ))  # fmt: skip
    start = ability_posterior(responses, known).mean()
    likelihood = ShiftLikelihood(responses.values, known, calibration_variance(known, float(start.mean())), numbers)
    omegas = OMEGAS if numbers.max() < len(start) - 1 else OMEGAS[:1]
    modes, evidence = _modes(likelihood, omegas, *_ability_deviation(likelihood, start))
    best = max(modes, key=lambda place: modes[place].evidence)
    tau, tau_lower, tau_upper, x2 = _profile(evidence.max(axis=1), level)
    shift, variance = _averaged(likelihood, modes, evidence, omegas)
    chosen = modes[best]
    p, expected = _item_tests(likelihood, chosen, float(omegas[best[1]]), rng)
    reach = float(ndtri((1 + level) / 2)) * np.sqrt(variance)
    return ItemShifts(
        item_ids=responses.item_ids,
        system_ids=responses.respondent_ids,
        shift=shift,
        se=np.sqrt(variance),
        lower=shift - reach,
        upper=shift + reach,
        p=np.where(responses.n_by_item > 0, p, np.nan),
        p_adjusted=adjust(np.where(responses.n_by_item > 0, p, np.nan), adjustment),
        n_systems=responses.n_by_item,
        n_correct=responses.n_correct_by_item,
        expected_correct=expected,
        tau=tau,
        tau_lower=tau_lower,
        tau_upper=tau_upper,
        x2=x2,
        p_tau=float(chdtrc(1, x2)) / 2 if x2 > 0 else 1.0,
        omega=float(omegas[best[1]]) if omegas.size > 1 else np.nan,
        families=() if families is None else tuple(families),
        theta=chosen.theta,
        se_theta=np.sqrt(np.diagonal(np.linalg.inv(chosen.precision))),
        level=level,
    )


def calibration_variance(items: ItemParameters, theta: float) -> Array:
    """Variance of each item's logit a theta + d by the sampling covariance of a and d; 0 where it is not known."""
    if items.covariance is None:
        return np.zeros(items.n_items)
    at = np.array([theta, 1.0, 0.0])
    return np.maximum(np.nan_to_num(at @ items.covariance @ at), 0.0)


def _check(n_systems: int, n_items: int, families: Sequence[str] | None) -> NDArray[np.intp]:
    """Refuse what is too little; the family of each system as a number."""
    own = np.arange(n_systems)
    numbers = own if families is None else np.unique(np.asarray(families, dtype=str), return_inverse=True)[1]
    refuse_any((
        (n_systems < FEWEST_SYSTEMS, f"item shifts: {n_systems} systems; expected at least {FEWEST_SYSTEMS}"),
        (n_items < FEWEST_ITEMS,
         f"item shifts: {n_items} items of known parameters; expected at least {FEWEST_ITEMS}"),
        (len(numbers) != n_systems,
         f"item shifts: {len(numbers)} families for {n_systems} systems; expected one each"),
        (not numbers.any(),
         "item shifts: all systems are of one family, which is one system; expected at least two"),
    ))  # fmt: skip
    return numbers


def _ability_deviation(likelihood: ShiftLikelihood, theta: Array) -> tuple[float, Array]:
    """Standard deviation of the systems' abilities about their mean (REML), and their mode without any shift."""
    n, sigma, before = len(theta), 1.0, 2.0
    while abs(np.log(sigma / before)) >= 0.01:
        mode = likelihood.mode(0.0, 0.0, sigma, start=theta)
        theta, before = mode.theta, sigma
        moments = np.linalg.inv(mode.precision) + np.outer(theta, theta)
        sigma = float(np.clip(np.sqrt((np.trace(moments) - moments.sum() / n) / (n - 1)), *SIGMA))
    return before, theta


def _modes(
    likelihood: ShiftLikelihood, omegas: Array, sigma: float, theta: Array
) -> tuple[dict[tuple[int, int], Mode], Array]:
    """The mode at each pair of standard deviations, by their places in ``TAUS`` and ``omegas``, and the evidence.

    As far as the evidence, minus infinity elsewhere, is not next to none; shape (n_taus, n_omegas).
    """
    found: dict[tuple[int, int], Mode] = {}
    evidence = np.full((TAUS.size, omegas.size), -np.inf)
    for row, tau in enumerate(TAUS):
        for column, omega in enumerate(omegas):
            found[row, column] = likelihood.mode(tau, omega, sigma, start=theta)
            theta, evidence[row, column] = found[row, column].theta, found[row, column].evidence
            if evidence[row, column] < evidence[row].max() - NEGLIGIBLE:
                break
        if evidence[row].max() < evidence.max() - NEGLIGIBLE:
            break
    return found, evidence[: row + 1]


def _profile(evidence: Array, level: float) -> tuple[float, float, float, float]:
    """Estimate of tau, ends of its profile-likelihood interval, and the likelihood ratio of 0."""
    taus = TAUS[: evidence.size]
    fine = np.linspace(0, taus[-1], 521)
    curve_of_tau = CubicSpline(taus, evidence)(fine)
    inside = fine[curve_of_tau >= curve_of_tau.max() - chdtri(1, 1 - level) / 2]
    x2 = 2 * float(curve_of_tau.max() - curve_of_tau[0])
    return float(fine[curve_of_tau.argmax()]), float(inside[0]), float(inside[-1]), x2


def _averaged(
    likelihood: ShiftLikelihood, modes: dict[tuple[int, int], Mode], evidence: Array, omegas: Array
) -> tuple[Array, Array]:
    """Posterior mean and variance of each item's shift over the standard deviations, each with flat weights.

    Of what is seen, t_j = u_j + e_j with the calibration error e_j ~ N(0, v_j), the shift is tau^2 / (tau^2 + v_j).
    """
    widths = np.gradient(omegas) if omegas.size > 1 else np.ones(1)
    weights = np.exp(evidence - evidence.max()) * np.outer(np.gradient(TAUS)[: len(evidence)], widths)
    rows, columns = np.nonzero(weights >= LEAST_WEIGHT * weights.max())
    weight = weights[rows, columns] / weights[rows, columns].sum()
    posterior = np.stack([modes[place].slopes.posterior for place in zip(rows.tolist(), columns.tolist(), strict=True)])
    seen, seen_square = posterior @ GRID, posterior @ GRID**2
    tau2, v = TAUS[rows, None] ** 2, likelihood.calibration_variance
    share = tau2 / np.maximum(tau2 + v, np.finfo(np.float64).tiny)
    mean, variance = share * seen, share**2 * (seen_square - seen**2) + share * v
    return weight @ mean, weight @ (variance + mean**2) - (weight @ mean) ** 2


def _item_tests(likelihood: ShiftLikelihood, mode: Mode, omega: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two-sided mid-p of each item's number right without a shift, and its expectation.

    One Newton step from the mode leaves an item out: theta - P_j^-1 g_j with P_j the precision without it.
    """
    n_systems, n_items = likelihood.responses.shape
    normal = rng.standard_normal((N_DRAWS, n_systems))
    error = rng.standard_normal(N_DRAWS)[:, None]
    shared = omega * rng.standard_normal((N_DRAWS, likelihood.families.max() + 1))[:, likelihood.families]
    p, expected = np.empty((2, n_items))
    for part in np.array_split(np.arange(n_items), -(-n_items * N_DRAWS * (n_systems + 1) // CELLS)):
        covariance = np.linalg.inv(mode.precision + mode.slopes.hessian[part])
        theta = mode.theta - (covariance @ mode.slopes.gradient[part][:, :, None])[:, :, 0]
        root = np.linalg.cholesky((covariance + covariance.transpose(0, 2, 1)) / 2)
        drawn = theta[:, None, :] + normal @ root.transpose(0, 2, 1)  # (items, draws, systems)
        a, d, c, v = (values[part][:, None, None] for values in (
            likelihood.items.discrimination, likelihood.items.intercept, likelihood.items.guessing,
            likelihood.calibration_variance,
        ))  # fmt: skip
        responses = likelihood.responses[:, part].T
        right = curve(a * drawn + d + np.sqrt(v) * error + shared, c).p * ~np.isnan(responses)[:, None, :]
        chance = sum_score_distribution(right.reshape(-1, n_systems)).reshape(len(part), N_DRAWS, -1).mean(axis=1)
        n_right = np.nansum(responses, axis=1, keepdims=True)
        below, at = (
            (chance * compared(np.arange(n_systems + 1), n_right)).sum(axis=1) for compared in (np.less, np.equal)
        )
        p[part] = np.clip(2 * np.minimum(below + at / 2, 1 - below - at / 2), 0.0, 1.0)
        expected[part] = right.sum(axis=2).mean(axis=1)
    return p, expected


@dataclass(frozen=True, eq=False)
class ShiftControl(Shown, columns="tau, p_tau, n_flagged"):
    """What `item_shifts` finds of people drawn in the place of the systems.

    Its table has one row a group of people, the columns of control.csv.

    Parameters
    ----------
    tau
        Standard deviation of the shifts of each group of people, shape (n_groups,).
    p_tau
        Its test in each.
    n_flagged
        Items with adjusted p below alpha in each.
    p
        Share of groups, the systems among them, whose tau is no smaller than that of the systems.
    """

    tau: NDArray[np.float64]
    p_tau: NDArray[np.float64]
    n_flagged: NDArray[np.int64]
    p: float

    def in_short(self) -> str:
        """The groups' mean tau, and how many have any item flagged."""
        return (
            f"{self.tau.size} groups of people, mean tau {self.tau.mean():.2f}, "
            f"{int((self.n_flagged > 0).sum())} with an item flagged, p {self.p:.3f}"
        )


def shift_control(
    people: ResponsesLike,
    items: ParametersLike,
    found: ItemShifts,
    *,
    n_groups: int = 20,
    alpha: float = 0.05,
    rng: np.random.Generator,
    progress: Callable[[str], None] = lambda message: None,
) -> ShiftControl:
    """Put people in the place of the systems, group after group, and look for shifts of items.

    For each system one of the tenth of the people nearest to it in ability is drawn, nobody twice in a group, so
    that what the items' model misses at these abilities is in the control too. People have no shift against themselves:
    tau should be near 0 and hardly an item flagged. Where they are not, neither is the systems' result to be trusted.

    Parameters
    ----------
    people
        Responses of the people to the same items.
    items
        Their known parameters.
    found
        The systems' result, whose abilities, families and items are taken.
    n_groups
        How many groups are drawn.
    alpha
        Level of the adjusted p.
    rng
        For the draws.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        If there are fewer than three times as many people as systems, or no groups are wanted.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty(np.full(20, 1.3), np.linspace(-2, 2, 20))
    >>> harder = irtbench.ItemParameters.from_difficulty(np.full(20, 1.3), items.difficulty + rng.normal(0, 1, 20))
    >>> systems = irtbench.simulate_responses(rng.normal(0.5, 0.5, 15), harder, rng=rng)
    >>> people = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> found = irtbench.item_shifts(systems, items, rng=rng)
    >>> control = irtbench.shift_control(people, items, found, n_groups=3, rng=rng)
    >>> bool(control.tau.max() < found.tau), control.p
    (True, 0.25)
    """
    people, given = responses_and_items(people, items)
    n_systems = len(found.system_ids)
    refuse_any((
        (n_groups < 1, f"control: {n_groups} groups; expected at least one"),
        (people.n_respondents < FEWEST_TIMES * n_systems,
         f"control: {people.n_respondents} people for {n_systems} systems; "
         f"expected at least {FEWEST_TIMES} times as many"),
    ))  # fmt: skip
    people = people.select_items([item for item in people.item_ids if item in set(found.item_ids)])
    known = known_items(people, as_parameters(given))
    ability = ability_posterior(people, known).mean()
    (tau, p_tau), flagged = np.empty((2, n_groups)), np.empty(n_groups, dtype=np.int64)
    for group in range(n_groups):
        doubles = people.select_respondents(drawn_doubles(found.theta, ability, rng))
        one = item_shifts(doubles, known, families=found.families or None, rng=rng)
        tau[group], p_tau[group], flagged[group] = one.tau, one.p_tau, (one.p_adjusted < alpha).sum()
        progress(f"control {group + 1} of {n_groups}: tau {one.tau:.2f}, {flagged[group]} items flagged")
    p = (1 + int((tau >= found.tau).sum())) / (1 + n_groups)
    return ShiftControl(tau, p_tau, flagged, p)


def drawn_doubles(
    theta: NDArray[np.float64], ability: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Who of the people takes part: one for each system, at random among the nearest that are not taken."""
    taken = np.zeros(ability.size, dtype=np.bool_)
    n_near = max(2, round(NEAREST * ability.size))
    for system in rng.permutation(theta.size):
        distance = np.where(taken, np.inf, np.abs(ability - theta[system]).round(ALIKE))
        near = np.argsort(distance, kind="stable")[: min(n_near, int((~taken).sum()))]
        taken[rng.choice(near)] = True
    return taken
