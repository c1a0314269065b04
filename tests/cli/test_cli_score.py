"""``irtbench score``, ``predict`` and ``compare`` on a bank: options, files, words, what the bank's study left out."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run
from irtbench.bank.bank import NOT_ON_A_SCALE
from irtbench.bank.norms import Norms
from irtbench.scoring.prediction import learn_correction
from irtbench.scoring.scores import score_responses

PREDICTION = [
    "respondent_id", "n_seen", "n_correct", "accuracy", "n_items", "predicted_accuracy", "se", "predicted_lower",
    "predicted_upper", "beyond_known", "method",
]  # fmt: skip
LEFT_OUT = {
    "pruning": [{"item_id": "removed", "reason": "negative_slope"}],
    NOT_ON_A_SCALE: [
        {"item_id": "check", "reason": "attention_check", "scale": None},
        {"item_id": "lost", "reason": "scale_rejected", "scale": "other"},
    ],
}
LINE = "irtbench: 2 items left out, as in the bank's own study: removed (negative slope), check (attention check)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of two scales, responses and answers of two systems and of 60 others; one scale and four systems."""
    folder, rng = tmp_path_factory.mktemp("score"), np.random.default_rng(0)
    scales, parts = [], []
    for name, n in (("verbs", 30), ("nouns", 20)):
        ids = [f"{name}{k}" for k in range(n)]
        items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.3, 0.3, n), rng.normal(size=n), item_ids=ids)
        items = replace(items, covariance=np.broadcast_to(np.diag([0.02, 0.02, 0.0]), (n, 3, 3)))
        people = rng.normal(0, 0.5, size=400)
        norms = Norms(people, None, np.full(400, 0.3), {"language": tuple(np.where(people > 0, "en", "de").tolist())})
        details = replace(irtbench.ItemTable.plain(ids), key=("yes",) * n)
        scales.append(irtbench.Scale(name, items, details, norms, provenance=LEFT_OUT if n == 30 else {}))
        names = ["able", "other", *(f"r{k}" for k in range(60))]
        theta = [1.0, -0.5, *rng.normal(size=60)]
        parts.append(irtbench.simulate_responses(theta, items, rng=rng, respondent_ids=names).to_long())
    irtbench.save_bank(irtbench.ItemBank(tuple(scales)), folder / "bank.json")
    irtbench.save_bank(irtbench.ItemBank((scales[0],)), folder / "verbs.json")
    values = irtbench.simulate_responses([-1.5, 0.0, 2.0], scales[0].items, rng=rng).values
    few = ("low", "middle", "high", "twin")
    four = irtbench.ResponseMatrix(values[[0, 1, 2, 1]], few, scales[0].items.item_ids)
    whole = pd.concat(parts)
    new = whole["respondent_id"].isin(["able", "other"])
    form = whole["item_id"].isin([f"verbs{k}" for k in range(8)] + [f"nouns{k}" for k in range(4)])
    tables = {"responses": whole[new], "others": whole[~new], "form": whole[new & form], "four": four.to_long()}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
        answer = np.where(table["response"] == 1, "yes", "no")
        table.assign(answer=answer).drop(columns="response").to_csv(folder / f"{name}_answers.csv", index=False)
    more = pd.DataFrame(
        {"respondent_id": ["able", "other"], "item_id": ["removed", "check"], "answer": ["yes", "blue"]}
    )
    pd.concat([pd.read_csv(folder / "responses_answers.csv"), more]).to_csv(folder / "more.csv", index=False)
    return folder


def read(folder: Path, name: str) -> irtbench.ResponseMatrix:
    return irtbench.ResponseMatrix.from_long(pd.read_csv(folder / f"{name}.csv"))


# --- score


def expected(folder: Path, **settings: object) -> pd.DataFrame:
    bank = irtbench.load_bank(folder / "bank.json")
    return score_responses(bank, read(folder, "responses"), irtbench.ScoringSettings(**settings))  # type: ignore[arg-type]


def test_files_by_their_suffix_hold_the_same_scores(folder: Path, tmp_path: Path) -> None:
    wanted = expected(folder, method="wle", item_error="delta", norm="empirical", level=0.9)
    options = "--method wle --item-error delta --norm empirical --level 0.9 --quiet"
    for suffix in ("csv", "parquet", "json", "md"):
        run(f"score bank.json responses_answers.csv -o {tmp_path}/s.{suffix} {options}", cwd=folder)
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
    line = "score bank.json responses.csv --json -o"
    grouped = run(line, tmp_path / "en.csv", "--norm-group", "language=en", cwd=folder).json
    wanted = expected(folder, norm="smoothed", norm_group=("language", "en"))
    assert [row["percentile"] for row in grouped] == pytest.approx(wanted["percentile"].tolist())
    norms, fresh = tmp_path / "norms.csv", tmp_path / "o"
    norms.write_text("scale,theta\nverbs,-1\nverbs,3\nnouns,-3\nnouns,-2\n")
    other = run(line, tmp_path / "own.csv", "--norms", norms, "--norm", "empirical", cwd=folder).json
    assert [row["percentile"] for row in other] == pytest.approx([50, 100, 50, 100])
    for wrong, saying in (
        ("--norm-group language=fr", "nobody has language fr; expected one of de, en"),
        ("--norm-group language=en --norm normal", "expected empirical or smoothed"),
    ):
        refused(f"score bank.json responses.csv {wrong} -o", fresh / "s.csv", saying=saying, cwd=folder)
    assert not fresh.exists()


def test_explain_writes_what_differs_from_people(folder: Path, tmp_path: Path) -> None:
    done = run(f"score bank.json responses.csv --explain {tmp_path}", cwd=folder)
    assert "Accuracy by difficulty" in done.out
    levels, surprises = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("difficulty", "surprises"))
    assert levels.groupby(["respondent_id", "scale"])["n_items"].sum().tolist() == [20, 30] * 2
    assert list(surprises) == [
        "respondent_id", "scale", "item_id", "difficulty", "response", "expected", "surprise", "chance",
    ]  # fmt: skip
    assert (surprises["chance"] < 0.1).all()
    assert ((surprises["surprise"] == "right") == (surprises["response"] == 1)).all()


def test_plausible_values_are_draws_from_each_posterior(folder: Path, tmp_path: Path) -> None:
    for name in ("s.csv --plausible 400", "plain.csv"):
        run(f"score bank.json responses.csv -q -o {tmp_path}/{name}", cwd=folder)
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
    monkeypatch.setattr("irtbench.cli.score.LARGE_LONG_FILE", 60)
    assert "2 respondents scored" in run(f"{line}parts.{target}").out
    read = pd.read_parquet if target == "parquet" else pd.read_csv
    whole, parts = (read(tmp_path / f"{name}.{target}") for name in ("whole", "parts"))
    pd.testing.assert_frame_equal(parts, whole, check_dtype=False, atol=1e-4)
    assert "respondents scored" not in run(f"{line}s.json").out  # JSON is written at once


# --- what the study left out


def test_scores_are_those_without_what_the_study_left_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("more.csv", "responses_answers.csv")
    ended, alone = (run(f"score bank.json {name} --json", cwd=folder) for name in names)
    assert LINE in ended.err.splitlines()
    assert alone.err == ""
    rows, wanted = ended.json, alone.json
    left_out = [{"item_id": "removed", "reason": "negative_slope"}, {"item_id": "check", "reason": "attention_check"}]
    assert [row.pop("items_left_out") for row in rows + wanted] == [left_out, left_out[1:]] * 2 + [[]] * 4
    assert rows == wanted
    monkeypatch.setattr("irtbench.cli.score.LARGE_TEXT", 1)
    ended = run(f"score bank.json more.csv -o {tmp_path}/s.csv --json", cwd=folder)
    assert {item["item_id"] for item in ended.json["items_left_out"]} == {"check", "removed"}
    assert "2 items left out, as in the bank's own study" in ended.err
    for line in ("compare more.csv --bank bank.json --item-error none", "predict bank.json more.csv"):
        ended = run(f"{line} -o {tmp_path}/{line[:7]}.csv --json", cwd=folder)
        assert LINE in ended.err.splitlines()
        found = ended.json if line.startswith("compare") else ended.json[0]
        assert [item["item_id"] for item in found["items_left_out"]] == ["removed", "check"]


def test_labels_of_another_vocabulary_are_refused_and_mapped(folder: Path) -> None:
    frame = pd.read_csv(folder / "form_answers.csv")
    frame.assign(answer=frame["answer"].map({"yes": "2", "no": "1"})).to_csv(folder / "codes.csv", index=False)
    refused("score bank.json codes.csv", saying="no answer is the key of any item: 1, 2; ... --map OLD=NEW", cwd=folder)
    mapped = run("score bank.json codes.csv --map 2=yes,1= --json", cwd=folder).json
    assert mapped == run("score bank.json form_answers.csv --json", cwd=folder).json


# --- predict


def test_the_prediction_is_that_of_the_function_and_score_says_it_too(folder: Path, tmp_path: Path) -> None:
    run(f"predict bank.json form.csv -o {tmp_path}/prediction.csv --level 0.9 --quiet", cwd=folder)
    found, responses = pd.read_csv(tmp_path / "prediction.csv"), read(folder, "form")
    assert list(found) == PREDICTION
    wanted = irtbench.predict_accuracy(irtbench.load_bank(folder / "bank.json"), responses, level=0.9)
    for name, values in (("accuracy", wanted.accuracy), ("lower", wanted.lower), ("upper", wanted.upper)):
        np.testing.assert_allclose(found[f"predicted_{name}"], values)
    assert found[["n_seen", "n_items"]].to_numpy().tolist() == [[12, 50]] * 2
    np.testing.assert_allclose(found["accuracy"], np.nanmean(responses.values, axis=1))
    # raw answers are graded by the bank's key
    as_json = run("predict bank.json form_answers.csv --json", cwd=folder).json
    assert [row["predicted_accuracy"] for row in as_json] == pytest.approx(wanted.accuracy.tolist())
    first = f"able: {100 * wanted.accuracy[0]:.1f}% right of all 50 items of the bank is expected"
    within = f"[{100 * wanted.lower[0]:.1f}, {100 * wanted.upper[0]:.1f}]"
    assert f"{first} {within}" in run("score bank.json form.csv --level 0.9", cwd=folder).out
    pd.read_csv(folder / "responses.csv").query("respondent_id == 'able'").to_csv(tmp_path / "able.csv", index=False)
    whole = run(f"score bank.json {tmp_path}/able.csv", cwd=folder).out
    assert "of all 50 items" not in whole
    assert "able on verbs: better than " in whole
    # a correction is learnt from other systems
    found = run("predict bank.json form.csv --learn-from others.csv --level 0.9 --json", cwd=folder).json
    scales, form = irtbench.load_bank(folder / "bank.json").scales, read(folder, "form")
    correction = learn_correction(scales, read(folder, "others"), form.item_ids)
    wanted = irtbench.predict_accuracy(scales, form, correction=correction, level=0.9)
    assert [row["predicted_upper"] for row in found] == pytest.approx(wanted.upper.tolist())
    assert {row["method"] for row in found} == {"corrected"}


def test_systems_beyond_the_known_are_named(folder: Path, tmp_path: Path) -> None:
    # all right on the form: more than the bank expects of nearly anybody
    pd.read_csv(folder / "form.csv").assign(response=1).to_csv(tmp_path / "strong.csv", index=False)
    done = run(f"predict bank.json {tmp_path}/strong.csv -o {tmp_path}/p.csv", cwd=folder)
    line = done.err.strip().splitlines()[-1]
    assert line.startswith("irtbench: 2 of 2 systems beyond all known ones (2 above): able, other; ")
    assert pd.read_csv(tmp_path / "p.csv")["beyond_known"].tolist() == ["above", "above"]
    # nothing is said of systems like those known
    assert "beyond" not in run("predict bank.json form.csv", cwd=folder).err


# --- compare


def test_pairs_and_ranking(folder: Path, tmp_path: Path) -> None:
    done = run(f"compare four.csv --bank verbs.json -o {tmp_path}/out --seed 3", cwd=folder)
    pairs = pd.read_csv(tmp_path / "out" / "comparison.csv").set_index(["first", "second"])
    assert len(pairs) == 6
    low, high = (read(folder, "four").values[k] for k in (0, 2))
    alone, row = irtbench.paired_bootstrap(low, high), pairs.loc[("low", "high")]
    assert row["accuracy_difference"] == pytest.approx(alone.difference)
    assert row["accuracy_p"] == pytest.approx(alone.p)
    assert pairs.columns[-1] == "accuracy_p_greater"
    assert row["theta_upper"] < 0
    assert row["theta_p_adjusted"] >= row["theta_p"]
    assert pairs.loc[("middle", "twin"), "accuracy_p"] == 1
    assert pairs.loc[("middle", "twin"), "theta_p"] == pytest.approx(1, abs=1e-6)
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv", keep_default_na=False).set_index("respondent_id")
    assert list(ranking.index[[0, 3]]) == ["high", "low"]
    assert ranking.loc[["middle", "twin"], "indistinguishable_from"].tolist() == ["twin", "middle"]
    assert ranking["probability_best"].sum() == pytest.approx(1)
    assert "indistinguishable from" in done.out
    # answers are graded by the bank, and runs repeat
    run(f"compare four_answers.csv --bank verbs.json -o {tmp_path}/again --seed 3 --quiet", cwd=folder)
    for file in ("comparison.csv", "ranking.csv"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    # without a bank accuracy alone
    found = run(f"compare four.csv -o {tmp_path}/alone --json", cwd=folder).json
    assert list(found) == ["comparison"]
    assert "theta_p" not in found["comparison"][0]
    assert [file.name for file in (tmp_path / "alone").iterdir()] == ["comparison.csv"]


def test_of_many_systems_a_screenful_is_shown_and_all_is_written(folder: Path, tmp_path: Path) -> None:
    others = pd.read_csv(folder / "others.csv")
    many = others["respondent_id"].isin([f"r{k}" for k in range(40)]) & others["item_id"].str.startswith("verbs")
    others[many].to_csv(tmp_path / "many.csv", index=False)
    done = run(f"compare {tmp_path}/many.csv --bank verbs.json -o {tmp_path}/out", cwd=folder)
    assert len(pd.read_csv(tmp_path / "out" / "comparison.csv")) == 780
    assert len(done.out.splitlines()) <= 60
    assert "12 of 780 pairs" in done.out
    assert f"all are in {tmp_path / 'out' / 'comparison.csv'}" in done.out
    assert "12 of 40 rows" in done.out
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv")
    shown = [line for line in done.out.splitlines() if "[" in line and "best" not in line]
    assert any(ranking["respondent_id"].iloc[0] in line for line in shown)
    assert any(ranking["respondent_id"].iloc[-1] in line for line in shown)
