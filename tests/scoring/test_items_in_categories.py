"""Items in categories: of two they score, err and fit as the 2PL does; of more, by simulation."""

import numpy as np
import pandas as pd
import pytest

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.person_fit import mean_square_fit, mean_squares, person_fit
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fit_categories import fit_categories
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import icc, information, log_icc, simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.theta_posterior import log_likelihood, score_distribution
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.item_error import item_error_share, with_item_error
from irtbench.scoring.percentiles import sum_score_table


@pytest.fixture(scope="module")
def both() -> tuple[ResponseMatrix, ItemParameters, ResponseMatrix, ItemParameters]:
    """Responses and fitted 2PL items, and the same as items of two categories each."""
    rng = np.random.default_rng(3)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 9), rng.normal(0, 0.8, 9))
    responses = simulate_responses(rng.normal(size=250), truth, rng=rng, missing=0.1).answered()
    items = fit_model(responses).items
    known = CategoryParameters(
        items.item_ids, (Logistic(),) * 9, ((0, 1),) * 9, np.stack([items.discrimination, items.intercept], axis=1),
        np.full(9, 2), items.covariance[:, :2, :2],
    )  # fmt: skip
    return responses, items, known.matrix(pd.DataFrame(responses.correct, columns=items.item_ids)), known.as_items()


def test_curves_information_and_parameters_are_those_of_the_2pl(both) -> None:
    _, items, _, known = both
    theta = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(icc(theta, known), icc(theta, items), atol=1e-12)
    np.testing.assert_allclose(information(theta, known), information(theta, items), atol=1e-6)
    table, expected = known.table().set_index("item_id"), items.table().set_index("item_id")
    for name in ("discrimination", "difficulty", "se_discrimination", "se_difficulty"):
        np.testing.assert_allclose(table[name], expected[name], rtol=1e-6)


@pytest.mark.parametrize("method", ["eap", "map", "ml", "wle"])
def test_abilities_and_their_errors_are_those_of_the_2pl(both, method: str) -> None:
    responses, items, coded, known = both
    found, expected = estimate_ability(coded, known, method=method), estimate_ability(responses, items, method=method)
    np.testing.assert_allclose(found.theta, expected.theta, atol=1e-6)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, atol=1e-5)
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-5)
    inside = ~expected.at_bound
    wider = with_item_error(found, coded, known, item_error="delta").standard_error
    theirs = with_item_error(expected, responses, items, item_error="delta").standard_error
    assert (wider[inside] > found.standard_error[inside]).all()
    np.testing.assert_allclose(wider[inside], theirs[inside], rtol=1e-4)


def test_the_share_of_the_items_error_and_person_fit_are_those_of_the_2pl(both) -> None:
    responses, items, coded, known = both
    assert item_error_share(known) == pytest.approx(item_error_share(items), rel=1e-5)
    theta = estimate_ability(responses, items, method="wle").theta
    found, expected = person_fit(coded, known, theta), person_fit(responses, items, theta)
    for name in ("lz", "lz_star", "infit", "outfit"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-6)
    pd.testing.assert_frame_equal(
        mean_square_fit(coded, known, theta).table(), mean_square_fit(responses, items, theta).table(), rtol=1e-6
    )


def test_sum_scores_of_categories_are_those_of_all_patterns() -> None:
    items = graded(np.random.default_rng(2), 4)
    assert items.categories is not None
    patterns = np.array(np.meshgrid(*(range(top + 1) for top in items.categories.top))).reshape(4, -1).T.astype(float)
    theta = np.array([-1.0, 0.5])
    each = np.exp(log_likelihood(patterns, theta, items))
    expected = np.stack([np.bincount(patterns.sum(axis=1).astype(int), weights=column) for column in each.T])
    np.testing.assert_allclose(score_distribution(theta, items), expected, atol=1e-12)
    trials = np.tile(items.categories.top, (len(patterns), 1))
    responses = ResponseMatrix(patterns, tuple(map(str, range(len(patterns)))), items.item_ids, trials)
    found = estimate_ability(responses, items, method="eap_sum").theta
    table = sum_score_table(items).abilities.theta
    np.testing.assert_allclose(found, table[patterns.sum(axis=1).astype(int)], atol=1e-9)


def graded(rng: np.random.Generator, n: int = 20) -> ItemParameters:
    """Graded and partial-credit items of three to five categories."""
    models = tuple(Graded() if k % 2 else PartialCredit() for k in range(n))
    tops = 2 + np.arange(n) % 3
    rows = []
    for model, top in zip(models, tops, strict=True):
        row = {"discrimination": rng.lognormal(0.2, 0.3)}
        row |= {f"step_{k + 1}": step for k, step in enumerate(np.sort(rng.normal(0, 1, top)))}
        rows.append(np.pad(model.unbounded(model.from_columns(row, top + 1)), (0, 4 - top)))
    ids, categories = tuple(f"i{k}" for k in range(n)), tuple(tuple(range(top + 1)) for top in tops)
    return CategoryParameters(ids, models, categories, np.stack(rows), 1 + tops).as_items()


def test_intervals_cover_and_lz_star_is_standard_normal_where_the_model_holds() -> None:
    rng = np.random.default_rng(7)
    items, theta = graded(rng), rng.standard_normal(2000)
    responses = simulate_responses(theta, items, rng=rng, missing=0.2)
    assert np.isnan(responses.correct).mean() == pytest.approx(0.2, abs=0.01)
    found = estimate_ability(responses, items)
    assert ((found.lower <= theta) & (theta <= found.upper)).mean() == pytest.approx(0.95, abs=0.012)
    fit = person_fit(responses, items, estimate_ability(responses, items, method="wle").theta)
    assert fit.lz_star.mean() == pytest.approx(0, abs=0.12)
    assert fit.lz_star.std() == pytest.approx(1, abs=0.06)
    assert (fit.lz_star < -1.645).mean() == pytest.approx(0.05, abs=0.02)
    reversed_order = ResponseMatrix(  # who gives the top grade where others give the lowest is found
        responses.trials[:300] - responses.correct[:300], responses.respondent_ids[:300], responses.item_ids,
        responses.trials[:300],
    )  # fmt: skip
    assert (person_fit(reversed_order, items, found.theta[:300]).lz_star < -1.645).mean() > 0.5
    infit, outfit = mean_squares(responses.correct, theta, items, over="respondents")
    assert np.abs(infit - 1).max() < 0.1
    assert np.abs(outfit - 1).max() < 0.2


@pytest.mark.slow
def test_with_the_items_error_intervals_cover_where_few_fitted_them() -> None:
    rng, covered = np.random.default_rng(11), []
    for _ in range(12):
        items = graded(rng, 12)
        fitted = fit_categories(
            items.categories.simulate(rng.standard_normal(120), rng=rng),
            dict(zip(items.item_ids, items.model, strict=True)), prior="weak",
        )  # fmt: skip
        theta = rng.standard_normal(500)
        known = fitted.items
        table = items.categories.simulate(theta, rng=rng)
        seen = {item: list(own) for item, own in zip(known.item_ids, known.categories, strict=True)}
        table = table[[item for item in known.item_ids if table[item].isin(seen[item]).all()]]
        responses, own = known.matrix(table), known.as_items()
        plain = estimate_ability(responses, own)
        wider = with_item_error(plain, responses, own, item_error="auto")
        covered.append([np.mean((of.lower <= theta) & (theta <= of.upper)) for of in (plain, wider)])
    plain, wider = np.mean(covered, axis=0)
    assert wider > plain
    assert wider == pytest.approx(0.95, abs=0.02)


def test_other_functions_refuse_items_in_categories() -> None:
    items = graded(np.random.default_rng(1), 3)
    with pytest.raises(InputError, match="expected items that are right or wrong"):
        log_icc(0.0, items)
    responses = simulate_responses([0.0] * 5, items, rng=np.random.default_rng(0))
    abilities = estimate_ability(responses, items)
    with pytest.raises(InputError, match="item error: of items in categories"):
        with_item_error(abilities, responses, items, item_error="integrate")
