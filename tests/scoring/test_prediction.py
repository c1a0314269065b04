"""The whole benchmark from a part: by hand, its coverage where the model is right, and the correction where not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.refusals import is_refused
from builders.scales import grades, scale_of
from irtbench import ItemParameters, ResponseMatrix, Scale, fit_model, simulate_responses
from irtbench.scoring import prediction
from irtbench.scoring.prediction import PredictedAccuracy, learn_correction, predict_accuracy


def make_scale(name: str, n_items: int, *, harder: float = 0.0) -> Scale:
    rng = np.random.default_rng(n_items)
    a, b, ids = rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items), [f"{name}{k}" for k in range(n_items)]
    return scale_of(ItemParameters.from_difficulty(a, b + harder, item_ids=ids), name=name)


def answers(scale: Scale, mean: float, sd: float, n: int, rng: np.random.Generator, **more: int) -> ResponseMatrix:
    return simulate_responses(rng.normal(mean, sd, size=n), scale.items, rng=rng, **more)


def with_gaps(values: NDArray[np.float64], form: Sequence[int]) -> NDArray[np.float64]:
    """The responses to the items of a form alone."""
    return np.where(np.isin(np.arange(values.shape[1]), form), values, np.nan)


def covered(found: PredictedAccuracy, truth: NDArray[np.float64]) -> float:
    return float(((found.lower <= truth) & (truth <= found.upper)).mean())


@pytest.mark.parametrize("theta", [4.5, -4.5])
def test_the_interval_of_systems_that_answer_nearly_all_alike_reaches_the_end(theta: float) -> None:
    # most have all 30 right, or none, and nearly so of the other 170: a density of the share alone never reaches 1
    scale, rng = make_scale("far", 200), np.random.default_rng(1)
    values = simulate_responses(np.full(300, theta), scale.items, rng=rng).values
    found = predict_accuracy(scale, with_gaps(values, range(0, 180, 6)))
    assert covered(found, values.mean(axis=1)) > 0.85
    whole = found.n_correct == (30 if theta > 0 else 0)
    assert (np.where(theta > 0, 1 - found.upper, found.lower)[whole] == 0).all()


TWO = ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0])


@pytest.fixture
def a_fair_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the form were known to be a fair sample: nothing is drawn from the bank to see what it is."""
    monkeypatch.setattr(prediction, "_record_by_the_bank", lambda *_: prediction.Record(0.0, 1.0))


@pytest.mark.usefixtures("a_fair_form")
def test_two_items_by_hand() -> None:
    # two items with a = 1 and b = 0, one seen and right. E(P(theta) | 1) = 2 E(P^2) with theta ~ N(0, 1):
    # E(P) = 1/2, E(P Q) = .206621, so E(P^2) = .293379 and the second is expected right with .586758.
    seen = ResponseMatrix(np.array([[1.0, np.nan], [np.nan, np.nan]]), ("one", "none"), TWO.item_ids)
    found = predict_accuracy(scale_of(TWO), seen)
    # the regression across items has no feature to tell two equal curves apart: level x with 1 / (1 + e^x) = x / 2.5^2
    level = 1.3188306641906098
    s = 1 / (1 + np.exp(-level))
    assert 1 - s == pytest.approx(level / 2.5**2, abs=1e-5)
    # it contradicts the bank by (s - .586758)^2 = .041, less than its variance, .25: as one of those known would,
    # so that the bank's expectation is kept
    variance = (s * (1 - s)) ** 2 / (s * (1 - s) + 1 / 2.5**2) + s * (1 - s)
    assert (s - 0.586758) ** 2 < variance
    np.testing.assert_allclose(found.accuracy, [(1 + 0.586758) / 2, 0.5], atol=1e-5)
    assert found.standard_error[0] == pytest.approx(np.sqrt(variance) / 2, abs=1e-5)
    assert found.n_seen.tolist() == [1, 0]
    # nothing below what is right already, nothing above all right
    assert found.lower[0] >= 0.5
    assert found.upper[0] <= 1


def test_intervals_cover_and_errors_are_smaller_than_those_of_the_part() -> None:
    # two scales, 30 of 150 items seen, 500 people: 95% (sd 1%) of the intervals cover the accuracy on all 150
    scales, rng = (make_scale("a", 100), make_scale("b", 50)), np.random.default_rng(1)
    whole = pd.concat([answers(scale, 0, 1, 500, rng).table().set_index("respondent_id") for scale in scales], axis=1)
    truth, ids = whole.to_numpy().mean(axis=1), list(whole)
    part = whole[[*ids[:20], *ids[100:110]]]
    found = predict_accuracy(scales, part)
    assert covered(found, truth) == pytest.approx(0.95, abs=0.025)
    plain = np.abs(part.to_numpy().mean(axis=1) - truth).mean()
    assert np.abs(found.accuracy - truth).mean() < 0.85 * plain
    # of one scale no item is seen: that its items are no harder is then assumed with room to spare
    assert covered(predict_accuracy(scales, whole[ids[:20]]), truth) > 0.925
    # everything seen is certain
    found = predict_accuracy(scales, whole[:2])
    np.testing.assert_allclose([found.lower, found.accuracy, found.upper], [truth[:2]] * 3, atol=1e-12)


def test_systems_stronger_than_those_known_are_covered_and_no_worse_than_by_their_share() -> None:
    # two abilities, of which the bank knows one; it is fitted on the weaker 60 of 100 systems, the strongest 40 are new
    rng = np.random.default_rng(7)
    theta = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=100)
    whole = np.concatenate(
        [simulate_responses(theta[:, k], make_scale("ab"[k], 100).items, rng=rng).values for k in range(2)], axis=1
    )
    order = np.argsort(whole.mean(axis=1), kind="stable")
    known, new = whole[order[:60]], whole[order[60:]]
    scale = scale_of(fit_model(known, prior="hierarchical", standard_errors=False).items)
    truth, results = new.mean(axis=1), []
    for _ in range(5):
        form = rng.choice(200, 40, replace=False)
        found = predict_accuracy(scale, with_gaps(new, form))
        errors = np.abs([found.accuracy - truth, new[:, form].mean(axis=1) - truth]).mean(axis=1)
        results.append([covered(found, truth), *errors, np.mean([word != "no" for word in found.beyond_known])])
    share, error, of_part, flagged = np.mean(results, axis=0)
    assert 0.9 < share < 0.99
    assert error < 0.95 * of_part
    assert flagged > 0.1


def test_systems_beyond_that_are_much_alike_are_known_better_together_than_alone() -> None:
    # a dozen new systems, all about two standard deviations above those known, on 25 of 150 items
    rng, scale = np.random.default_rng(11), make_scale("s", 150, harder=1.5)
    whole = answers(scale, 3, 0.2, 12, rng).values
    seen = with_gaps(whole, rng.choice(150, 25, replace=False))
    together, alone = predict_accuracy(scale, seen), [predict_accuracy(scale, seen[[k]]) for k in range(12)]
    error = np.abs(np.stack([together.accuracy, [one.accuracy[0] for one in alone]]) - whole.mean(axis=1))
    np.testing.assert_allclose(together.lower, [one.lower[0] for one in alone], atol=1e-7)
    assert error[0].mean() < 0.8 * error[1].mean()


def test_estimates_are_drawn_to_their_mean_as_far_as_their_spread_is_error_by_hand() -> None:
    # g = .08^2 / 2 = .0032; about the mean .6 the spread is (3 x .0036 + .0324) / (5 - 3) = .0216, so t = .0184
    own, sd = np.array([0.54, 0.54, 0.54, 0.78, 0.6, 0.1]), np.full(6, 0.08)
    drawn = prediction._drawn_together(own, sd, np.array([True] * 5 + [False]))
    np.testing.assert_allclose(drawn, [*(0.6 + (own[:5] - 0.6) * 0.0184 / 0.0216), 0.1])
    # no spread beyond error: all the way, but by .75 standard errors at most; of three nothing is learnt
    near, all_of = np.array([0.5, 0.52, 0.54, 0.65, 0.54]), np.ones(5, dtype=bool)
    np.testing.assert_allclose(
        prediction._drawn_together(near, np.full(5, 0.12), all_of), [0.55, 0.55, 0.55, 0.56, 0.55]
    )
    np.testing.assert_allclose(prediction._drawn_together(near[:3], sd[:3], all_of[:3]), near[:3])


def test_what_is_known_counts_by_how_far_the_answers_contradict_it_by_hand() -> None:
    # variances .003 + .001 a system: systems .1, .1 and .02 off contradict it by 2.5, 2.5 and .1, by 1.7 on average
    own, sd, judged = np.array([0.5, 0.5, 0.5]), np.full(3, np.sqrt(0.003)), np.ones(3, dtype=bool)
    first, second = (np.array([0.6, 0.4, 0.48]), np.full(3, 0.001)), (np.array([0.54, 0.46, 0.48]), np.full(3, 0.001))
    drawn, off = prediction._drawn_to_known(own, sd, [first], judged, [0.5], [1.0])
    np.testing.assert_allclose(drawn, own + np.array([0.1, -0.1, -0.02]) / 3.4**2)
    np.testing.assert_allclose(off, [2.5, 2.5, 0.1])
    # where systems like those known are four times as far off, nothing is contradicted
    drawn, off = prediction._drawn_to_known(own, sd, [first], judged, [4.0], [1.0])
    np.testing.assert_allclose(drawn, first[0])
    np.testing.assert_allclose(off, [0.625, 0.625, 0.025])
    # of two a mixture of what each leads to
    for usual, ratios in (([0.5, 0.5], [3.4, 1.0]), ([1.2, 0.05], [1.7 / 1.2, 0.3 / 0.05])):
        drawn, off = prediction._drawn_to_known(own, sd, [first, second], judged, usual, [0.7, 0.3])
        each = [own + (share - own) / ratio**2 for (share, _), ratio in zip((first, second), ratios, strict=True)]
        np.testing.assert_allclose(drawn, 0.7 * each[0] + 0.3 * each[1])
        np.testing.assert_allclose(off, np.array([2.5, 2.5, 0.1]) / max(1, usual[0]))
    # one more than three standard errors off what is usual counts alone: .4^2 / .004 = 40, a mean of 15
    far = np.array([0.6, 0.4, 0.9]), np.full(3, 0.001)
    drawn, _ = prediction._drawn_to_known(own, sd, [far], judged, [4.0], [1.0])
    np.testing.assert_allclose(drawn, own + np.array([0.1, -0.1, 0.4]) / np.array([3.75, 3.75, 10]) ** 2)


def test_errors_are_as_large_as_they_were_for_known_systems_by_hand() -> None:
    # a hundred shares, each twice the standard error off what was expected: four times its square, without spread
    share, sd = np.tile([0.4, 0.6], 50), np.full(100, 0.08)
    record = prediction.Record.of(share, share + 0.16, sd, share + 0.02, 0.001)
    assert record.excess == pytest.approx(3.0)
    assert record.contradiction == pytest.approx(0.14**2 / (4 * 0.08**2 + 0.001))
    # smaller ones are not counted: the form may have been chosen for these systems
    assert prediction.Record.of(share, share + 0.04, sd, share, 0.0).excess == 0
    # less than two standard errors more is nothing; of the mean, half of (.13 / .08)^2, a tenth is its standard error
    few = prediction.Record.of(share[45:55], share[45:55] + np.repeat([0.13, 0], 5), sd[:10], share[45:55], 0.0)
    unsure = prediction.Record.of(share, share + np.repeat([0.13, 0], 50), sd, share, 0.0)
    assert few.excess == 0
    assert unsure.excess == pytest.approx((0.13 / 0.08) ** 2 / 2 * (1 - 2 / 10) - 1)


def test_a_system_beyond_the_others_is_flagged_and_moves_no_interval() -> None:
    # nineteen systems of a population for whom the items are hard, and one that gets four of five right
    rng, scale = np.random.default_rng(5), make_scale("s", 120, harder=2.5)
    whole = simulate_responses(rng.normal(size=20).clip(-2, 2), scale.items, rng=rng).values.copy()
    whole[0] = rng.random(120) < 0.8
    seen = with_gaps(whole, range(60))
    found, others = predict_accuracy(scale, seen), predict_accuracy(scale, seen[1:])
    assert found.beyond_known == ("above", *("no",) * 19)
    assert abs(found.accuracy[0] - whole[0].mean()) < 0.08
    for end in ("lower", "upper"):
        np.testing.assert_allclose(getattr(found, end)[1:], getattr(others, end), atol=1e-7)
    assert ((found.lower <= found.accuracy) & (found.accuracy <= found.upper)).all()


def test_a_correction_mends_a_wrong_model() -> None:
    # the bank says one ability; the items outside the form measure another, correlated .5 with it
    scale, rng = make_scale("s", 80), np.random.default_rng(2)
    theta = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=800)
    values = [simulate_responses(theta[:, k], scale.items, rng=rng).values for k in range(2)]
    whole = np.where(np.arange(80) < 30, *values)
    form, truth = scale.items.item_ids[:30], whole[400:].mean(axis=1)
    correction = learn_correction(scale, pd.DataFrame(whole[:400], columns=scale.items.item_ids), form)
    new = pd.DataFrame(whole[400:, :30], columns=form)
    model, corrected = predict_accuracy(scale, new), predict_accuracy(scale, new, correction=correction)
    assert covered(model, truth) < 0.8
    assert covered(corrected, truth) == pytest.approx(0.95, abs=0.035)
    assert np.abs(corrected.accuracy - truth).mean() < np.abs(model.accuracy - truth).mean()
    assert correction.weight > 0.8


def test_a_form_of_like_items_widens_its_intervals() -> None:
    # the easiest 30 of 150 items are no fair sample: their share is far off, the intervals know it and hold
    scale, rng = make_scale("a", 150), np.random.default_rng(6)
    whole = answers(scale, 0, 1, 300, rng).values
    truth, easiest = whole.mean(axis=1), np.argsort(scale.items.difficulty)[:30]
    forms = easiest, rng.choice(150, 30, replace=False)
    easy, fair = (predict_accuracy(scale, with_gaps(whole, form)) for form in forms)
    assert np.abs(whole[:, easiest].mean(axis=1) - truth).mean() > 0.25
    assert np.abs(easy.accuracy - truth).mean() < 0.1
    assert covered(easy, truth) > 0.93
    assert (easy.upper - easy.lower).mean() > 1.2 * (fair.upper - fair.lower).mean()


def test_bad_input_is_refused() -> None:
    scale, rng = make_scale("s", 20), np.random.default_rng(3)
    responses = answers(scale, 0, 1, 60, rng)
    form, few = scale.items.item_ids[:5], responses.select_respondents(np.arange(60) < 9)
    correction, part = learn_correction(scale, responses, form), responses.select_items(scale.items.item_ids[:4])
    is_refused("form of 5 items; missing: s4", predict_accuracy, scale, part, correction=correction)
    twice = scale, replace(scale, name="again")
    is_refused("an item is in two scales", predict_accuracy, twice, responses)
    is_refused("there is nothing to predict", learn_correction, scale, responses, scale.items.item_ids)
    is_refused("needs 10 systems but got 9", learn_correction, scale, few, form)
    gap = np.where(np.arange(20) == 19, np.nan, responses.values)
    is_refused("some are missing", learn_correction, scale, pd.DataFrame(gap, columns=scale.items.item_ids), form)
    # a long table of grades is refused in words
    scale = scale_of(grades(rng, 3).as_items())
    long = pd.DataFrame({"respondent_id": ["a"], "item_id": ["g00"], "value": [1]})
    saying = "none of the items is known to the bank: respondent_id, item_id, value"
    is_refused(saying, predict_accuracy, scale, long)


@pytest.mark.usefixtures("a_fair_form")
def test_a_seen_item_of_several_trials_counts_by_its_share() -> None:
    # the two items again, of the first 3 trials seen, all right: E(P | 3 of 3) = E(P^4) / E(P^3), and items not seen
    # are tried three times too, so that the chance of their share has a third of the variance
    seen = ResponseMatrix(np.array([[3.0, np.nan]]), ("one",), TWO.item_ids, np.array([[3, 0]]))
    theta = np.linspace(-8, 8, 4001)
    weight = np.exp(-(theta**2) / 2) / (1 + np.exp(-theta)) ** 3
    p = 1 / (1 + np.exp(-theta))
    mean = (weight @ p) / weight.sum()
    variance = (weight @ (p - mean) ** 2 + weight @ (p * (1 - p)) / 3) / weight.sum()
    # by its own answers: 3 (1 - s) = level / 2.5^2
    level = 2.0808066663811506
    s = 1 / (1 + np.exp(-level))
    assert 3 * (1 - s) == pytest.approx(level / 2.5**2, abs=1e-9)
    own = (s * (1 - s)) ** 2 / (3 * s * (1 - s) + 1 / 2.5**2) + s * (1 - s) / 3
    assert (mean - s) ** 2 < own + variance
    found = predict_accuracy(scale_of(TWO), seen)
    assert found.accuracy[0] == pytest.approx((1 + mean) / 2, abs=1e-5)
    assert found.standard_error[0] == pytest.approx(np.sqrt(own) / 2, abs=1e-5)
    table = found.table()
    assert list(table.columns[-1:]) == ["n_trials"]
    assert table.loc[0, ["n_seen", "n_correct", "accuracy", "n_trials"]].tolist() == [1, 3, 1.0, 3]


def test_intervals_of_trials_cover() -> None:
    # 30 of 150 items tried four times, 500 people: 95% (sd 1%) of the intervals cover the accuracy on all, tried alike
    scale = make_scale("a", 150)
    whole = answers(scale, 0, 1, 500, np.random.default_rng(3), trials=4)
    truth, form, known = whole.accuracy(), list(whole.item_ids[:30]), np.arange(500) < 400
    part = whole.select_items(form)
    found, once = (
        predict_accuracy(scale, each) for each in (part, ResponseMatrix(part.shares > 0.5, whole.respondent_ids, form))
    )
    assert covered(found, truth) == pytest.approx(0.95, abs=0.025)
    assert found.standard_error.mean() < 0.75 * once.standard_error.mean()
    correction = learn_correction(scale, whole.select_respondents(known), form)
    corrected = predict_accuracy(scale, part.select_respondents(~known), correction=correction)
    assert covered(corrected, truth[400:]) == pytest.approx(0.95, abs=0.05)
