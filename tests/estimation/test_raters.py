"""The many-facet model: published figures, the likelihood written down, recovery, parts of a design, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

import irtbench
from builders.refusals import is_refused
from irtbench.estimation.raters import rating_mode, rating_problem
from irtbench.estimation.raters.fit_ratings import marginal_likelihood
from irtbench.estimation.raters.rating_mode import find_mode
from irtbench.estimation.raters.rating_problem import RatingProblem
from irtbench.estimation.raters.ratings import RatingModel, Ratings

WIDTH = 0.15  # of the nodes of a severity, about its error
STEPS = np.array([-1.0, 0.0, 1.0])


def simulate(
    rng: np.random.Generator,
    n: int,
    n_items: int,
    n_raters: int,
    each: int,
    *,
    sd: float = 1.2,
    answer: float = 0.0,
    own: float = 0.0,
) -> tuple[pd.DataFrame, NDArray[np.float64], NDArray[np.float64]]:
    """Graded ratings by `each` raters of every answer; rater r is milder by `own` on respondents r, r + n_raters."""
    theta, severity = rng.normal(0, sd, n), rng.normal(0, 0.5, n_raters)
    difficulty, effect = rng.normal(0, 0.6, n_items), rng.normal(0, 1, (n, n_items)) * answer
    i, j = (values.ravel() for values in np.meshgrid(np.arange(n), np.arange(n_items), indexing="ij"))
    r = np.argsort(rng.random((len(i), n_raters)), axis=1)[:, :each].ravel()
    i, j = np.repeat(i, each), np.repeat(j, each)
    z = theta[i] + effect[i, j] - severity[r] - difficulty[j] + own * (i % n_raters == r)
    score = np.digitize(z + rng.logistic(size=len(z)), STEPS)
    names = {"respondent_id": i, "item_id": [f"q{k}" for k in j], "rater_id": [f"r{k}" for k in r], "score": score}
    return pd.DataFrame(names), theta, severity


def by_rater(found: irtbench.estimation.FittedRaters, severity: NDArray[np.float64]) -> pd.DataFrame:
    """The raters' table with true severities about their mean."""
    table = found.table()
    true = severity[table["rater_id"].str[1:].astype(int)]
    return table.assign(true=true - true.mean())


@pytest.fixture(scope="module")
def ratings() -> pd.DataFrame:
    return simulate(np.random.default_rng(3), 40, 4, 5, 2)[0]


def test_the_figures_are_those_of_plain_r(reference: Path) -> None:
    root = reference / "graded" / "sim_raters_facets_wide"
    table = pd.read_csv(reference / "graded" / "data" / "sim_raters.csv")
    found = irtbench.fit_raters(table.rename(columns={"rater": "rater_id", "response": "score"}))
    theirs = json.loads((root / "fit.json").read_text())
    assert found.converged
    assert found.n_parameters == theirs["free_parameters"]
    assert found.log_likelihood == pytest.approx(theirs["loglik"], abs=1e-5)
    assert found.ability_sd == pytest.approx(theirs["theta_sd"], abs=1e-5)
    assert found.se_ability_sd == pytest.approx(theirs["theta_sd_se"], abs=1e-5)
    raters = found.table().merge(pd.read_csv(root / "raters.csv"), left_on="rater_id", right_on="rater")
    np.testing.assert_allclose(raters["severity_x"], raters["severity_y"], atol=1e-5)
    np.testing.assert_allclose(raters["se"], raters["se_observed"], atol=1e-5)
    items = found.item_rows().set_index("item_id")
    for step, rows in pd.read_csv(root / "items.csv").groupby("step"):
        own = items.loc[rows["item_id"]]
        np.testing.assert_allclose(own[f"step_{step}"], rows["b"], atol=1e-5)
        np.testing.assert_allclose(own[f"se_step_{step}"], rows["se_observed"], atol=1e-5)
    scores = found.scores().merge(pd.read_csv(root / "theta.csv"), on="respondent_id")
    np.testing.assert_allclose(scores["theta"], scores["eap"], atol=1e-5)
    assert (scores["se_x"] > scores["se_y"]).all()  # which takes raters and items as known


def test_slopes_of_items_and_raters_are_those_of_sirt(reference: Path) -> None:
    root = reference / "graded" / "sim_raters_facets_slopes"
    table = pd.read_csv(reference / "graded" / "data" / "sim_raters.csv")
    table = table.rename(columns={"rater": "rater_id", "response": "score"})
    found = irtbench.fit_raters(table, item_slopes=True, consistency=True)
    assert found.log_likelihood == pytest.approx(json.loads((root / "sirt_fit.json").read_text())["loglik"], abs=1e-4)
    raters = found.table().merge(pd.read_csv(root / "sirt_raters.csv"), left_on="rater_id", right_on="rater")
    np.testing.assert_allclose(raters["severity"], raters["b"], atol=1e-4)
    np.testing.assert_allclose(raters["consistency"], raters["a"], atol=1e-4)
    items = found.item_rows().merge(pd.read_csv(root / "sirt_items.csv"), left_on="item_id", right_on="item")
    sd = np.exp(np.log(items["discrimination"]).mean())  # theirs has product 1, and ability a standard deviation
    np.testing.assert_allclose(items["discrimination"] / sd, items["a"], atol=1e-4)


@pytest.mark.parametrize("curve", ["gpcm", "grm"])
def test_the_likelihood_is_that_written_down(ratings: pd.DataFrame, curve: str) -> None:
    """Sums over a grid of 301 abilities, a respondent and a rating at a time."""
    given = Ratings.of(ratings[ratings["respondent_id"] < 6])
    problem = RatingProblem(given, RatingModel(curve, True, True, True), 21)
    x = problem.start() + np.random.default_rng(1).normal(0, 0.1, problem.n_parameters) * problem.free
    mean, deviation = np.zeros(6), np.ones(6)
    for _ in range(4):
        found = problem.evaluate(x, mean, deviation)
        mean, deviation = found.mean, found.deviation
    at, expected = np.linspace(-9, 9, 301), []
    log_prior = -((at / np.exp(x[problem.places["population"][0, 0]])) ** 2) / 2
    for i in range(6):
        joint = log_prior - logsumexp(log_prior)
        for o in np.flatnonzero(given.respondents == i):
            *d, a = x[problem.places["items"][given.items[o]]]
            severity, log_c, *t = x[problem.places["raters"][given.raters[o]]]
            z = a * np.exp(log_c) * at - severity
            k = given.codes[o]
            if curve == "gpcm":
                each = [0 * at, *(v * z + d[v - 1] - [0.0, *t, 0.0][v] for v in range(1, len(d) + 1))]
                joint = joint + each[k] - logsumexp(each, axis=0)
            else:
                at_least = [np.ones(301), *(expit(z + d[v] - [*t, 0.0][v]) for v in range(len(d))), np.zeros(301)]
                joint = joint + np.log(at_least[k] - at_least[k + 1])
        expected.append(logsumexp(joint))
    np.testing.assert_allclose(found.log_likelihood, expected, atol=1e-5)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"curve": "grm"},
        {"item_slopes": True, "consistency": True, "rater_steps": True},
        {"curve": "grm", "item_slopes": True, "consistency": True, "rater_steps": True, "answer_effect": True},
    ],
)
def test_information_is_the_derivative_of_the_gradient(ratings: pd.DataFrame, words: dict[str, Any]) -> None:
    """And the gradient that of the likelihood, and posterior covariances with scores those of the posterior mean."""
    problem = RatingProblem(Ratings.of(ratings), RatingModel(**words))
    x = problem.start() + np.random.default_rng(1).normal(0, 0.05, problem.n_parameters)
    mean, deviation = np.zeros(40), np.ones(40)
    for _ in range(5):
        found = problem.evaluate(x, mean, deviation, information=True, by_scores=True)
        mean, deviation = found.mean, found.deviation
    observed = (found.complete - found.missing).toarray()
    for place in range(0, problem.n_parameters, 3):
        step = np.zeros_like(x)
        step[place] = 1e-5
        up, down = (problem.evaluate(x + sign * step, mean, deviation) for sign in (1, -1))
        np.testing.assert_allclose((down.gradient - up.gradient) / 2e-5, observed[place], atol=1e-6)
        rise = (up.log_likelihood.sum() - down.log_likelihood.sum()) / 2e-5
        assert found.gradient[place] == pytest.approx(rise, abs=1e-5)
        by = found.by_scores[:, [place]].toarray()[:, 0]
        np.testing.assert_allclose((up.mean - down.mean) / 2e-5, by, atol=1e-6)


def test_blocks_and_ways_to_hold_and_solve_are_no_matter(
    ratings: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[str, Any] = {"consistency": True, "answer_effect": True}
    before = irtbench.fit_raters(ratings, **words)
    monkeypatch.setattr(rating_problem, "BLOCK", 2**16)
    monkeypatch.setattr(rating_problem, "DENSE", 2.0)
    after = irtbench.fit_raters(ratings, **words)
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(after.table()["severity"], before.table()["severity"], atol=1e-6)
    np.testing.assert_allclose(after.scores()["se"], before.scores()["se"], atol=1e-6)
    fixed = irtbench.fit_raters(ratings)
    monkeypatch.setattr(rating_mode, "MOST_FACTORED", 1)
    np.testing.assert_allclose(irtbench.fit_raters(ratings).table()["severity"], fixed.table()["severity"], atol=1e-5)


def test_order_and_names_are_no_matter_and_rows_without_a_score_are_none(ratings: pd.DataFrame) -> None:
    before = irtbench.fit_raters(ratings)
    lacking = ratings.head(3).assign(score=np.nan, rater_id="nobody")
    other = pd.concat([ratings.sample(frac=1, random_state=1), lacking]).assign(score=lambda own: 10 * own["score"])
    after = irtbench.fit_raters(other)
    assert after.log_likelihood == pytest.approx(before.log_likelihood, abs=1e-6)
    both = before.table().merge(after.table(), on="rater_id")
    assert len(both) == 5
    np.testing.assert_allclose(both["severity_x"], both["severity_y"], atol=1e-6)
    scores = before.scores().merge(after.scores(), on="respondent_id")
    np.testing.assert_allclose(10 * scores["fair_score_x"], scores["fair_score_y"], atol=1e-5)


def test_severities_theta_and_fair_scores_are_covered() -> None:
    rng, inside = np.random.default_rng(4), []
    for _ in range(8):
        table, theta, severity = simulate(rng, 150, 4, 8, 1)
        found = irtbench.fit_raters(table, model="grm")
        raters, scores = by_rater(found, severity), found.scores()
        able = theta[scores["respondent_id"].astype(int)]
        shift = scores["theta"].mean() - able.mean()
        inside.append(
            [raters["true"].between(raters["severity_lower"], raters["severity_upper"]).mean(),
             (np.abs(scores["theta"] - shift - able) < 1.96 * scores["se"]).mean()]
        )  # fmt: skip
    coverage = np.mean(inside, axis=0)
    assert 0.90 < coverage[0] < 0.99
    assert 0.93 < coverage[1] < 0.97


def test_what_the_raters_of_an_answer_share_is_found_and_intervals_without_it_are_short() -> None:
    table, theta, _ = simulate(np.random.default_rng(6), 150, 3, 6, 4, answer=0.9)
    without = irtbench.fit_raters(table, model="grm")
    within = irtbench.fit_raters(table, model="grm", answer_effect=True)
    assert any("4.0 ratings on average" in doubt for doubt in without.doubts)
    assert not within.doubts
    assert within.answer_sd == pytest.approx(0.9, abs=3 * within.se_answer_sd)
    assert within.log_likelihood > without.log_likelihood + 10
    covered = []
    for found in (without, within):
        scores = found.scores()
        able = theta[scores["respondent_id"].astype(int)]
        covered.append(
            (np.abs(scores["theta"] - scores["theta"].mean() - able + able.mean()) < 1.96 * scores["se"]).mean()
        )
    assert covered[0] < 0.89 < 0.91 < covered[1]


@pytest.mark.slow
def test_many_raters_are_integrated_out_and_the_spread_of_ability_is_not_too_small() -> None:
    """At the mode of all together the standard deviation of ability is about 1.05 here, where 1.2 is true."""
    rng, sds, inside = np.random.default_rng(7), [], []
    for _ in range(4):
        table, _, severity = simulate(rng, 400, 3, 150, 1)
        found = irtbench.fit_raters(table, model="grm")
        raters = by_rater(found, severity)
        assert found.learnt
        sds.append([found.ability_sd, found.rater_sd])
        inside.append(raters["true"].between(raters["severity_lower"], raters["severity_upper"]).mean())
    np.testing.assert_allclose(np.mean(sds, axis=0), [1.2, 0.5], atol=0.1)
    assert 0.91 < np.mean(inside) < 0.98


def test_the_likelihood_of_raters_learnt_is_that_with_them_integrated_out() -> None:
    """Three severities on a grid of their own, 8 x 8 x 8 Gauss-Hermite nodes."""
    problem = RatingProblem(Ratings.of(simulate(np.random.default_rng(15), 80, 4, 3, 2)[0]))
    mode = find_mode(problem, learnt=True, tolerance=1e-8, max_steps=50)
    places, tau = problem.places["raters"][:, 0], mode.variances[0] ** 0.5
    at, w = np.polynomial.hermite_e.hermegauss(8)
    each = []
    for k in np.ndindex(8, 8, 8):
        x, z = mode.x.copy(), at[list(k)]
        x[places] += WIDTH * z
        own = problem.evaluate(x, mode.found.mean, mode.found.deviation).log_likelihood.sum()
        prior = -((x[places] / tau) ** 2).sum() / 2 + 3 * np.log(WIDTH / tau)
        each.append(own + prior + (z**2).sum() / 2 + np.log((w / w.sum())[list(k)]).sum())
    assert marginal_likelihood(problem, mode, mode.covariance) == pytest.approx(logsumexp(each), abs=0.02)


def test_a_judge_that_favours_its_own_family_is_named_and_no_other() -> None:
    rng, p = np.random.default_rng(8), list[float]()
    table, _, _ = simulate(rng, 240, 4, 4, 2, own=1.0)
    found = irtbench.fit_raters(table.assign(family=table["respondent_id"] % 4), model="grm", interaction="family")
    rows = found.interactions
    own = rows["rater_id"].str[1:] == rows["family"]
    assert (rows["severity"][own] < -0.4).all()
    assert (rows["p_adjusted"][own] < 0.01).all()
    assert rows["severity"][~own].min() > -0.4
    assert len(irtbench.fit_raters(table, interaction="item_id").interactions) == 4 * 4
    for _ in range(8):
        table, _, _ = simulate(rng, 120, 3, 4, 1)
        table = table.assign(family=table["respondent_id"] % 4)
        rows = irtbench.fit_raters(table, model="grm", interaction="family").interactions
        p += rows["p"].tolist()
    assert 0.01 < (np.array(p) < 0.05).mean() < 0.11  # of 128, not independent


def test_severities_of_many_parts_spread_as_widely_as_they_do() -> None:
    """Each part's mean is taken from its three severities; the plain variance of all is a third too small."""
    parts, _, severity = zip(*(simulate(np.random.default_rng(k), 30, 2, 3, 3) for k in range(20)), strict=True)
    names = ["respondent_id", "item_id", "rater_id"]
    table = pd.concat([t.assign(**{n: t[n].astype(str) + f" {k}" for n in names}) for k, t in enumerate(parts)])
    found = irtbench.fit_raters(table, model="grm", raters="fixed")
    assert found.n_parts == 20
    assert found.rater_sd == pytest.approx(np.var(severity, axis=1, ddof=1).mean() ** 0.5, abs=0.03)  # plain: .07 off


def test_raters_in_two_parts_have_two_zeros_and_are_named() -> None:
    table, _, _ = simulate(np.random.default_rng(9), 120, 3, 6, 2)
    halves = table[(table["respondent_id"] < 60) == table["rater_id"].isin(["r0", "r1", "r2"])]
    found = irtbench.fit_raters(halves)
    assert found.n_parts == 2
    assert "2 parts that share no respondent or no item (raters r1, r2, r0; r5, r3, r4): severities" in found.doubts[0]
    each = table[table["respondent_id"] % 6 == table["rater_id"].str[1:].astype(int)]  # six raters, six parts
    assert (
        "6 parts that share no respondent or no item (raters r2; r3; r5; r0; and 2 more parts): "
        in (irtbench.fit_raters(each).doubts[0])
    )
    sums = found.table().groupby("part")["severity"].sum()
    np.testing.assert_allclose(sums, 0.0, atol=1e-8)
    assert (found.table()["flags"].str.contains("apart") == (found.table()["part"] == 2)).all()
    assert irtbench.fit_raters(table).n_parts == 1


def test_raters_who_were_given_respondents_by_ability_are_named_in_a_doubt() -> None:
    rng = np.random.default_rng(16)
    table, theta, severity = simulate(rng, 300, 4, 8, 4)
    severe, able = severity[table["rater_id"].str[1:].astype(int)], theta[table["respondent_id"]]
    kept = rng.random(len(table)) < expit(-1.0 + 2.0 * able * severe / 0.5)
    assert any("different ability" in doubt for doubt in irtbench.fit_raters(table[kept], model="grm").doubts)
    for _ in range(5):
        table, _, _ = simulate(rng, 150, 4, 8, 1)
        assert not irtbench.fit_raters(table, model="grm").doubts


def test_precision_is_the_mean_posterior_variance() -> None:
    table, _, _ = simulate(np.random.default_rng(11), 200, 2, 4, 2, answer=0.8)
    found = irtbench.fit_raters(table, answer_effect=True)
    at = np.linspace(-8, 8, 2001) * found.ability_sd
    weight = np.exp(-((at / found.ability_sd) ** 2) / 2)
    items = found.items.information(at)
    for per_answer in (1, 2):
        own = (items / (1 + per_answer * items * found.answer_sd**2)).mean(axis=1)
        expected = 1 / (1 / found.ability_sd**2 + 8 * own)
        row = found.precision(8, per_answer=per_answer).iloc[0]
        assert row["se"] ** 2 == pytest.approx((weight * expected).sum() / weight.sum(), rel=1e-3)
        assert row["reliability"] == pytest.approx(1 - row["se"] ** 2 / found.ability_sd**2)
    is_refused("answer_effect", irtbench.fit_raters(table).precision, 8, per_answer=2)


def test_mean_squares_are_1_and_a_rater_who_guesses_stands_out() -> None:
    table, _, _ = simulate(np.random.default_rng(12), 200, 4, 6, 2)
    clean = irtbench.fit_raters(table, model="grm").table()
    assert clean[["infit", "outfit"]].to_numpy() == pytest.approx(1.0, abs=0.15)
    rng = np.random.default_rng(13)
    guessed = np.where(table["rater_id"] == "r3", rng.integers(0, 4, len(table)), table["score"])
    found = irtbench.fit_raters(table.assign(score=guessed), model="grm", consistency=True).table()
    assert found.loc[found["consistency"].idxmin(), "rater_id"] == "r3"
    dull = irtbench.fit_raters(table.assign(score=guessed), model="grm").table()
    assert dull.loc[dull["infit"].idxmax(), "rater_id"] == "r3"


@pytest.mark.parametrize(
    ("change", "words", "saying"),
    [
        (lambda t: t.drop(columns="rater_id"), {}, "no column rater_id"),
        (lambda t: t.assign(score=np.nan), {}, "there is no score"),
        (lambda t: t.assign(rater_id=""), {}, "without rater_id"),
        (lambda t: pd.concat([t, t.head(1)]), {}, "more than once"),
        (lambda t: t.assign(score=1), {}, "all scores are the same"),
        (lambda t: t[t["respondent_id"] < 4], {}, "expected at least 5"),
        (lambda t: t[t["rater_id"] == "r0"], {}, "expected at least 2"),
        (lambda t: t.assign(score=t["score"].where(t["rater_id"] != "r1", 0)), {}, "rater r1 gave the lowest score"),
        (lambda t: t.assign(score=t["score"].where(t["rater_id"] != "r1", 3)), {}, "r1 gave the highest score"),
        (lambda t: t.assign(score=t["score"].where(t["item_id"] != "q1", t["score"].clip(upper=2))),
         {"rater_steps": True}, "item q1 has 3 categories"),
        (lambda t: t.assign(score=t["score"].where(t["rater_id"] != "r1", t["score"].clip(upper=2))),
         {"rater_steps": True}, "rater r1 never used category 3"),
        (lambda t: t[t["item_id"] == "q1"], {"answer_effect": True}, "several answers"),
        (lambda t: t.drop_duplicates(["respondent_id", "item_id"]), {"answer_effect": True}, "several ratings"),
        (lambda t: t.assign(score=np.random.default_rng(3).integers(0, 4, len(t))), {}, "ability does not vary"),
        (lambda t: t, {"interaction": "rater_id"}, "interaction rater_id; expected a column of groups"),
        (lambda t: t, {"interaction": "score"}, "interaction score; expected a column of groups"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(ratings: pd.DataFrame, change: Any, words: dict[str, Any], saying: str) -> None:
    is_refused(saying, irtbench.fit_raters, change(ratings), **words)


def test_raters_who_share_nothing_have_no_severity_and_one_category_is_no_error() -> None:
    """Three raters of respondents of their own, one of whom gives the same score always."""
    rng = np.random.default_rng(1)
    rows = pd.MultiIndex.from_product([range(3), range(12), range(6)])
    table = rows.to_frame(index=False, name=["rater_id", "respondent_id", "item_id"])
    table["score"] = np.where(table["rater_id"] == 2, 2, table["respondent_id"] // 4 + rng.integers(0, 2, len(table)))
    found = irtbench.fit_raters(table.assign(respondent_id=table["respondent_id"] + 12 * table["rater_id"]))
    assert found.n_parts == 3
    assert found.table()["severity"].eq(0).all()
    assert found.table()["se"].isna().all()
    assert found.scores()["theta"].notna().all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_grades_of_which_two_raters_give_one_each_end_without_a_mode_or_with_one() -> None:
    table = simulate(np.random.default_rng(28), 40, 4, 6, 2)[0]
    table["score"] = table["score"].mask(table["rater_id"] == "r1", 0).mask(table["rater_id"] == "r2", 3)
    found = irtbench.fit_raters(table, model="grm", raters="learnt", rater_steps=True)
    assert np.isfinite(found.log_likelihood)
    assert not found.converged
    assert found.doubts[-1] == "leave out rater r2, r1, who gave one score always"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("raters", ["fixed", "learnt"])
def test_raters_without_variance_are_named_where_they_have_no_consistency(
    ratings: pd.DataFrame, raters: Literal["fixed", "learnt"]
) -> None:
    alike = ratings.assign(score=ratings["score"].mask(ratings["rater_id"].isin(["r0", "r1"]), 2))
    is_refused("leave out rater r1, r0, who", irtbench.fit_raters, alike, raters=raters, consistency=True)
    assert not any("leave out" in doubt for doubt in irtbench.fit_raters(alike, raters=raters).doubts)


def test_slopes_of_raters_learnt_and_of_items_are_found_from_a_flat_start(ratings: pd.DataFrame) -> None:
    """At the start, slopes of 1, the partial credit model's information of complete data is not positive definite."""
    flat = ratings.assign(score=(ratings["score"] + np.random.default_rng(0).integers(0, 4, len(ratings))) // 2)
    both = irtbench.fit_raters(flat, raters="learnt", consistency=True, item_slopes=True)
    assert both.converged


def test_few_ratings_whose_nodes_move_converge_to_the_maximum_on_many_nodes() -> None:
    rng, converged = np.random.default_rng(1), []
    for _ in range(3):
        table = simulate(rng, 30, 2, 4, 2, sd=2.5)[0]
        few, many = (irtbench.fit_raters(table.assign(score=table["score"] > 1), n_nodes=n) for n in (15, 61))
        converged.append(few.converged)
        assert few.ability_sd == pytest.approx(many.ability_sd, rel=0.02)
        assert few.log_likelihood == pytest.approx(many.log_likelihood, abs=0.05)
    assert all(converged)
    short = irtbench.fit_raters(simulate(rng, 30, 2, 4, 2)[0], max_steps=1)
    assert np.isfinite(short.log_likelihood)
    assert short.stopped_because == "the steps did not settle: there are too few ratings"


def test_fair_scores_are_nearer_to_the_truth_than_means_where_raters_differ() -> None:
    table, theta, _ = simulate(np.random.default_rng(5), 300, 3, 6, 1)
    severe = table["rater_id"].isin(["r0", "r1"])
    table = table.assign(score=np.where(severe, np.maximum(table["score"] - 1, 0), table["score"]))
    found = irtbench.fit_raters(table, model="grm")
    assert set(found.table().nlargest(2, "severity")["rater_id"]) == {"r0", "r1"}
    scores = found.scores()
    able = theta[scores["respondent_id"].astype(int)]
    assert np.corrcoef(scores["fair_score"], able)[0, 1] > np.corrcoef(scores["mean_score"], able)[0, 1] + 0.02
