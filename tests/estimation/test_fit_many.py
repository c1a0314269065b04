"""Scales fitted together have what `fit_model` gives each of them, and every one says for itself how it ended."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import irtbench
from builders.refusals import is_refused
from builders.simulated import simulated
from irtbench import FittedModel, InputError, ResponseMatrix, fit_categories, fit_many, fit_model
from irtbench.estimation.many_scales.stack import GROUP_CELLS

MODELS: dict[str, dict[str, Any]] = {
    "rasch": {"kind": "rasch"},
    "1pl": {"kind": "1pl"},
    "2pl": {"kind": "2pl"},
    "3pl": {"kind": "3pl", "prior_guessing": "beta:5,17"},
    "fixed guessing": {"guessing": 0.15},
    "mixed": {"by_item": {"item1": "3pl", "item2": 0.3}, "prior_guessing": "normal:-1.1,0.5"},
}
TIGHT = 1e-7  # standard errors: with the usual 1e-5 either fit is known to that only


def scales_of(sizes: list[tuple[int, int]], *, missing: float = 0.0, guessing: float = 0.0) -> list[ResponseMatrix]:
    """Responses of so many respondents to so many items, each with a crowd of its own."""
    return [
        simulated(n, n_items, seed=k, missing=missing, guessing=guessing)[0] for k, (n, n_items) in enumerate(sizes)
    ]


def alike(one: FittedModel | None, other: FittedModel) -> None:
    assert one.items.item_ids == other.items.item_ids
    errors = other.items.standard_errors()
    for name in ("discrimination", "intercept", "guessing"):
        close = 1e-6 + 1e-5 * np.nan_to_num(errors[name])
        assert (np.abs(getattr(one.items, name) - getattr(other.items, name)) <= close).all()
    np.testing.assert_array_equal(one.items.guessing_estimated, other.items.guessing_estimated)
    np.testing.assert_allclose(one.log_likelihood, other.log_likelihood, atol=1e-6)
    assert (one.converged, one.doubts, one.n_responses) == (other.converged, other.doubts, other.n_responses)
    assert (one.items.kind, one.n_parameters, one.estimator) == (other.items.kind, other.n_parameters, other.estimator)
    np.testing.assert_allclose(one.quadrature.nodes, other.quadrature.nodes, atol=1e-5)
    assert (one.moments is None) == (other.moments is None)
    for name, value in other.population.items():
        assert one.population[name] == pytest.approx(value, rel=1e-5, nan_ok=True)
    if other.items.covariance is None:
        assert one.items.covariance is None
        return
    joint = [np.diagonal(fit.joint_error.covariance.reshape(3 * fit.items.n_items, -1)) for fit in (one, other)]
    known = joint[1] > 0
    in_errors = np.sqrt(joint[1][known])  # a parameter known to 200 is compared by 200
    ours, theirs = (
        fit.joint_error.covariance.reshape(len(known), -1)[np.ix_(known, known)] / np.outer(in_errors, in_errors)
        for fit in (one, other)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(joint[0] > 0, known)
    assert one.joint_error.location == pytest.approx(other.joint_error.location, rel=1e-5)
    assert one.joint_error.unit == pytest.approx(other.joint_error.unit, rel=1e-5)
    np.testing.assert_allclose(one.items.covariance, other.items.covariance, rtol=1e-4, atol=1e-9)
    assert (one.likelihood_intervals is None) == (other.likelihood_intervals is None)
    if one.likelihood_intervals is not None:
        np.testing.assert_allclose(one.likelihood_intervals, other.likelihood_intervals, rtol=1e-3, atol=1e-3)


#: Respondents and items of each scale, and the share of missing responses.
SIZES = {
    "uneven": ([(300, 9), (180, 5)], 0.25),
    "tiny": ([(200, 3), (220, 2), (190, 3)], 0.0),
}
#: Without a prior every model is in `test_everything_with_everything` too, three scales alike.
CASES = [
    *(("uneven", "weak", model) for model in MODELS),
    ("uneven", "none", "3pl"),
    *(("tiny", "none", model) for model in ("rasch", "2pl", "fixed guessing")),
]


@pytest.mark.parametrize(("size", "prior", "model"), CASES)
def test_estimates_and_errors_are_those_of_single_fits(size: str, prior: str, model: str) -> None:
    sizes, missing = SIZES[size]
    with_guessing = model not in ("rasch", "1pl", "2pl")  # slopes are then hardly determined, least by two items
    if model == "2pl" and prior == "none":  # two items have three frequencies for four parameters
        sizes = [(n, max(n_items, 3)) for n, n_items in sizes]
    sizes = [(n, n_items + 2) for n, n_items in sizes] if with_guessing else sizes
    drawn = scales_of(sizes, missing=missing, guessing=0.25 if with_guessing else 0.0)
    scales = [one.select_respondents(one.n_by_respondent > 0) for one in drawn]
    how = irtbench.FitSettings(**MODELS[model], prior=prior, tolerance=TIGHT / 100 if with_guessing else TIGHT)
    found = fit_many(scales, how)
    for one, responses in zip(found.fits, scales, strict=True):
        other = fit_model(responses, how)
        if other.converged:
            alike(one, other)
        else:
            assert one.status.stop is other.status.stop


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_intervals_of_guessing_and_the_shape_of_ability_are_those_of_single_fits(missing: float) -> None:
    """Of scales of several sizes, of which one has too few respondents to take them together in cells."""
    scales = scales_of([(300, 7), (240, 5), (320, 6), (310, 7)], missing=missing, guessing=0.2)
    how = irtbench.FitSettings(kind="3pl", tolerance=TIGHT / 100)
    for one, responses in zip(fit_many(scales, how).fits, scales, strict=True):
        other = fit_model(responses, how)
        assert one.likelihood_intervals.shape == (2, responses.n_items, 3)
        np.testing.assert_allclose(one.likelihood_intervals, other.likelihood_intervals, rtol=1e-5, atol=1e-5)
        for name, value in vars(other.ability_shape).items():
            assert getattr(one.ability_shape, name) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_most_scales_take_their_steps_together(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the tests above: they do not compare `fit_model` with itself."""
    monkeypatch.setattr("irtbench.estimation.many_scales.fit_many.fit_model", None)
    assert len(fit_many(scales_of([(300, 8), (250, 10), (280, 9)]), **MODELS[model]).not_converged) == 0


def test_a_scale_in_trouble_says_so_and_harms_no_other() -> None:
    good = scales_of([(300, 8)] * 3)
    all_right = np.ones((300, 4))
    one_constant = good[0].values.copy()
    one_constant[:, 2] = 1
    steep = good[1].values.copy()
    steep[:, 3] = steep[:, 4]  # two items of one answer: their slopes grow without end
    scales = {"a": good[0], "all": all_right, "b": good[1], "one": one_constant, "steep": steep, "c": good[2]}
    found = fit_many(scales)
    assert found.names == tuple(scales)
    assert found.not_converged == ("all", "one", "steep")
    assert "NOT CONVERGED" in repr(found)
    assert "2 not fitted" in repr(found)
    with pytest.raises(InputError, match="scale one: fit: all responses are the same for item item3"):
        found["one"]
    with pytest.raises(InputError, match="no scale z; expected one of a, all"):
        found["z"]
    assert str(found["steep"].status) == str(fit_model(steep).status)
    table = found.table().set_index("scale")
    assert table["converged"].tolist() == [True, False, True, False, False, True]
    assert "all responses are the same" in table.loc["all", "stopped_because"]
    tight = fit_many(scales, tolerance=TIGHT)
    for name, responses in zip("abc", good, strict=True):
        alike(tight[name], fit_model(responses, tolerance=TIGHT))


@pytest.mark.slow
def test_scales_that_need_nodes_of_their_own_or_another_model_are_fitted_alone() -> None:
    narrow = scales_of([(150, 140), (140, 130), (130, 120), (130, 125)])
    for one, responses in zip(fit_many(narrow, tolerance=TIGHT).fits, narrow, strict=True):
        alike(one, fit_model(responses, tolerance=TIGHT))
    few = scales_of([(200, 6)] * 3)
    for keywords in ({"model": "rasch", "guessing": 0.2}, {"model": "3pl", "prior": "none"}):
        for one, responses in zip(fit_many(few, **keywords).fits, few, strict=True):
            other = fit_model(responses, **keywords)
            np.testing.assert_array_equal(one.items.intercept, other.items.intercept)
            assert one.nodes == other.nodes


def test_order_is_kept_and_figures_are_the_same_again() -> None:
    sizes = [(100 + 37 * (k % 5), 4 + k % 7) for k in range(6)]
    scales = scales_of(sizes)
    first, again = fit_many(scales), fit_many(scales)
    assert first.names[:2] == ("scale1", "scale2")
    for one, same, (n, n_items) in zip(first.fits, again.fits, sizes, strict=True):
        assert (one.n_respondents, one.items.n_items) == (n, n_items)
        np.testing.assert_array_equal(one.items.discrimination, same.items.discrimination)
        assert one.log_likelihood == same.log_likelihood
    items = first.items_table()
    assert len(items) == sum(n_items for _, n_items in sizes)
    assert items.columns[0] == "scale"


def test_threads_change_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GROUP_CELLS, "cpu", 4 * 8 * 61)
    scales = scales_of([(120, 8)] * 12)
    before = torch.get_num_threads()
    found = []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            found.append(fit_many(scales).items_table())
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
    assert found[0].equals(found[1])


@pytest.mark.parametrize("model", ["rasch", "2pl", "3pl"])
def test_a_start_of_the_same_items_saves_steps_and_one_of_others_is_refused(model: str) -> None:
    scales = scales_of([(300, 10)], guessing=0.2 if model == "3pl" else 0.0) * 3
    near = fit_model(scales[0], **MODELS[model]).items
    far, found = fit_many(scales, **MODELS[model]), fit_many(scales, start=near, **MODELS[model])
    for fitted, without in zip(found.fits, far.fits, strict=True):
        # the slopes of a Rasch model are told as 1, whatever the population
        assert fitted.steps < without.steps if model == "rasch" else fitted.steps <= 3
    is_refused("start is of other items than scale scale1", fit_many, scales_of([(50, 9)] * 3), start=near)


def test_a_reversed_scale_is_turned_and_doubted_as_alone() -> None:
    first, second, half = (1 - one.values for one in scales_of([(300, 7)] * 3))
    half[:, ::2] = 1 - half[:, ::2]
    given = [first, second, half]
    for one, responses in zip(fit_many(given, tolerance=TIGHT).fits, given, strict=True):
        alike(one, fit_model(responses, tolerance=TIGHT))
    assert fit_many(given).fits[2].doubts  # type: ignore[union-attr]


def test_no_scales_and_wrong_values() -> None:
    assert len(fit_many([])) == 0
    assert fit_many({}).table().empty
    with pytest.raises(InputError, match=r"scale words\[1, 0\]: expected 1, 0 or missing but got 3"):
        fit_many({"sums": np.ones((20, 2)), "words": [[1, 0], [3, 0]]})


def grades(n: int, n_items: int, slope: float, *, missing: float = 0.0) -> pd.DataFrame:
    """Categories 0 to 4 of items q2, q3, ..., fewer of some; right and wrong of q0 and q1."""
    rng = np.random.default_rng(n)
    chance = slope * rng.normal(size=(n, 1, 1)) + rng.logistic(size=(n, n_items, 1))
    given = (chance > slope * np.linspace(-1.5, 1.5, 4)).sum(axis=2).astype(float)
    given = np.minimum(given, np.where(np.arange(n_items) < 2, 1, 2 + np.arange(n_items) % 3))
    given[rng.random(given.shape) < missing] = np.nan
    given[np.isnan(given).all(axis=1), 0] = 1.0
    return pd.DataFrame(given, columns=[f"q{k}" for k in range(n_items)])


IN_CATEGORIES: dict[str, dict[str, Any]] = {
    "grm": {"models": "grm"},
    "gpcm": {"models": "gpcm", "prior": "weak"},
    "nominal": {"models": "nominal"},
    "own": {
        "models": {"q0": "3pl", "q1": "4pl", "q2": "gpcm", "q3": "nominal", **{f"q{k}": "grm" for k in range(4, 9)}},
        "prior": "weak",
    },
}


@pytest.mark.parametrize("model", IN_CATEGORIES)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_scales_in_categories_take_their_steps_together(
    model: str, missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of unequal numbers of respondents, items and categories, and none of them is fitted alone."""
    given = IN_CATEGORIES[model] | {"tolerance": TIGHT}
    tasks = {
        f"{n}": grades(n, n_items, 1.5, missing=missing) for n, n_items in ((700, 6), (500, 8), (600, 9), (610, 9))
    }
    single = {name: fit_categories(task, **given) for name, task in tasks.items()}
    monkeypatch.setattr("irtbench.estimation.many_scales.fit_many.fit_categories", None)
    many = fit_many(tasks, **given)
    for name, alone in single.items():
        one = many[name]
        errors = np.sqrt(np.diagonal(alone.covariance, axis1=1, axis2=2))
        assert (np.abs(one.parameters - alone.parameters) <= 1e-6 + 1e-5 * errors).all()
        np.testing.assert_allclose(one.covariance, alone.covariance, rtol=1e-4, atol=1e-6)
        assert one.log_likelihood == pytest.approx(alone.log_likelihood, abs=1e-6)
        assert (one.n_parameters, one.doubts, str(one.priors)) == (alone.n_parameters, alone.doubts, str(alone.priors))
        assert one.ability_shape.skewness == pytest.approx(alone.ability_shape.skewness, abs=1e-4)
        assert one.items.names == alone.items.names
    start = fit_many([tasks["610"]] * 3, start=many["610"].items, **given)
    assert all(one.steps <= 3 for one in start.fits)


def test_a_scale_in_categories_that_cannot_be_fitted_harms_no_other() -> None:
    tasks = {"a": grades(200, 5, 1.0, missing=0.2), "b": grades(300, 8, 1.5), "c": grades(250, 6, 2.0)}
    tasks["flat"] = tasks["a"].assign(q1=1.0)
    tasks["few"] = tasks["a"].iloc[:5]
    tasks["steep"] = tasks["b"].assign(q5=tasks["b"]["q4"])  # two items of one answer
    many = fit_many(tasks, models="gpcm")
    assert many.not_converged == ("flat", "few", "steep")
    assert many.in_short() == "6 scales, 3 converged, 1 NOT CONVERGED, 2 not fitted"
    assert str(many["steep"].status) == str(fit_categories(tasks["steep"], "gpcm").status)
    with pytest.raises(InputError, match="scale flat: fit: item q1: all responses are the same"):
        many["flat"]
    assert len(many.items_table()) == 5 + 8 + 6 + 8
    assert many.table()["n_items"].tolist()[:3] == [5, 8, 6]
    assert fit_many(list(tasks.values())[:1], models="pcm")["scale1"].moments is not None
    assert fit_many([tasks["a"].iloc[:12]], models="grm", prior="weak", start=None).fits[0] is not None
    wide = pd.concat([tasks["b"].add_suffix(str(k)) for k in range(3)], axis=1).iloc[:12].fillna(1.0)
    assert "sets the scale of ability" in fit_many([wide], models="grm", prior="weak").reasons[0]
    is_refused("scale scale1: responses: item q0", fit_many, [tasks["a"].replace(1.0, "good")], models="grm")
    is_refused("start is of other items than scale b", fit_many, tasks, models="gpcm", start=many["a"].items)
    is_refused("prior", fit_many, tasks, models="gpcm", prior="strong")
