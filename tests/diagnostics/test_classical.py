"""Classical statistics and options against psych, polycor, ShinyItemAnalysis, counting, and with missing responses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from builders.mirt_figures import lsat6, papers_scale
from builders.refusals import is_refused
from builders.simulated import simulated
from irtbench import ResponseMatrix, classical_statistics, distractor_table, internal_consistency
from irtbench.diagnostics.internal_consistency import (
    BY_THE_ABLE,
    MORE_THAN_KEY,
    NOBODY,
    feldt_interval,
    omega_total,
)

PAIRS = {  # our column, the reference's
    "n": "n", "proportion_correct": "p", "item_total": "r_item_total", "item_rest": "r_item_rest",
    "biserial": "biserial_total", "biserial_rest": "biserial_rest", "discrimination_index": "D_exact_k",
    "alpha_if_dropped": "alpha_if_dropped",
}  # fmt: skip


@pytest.mark.parametrize("name", ["lsat6", "5gs_entailment"])
def test_items_and_the_scale_agree_with_psych(name: str, real_data: Path, reference: Path) -> None:
    reader, data = (lsat6, "2pl") if name == "lsat6" else (papers_scale, "entailment")
    folder, responses = reference / "next" / "01_classical", reader(real_data, reference, data)[0]
    expected = pd.read_csv(folder / f"{name}_items.csv").set_index("item")
    items = classical_statistics(responses).table().set_index("item_id").loc[expected.index]
    for ours, theirs in PAIRS.items():
        np.testing.assert_allclose(items[ours], expected[theirs], rtol=1e-8, atol=1e-9, err_msg=ours)
    table = pd.read_csv(folder / f"{name}_test.csv").set_index("stat")["value"]
    found = internal_consistency(responses)
    assert found.alpha == pytest.approx(table["alpha_raw"], abs=1e-9)
    feldt = feldt_interval(found.alpha, responses.n_respondents, responses.n_items, 0.95)
    assert feldt == pytest.approx((table["feldt_lower95"], table["feldt_upper95"]), abs=1e-8)
    assert found.alpha_lower <= feldt[0] < feldt[1] <= found.alpha_upper  # easy items say less than normal scores
    assert found.standard_error == pytest.approx(table["sem_alpha"], abs=1e-8)
    pearson = omega_total(np.corrcoef(responses.values.T))
    assert pearson == pytest.approx(table["omega_total_1factor_minres_corr"], abs=2e-6)
    assert found.omega > found.alpha


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("place", [0.0, -2.0])
def test_alphas_interval_covers_of_easy_items_too(place: float, missing: float) -> None:
    # of two items alpha is 4 c / (v + v + 2 c), with their true covariance by the curve over many abilities
    theta = scipy.special.ndtri((np.arange(20_000) + 0.5) / 20_000)
    p = scipy.special.expit(2 * (theta - place))
    covariance, variance = p.var(), p.mean() * (1 - p.mean())
    true, rng, covered, feldts = 2 * covariance / (variance + covariance), np.random.default_rng(4), [], []
    for _ in range(150):
        chosen = rng.choice(p, 1000)[:, None]
        values = (rng.random((1000, 2)) < chosen).astype(float)
        values[rng.random((1000, 2)) < missing] = np.nan
        found = internal_consistency(values)
        lower, upper = feldt_interval(found.alpha, found.n_respondents, 2, 0.95)
        covered.append(found.alpha_lower <= true <= found.alpha_upper)
        feldts.append(lower <= true <= upper)
    assert np.mean(covered) > 0.9
    assert (np.mean(feldts) > 0.9) == (place == 0)


def test_the_interval_of_alpha_is_as_wide_as_the_jackknife_says() -> None:
    few = simulated(25, 6, seed=1)[0].values
    without = [np.log(1 - internal_consistency(np.delete(few, i, axis=0)).alpha) for i in range(25)]
    n = 1 + 2 * 6 / 5 / (24 * np.var(without))  # of normal scores, log(1 - alpha) has variance 2 k / ((n - 1)(k - 1))
    found = internal_consistency(few)
    assert n < 25
    assert (found.alpha_lower, found.alpha_upper) == pytest.approx(feldt_interval(found.alpha, n, 6, 0.95))
    alike = internal_consistency(np.array([[1.0] * 3, [0.0] * 3, [1.0] * 3]))
    assert alike.alpha == pytest.approx(1)
    assert np.isnan([alike.alpha_lower, alike.alpha_upper]).all()  # three people are no proof of 1


def test_tied_respondents_share_the_places_in_a_group() -> None:
    found = classical_statistics(np.array([[1.0, 0, 0]] * 4 + [[0, 0, 0]] * 5 + [[0, 1, 0]]))
    # Groups of 3 among ten. Five have sum score 1, four by item 1 and one by item 2; the others have none right.
    np.testing.assert_allclose(found.discrimination_index, [0.8, 0.2, 0.0])


def test_what_cannot_be_had_is_missing() -> None:
    always = np.array([[1.0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0, 1]])
    found = classical_statistics(always)
    assert np.isnan([found.item_total[0], found.item_rest[0], found.biserial[0]]).all()
    assert np.isfinite([found.item_total[1], found.alpha_if_dropped[1]]).all()
    nobody_varies = internal_consistency(np.ones((4, 3)))
    assert np.isnan(nobody_varies.alpha)
    assert "does not vary" in nobody_varies.reason
    two = internal_consistency(always[:, 1:])
    assert np.isnan(two.omega)
    assert "at least 3" in two.reason
    is_refused("expected at least 2", classical_statistics, always[:, :1])
    is_refused("level must be between 0 and 1 but got 95", internal_consistency, always, level=95)
    for n in range(5, 40):  # the rest of the score does not vary
        found = classical_statistics(np.where(np.arange(n)[:, np.newaxis] < 1, [0.0, 1.0, 1.0], 1.0))
        assert np.isnan([found.item_rest[0], found.alpha_if_dropped[0]]).all()


@pytest.mark.parametrize("n_answers", [0, 1])
def test_an_item_that_nobody_or_one_answered_changes_nothing_of_the_others(n_answers: int) -> None:
    rng = np.random.default_rng(4)
    values = (rng.random((80, 5)) < rng.random((80, 1))).astype(float)
    values[rng.random(values.shape) < 0.2] = np.nan
    more = np.column_stack([values, np.where(np.arange(80) < n_answers, 1.0, np.nan)])
    table, alone = classical_statistics(more).table(), classical_statistics(values).table()
    pd.testing.assert_frame_equal(table.iloc[:5], alone)
    assert table.iloc[5][["item_total", "item_rest", "biserial", "discrimination_index"]].isna().all()
    found, expected = internal_consistency(more), internal_consistency(values)
    assert table["alpha_if_dropped"][5] == pytest.approx(expected.alpha)
    for name in ("alpha", "alpha_lower", "alpha_upper", "standard_error", "n_respondents"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))


def test_missing_responses_leave_the_figures_where_they_were() -> None:
    rng = np.random.default_rng(1)
    whole, _, _ = simulated(4_000, 20, seed=1)
    thinned = whole.values.copy()
    thinned[rng.random(thinned.shape) < 0.3] = np.nan
    blocks = whole.values.copy()
    blocks[:2_000, :7], blocks[2_000:, 13:] = np.nan, np.nan  # items 1-7 and 14-20 never meet
    complete, alpha = classical_statistics(whole), internal_consistency(whole)
    for values, within in ((thinned, 0.04), (blocks, 0.08)):
        found, consistency = classical_statistics(values), internal_consistency(values)
        assert complete.complete
        assert not found.complete
        np.testing.assert_allclose(found.item_rest, complete.item_rest, atol=within)
        np.testing.assert_allclose(found.alpha_if_dropped, complete.alpha_if_dropped, atol=0.01)
        assert consistency.alpha == pytest.approx(alpha.alpha, abs=0.01)
        assert consistency.alpha_lower < alpha.alpha < consistency.alpha_upper


@given(arrays(np.float64, (12, 4), elements=st.sampled_from([0.0, 1.0])), st.permutations(range(4)))
def test_order_of_items_and_of_wrong_and_right_does_not_matter(values: np.ndarray, order: list[int]) -> None:
    found, moved = classical_statistics(values), classical_statistics(values[:, order])
    mirrored = classical_statistics(1 - values)
    for name in ("item_total", "item_rest", "discrimination_index", "alpha_if_dropped"):
        np.testing.assert_allclose(getattr(moved, name), getattr(found, name)[list(order)], atol=1e-9)
        np.testing.assert_allclose(getattr(mirrored, name), getattr(found, name), atol=1e-9)


def test_of_several_trials_the_share_right_counts() -> None:
    rng = np.random.default_rng(9)
    trials = np.where(rng.random((50, 6)) < 0.2, 0, 4)
    right = np.where(trials > 0, rng.binomial(4, rng.uniform(0.2, 0.8, (50, 1)), (50, 6)).astype(float), np.nan)
    names = tuple(f"r{k}" for k in range(50)), tuple(f"i{k}" for k in range(6))
    found = classical_statistics(ResponseMatrix(right, *names, trials))
    frame = pd.DataFrame(right / 4)
    covariance = frame.cov().to_numpy()
    expected = covariance[0].sum() / np.sqrt(covariance[0, 0] * covariance.sum())
    assert found.item_total[0] == pytest.approx(expected)
    assert np.isnan(found.biserial).all()
    consistency = internal_consistency(ResponseMatrix(right, *names, trials))
    assert consistency.alpha == pytest.approx(6 / 5 * (1 - covariance.trace() / covariance.sum()))
    assert "several trials" in consistency.reason


# --- options ---------------------------------------------------------------------------------------------------------


COLUMNS = {  # our column, the reference's
    "n": "n", "share": "p", "share_low": "p_low", "share_middle": "p_middle", "share_high": "p_high",
    "point_biserial": "pbis_total", "point_biserial_rest": "pbis_rest",
}  # fmt: skip


def graded(answers: pd.DataFrame, keys: dict[str, str]) -> ResponseMatrix:
    response = (answers["answer"] == answers["item_id"].map(keys)).astype(float)
    return ResponseMatrix.from_long(answers.assign(response=response), item_ids=tuple(keys))


def test_options_agree_with_shiny_item_analysis(reference: Path) -> None:
    folder = reference / "next"
    wide = pd.read_csv(folder / "data" / "hci_answers.csv")
    keys = pd.read_csv(folder / "data" / "hci_key.csv").set_index("item")["key"].to_dict()
    wide.insert(0, "respondent_id", [f"p{k}" for k in range(len(wide))])
    answers = wide.melt("respondent_id", var_name="item_id", value_name="answer")
    offered = {item: list("ABCDE") for item in keys}
    found = distractor_table(answers, keys, graded(answers, keys), options=offered).set_index(["item_id", "option"])
    expected = pd.read_csv(folder / "03_distractor" / "hci_distractors.csv").set_index(["item", "option"])
    found = found.loc[expected.index]
    for ours, theirs in COLUMNS.items():
        np.testing.assert_allclose(found[ours], expected[theirs], rtol=1e-8, atol=1e-9, err_msg=ours)
    assert (found["is_key"] == expected["key"]).all()
    assert found.loc[found["n"] == 0, "flags"].str.contains(NOBODY).all()


def test_flags_and_shares_that_can_be_counted() -> None:
    # Six able with 3 of 4 right, six in the middle with 2, six weak with 1 of 4 (the last with none).
    options = {"able": ("b", "x", "x", "x"), "middle": ("c", "x", "x", "y"), "weak": ("a", "y", "y", "y")}
    items = ("keyed wrongly", "good 1", "good 2", "good 3")
    rows = [
        (f"{group} {k}", item, option)
        for group, chosen in options.items()
        for k in range(6)
        for item, option in zip(items, "" if (group, k) == ("weak", 5) else chosen, strict=False)
    ]
    rows += [("weak 5", item, option) for item, option in zip(items, ("", "y", "y", "y"), strict=True)]
    answers = pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])
    keys = {"keyed wrongly": "a", "good 1": "x", "good 2": "x", "good 3": "x"}
    table = distractor_table(answers, keys, graded(answers, keys), options={"good 1": ["x", "y", "z"]})
    by_option = table.set_index(["item_id", "option"])
    wrong = by_option.loc[("keyed wrongly", "b")]
    assert wrong["flags"] == f"{BY_THE_ABLE}; {MORE_THAN_KEY}"
    assert (wrong["n"], wrong["share"], wrong["share_low"], wrong["share_high"]) == (6, 6 / 18, 0.0, 1.0)
    assert by_option.loc[("keyed wrongly", "a")][["n", "share"]].tolist() == [5, pytest.approx(5 / 18)]
    assert by_option.loc[("good 1", "z")]["flags"] == NOBODY
    assert by_option.loc[("good 2", "y")]["flags"] == ""
    assert by_option.loc[("keyed wrongly", "c")]["share_middle"] == 1.0
    is_refused("item good 1 has no key", distractor_table, answers, {"keyed wrongly": "a"}, graded(answers, keys))


def test_frames_give_what_the_matrix_gives_and_strangers_are_refused() -> None:
    wide = pd.DataFrame({"i1": list("aab"), "i2": list("cdd")}, index=["r1", "r2", "r3"])
    keys = {"i1": "a", "i2": "c"}
    long = wide.melt(var_name="item_id", value_name="answer", ignore_index=False)
    long = long.rename_axis("respondent_id").reset_index()
    expected = distractor_table(long, keys, graded(long, keys))
    assert expected["option"].tolist() == ["a", "b", "c", "d"]
    assert expected["n"].tolist() == [2, 1, 1, 2]
    responses = (wide == ["a", "c"]).astype(int)
    pd.testing.assert_frame_equal(distractor_table(wide, keys, responses), expected)
    stranger = pd.DataFrame({"respondent_id": ["zoe"], "item_id": ["i1"], "answer": [""]})
    pd.testing.assert_frame_equal(distractor_table(pd.concat([long, stranger]), keys, responses), expected)
    more = pd.concat([long, stranger.assign(answer="a")])
    is_refused("answers: respondent zoe has answers but no row in the", distractor_table, more, keys, responses)


def test_an_item_that_is_not_scored_is_seen_by_the_score_of_the_others() -> None:
    rng = np.random.default_rng(4)
    values = (rng.random((90, 6)) < 1 / (1 + np.exp(-rng.normal(size=(90, 1))))).astype(float)
    values[rng.random(values.shape) < 0.1] = np.nan
    data = ResponseMatrix(values, tuple(f"p{k}" for k in range(90)), tuple(f"i{k}" for k in range(6)))
    answers = data.to_long()
    answers = answers.assign(answer=np.where(answers["response"] == 1, "a", "b")).drop(columns="response")
    keys = dict.fromkeys(data.item_ids, "a")
    others = set(data.item_ids) - {"i2"}
    whole = distractor_table(answers, keys, data).set_index(["item_id", "option"])
    found = distractor_table(answers, keys, data, scored=others).set_index(["item_id", "option"])
    # the score of those kept is what the rest of the score is to the one removed
    np.testing.assert_allclose(found.loc["i2", "point_biserial"], whole.loc["i2", "point_biserial_rest"])
    np.testing.assert_allclose(found.loc["i2", "point_biserial_rest"], whole.loc["i2", "point_biserial_rest"])
    kept = [item for item in data.item_ids if item in others]
    alone = distractor_table(answers[answers["item_id"] != "i2"], keys, data.select_items(kept))
    there = found.drop(index="i2", level="item_id").reset_index()
    pd.testing.assert_frame_equal(there, alone, check_like=True)
