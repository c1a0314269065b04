"""`irtbench score` as a user meets it: options, files by their suffix, words, one line for what is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run
from irtbench.bank.norms import Norms
from irtbench.scoring.scores import ScoringSettings, score_responses


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of two scales, two systems' responses, and their answers."""
    folder = tmp_path_factory.mktemp("score")
    rng = np.random.default_rng(0)
    scales, parts = [], []
    for name in ("verbs", "nouns"):
        ids = [f"{name}{k}" for k in range(30)]
        items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.3, 0.3, 30), rng.normal(size=30), item_ids=ids)
        items = replace(items, covariance=np.broadcast_to(np.diag([0.02, 0.02, 0.0]), (30, 3, 3)))
        details = replace(irtbench.ItemTable.plain(ids), key=("yes",) * 30)
        people = rng.normal(size=400)
        norms = Norms(people, None, np.full(400, 0.3), {"language": tuple(np.where(people > 0, "en", "de").tolist())})
        scales.append(irtbench.Scale(name, items, details, norms))
        parts.append(irtbench.simulate_responses([1.0, -0.5], items, rng=rng, respondent_ids=["able", "other"]))
    irtbench.save_bank(irtbench.ItemBank(tuple(scales)), folder / "bank.json")
    long = pd.concat([part.to_long() for part in parts])
    long.to_csv(folder / "responses.csv", index=False)
    long["answer"] = np.where(long["response"] == 1, "yes", "no")
    long[["respondent_id", "item_id", "answer"]].to_csv(folder / "answers.csv", index=False)
    return folder


def expected(folder: Path, **settings: object) -> pd.DataFrame:
    graded = irtbench.ResponseMatrix.from_long(pd.read_csv(folder / "responses.csv"))
    return score_responses(irtbench.load_bank(folder / "bank.json"), graded, ScoringSettings(**settings))  # type: ignore[arg-type]


def test_files_by_their_suffix_hold_the_same_scores(folder: Path, tmp_path: Path) -> None:
    wanted = expected(folder, method="wle", item_error="delta", norm="empirical", level=0.9)
    options = ["--method", "wle", "--item-error", "delta", "--norm", "empirical", "--level", 0.9, "--quiet"]
    for suffix in ("csv", "parquet", "json", "md"):
        run(f"score {folder}/bank.json {folder}/answers.csv -o {tmp_path}/s.{suffix}", *options)
    csv = pd.read_csv(tmp_path / "s.csv", keep_default_na=False)
    assert csv["theta"].tolist() == pytest.approx(wanted["theta"].tolist())
    assert csv["percentile_upper"].tolist() == pytest.approx(wanted["percentile_upper"].tolist())
    assert pd.read_parquet(tmp_path / "s.parquet")["se"].tolist() == pytest.approx(wanted["se"].tolist())
    assert [row["scale"] for row in json.loads((tmp_path / "s.json").read_text())] == wanted["scale"].tolist()
    lines = (tmp_path / "s.md").read_text().splitlines()
    assert len(lines) == 2 + len(wanted)
    assert lines[0].startswith("| respondent_id | scale |")
    assert f"{wanted['theta'][0]:.3f}" in lines[2]


def test_a_norm_group_and_another_norm_sample(folder: Path, tmp_path: Path) -> None:
    grouped = run(f"score {folder}/bank.json {folder}/responses.csv --norm-group language=en --json").json
    wanted = expected(folder, norm="smoothed", norm_group=("language", "en"))
    assert [row["percentile"] for row in grouped] == pytest.approx(wanted["percentile"].tolist())
    norms = tmp_path / "norms.csv"
    norms.write_text("scale,theta\nverbs,-1\nverbs,3\nnouns,-3\nnouns,-2\n")
    other = run(f"score {folder}/bank.json {folder}/responses.csv --norms", norms, "--norm", "empirical", "--json").json
    assert [row["percentile"] for row in other] == pytest.approx([50, 100, 50, 100])


def test_explain_writes_what_differs_from_people(folder: Path, tmp_path: Path) -> None:
    done = run(f"score {folder}/bank.json {folder}/responses.csv --explain {tmp_path}")
    assert "Accuracy by difficulty" in done.out
    levels, surprises = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("difficulty", "surprises"))
    assert levels.groupby(["respondent_id", "scale"])["n_items"].sum().tolist() == [30] * 4
    assert list(surprises) == [
        "respondent_id", "scale", "item_id", "difficulty", "response", "expected", "surprise", "chance",
    ]  # fmt: skip
    assert (surprises["chance"] < 0.1).all()
    assert ((surprises["surprise"] == "right") == (surprises["response"] == 1)).all()


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["--norm-group", "language=fr"], "nobody has language fr; expected one of de, en"),
        (["--norm-group", "language=en", "--norm", "normal"], "expected empirical or smoothed"),
    ],
)
def test_what_does_not_fit_is_one_line(folder: Path, tmp_path: Path, options: list[object], saying: str) -> None:
    refused(f"score {folder}/bank.json {folder}/responses.csv -o {tmp_path}/o/s.csv", *options, saying=saying)
    assert list(tmp_path.iterdir()) == []


def test_plausible_values_are_draws_from_each_posterior(folder: Path, tmp_path: Path) -> None:
    line = f"score {folder}/bank.json {folder}/responses.csv -q -o {tmp_path}"
    run(f"{line}/s.csv --plausible 400")
    run(f"{line}/plain.csv")
    scores, plain = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("s", "plain"))
    draws = scores[[f"pv{k}" for k in range(1, 401)]]
    z = (draws.mean(axis=1) - scores["theta"]) / (scores["se"] / 20)
    assert z.abs().max() < 4.5
    assert (draws.std(axis=1) / scores["se"]).between(0.85, 1.15).all()
    pd.testing.assert_frame_equal(scores[plain.columns], plain)


@pytest.mark.parametrize(("layout", "target"), [("wide", "csv"), ("long", "parquet")])
def test_a_large_parquet_file_goes_part_by_part(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, target: str
) -> None:
    table = pd.read_csv(folder / "responses.csv")
    if layout == "wide":
        table = irtbench.ResponseMatrix.from_long(table).table().rename(columns={"respondent_id": "who"})
    table.to_parquet(tmp_path / "r.parquet", index=False)
    line = f"score {folder}/bank.json {tmp_path}/r.parquet -o {tmp_path}/"
    assert "respondents scored" not in run(f"{line}whole.{target}").out
    monkeypatch.setattr("irtbench.cli.score.LARGE_FILE", 2)
    monkeypatch.setattr("irtbench.cli.score.LARGE_LONG_FILE", 120)
    assert "2 respondents scored" in run(f"{line}parts.{target}").out
    read = pd.read_parquet if target == "parquet" else pd.read_csv
    whole, parts = (read(tmp_path / f"{name}.{target}") for name in ("whole", "parts"))
    pd.testing.assert_frame_equal(parts, whole, check_dtype=False, atol=1e-4)
    assert "respondents scored" not in run(f"{line}s.json").out  # JSON is written at once
