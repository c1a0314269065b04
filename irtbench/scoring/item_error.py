"""The error of the item parameters, carried into ability (NumPy only)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from irtbench.bank.scale import ScaleLine
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_choice, refuse_any
from irtbench.data.responses import ResponseMatrix, decoded, demand_single, name_first, positions_of
from irtbench.models.category_parameters import CategoryDerivatives, CategoryParameters
from irtbench.models.curves import curve, information, item_curves
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL, known_items, posterior_of, row_batches, some_rows
from irtbench.scoring.ability import (
    TINY,
    Abilities,
    Estimator,
    counts_of,
    estimate_ability,
    estimates,
    posterior_means,
)

ItemError = Literal["auto", "none", "delta", "draw", "integrate"]

N_DRAWS = 200
N_NODES = 15  # over which an item's log odds are averaged
STEP = 1e-4  # of theta, for the derivative of the estimating function
MOST_GUESSING = 0.99
LEAST_SHARE = 0.015  # that the items' error adds to the variance of ability, below which it is left out unasked


def with_item_error(
    abilities: Abilities,
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    item_error: ItemError = "delta",
    quadrature: Quadrature | None = None,
    n_draws: int = N_DRAWS,
    rng: np.random.Generator | None = None,
    joint_error: JointError | None = None,
) -> Abilities:
    """Carry the items' own sampling error into abilities.

    ``delta`` and ``draw`` widen standard errors and intervals, and theta stays:
    se^2 = se_theta^2 + V,  V = variance of the estimate over the sampling distribution of the item parameters. The
    ends of the interval keep their proportion to the standard error.

    - ``delta``: V = sum_j g_j' S_j g_j, with S_j the covariance of item j's parameters and g_j the derivative of theta.
      For EAP that is a covariance under the posterior, g_j = Cov(theta, d log P(x_j | theta) / d parameters); for the
      others it follows from the estimating equation.
    - ``draw``: theta is estimated again under ``n_draws`` sets of items drawn from N(estimate, S_j).

    ``integrate`` replaces each curve by its average over the item's error, P(theta) = E[c + (1 - c) / (1 + exp(-z))]
    with z = a theta + d normal, and takes the posterior of theta under these curves, which moves theta too. With items
    from few respondents curves at the estimates are too steep, and theta would lie too near the middle.

    - ``auto``: nothing where `item_error_share` says that the items' error adds less than 1.5% to the variance of
      theta (about 200 responses to a 2PL item), where it is not known, and for ``eap_sum``; else ``integrate`` for EAP,
      and ``delta`` for the others and with several trials. With ``joint_error``, by which the items err alike, standard
      errors and intervals are widened by what that adds as well: V with the covariance of all items less V.

    But for that items are taken as independent: what they share, the location and scale of theta that the crowd fixed,
    is the norm sample's error and enters with the percentile (see ``norms``).

    Parameters
    ----------
    abilities
        Of ``estimate_ability`` on these responses.
    responses, items, quadrature
        As there. The items need a covariance.
    item_error
        How; ``none`` gives the abilities back.
    n_draws, rng
        For ``draw``; without ``rng`` one seeded with 0.
    joint_error
        Of these items, for ``auto``; None where it is not known.

    Raises
    ------
    InputError
        If the covariance of an item answered is not known, ``delta`` is asked for EAP from the sum score,
        ``integrate`` for anything but EAP or with several trials of an item, which share its error, or abilities were
        estimated with the items and carry their error already.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), truth, rng=rng)
    >>> items = irtbench.fit_model(responses).items
    >>> abilities = irtbench.estimate_ability(responses, items)
    >>> wider = irtbench.with_item_error(abilities, responses, items)
    >>> bool((wider.standard_error > abilities.standard_error).all())
    True
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    demand_choice("item_error", item_error, ItemError)
    population, how = quadrature or STANDARD_NORMAL, item_error
    if item_error == "auto":
        how = automatic_item_error(items, abilities.method, population, several_trials=responses.trials is not None)
    if how == "none":
        return abilities
    refuse_any((
        (items.upper_asymptote is not None,
         "item error: is not known for items with upper asymptotes; expected none"),
        (items.categories is not None and (how != "delta" or items.categories.covariance is None),
         "item error: of items in categories it is auto, delta (of a bank.json that a fit left) or none"),
        (how == "integrate" and abilities.method not in ("eap", "joint"),
         f"item error: integrate goes with the method eap but got {abilities.method}"),
        (how == "delta" and abilities.method == "eap_sum",
         "item error: delta is not defined for eap_sum; expected draw"),
    ))  # fmt: skip
    if abilities.method == "joint":
        raise InputError("item error: abilities estimated with the items carry their error already; expected none")
    known = known_items(responses, items)
    if items.categories is None and item_error != "auto":
        demand_covariance(known, responses)
    if how == "draw":
        thetas = [
            estimate_ability(responses, drawn, method=abilities.method, quadrature=quadrature, level=0.5).theta
            for drawn in draw_items(known, n_draws, rng=rng or np.random.default_rng(0))
        ]
        return widen(abilities, np.var(thetas, axis=0, ddof=1))
    if how == "integrate":
        demand_single(responses, "item error integrate (delta and draw are)")
        through = partial(posterior_of, curves=integrated_log_icc)
        means = posterior_means(responses, known, population, abilities.level, through)
        found = replace(abilities, **estimates(means))
    else:
        found = widen(abilities, _delta_variance(abilities, responses, known, population))
    if item_error != "auto" or joint_error is None:
        return found
    joint = joint_error.select(positions_of(responses.item_ids, items.item_ids)).covariance
    return widen(found, _delta_variance(abilities, responses, known, population, joint))


def automatic_item_error(
    items: ItemParameters, method: Estimator, population: Quadrature | None = None, *, several_trials: bool = False
) -> ItemError:
    """What ``auto`` means for these items, see `with_item_error`."""
    if items.categories is not None:
        return "none" if item_error_share(items, population) < LEAST_SHARE else "delta"
    if method in ("joint", "eap_sum") or items.upper_asymptote is not None or items.covariance is None:
        return "none"
    if item_error_share(items, population) < LEAST_SHARE:
        return "none"
    return "integrate" if method == "eap" and not several_trials else "delta"


def item_error_share(items: ParametersLike, population: Quadrature | None = None) -> float:
    """Share that the items' error adds to the variance of ability, on average over the population.

    A logit z_j = a_j theta + d_j that is off by dz moves theta by (I_j / a_j) dz / (1 + I), I_j the information of item
    j and I that of all, so that to the variance 1 / (1 + I) of theta is added

        V / (1 / (1 + I)) = sum_j (I_j / a_j)^2 var(z_j) / (1 + I),   var(z_j) = (theta, 1) S_j (theta, 1)'.

    About 3 / n for a 2PL that n people answered, 1 / n for a Rasch model, 6 to 9 / n for a 3PL.

    Parameters
    ----------
    items
        All items of the scale; one whose covariance S_j is not known counts as known.
    population
        Density of ability; None for the standard normal.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> truth = irtbench.ItemParameters.from_difficulty([1.5] * 20, np.linspace(-2, 2, 20))
    >>> for n in (80, 800):
    ...     items = irtbench.fit_model(irtbench.simulate_responses(rng.normal(size=n), truth, rng=rng)).items
    ...     print(n, round(irtbench.item_error_share(items), 3))
    80 0.041
    800 0.004
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    if (items if items.categories is None else items.categories).covariance is None:
        return 0.0
    density, covariance = population or STANDARD_NORMAL, _covariance(items)
    if items.categories is not None:
        return _category_error_share(items.categories, covariance, density)
    theta, slope = density.nodes[:, None], items.discrimination
    variance = theta**2 * covariance[:, 0, 0] + 2 * theta * covariance[:, 0, 1] + covariance[:, 1, 1]
    each = information(density.nodes, items)
    by_logit = np.divide(each, slope, out=np.zeros_like(each), where=slope != 0)
    return float(density.weights @ ((by_logit**2 * variance).sum(axis=1) / (1 + each.sum(axis=1))))


class Estimates(Protocol):
    """Abilities that a fit estimated together with the items, each of shape (n_respondents,)."""

    @property
    def theta(self) -> NDArray[np.float64]:
        """Abilities."""

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Their standard errors."""


class Fitted(Protocol):
    """What a fit says of items and respondents, as ``estimation.svi.FittedModel`` does."""

    @property
    def items(self) -> ItemParameters:
        """The items with their parameters."""

    @property
    def estimated_population(self) -> Quadrature | None:
        """The distribution of ability, where it was estimated."""

    @property
    def abilities(self) -> Estimates | None:
        """What was estimated together with the items, if anything was."""

    @property
    def joint_error(self) -> JointError | None:
        """The covariance of all parameters, where it is known."""


def abilities_of(
    fitted: Fitted, responses: ResponseMatrix, *, level: float = 0.95, item_error: ItemError = "auto"
) -> Abilities:
    """Abilities of the respondents that a model was fitted to, or of some of them with the items they answered.

    EAP, with the error of the items where few answered them (`with_item_error`); but where the fit has abilities
    already, lest the same answers be counted twice, these, with intervals theta +- z se and the method ``joint``. They
    are neither EAP nor MAP: they are standardised among these respondents, and their standard errors carry the items'.
    """
    if fitted.abilities is None:
        population = fitted.estimated_population
        items = fitted.items.select(responses.item_ids)
        return with_item_error(
            estimate_ability(responses, items, quadrature=population, level=level), responses, fitted.items,
            item_error=item_error, quadrature=population, joint_error=fitted.joint_error,
        )  # fmt: skip
    theta, standard_error = fitted.abilities.theta, fitted.abilities.standard_error
    reach = ndtri((1 + level) / 2) * standard_error
    return Abilities(
        respondent_ids=responses.respondent_ids,
        theta=theta,
        standard_error=standard_error,
        lower=theta - reach,
        upper=theta + reach,
        level=level,
        at_bound=np.zeros(len(theta), dtype=np.bool_),
        method="joint",
        **counts_of(responses),
    )


def widen(abilities: Abilities, variance: NDArray[np.float64]) -> Abilities:
    """Add a variance, shape (n_respondents,), to the squared standard errors; intervals grow in proportion."""
    standard_error = np.sqrt(abilities.standard_error**2 + variance)
    grows = np.isfinite(standard_error)
    growth = np.where(grows, standard_error / np.where(grows, abilities.standard_error, 1.0), 1.0)
    theta = np.where(np.isfinite(abilities.theta), abilities.theta, 0.0)
    return replace(
        abilities,
        standard_error=standard_error,
        lower=theta + (abilities.lower - theta) * growth,
        upper=theta + (abilities.upper - theta) * growth,
    )


def with_line_error(abilities: Abilities, line: ScaleLine | None) -> Abilities:
    """Carry into abilities on a linked scale how well it is known where that lies on the base scale.

    With theta = A u + B, u the ability on the scale that the items were fitted on,

        se^2 = A^2 se_u^2 + [u, 1] Cov(A, B) [u, 1]',

    whose first term they have, since the items were moved. Without a line they are given back.
    """
    if line is None:
        return abilities
    return widen(abilities, line.variance(np.where(np.isfinite(abilities.theta), abilities.theta, line.intercept)))


def integrated_log_icc(theta: ArrayLike, items: ItemParameters) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of P and 1 - P averaged over the items' error, each of shape (n_theta, n_items).

    The average over z = a theta + d is a sum over Gauss-Hermite nodes. P is linear in c, which is replaced by its mean
    given z, kept in [0, 1). An item whose covariance is not known has its curve at the estimate.
    """
    at = np.atleast_1d(np.asarray(theta, dtype=np.float64))[:, None]
    covariance = _covariance(items)
    middle = at * items.discrimination + items.intercept
    variance = at**2 * covariance[:, 0, 0] + 2 * at * covariance[:, 0, 1] + covariance[:, 1, 1]
    sd = np.sqrt(np.maximum(variance, 0.0))
    with_guessing = at * covariance[:, 0, 2] + covariance[:, 1, 2]
    shift = np.divide(with_guessing, sd, out=np.zeros_like(sd), where=sd > 0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    p, q = np.zeros((2, *middle.shape))
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        z = middle + node * sd
        c = np.clip(items.guessing + node * shift, 0.0, MOST_GUESSING) if shift.any() else items.guessing
        at_node = curve(z, c)
        p += weight * at_node.p
        q += weight * at_node.q
    return np.log(np.maximum(p, TINY)), np.log(np.maximum(q, TINY))


def _covariance(items: ItemParameters, unknown: float = 0.0) -> NDArray[np.float64]:
    """Covariance of each item's parameters, 0 or another number where it is not known."""
    own = items.covariance if items.categories is None else items.categories.covariance
    return np.full((items.n_items, 3, 3), unknown) if own is None else np.nan_to_num(own, nan=unknown)


def demand_covariance(items: ItemParameters, responses: ResponseMatrix) -> None:
    """Refuse items, in the order of the responses' columns, that were answered but whose covariance is not known."""
    unknown = responses.observed.any(axis=0) & np.isnan(_covariance(items, np.nan)).any(axis=(1, 2))
    if lacking := [items.item_ids[k] for k in np.flatnonzero(unknown)]:
        raise InputError(
            f"item error: no covariance is known for item {name_first(lacking)}; fit standard errors, or take "
            "the items as known (--item-error none)"
        )


def draw_items(items: ItemParameters, n_draws: int, *, rng: np.random.Generator) -> list[ItemParameters]:
    """Sets of item parameters drawn from N(estimate, covariance), guessing kept in [0, 1).

    An item whose covariance is not known stays at its estimate.
    """
    if items.categories is not None:
        return [each.as_items() for each in items.categories.draws(n_draws, rng=rng)]
    estimate = np.stack([items.discrimination, items.intercept, items.guessing], axis=1)
    values, vectors = np.linalg.eigh(_covariance(items))
    factor = (vectors * np.sqrt(values.clip(0))[:, None, :]) @ vectors.transpose(0, 2, 1)  # symmetric square roots
    drawn = estimate + np.einsum("jkl,djl->djk", factor, rng.normal(size=(n_draws, *estimate.shape)))
    drawn[:, :, 2] = drawn[:, :, 2].clip(0.0, MOST_GUESSING)
    return [
        replace(items, discrimination=each[:, 0], intercept=each[:, 1], guessing=each[:, 2], covariance=None)
        for each in drawn
    ]


def _delta_variance(
    abilities: Abilities,
    responses: ResponseMatrix,
    items: ItemParameters,
    population: Quadrature,
    joint: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """V by the covariance of each item, 0 where that is not known, shape (n_respondents,).

    With the covariance of all items, shape (n_items, 3, n_items, 3): by how much V is larger by that.
    """
    covariance, variance = _covariance(items), np.empty(responses.n_respondents)
    for rows in row_batches(responses.n_respondents, items.n_items):
        gradient = _gradient(abilities, responses, items, population, rows)
        variance[rows] = np.einsum("kij,jkl,lij->i", gradient, covariance, gradient, optimize=True)
        if joint is not None:
            by_all = gradient.transpose(1, 2, 0).reshape(gradient.shape[1], -1)
            together = (by_all @ joint.reshape(by_all.shape[1], -1) * by_all).sum(axis=1)
            variance[rows] = np.maximum(together - variance[rows], 0.0)
    return variance


def _gradient(
    abilities: Abilities, responses: ResponseMatrix, items: ItemParameters, population: Quadrature, rows: slice
) -> NDArray[np.float64]:
    """Derivatives of the thetas of some respondents by (a, d, c), or the parameters of its categories, of each item.

    Shape (n_parameters, n, n_items), 0 where a response is missing. Of EAP

        d E(theta | x) / d phi = Cov(theta, d log P(x_j | theta) / d phi | x),

    and of a root of sum_j r_j(theta) + r0 = 0 it is (d r_j / d phi) / information, 0 where there is no root; r0 of WLE
    is taken as fixed: it is of the order of one item among all.
    """
    values = decoded(responses.coded_responses[rows])
    trials = some_rows(responses.trials, rows) if items.categories is None else None
    if abilities.method == "eap":
        posterior = posterior_of(values, items, population, trials=trials)
        lean = posterior.mass * (posterior.nodes - posterior.mean()[:, None])
        by_item = (np.einsum("nq,qkp->nkp", lean, own, optimize=True) for own in _rates(posterior.nodes, items))
    else:
        error = abilities.standard_error[rows]
        at, variance = np.where(np.isfinite(error), (abilities.theta[rows], error**2), 0.0)
        low, high = (_rates(at + step, items) for step in (-STEP, STEP))
        by_item = ((b - a) / (2 * STEP) * variance[:, None, None] for a, b in zip(low, high, strict=True))
    width = 3 if items.categories is None else items.categories.steps_at.shape[1]
    gradient = np.zeros((width, *values.shape))
    for j, rates in enumerate(by_item):
        given = np.flatnonzero(~np.isnan(values[:, j]))
        k = values[given, j].astype(np.int64)
        if trials is None:
            chosen = rates[given, k]
        else:
            chosen = (trials[given, j] - k)[:, None] * rates[given, 0] + k[:, None] * rates[given, 1]
        gradient[: chosen.shape[1], given, j] = chosen.T
    return gradient


def _rates(theta: NDArray[np.float64], items: ItemParameters) -> Iterator[NDArray[np.float64]]:
    """Derivatives of log P of an item's outcomes, wrong and right or its categories, by its parameters.

    An array for each item, of shape (n_theta, n_outcomes, n_parameters).
    """
    if items.categories is not None:
        return items.categories.parameter_derivatives(theta)
    curves, at = item_curves(theta, items), theta[:, None]
    by_z, by_c = np.stack([curves.log_q_z, curves.log_p_z]), np.broadcast_arrays(curves.log_q_c, curves.log_p_c)
    return iter(np.stack([by_z * at, by_z, np.stack(by_c)]).transpose(3, 2, 1, 0))


def _category_error_share(items: CategoryParameters, covariances: NDArray[np.float64], population: Quadrature) -> float:
    """`item_error_share` of items in categories.

    An error e of an item's parameters moves theta by c'e / (1 + I), c = sum_k P_k f_k d log P_k / d parameters with f_k
    the derivative of log P_k by theta, so that V / (1 / (1 + I)) = sum_j c_j' S_j c_j / (1 + I).
    """
    at, added = CategoryDerivatives.at(items, population.nodes), np.zeros(population.nodes.size)
    for rates, own, covariance in zip(
        items.parameter_derivatives(population.nodes),
        np.split(at.p * at.slope, items.first[1:], axis=1),
        covariances,
        strict=True,
    ):
        c, width = np.einsum("qk,qkp->qp", own, rates), rates.shape[2]
        added += ((c @ covariance[:width, :width]) * c).sum(axis=1)
    return float(population.weights @ (added / (1 + at.information.sum(axis=1))))
