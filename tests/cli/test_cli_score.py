"""`irtbench score` as a user meets it: options, files by their suffix, words, one line for what is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench.cli.score as by_parts
from builders.command_line import refused, run
from irtbench.bank.bank import ItemBank, load_bank, save_bank
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.cli.reading import Reading
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses
from irtbench.scoring.bulk import score_file
from irtbench.scoring.scores import ScoringSettings, score_responses


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of two scales, two systems' responses, and their answers."""
    folder = tmp_path_factory.mktemp("score")
    rng = np.random.default_rng(0)
    scales, parts = [], []
    for name in ("verbs", "nouns"):
        ids = [f"{name}{k}" for k in range(30)]
        items = ItemParameters.from_difficulty(rng.lognormal(0.3, 0.3, 30), rng.normal(size=30), item_ids=ids)
        items = replace(items, covariance=np.broadcast_to(np.diag([0.02, 0.02, 0.0]), (30, 3, 3)))
        details = replace(ItemTable.plain(ids), key=("yes",) * 30)
        people = rng.normal(size=400)
        norms = Norms(people, None, np.full(400, 0.3), {"language": tuple(np.where(people > 0, "en", "de").tolist())})
        scales.append(Scale(name, items, details, norms))
        parts.append(simulate_responses([1.0, -0.5], items, rng=rng, respondent_ids=["able", "other"]))
    save_bank(ItemBank(tuple(scales)), folder / "bank.json")
    long = pd.concat([part.to_long() for part in parts])
    long.to_csv(folder / "responses.csv", index=False)
    long["answer"] = np.where(long["response"] == 1, "yes", "no")
    long[["respondent_id", "item_id", "answer"]].to_csv(folder / "answers.csv", index=False)
    return folder


def expected(folder: Path, **settings: object) -> pd.DataFrame:
    graded = ResponseMatrix.from_long(pd.read_csv(folder / "responses.csv"))
    return score_responses(load_bank(folder / "bank.json"), graded, ScoringSettings(**settings))  # type: ignore[arg-type]


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


def test_the_terminal_speaks_in_words(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(
        "\n".join((folder / "answers.csv").read_text().splitlines()[:31])  # one system, one scale
    )
    wanted = expected(folder).iloc[0]
    text = run(f"score {folder}/bank.json {tmp_path}/one.csv").out
    sentence = (
        f"able on verbs: better than {wanted['percentile']:.0f}% of the crowd "
        f"[{wanted['percentile_lower']:.0f}, {wanted['percentile_upper']:.0f}]"
    )
    assert sentence in text
    assert f"{wanted['n_correct']} of 30" in text
    assert f"{wanted['percentile']:.0f}% [{wanted['percentile_lower']:.0f}, {wanted['percentile_upper']:.0f}]" in text
    assert "no item answered" in text  # the other scale, of which nothing is said in words
    assert "able on nouns" not in text
    assert "0 is the mean of the crowd" in text


def test_a_norm_group_and_another_norm_sample(folder: Path, tmp_path: Path) -> None:
    grouped = run(f"score {folder}/bank.json {folder}/responses.csv --norm-group language=en --json").json
    wanted = expected(folder, norm="smoothed", norm_group=("language", "en"))
    assert [row["percentile"] for row in grouped] == pytest.approx(wanted["percentile"].tolist())
    norms = tmp_path / "norms.csv"
    norms.write_text("scale,theta\nverbs,-1\nverbs,3\nnouns,-3\nnouns,-2\n")
    other = run(f"score {folder}/bank.json {folder}/responses.csv --norms", norms, "--norm", "empirical", "--json").json
    assert [row["percentile"] for row in other] == pytest.approx([50, 100, 50, 100])


def test_explain_writes_what_differs_from_people(folder: Path, tmp_path: Path) -> None:
    done = run(f"score {folder}/bank.json {folder}/responses.csv --explain {tmp_path}/why")
    levels = pd.read_csv(tmp_path / "why" / "difficulty.csv")
    assert levels.groupby(["respondent_id", "scale"])["n_items"].sum().tolist() == [30] * 4
    surprises = pd.read_csv(tmp_path / "why" / "surprises.csv")
    assert list(surprises) == [
        "respondent_id", "scale", "item_id", "difficulty", "response", "expected", "surprise", "chance",
    ]  # fmt: skip
    assert (surprises["chance"] < 0.1).all()
    assert "Accuracy by difficulty" in done.out
    for row in surprises.itertuples():
        assert row.surprise == ("right" if row.response else "missed")


def test_a_large_parquet_file_goes_part_by_part(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graded = ResponseMatrix.from_long(pd.read_csv(folder / "responses.csv"))
    wide = pd.DataFrame(graded.values, columns=list(graded.item_ids))
    wide.insert(0, "who", graded.respondent_ids)
    wide.to_parquet(tmp_path / "wide.parquet", index=False)
    monkeypatch.setattr(by_parts, "LARGE_FILE", 2)
    assert by_parts.goes_by_parts(tmp_path / "wide.parquet", tmp_path / "o.parquet", Reading(trials="count"), "")
    assert by_parts.goes_by_parts(tmp_path / "wide.parquet", tmp_path / "o.csv", Reading(trials="count"), "")
    assert not by_parts.goes_by_parts(tmp_path / "wide.parquet", tmp_path / "o.json", Reading(trials="count"), "")
    assert score_file(load_bank(folder / "bank.json"), tmp_path / "wide.parquet", tmp_path / "o.parquet") == 2
    found = pd.read_parquet(tmp_path / "o.parquet")
    assert found["theta"].tolist() == pytest.approx(expected(folder)["theta"].tolist(), abs=1e-4)


@pytest.mark.slow
def test_a_large_long_parquet_file_goes_part_by_part_too(folder: Path, tmp_path: Path) -> None:
    graded = pd.read_csv(folder / "responses.csv")
    people = [graded.assign(respondent_id=[f"{name}{k}" for name in graded["respondent_id"]]) for k in range(8_500)]
    pd.concat(people).to_parquet(tmp_path / "long.parquet", index=False)  # 1,020,000 rows
    done = run(f"score {folder}/bank.json {tmp_path}/long.parquet -o {tmp_path}/o.parquet")
    assert "17000 respondents scored" in done.out
    found = pd.read_parquet(tmp_path / "o.parquet")
    wanted = expected(folder)
    assert found["respondent_id"][:4].tolist() == ["able0", "able0", "other0", "other0"]
    for name in ("theta", "se", "percentile"):
        assert found[name].to_numpy().reshape(-1, 4)[[0, 4_000, -1]] == pytest.approx(
            np.tile(wanted[name].to_numpy(), (3, 1)), abs=4e-3
        )
    # raw answers in a large long file are graded by the key, part by part too
    names = ["respondent_id", "item_id", "answer"]
    assert by_parts.goes_by_parts(tmp_path / "long.parquet", tmp_path / "o.csv", Reading(trials="count"), "")
    pd.concat(people[:2]).assign(answer="yes")[names].to_parquet(tmp_path / "answers.parquet", index=False)
    assert not by_parts.goes_by_parts(
        tmp_path / "answers.parquet", tmp_path / "o.parquet", Reading(trials="count"), ""
    )  # few rows


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["--level", 95], "ScoringSettings.level: expected a number in (0, 1) but got 95"),
        (["--norm-group", "language"], "--norm-group language: expected NAME=VALUE"),
        (["--norm-group", "language=fr"], "nobody has language fr; expected one of de, en"),
        (["--norm-group", "language=en", "--norm", "normal"], "expected empirical or smoothed"),
        (["--method", "eap_sum", "--item-error", "delta"], "not defined for eap_sum"),
        (["--norms", "absent.csv"], "absent.csv: no such file"),
    ],
)
def test_what_does_not_fit_is_one_line(folder: Path, tmp_path: Path, options: list[object], saying: str) -> None:
    refused(f"score {folder}/bank.json {folder}/responses.csv -o {tmp_path}/o/s.csv", *options, saying=saying)
    assert list(tmp_path.iterdir()) == []


def test_items_without_covariance_have_no_item_error(folder: Path, tmp_path: Path) -> None:
    bank = load_bank(folder / "bank.json")
    bare = tuple(replace(scale, items=replace(scale.items, covariance=None)) for scale in bank.scales)
    save_bank(ItemBank(bare), tmp_path / "bare.json")
    refused(
        f"score bare.json {folder}/responses.csv --item-error delta",
        saying="no covariance is known for item verbs0",
        cwd=tmp_path,
    )


def test_plausible_values_are_draws_from_each_posterior(folder: Path, tmp_path: Path) -> None:
    run(f"score {folder}/bank.json {folder}/responses.csv -o {tmp_path}/s.csv --plausible 400 -q")
    scores = pd.read_csv(tmp_path / "s.csv")
    draws = scores[[f"pv{k}" for k in range(1, 401)]]
    answered = scores["n_items"] > 0
    assert draws[~answered].isna().all(axis=None)
    z = (draws.mean(axis=1) - scores["theta"])[answered] / (scores["se"][answered] / 20)
    assert z.abs().max() < 4.5
    assert (draws.std(axis=1) / scores["se"])[answered].between(0.85, 1.15).all()
    plain = tmp_path / "plain.csv"
    run(f"score {folder}/bank.json {folder}/responses.csv -o", plain, "-q")
    pd.testing.assert_frame_equal(scores[pd.read_csv(plain).columns], pd.read_csv(plain))
