"""The items' error in ability: by hand, delta against draws, and where it is not known."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench import FittedModel, ItemParameters, ResponseMatrix, fit_model, plausible_values
from irtbench.models.curves import simulate_responses
from irtbench.scoring.ability import Method, estimate_ability
from irtbench.scoring.item_error import abilities_of, draw_items, integrated_log_icc, item_error_share, with_item_error
from irtbench.scoring.scores import ScoringSettings, score_responses


def uncertain_items(n_items: int, *, guessing: float = 0.0, scale: float = 1.0) -> ItemParameters:
    rng = np.random.default_rng(n_items)
    items = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items), guessing, guessing_estimated=guessing > 0
    )
    free = 1.0 if guessing else 0.0
    one = np.array([[0.02, 0.004, 0.0], [0.004, 0.02, 0.001 * free], [0.0, 0.001 * free, 0.001 * free]])
    return replace(items, covariance=np.broadcast_to(scale * one, (n_items, 3, 3)))


def test_ml_by_hand() -> None:
    # n items with a = 1 and b = 0, half of them right: theta = 0 and d theta / d d_j = -P Q / (n P Q) = -1 / n, while
    # d theta / d a_j = (x_j - P) / (n P Q), since theta = 0: (1/2) / (n / 4) = 2 / n. With var a = s, var d = t and no
    # covariance V = n (4 s + t) / n^2 = (4 s + t) / n.
    n, s, t = 10, 0.03, 0.05
    items = ItemParameters.from_difficulty(np.ones(n), np.zeros(n))
    items = replace(items, covariance=np.broadcast_to(np.diag([s, t, 0.0]), (n, 3, 3)))
    responses = ResponseMatrix(np.array([[1.0, 0.0] * 5]), ("r",), items.item_ids)
    known = estimate_ability(responses, items, method="ml")
    found = with_item_error(known, responses, items, item_error="delta")
    assert found.theta[0] == pytest.approx(0, abs=1e-8)
    assert found.standard_error[0] ** 2 == pytest.approx(1 / (n / 4) + (4 * s + t) / n, abs=1e-6)
    assert found.upper[0] / known.upper[0] == pytest.approx(found.standard_error[0] / known.standard_error[0])


def by_differences(
    responses: ResponseMatrix, items: ItemParameters, method: Method = "eap", *, h: float = 1e-4
) -> NDArray[np.float64]:
    """Derivatives of ability by the items' parameters, shape (n_respondents, n_items, 3)."""
    found = np.zeros((responses.n_respondents, items.n_items, 3))
    names = ("discrimination", "intercept", "guessing")[: 3 if items.guessing.any() else 2]
    for k, name in enumerate(names):
        for j, step in enumerate(h * np.eye(items.n_items)):
            moved = [replace(items, **{name: getattr(items, name) + sign * step}) for sign in (1, -1)]
            up, down = (estimate_ability(responses, each, method=method).theta for each in moved)
            found[:, j, k] = (up - down) / (2 * h)
    return found


@pytest.mark.parametrize("guessing", [0.0, 0.2])
@pytest.mark.parametrize(
    ("method", "n", "near"), [("eap", 10, 0.01), ("map", 10, 1e-5), ("ml", 10, 1e-5), ("wle", 40, 0.1)]
)
def test_delta_is_the_first_order_and_draws_agree(method: Method, n: int, near: float, guessing: float) -> None:
    """The sum over items of g' C g; with Warm's term as fixed, which is of the order of one item among all.

    Errors are a tenth of the usual, and the sd over 100 draws has an error of 7%.
    """
    items = uncertain_items(n, guessing=guessing, scale=0.1)
    responses = simulate_responses([-0.5, 0.3, 1.0], items, rng=np.random.default_rng(3), missing=0.1)
    known = estimate_ability(responses, items, method=method)
    delta = with_item_error(known, responses, items, item_error="delta")
    gradient = by_differences(responses, items, method)
    expected = np.sqrt(np.einsum("ija,jab,ijb->i", gradient, items.covariance, gradient))
    added = np.sqrt(delta.standard_error**2 - known.standard_error**2)
    np.testing.assert_allclose(added, expected, rtol=near)
    assert (delta.upper - delta.lower > known.upper - known.lower).all()
    np.testing.assert_array_equal(delta.theta, known.theta)
    if method == "eap":
        drawn = with_item_error(known, responses, items, item_error="draw", n_draws=100, rng=np.random.default_rng(4))
        np.testing.assert_allclose(np.sqrt(drawn.standard_error**2 - known.standard_error**2), expected, rtol=0.28)


def test_items_of_unknown_error_are_named() -> None:
    items = uncertain_items(4)
    unknown = np.arange(4)[:, None, None] == 2
    partly = replace(items, covariance=np.where(unknown, np.nan, items.covariance))
    responses = simulate_responses([0.0], items, rng=np.random.default_rng(1))
    known, by_sum = (estimate_ability(responses, items, method=method) for method in ("eap", "eap_sum"))
    none = replace(items, covariance=None)
    for abilities, of, saying in (
        (known, partly, "no covariance is known for item item3"), (known, none, "item1, item2, item3, item4"),
        (by_sum, items, "delta is not defined for eap_sum"),
    ):  # fmt: skip
        is_refused(saying, with_item_error, abilities, responses, of, item_error="delta")
    # an item that nobody answered need not be known
    others = responses.select_items(["item1", "item2", "item4"])
    assert with_item_error(estimate_ability(others, items), others, partly).standard_error[0] > 0


def test_drawn_items_have_the_covariance_asked_for() -> None:
    items = uncertain_items(3, guessing=0.25)
    drawn = draw_items(items, 4000, rng=np.random.default_rng(5))
    values = np.array([[each.discrimination[1], each.intercept[1], each.guessing[1]] for each in drawn])
    np.testing.assert_allclose(np.cov(values.T), items.covariance[1], atol=0.0015)  # type: ignore[index]
    assert all((each.guessing >= 0).all() for each in drawn)


def test_plausible_values_keep_the_spread_that_eaps_lack() -> None:
    # 2,000 people of N(0, 1) on 10 items: variance of plausible values 1 (sd of a sample variance .032), of EAPs less
    items = uncertain_items(10)
    rng = np.random.default_rng(6)
    responses = simulate_responses(rng.normal(size=2000), items, rng=rng)
    values = plausible_values(responses, items, n_values=4, rng=rng)
    assert values.shape == (2000, 4)
    assert values.var(axis=0).mean() == pytest.approx(1, abs=0.08)
    assert estimate_ability(responses, items).theta.var() < 0.85
    # two values of one respondent are two draws, not one
    assert 0.5 < np.corrcoef(values[:, 0], values[:, 1])[0, 1] < 0.9


def test_plausible_values_share_the_items_error() -> None:
    # huge item errors: within one draw of the items two people with the same responses move together
    items = uncertain_items(60, scale=50.0)
    responses = ResponseMatrix(np.tile(np.arange(60) % 2.0, (2, 1)), ("one", "two"), items.item_ids)
    rng = np.random.default_rng(7)
    together, alone = (
        np.corrcoef(plausible_values(responses, items, n_values=200, rng=rng, n_item_draws=n))[0, 1] for n in (200, 0)
    )
    assert together > 0.35  # a standard error of .07
    assert abs(alone) < 0.2


def test_an_integrated_curve_by_numerical_integration_and_without_an_asymptote_below_zero() -> None:
    one = ItemParameters.from_difficulty([1.3], [0.4])
    one = replace(one, covariance=np.array([[[0.3, 0.1, 0.0], [0.1, 0.5, 0.0], [0.0, 0.0, 0.0]]]))
    theta, middle, width = 2.0, 1.3 * (2.0 - 0.4), np.sqrt(4 * 0.3 + 4 * 0.1 + 0.5)
    expected = quad(lambda u: norm.pdf(u) / (1 + np.exp(-(middle + width * u))), -10, 10)[0]
    assert np.exp(integrated_log_icc(theta, one)[0][0, 0]) == pytest.approx(expected, abs=1e-6)
    # c rises with d, its mean given z is .01 + .19 of a node: cut at 0 the curve is never below that of a 2PL
    one = ItemParameters.from_difficulty([1.3], [0.4], 0.01, guessing_estimated=True)
    free = np.array([[0.04, 0.0, 0.0], [0.0, 1.0, 0.19], [0.0, 0.19, 0.04]])
    flat = replace(one, guessing=np.zeros(1), guessing_estimated=np.zeros(1, dtype=bool))
    along, known = np.linspace(-3, 3, 7), np.diag([1.0, 1.0, 0.0])
    without = integrated_log_icc(along, replace(flat, covariance=(known @ free @ known)[None]))[0]
    assert (integrated_log_icc(along, replace(one, covariance=free[None]))[0] > without).all()


def test_with_items_from_few_people_new_people_are_scored_right_only_if_curves_are_integrated() -> None:
    rng = np.random.default_rng(4)
    estimates = ItemParameters.from_difficulty(rng.lognormal(0.3, 0.2, 1000), rng.normal(size=1000))
    items = replace(estimates, covariance=np.tile([[0.1, 0.03, 0.0], [0.03, 0.6, 0.0], [0.0, 0.0, 0.0]], (1000, 1, 1)))
    (truth,) = draw_items(items, 1, rng=rng)
    theta = rng.normal(size=300)
    responses = simulate_responses(theta, truth, rng=rng)
    known = estimate_ability(responses, items)
    slope = {}
    for how in ("none", "delta", "integrate"):
        found = with_item_error(known, responses, items, item_error=how)  # type: ignore[arg-type]
        slope[how] = np.polyfit(theta, found.theta, 1)[0]
        covered = np.mean((found.lower < theta) & (theta < found.upper))
        assert (covered > 0.9) == (how == "integrate"), how
    assert slope["none"] < 0.95
    assert slope["integrate"] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("method", ["map", "ml", "wle", "eap_sum"])
def test_curves_are_integrated_for_eap_only(method: Method) -> None:
    items, saying = uncertain_items(10), f"integrate goes with the method eap but got {method}"
    responses = simulate_responses([0.0], items, rng=np.random.default_rng(0))
    known = estimate_ability(responses, items, method=method)
    is_refused(saying, with_item_error, known, responses, items, item_error="integrate")
    is_refused("item_error integrate goes with the method eap", ScoringSettings, method=method, item_error="integrate")


@pytest.fixture(scope="module")
def few() -> tuple[ResponseMatrix, FittedModel]:
    """Sixty people on eight items, and the fit."""
    rng = np.random.default_rng(1)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.2, 8), np.linspace(-1.2, 1.2, 8))
    responses = simulate_responses(rng.normal(size=60), truth, rng=rng)
    return responses, fit_model(responses, prior="weak")


def test_where_few_answered_the_items_their_error_is_carried_unasked(few: tuple[ResponseMatrix, FittedModel]) -> None:
    """Integrated curves, and of what the items err alike G C G' less sum_j G_j C_jj G_j', G by differences."""
    responses, fitted = few
    plain = estimate_ability(responses, fitted.items)
    found = abilities_of(fitted, responses)
    averaged = with_item_error(plain, responses, fitted.items, item_error="integrate")
    np.testing.assert_array_equal(found.theta, averaged.theta)
    gradient = by_differences(responses, fitted.items)
    covariance = fitted.joint_error.covariance
    together = np.einsum("ija,jakb,ikb->i", gradient, covariance, gradient)
    alone = np.einsum("ija,jajb,ijb->i", gradient, covariance, gradient)
    expected = np.sqrt(averaged.standard_error**2 + np.maximum(together - alone, 0))
    np.testing.assert_allclose(found.standard_error, expected, rtol=1e-4)
    assert np.mean(found.standard_error / plain.standard_error) > 1.02
    scale = scale_of(fitted.items, joint_error=fitted.joint_error)
    scores = score_responses(scale, responses)
    np.testing.assert_allclose(scores["se"], found.standard_error, rtol=1e-12)
    np.testing.assert_array_equal(score_responses(scale, responses, item_error="none")["se"], plain.standard_error)


def test_where_many_did_or_it_is_in_already_it_is_left_out(few: tuple[ResponseMatrix, FittedModel]) -> None:
    responses, fitted = few
    share = item_error_share(fitted.items)
    assert 0.03 < share < 0.15
    # variances fall as 1 / n
    known = replace(fitted.items, covariance=fitted.items.covariance / 20)
    assert item_error_share(known) == pytest.approx(share / 20)
    for items in (known, replace(known, covariance=None)):
        plain = estimate_ability(responses, items)
        assert with_item_error(plain, responses, items, item_error="auto") is plain
    by_sum = estimate_ability(responses, fitted.items, method="eap_sum")
    assert with_item_error(by_sum, responses, fitted.items, item_error="auto") is by_sum
    wle = estimate_ability(responses, fitted.items, method="wle")
    delta = with_item_error(wle, responses, fitted.items, item_error="delta")
    found = with_item_error(wle, responses, fitted.items, item_error="auto")
    np.testing.assert_array_equal(found.standard_error, delta.standard_error)
