"""Screening after a first fit, what screening changes, and pairs over several scales."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.refusals import is_refused
from irtbench.models.curves import icc
from irtbench.study.person_screening import (
    crowd_similarity,
    fit_scales,
    joint_person_fit,
    most_similar,
    screen_by_fit,
    screen_respondents,
)
from irtbench.study.screening_effect import ScreeningEffect, exclusions_by_ability, screening_effect
from irtbench.study.study_data import read_data

N, N_GUESSERS, HALF = 300, 20, 20
KEEP_ERRORS_OUT = irtbench.FitSettings(standard_errors=False)


@pytest.fixture(scope="module")
def crowd() -> tuple[irtbench.ResponseMatrix, irtbench.ItemTable, pd.DataFrame, irtbench.ItemParameters]:
    """Two scales of 20 items; the last 20 of 300 people guess among three options; person 1 copies from person 0."""
    rng = np.random.default_rng(4)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.3, 0.2, 2 * HALF), rng.normal(-0.7, 0.8, 2 * HALF))
    common = rng.standard_normal(N)
    theta = [0.8 * common + 0.6 * rng.standard_normal(N) for _ in range(2)]
    p = np.hstack([icc(t, items.select(items.item_ids[k * HALF : (k + 1) * HALF])) for k, t in enumerate(theta)])
    p[-N_GUESSERS:] = 1 / 3
    coded = np.where(rng.random(p.shape) < p, 0, rng.integers(1, 3, p.shape))
    coded[1] = np.where(rng.random(2 * HALF) < 0.95, coded[0], coded[1])
    coded[0, :10], coded[1, :10] = 1, 1  # a low pair: ten common wrong answers
    ids = tuple(f"r{i}" for i in range(N))
    responses = irtbench.ResponseMatrix((coded == 0).astype(float), ids, items.item_ids)
    table = pd.DataFrame(
        {
            "respondent_id": np.repeat(ids, 2 * HALF),
            "item_id": np.tile(items.item_ids, N),
            "answer": np.array(["a", "b", "c"])[coded].ravel(),
        }
    )
    label = ("u",) * HALF + ("v",) * HALF
    known = replace(irtbench.ItemTable.plain(items.item_ids), key=("a",) * (2 * HALF), label=label)
    return responses, known, table, items


@pytest.fixture(scope="module")
def screened(crowd) -> irtbench.Screening:
    responses, known, _, _ = crowd
    screening = irtbench.screen(responses, known, person_fit_p=0.01)
    return screen_by_fit(screening, responses, known.scales(), KEEP_ERRORS_OUT, seed=0)


def test_guessers_are_unlike_the_model_and_others_are_not(crowd, screened: irtbench.Screening) -> None:
    responses, known, _, _ = crowd
    removed = ~screened.kept
    assert removed[-N_GUESSERS:].mean() > 0.4
    assert removed[2:-N_GUESSERS].mean() < 0.03
    assert set(screened.reason) == {"", "unlike the model"}
    # without the rule nothing is fitted
    plain = irtbench.screen(responses, known)
    assert screen_by_fit(plain, responses, known.scales(), KEEP_ERRORS_OUT, seed=0) is plain


def test_person_fit_of_several_scales_is_standard_normal_where_the_model_holds(crowd) -> None:
    responses, known, _, _ = crowd
    honest = responses.select_respondents(np.arange(N) < N - N_GUESSERS)
    fits = fit_scales(honest, known.scales(), KEEP_ERRORS_OUT, seed=0)
    found = joint_person_fit(fits, responses.respondent_ids)
    assert np.isnan(found[-N_GUESSERS:]).all()
    own = found[2 : N - N_GUESSERS]
    # 278 people: standard errors of mean and standard deviation .06 and .04
    assert abs(own.mean()) < 0.25
    assert 0.85 < own.std() < 1.15


def away_from(items: irtbench.ItemParameters, found: ScreeningEffect) -> list[float]:
    """How far difficulties are from the truth before screening and after, in the median."""
    by_item = found.items.set_index("item_id").loc[list(items.item_ids)]
    return [float(np.abs(by_item[f"difficulty_{stage}"] - items.difficulty).median()) for stage in ("before", "after")]


def test_screening_brings_items_nearer_to_the_truth(crowd, screened: irtbench.Screening) -> None:
    responses, known, table, items = crowd
    found = screening_effect(screened, responses, known, known.scales(), irtbench.FitSettings(), answers=table, seed=0)
    scales = found.scales.set_index(["scale", "stage"])
    assert list(scales.index) == [(s, stage) for stage in ("before", "after") for s in ("u", "v", "all")]
    assert scales.loc["all", "n_respondents"].tolist() == [N, screened.kept.sum()]
    assert scales.loc[("all", "after"), "proportion_correct"] > scales.loc[("all", "before"), "proportion_correct"]
    assert scales.loc[("u", "after"), "reliability"] > 0.7
    assert np.isnan(scales.loc[("all", "after"), "reliability"])
    before, after = away_from(items, found)
    assert after < before


def test_the_chance_rule_takes_honest_people_and_moves_the_scale(crowd) -> None:
    """A negative control: people of low ability go with the guessers, and 0 is the mean of those who are left."""
    responses, known, _, items = crowd
    screening = irtbench.screen(responses, known, irtbench.ScreeningSettings(chance_level=1 / 3))
    assert screening.kept[-N_GUESSERS:].sum() == 2
    assert (~screening.kept[:-N_GUESSERS]).sum() == 50
    found = screening_effect(screening, responses, known, known.scales(), KEEP_ERRORS_OUT, seed=0)
    before, after = away_from(items, found)
    assert before < 0.15
    assert after > 0.4


def test_a_rule_that_leaves_out_honest_weak_people_is_named_and_one_that_finds_guessers_is_not(crowd) -> None:
    responses, known, _, items = crowd
    honest, rng = responses.correct[:-N_GUESSERS], np.random.default_rng(8)
    weak, guessed = icc(np.full(60, -2.5), items), np.full((60, 2 * HALF), 1 / 3)

    def said(p: np.ndarray, rule: str, chosen: slice) -> tuple[str, ...]:
        correct = np.vstack([honest, (rng.random(p.shape) < p).astype(float)])
        everybody = irtbench.ResponseMatrix(correct, tuple(f"r{k}" for k in range(len(correct))), responses.item_ids)
        screening = irtbench.screen(everybody, known, irtbench.ScreeningSettings())
        reason = np.full(len(correct), "", dtype=object)
        reason[chosen] = rule
        screening = replace(screening, reason=reason)
        fits = fit_scales(everybody.select_respondents(screening.kept), known.scales(), KEEP_ERRORS_OUT, seed=0)
        return exclusions_by_ability(screening, everybody, {fit.name: fit.fitted for fit in fits})

    (named,) = said(weak, "not above chance", slice(-60, None))
    assert "60 respondents left out (not above chance) have an ability of -2.72" in named
    assert said(guessed, "failed attention checks", slice(-60, None)) == ()
    assert said(guessed, "too fast", slice(0, 30)) == ()  # by lot


def test_a_planted_pair_is_found_over_two_scales(crowd) -> None:
    responses, known, table, _ = crowd
    fits = fit_scales(responses, known.scales(), KEEP_ERRORS_OUT, seed=0)
    found = crowd_similarity(table, responses, fits)
    assert found.pairs[0] == ("r0", "r1")
    assert found.n_tested == N * (N - 1) // 2
    named = most_similar(found, responses.respondent_ids, level=0.05)
    assert named.loc[0, "similar_to"] == "r1"
    assert named.loc[1, "similar_to"] == "r0"
    assert (named["similar_to"] != "").sum() <= 4


def test_a_study_screens_by_approval_and_by_fit(crowd, tmp_path: Path) -> None:
    responses, known, table, _ = crowd
    table.to_csv(tmp_path / "answers.csv", index=False)
    pd.DataFrame({"item_id": known.item_ids, "key": known.key, "label": known.label}).to_csv(
        tmp_path / "items.csv", index=False
    )
    rates = ["90%", *["99%"] * (N - 1)]
    pd.DataFrame({"worker": responses.respondent_ids, "approval_rate": rates}).to_csv(
        tmp_path / "workers.csv", index=False
    )
    (tmp_path / "study.toml").write_text(
        '[data]\nanswers = "answers.csv"\nitems = "items.csv"\nrespondents = "workers.csv"\n'
        'respondent_columns = { respondent_id = "worker" }\n'
        "[screening]\nmin_approval = 0.97\nperson_fit_p = 0.01\nmax_pattern = 20\n"
    )
    settings = irtbench.read_study(tmp_path / "study.toml")
    screening = screen_respondents(settings, read_data(settings)).last
    assert screening.reason[0] == "low approval rate"
    assert screening.reason.count("unlike the model") >= 8
    assert np.isnan(screening.person_fit[0])
    (tmp_path / "workers.csv").write_text("worker,rate\nr0,1\n")
    is_refused(r"min_approval: file .*workers.csv has no column approval_rate", read_data, settings)
