"""Keys turned round on purpose are found, right ones are left alone, and the probabilities mean what they say."""

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.refusals import is_refused
from irtbench import ItemParameters, fit_model
from irtbench.analysis.wrong_keys import WrongKeys, fit_options, wrong_keys

OPTIONS = np.array(list("abcd"))


def crowd(n: int, n_items: int, *, seed: int, answered: float = 1.0) -> tuple[pd.DataFrame, dict[str, str]]:
    """Answers of a crowd to items of four options, whose distractors draw the weak unequally, and the true keys."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n)
    slope = rng.normal(0, 0.5, (n_items, 4))
    intercept = rng.normal(0, 0.8, (n_items, 4))
    right = rng.integers(4, size=n_items)
    slope[np.arange(n_items), right] = slope.max(axis=1) + rng.uniform(0.4, 1.4, n_items)
    logit = theta[:, None, None] * slope + intercept
    chosen = (logit + rng.gumbel(size=logit.shape)).argmax(axis=2)
    answers = pd.DataFrame(OPTIONS[chosen], [f"r{k}" for k in range(n)], [f"i{k}" for k in range(n_items)])
    keys = {f"i{k}": str(OPTIONS[o]) for k, o in enumerate(right)}
    return answers.where(answered > rng.random((n_items, n)).T), keys


def graded(answers: pd.DataFrame, keys: dict[str, str]) -> pd.DataFrame:
    return (answers == pd.Series(keys)).astype(float).where(answers.notna())


def examined(answers: pd.DataFrame, keys: dict[str, str]) -> WrongKeys:
    responses = graded(answers, keys)
    varied = responses.columns[responses.nunique() > 1]
    fitted = fit_model(responses[varied], prior="weak", standard_errors=False)
    return wrong_keys(answers, keys, responses, fitted.items, population=fitted.quadrature)


def turned(keys: dict[str, str], which: NDArray[np.intp], *, seed: int) -> dict[str, str]:
    rng, wrong = np.random.default_rng(seed), dict(keys)
    for item in np.array(list(keys))[which]:
        wrong[item] = str(rng.choice(OPTIONS[keys[item] != OPTIONS]))
    return wrong


@pytest.mark.parametrize(("n", "n_items", "answered"), [(500, 40, 1.0), (600, 40, 0.4)])
def test_wrong_keys_come_first_with_the_true_option(n: int, n_items: int, answered: float) -> None:
    answers, keys = crowd(n, n_items, seed=n, answered=answered)
    found = examined(answers, turned(keys, np.array([3, 17, 29, 30]), seed=1)).table()
    assert set(found["item_id"][:4]) == {"i3", "i17", "i29", "i30"}
    assert (found["p_wrong_key"][:4] > 0.9).all()
    assert (found["p_wrong_key"][4:] < 0.5).all()
    assert [keys[item] for item in found["item_id"][:4]] == found["proposed"][:4].tolist()


@pytest.mark.slow
def test_probabilities_are_calibrated_where_evidence_is_thin() -> None:
    said, true = [], []
    for seed in range(6):  # 60 people who answer a quarter of the items: some 15 answers an item
        answers, keys = crowd(60, 60, seed=100 + seed, answered=0.25)
        which = np.arange(0, 60, 10)
        found = examined(answers, turned(keys, which, seed=seed))
        said.append(found.p_wrong_key)
        true.append(np.isin(np.arange(60), which))
    said_all, true_all = np.concatenate(said), np.concatenate(true)
    assert said_all.mean() == pytest.approx(0.1, abs=0.05)
    likely = said_all > 0.5
    assert true_all[likely].mean() == pytest.approx(said_all[likely].mean(), abs=0.2)


def test_a_key_that_nobody_chose_is_judged_too() -> None:
    answers, keys = crowd(400, 20, seed=3)
    keys["i5"] = "e"
    found = examined(answers, keys).table().set_index("item_id").loc["i5"]
    assert found["p_wrong_key"] > 0.5
    assert np.isnan(found["discrimination"])


def test_the_order_of_items_does_not_matter() -> None:
    answers, keys = crowd(120, 8, seed=6)
    keys = turned(keys, np.array([2]), seed=1)
    items = ItemParameters.from_difficulty([0.6] * 8, np.linspace(-1, 1, 8), item_ids=list(keys))
    found, other = (
        wrong_keys(each, keys, graded(answers, keys)[list(each)], items).table().set_index("item_id")["p_wrong_key"]
        for each in (answers, answers[list(answers)[::-1]])
    )
    np.testing.assert_allclose(other[found.index], found, rtol=1e-6)


def test_an_item_without_an_answer_or_with_one_option_keeps_its_key() -> None:
    answers, keys = crowd(300, 15, seed=4)
    answers["i2"], answers["i7"] = keys["i2"], None
    found = examined(answers, keys).table().set_index("item_id")
    assert found.loc[["i2", "i7"], "p_wrong_key"].tolist() == [0.0, 0.0]
    assert found.loc[["i2", "i7"], "proposed"].tolist() == ["", ""]


def test_long_tables_give_what_wide_ones_give_and_strangers_are_refused() -> None:
    answers, keys = crowd(60, 6, seed=5)
    responses = graded(answers, keys)
    items = ItemParameters.from_difficulty([1.0] * 6, np.linspace(-1, 1, 6), item_ids=list(keys))
    expected = wrong_keys(answers, keys, responses, items).table()
    long = answers.rename_axis("respondent_id").reset_index().melt("respondent_id", None, "item_id", "answer")
    pd.testing.assert_frame_equal(wrong_keys(long, keys, responses, items.table()).table(), expected)
    is_refused("answers: respondent r0 has answers but no row", wrong_keys, answers, keys, responses.drop("r0"), items)
    is_refused("item i0 has no key", wrong_keys, answers, {"i1": "a"}, responses, items)


def test_the_option_model_finds_slopes_and_their_errors() -> None:
    rng = np.random.default_rng(8)
    slope, intercept = np.array([1.0, 0.0, -1.0]), np.array([0.0, 0.5, -0.5])
    nodes = np.linspace(-4, 4, 33)
    estimates, errors = [], []
    for _ in range(60):
        theta = rng.choice(nodes, 400, p=np.exp(-(nodes**2) / 2) / np.exp(-(nodes**2) / 2).sum())
        chosen = (np.outer(theta, slope) + intercept + rng.gumbel(size=(400, 3))).argmax(axis=1)
        slopes, covariance = fit_options(chosen, nodes, np.eye(33)[np.searchsorted(nodes, theta)], 3)
        contrast = np.array([1.0, -1.0, 0.0])
        estimates.append(slopes @ contrast)
        errors.append(np.sqrt(contrast @ covariance @ contrast))
    assert np.mean(estimates) == pytest.approx(1.0, abs=4 * np.std(estimates) / np.sqrt(60) + 0.03)  # and a weak prior
    assert np.std(estimates) == pytest.approx(np.mean(errors), rel=0.3)


@pytest.mark.parametrize(("n", "enough"), [(60, False), (120, True)])
def test_a_small_crowd_calls_no_key_wrong(n: int, enough: bool) -> None:
    answers, keys = crowd(n, 12, seed=3)
    keys["i2"] = next(option for option in OPTIONS if option != keys["i2"])
    found = examined(answers, keys)
    assert found.n_respondents == n
    assert (found.too_few == "") == enough
    assert found.suspicious == (tuple(found.table().query("p_wrong_key > .5")["item_id"]) if enough else ())
    assert ("too few respondents (60)" in repr(found)) == (not enough)


def test_some_who_answer_much_and_many_who_answer_little() -> None:
    answers, keys = crowd(300, 45, seed=50)
    rng = np.random.default_rng(0)
    activity = np.clip(rng.lognormal(-1.6, 1.0, (len(answers), 1)), 0.04, 1.0)
    answers = answers.where(rng.random(answers.shape) < activity)
    answers = answers.dropna(how="all")
    right = examined(answers, keys)
    assert (right.p_wrong_key < 0.5).all()
    assert right.share_wrong < 0.05
    found = examined(answers, turned(keys, np.array([0, 20, 40]), seed=0)).table()
    assert len({"i0", "i20", "i40"} & set(found["item_id"][:4])) >= 2
