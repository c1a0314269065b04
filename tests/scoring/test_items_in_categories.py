"""Items in categories: of two they are scored, compared and predicted as the 2PL's; of more, by simulation."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from builders.refusals import is_refused
from builders.scales import GRADED_AND_PARTIAL, grades, of_two_categories, scale_of
from irtbench import InputError, ItemParameters, ResponseMatrix, fit_categories, fit_model, sum_score_table
from irtbench.diagnostics.person_fit import mean_square_fit, mean_squares, person_fit
from irtbench.models.curves import icc, information, log_icc, simulate_responses
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.theta_posterior import log_likelihood, score_distribution
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.ability_comparison import compare_abilities
from irtbench.scoring.item_error import draw_items, item_error_share, with_item_error
from irtbench.scoring.prediction import learn_correction, predict_accuracy

THREE_TO_FIVE = (range(3), range(4), range(5))
MODELS = (*GRADED_AND_PARTIAL, Logistic())


@pytest.fixture(scope="module")
def both() -> tuple[ResponseMatrix, ItemParameters, ResponseMatrix, ItemParameters]:
    """Responses and fitted 2PL items, and the same as items of two categories each."""
    rng = np.random.default_rng(3)
    truth = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 9), rng.normal(0, 0.8, 9))
    responses = simulate_responses(rng.normal(size=250), truth, rng=rng, missing=0.1).answered()
    items = fit_model(responses).items
    known = of_two_categories(items)
    coded = known.categories.matrix(pd.DataFrame(responses.correct, columns=items.item_ids))
    return responses, items, coded, known


def test_curves_parameters_and_fit_are_those_of_the_2pl(both) -> None:
    responses, items, coded, known = both
    theta = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(icc(theta, known), icc(theta, items), atol=1e-12)
    np.testing.assert_allclose(information(theta, known), information(theta, items), atol=1e-6)
    table, expected = known.table().set_index("item_id"), items.table().set_index("item_id")
    for name in ("discrimination", "difficulty", "se_discrimination", "se_difficulty"):
        np.testing.assert_allclose(table[name], expected[name], rtol=1e-6)
    assert item_error_share(known) == pytest.approx(item_error_share(items), rel=1e-5)
    theta = estimate_ability(responses, items, method="wle").theta
    of_two, of_2pl = person_fit(coded, known, theta), person_fit(responses, items, theta)
    for name in ("lz", "lz_star", "infit", "outfit"):
        np.testing.assert_allclose(getattr(of_two, name), getattr(of_2pl, name), atol=1e-6)
    pd.testing.assert_frame_equal(
        mean_square_fit(coded, known, theta).table(), mean_square_fit(responses, items, theta).table(), rtol=1e-6
    )


@pytest.mark.parametrize("method", ["eap", "map", "ml", "wle"])
def test_abilities_and_their_errors_are_those_of_the_2pl(both, method: str) -> None:
    responses, items, coded, known = both
    found, expected = estimate_ability(coded, known, method=method), estimate_ability(responses, items, method=method)
    for name, near in (("theta", 1e-6), ("standard_error", 1e-5), ("lower", 1e-5)):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=near)
    inside = ~expected.at_bound
    wider = with_item_error(found, coded, known, item_error="delta").standard_error
    theirs = with_item_error(expected, responses, items, item_error="delta").standard_error
    assert (wider[inside] > found.standard_error[inside]).all()
    np.testing.assert_allclose(wider[inside], theirs[inside], rtol=1e-4)


def test_predictions_are_those_of_the_2pl() -> None:
    rng = np.random.default_rng(2)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 20), rng.normal(size=20))
    part = simulate_responses(rng.normal(size=8), items, rng=rng).select_items(items.item_ids[:7])
    scores = pd.DataFrame(part.correct, columns=part.item_ids, index=part.respondent_ids)
    found = predict_accuracy(scale_of(of_two_categories(items)), scores).table()
    pd.testing.assert_frame_equal(found, predict_accuracy(scale_of(items), part).table(), atol=1e-9)


def test_sum_scores_of_categories_are_those_of_all_patterns() -> None:
    items = grades(np.random.default_rng(2), 4, *THREE_TO_FIVE).as_items()
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


def test_intervals_cover_and_lz_star_is_standard_normal_where_the_model_holds() -> None:
    rng = np.random.default_rng(7)
    items, theta = grades(rng, 20, *THREE_TO_FIVE).as_items(), rng.standard_normal(1200)
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
        truth = grades(rng, 12, *THREE_TO_FIVE)
        models = dict(zip(truth.item_ids, truth.models, strict=True))
        known = fit_categories(truth.simulate(rng.standard_normal(120), rng=rng), models, prior="weak").items
        theta = rng.standard_normal(500)
        table = truth.simulate(theta, rng=rng)
        seen = {item: list(own) for item, own in zip(known.item_ids, known.categories, strict=True)}
        table = table[[item for item in known.item_ids if table[item].isin(seen[item]).all()]]
        responses, own = known.matrix(table), known.as_items()
        plain = estimate_ability(responses, own)
        both = plain, with_item_error(plain, responses, own, item_error="auto")
        covered.append([np.mean((of.lower <= theta) & (theta <= of.upper)) for of in both])
    known_items, wider = np.mean(covered, axis=0)
    assert known_items < wider == pytest.approx(0.95, abs=0.02)


def test_other_functions_refuse_items_in_categories() -> None:
    items = grades(np.random.default_rng(1), 3).as_items()
    is_refused("expected items that are right or wrong", log_icc, 0.0, items)
    responses = simulate_responses([0.0] * 5, items, rng=np.random.default_rng(0))
    abilities = estimate_ability(responses, items)
    with pytest.raises(InputError, match="item error: of items in categories"):
        with_item_error(abilities, responses, items, item_error="integrate")


def fitted_grades(rng: np.random.Generator, n_items: int, n: int) -> tuple[Any, Any]:
    truth = grades(rng, n_items, models=MODELS)
    models = dict(zip(truth.item_ids, truth.models, strict=True))
    return truth, fit_categories(truth.simulate(rng.normal(size=n), rng=rng), models)


def test_draws_of_items_have_the_covariance_of_the_estimates_and_steps_that_rise() -> None:
    rng = np.random.default_rng(1)
    known = fitted_grades(rng, 6, 250)[1].items
    values = np.stack([each.categories.parameters for each in draw_items(known.as_items(), 300, rng=rng)])
    np.testing.assert_allclose(values.mean(axis=0), known.parameters, atol=0.06)
    for j in range(6):
        n = len(known.names[j])
        np.testing.assert_allclose(np.cov(values[:, j, :n].T), known.covariance[j, :n, :n], atol=0.02, rtol=0.25)
    assert (np.diff(values[:, 0, 1 : len(known.names[0])], axis=1) < 0).all()


def test_intervals_of_differences_cover() -> None:
    """Of 40 systems: a standard error of about 3.5%, where half the width would cover 68%."""
    rng = np.random.default_rng(10)
    truth, fitted = fitted_grades(rng, 24, 120)
    scale, theta = scale_of(fitted.items.as_items()), rng.normal(size=40)
    scores = truth.simulate(theta, rng=rng)
    found, known = (compare_abilities(scale, scores, rng=rng, n_item_draws=n).pairs() for n in (20, 0))
    first, second = np.triu_indices(40, 1)
    between = theta[first] - theta[second]
    assert 0.9 < ((found["theta_lower"] <= between) & (between <= found["theta_upper"])).mean() < 0.99
    width, of_known = (each["theta_upper"] - each["theta_lower"] for each in (found, known))
    assert (width / of_known).mean() > 1.01


@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize(("mean", "sd", "bias"), [(0.0, 1.0, 0.015), (1.5, 0.4, 0.045)])
def test_intervals_of_all_points_from_some_cover(learnt: bool, mean: float, sd: float, bias: float) -> None:
    """And errors are smaller than those of the part."""
    rng = np.random.default_rng(1)
    scale = scale_of(grades(rng, 60, range(1, 6)).as_items())
    whole = simulate_responses(rng.normal(mean, sd, 400), scale.items, rng=rng)
    form = [f"g{j:02d}" for j in rng.choice(60, 10, replace=False)]
    correction = None
    if learnt:
        correction = learn_correction(scale, simulate_responses(rng.normal(size=100), scale.items, rng=rng), form)
    part, truth = whole.select_items(form), whole.shares.mean(axis=1)
    found = predict_accuracy(scale, part, correction=correction)
    assert 0.92 < np.mean((found.lower <= truth) & (truth <= found.upper)) <= 1
    of_part = np.abs(part.shares.mean(axis=1) - truth).mean()
    assert np.abs(found.accuracy - truth).mean() < (0.97 if learnt else 0.92) * of_part
    assert abs(np.mean(found.accuracy - truth)) < bias


def test_the_command_compares_shares_of_points_with_a_bank_and_without(tmp_path) -> None:
    rng = np.random.default_rng(3)
    items = grades(rng, 14)
    items.table().to_csv(tmp_path / "items.csv", index=False)
    scores = items.simulate([1.5, -0.5], rng=rng)
    scores.index = pd.Index(["large", "small"], name="respondent_id")
    two = scores.reset_index().melt("respondent_id", var_name="item_id", value_name="score")
    two.to_csv(tmp_path / "two.csv", index=False)
    two.replace({"score": dict(enumerate(["bad", "poor", "fair", "good"]))}).to_csv(tmp_path / "words.csv", index=False)
    for asked in (
        "two.csv --levels 0,1,2,3",
        "words.csv --levels bad,poor,fair,good",
        "two.csv --bank items.csv --item-error none",
    ):
        run(f"compare {asked} -o out", cwd=tmp_path)
        table = pd.read_csv(tmp_path / "out/comparison.csv")
        np.testing.assert_allclose(table["accuracy_first"], scores.loc["large"].mean() / 3)
        assert table["accuracy_p"][0] < 0.05
    assert table["theta_difference"][0] > 0.5
    refused("compare words.csv -o x --levels poor,fair,good", saying="bad", cwd=tmp_path)
