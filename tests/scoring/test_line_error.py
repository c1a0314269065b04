"""Scores on a linked scale carry the link's error: by hand, in every table, and in coverage."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.scales import scale_of
from irtbench.bank.scale import ScaleLine

LINE = ScaleLine(1.2, 0.5, np.array([[0.04, 0.01], [0.01, 0.09]]))
ITEMS = irtbench.ItemParameters.from_difficulty(np.full(8, 1.4), np.linspace(-1.5, 1.5, 8))
PEOPLE = irtbench.Norms(np.random.default_rng(1).normal(size=400), groups={"land": ("a", "b") * 200})
PLAIN = scale_of(ITEMS, PEOPLE)
LINKED = replace(PLAIN, line=LINE)
ANSWERS = irtbench.simulate_responses(np.linspace(-1, 1, 30), ITEMS, rng=np.random.default_rng(2))


def test_standard_error_and_interval_by_hand() -> None:
    """theta = 2.9 is u = 2: .04 * 4 + 2 * 2 * .01 + .09 = .29."""
    assert LINE.variance(np.array([2.9, 0.5])) == pytest.approx([0.29, 0.09])
    before, after = (irtbench.score_responses(scale, ANSWERS) for scale in (PLAIN, LINKED))
    u = (before["theta"] - 0.5) / 1.2
    expected = np.sqrt(before["se"] ** 2 + 0.04 * u**2 + 0.02 * u + 0.09)
    np.testing.assert_allclose(after["se"], expected)
    for end in ("theta_lower", "theta_upper"):
        reach = before[end] - before["theta"]
        np.testing.assert_allclose(after[end] - after["theta"], reach * expected / before["se"])
    same = ["respondent_id", "n_items", "theta", "percentile", "percentile_empirical", "person_fit", "flags"]
    pd.testing.assert_frame_equal(after[same], before[same])
    assert (after["percentile_lower"] < before["percentile_lower"]).all()
    assert (after["percentile_upper"] > before["percentile_upper"]).all()


@pytest.mark.parametrize("norm", ["empirical", "smoothed"])
def test_percentiles_of_every_norm_and_group_have_it(norm: str) -> None:
    for of in (irtbench.score_responses, partial(irtbench.percentiles_by_group, columns=["land"])):
        tables = (of(scale, ANSWERS, norm=norm) for scale in (PLAIN, LINKED))
        before, after = (table["percentile_upper"] - table["percentile_lower"] for table in tables)
        assert (after > before).all()


def test_a_table_of_raw_scores_has_it() -> None:
    before, after = (irtbench.sum_score_table(scale).table() for scale in (PLAIN, LINKED))
    np.testing.assert_allclose(after["se"] ** 2, before["se"] ** 2 + LINE.variance(before["theta"].to_numpy()))
    assert (after["percentile_upper"] > before["percentile_upper"]).all()


def test_a_file_scored_by_parts_and_a_comparison_have_it(tmp_path: Path) -> None:
    ANSWERS.table().to_csv(tmp_path / "answers.csv", index=False)
    irtbench.score_file(irtbench.ItemBank((LINKED,)), tmp_path / "answers.csv", tmp_path / "scores.csv")
    expected = irtbench.score_responses(LINKED, ANSWERS)
    found = pd.read_csv(tmp_path / "scores.csv")
    np.testing.assert_allclose(found["se"], expected["se"], atol=1e-3)
    np.testing.assert_allclose(found["percentile_lower"], expected["percentile_lower"], atol=0.5)
    two = ANSWERS.values[[0, 29]]
    scales = PLAIN, LINKED
    compared = [irtbench.compare_abilities(s, two, rng=np.random.default_rng(3), n_item_draws=0) for s in scales]
    variance = [result.theta.var(axis=1) for result in compared]
    # var((1 + dA / A) theta) is more than .04 / 1.44 times a second moment by itself
    at = LINE.variance(compared[0].theta.mean(axis=1)) + 0.04 / 1.44 * variance[0]
    np.testing.assert_allclose(variance[1] - variance[0], at, rtol=0.25)
    # what moves both alike does not blur their difference: var(A) (u_1 - u_2)^2 is left, and nothing of var(B)
    difference = [np.diff(result.theta, axis=0) for result in compared]
    left = 0.04 / 1.44 * (difference[0] ** 2).mean()
    assert difference[1].var() - difference[0].var() == pytest.approx(left, rel=0.4)


def test_it_is_printed_in_a_line(tmp_path: Path) -> None:
    ANSWERS.table().to_csv(tmp_path / "answers.csv", index=False)
    said = {}
    for name, scale in (("plain", PLAIN), ("linked", LINKED), ("unknown", replace(PLAIN, provenance={"link": {}}))):
        irtbench.save_bank(irtbench.ItemBank((scale,)), tmp_path / "bank.json")
        said[name] = " ".join(run("score bank.json answers.csv", cwd=tmp_path).out.split())
    assert "link" not in said["plain"]
    line = "all lies on its base scale by a link, whose error is in these intervals: standard error 0.300 at ability"
    assert f"{line} 0.50" in said["linked"]
    assert "the link's error is not in these intervals" in said["unknown"]


@pytest.mark.slow
def test_intervals_cover_with_the_links_error_and_not_without() -> None:
    """A short link between small crowds, many items: 40 replications of 60 people."""
    rng, covered = np.random.default_rng(7), []
    a, b = rng.lognormal(0.3, 0.2, 90), rng.uniform(-1.6, 1.6, size=90)
    truth = irtbench.ItemParameters.from_difficulty(a, b)
    forms = truth.item_ids[:30], truth.item_ids[27:87]  # three common items
    for _ in range(40):
        scales, crowds = [], (rng.normal(size=200), rng.normal(0.3, 1.2, size=200))
        for names, crowd in zip(forms, crowds, strict=True):
            responses = irtbench.simulate_responses(crowd, truth.select(names), rng=rng)
            fitted = irtbench.fit_model(responses, tolerance=1e-3)
            scales.append(scale_of(fitted.items, joint_error=fitted.joint_error))
        old, new = scales
        linked = irtbench.linked_scale(old, new, irtbench.link_scales(old, new))
        people = rng.normal(size=60)
        answers = irtbench.simulate_responses(people, truth.select(forms[1]), rng=rng)
        true = (people - crowds[0].mean()) / crowds[0].std()
        scores = [
            irtbench.score_responses(s, answers, item_error="delta") for s in (linked, replace(linked, line=None))
        ]
        covered.append([((found["theta_lower"] < true) & (true < found["theta_upper"])).mean() for found in scores])
    with_line, without = np.mean(covered, axis=0)
    assert with_line > 0.93  # errors of people on one link go together: a standard error of 1%
    assert without < 0.91
    assert with_line - without > 0.03
