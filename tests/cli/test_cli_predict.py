"""`irtbench predict` as a user meets it: the columns, the words, the correction, one line for what is wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from irtbench.bank.bank import ItemBank, load_bank, save_bank
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring.prediction import learn_correction, predict_accuracy

COLUMNS = [
    "respondent_id", "n_seen", "n_correct", "accuracy", "n_items", "predicted_accuracy", "se", "predicted_lower",
    "predicted_upper", "beyond_known", "method",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of two scales, 60 systems' responses to all 50 items, and two systems' to a form of 12."""
    folder = tmp_path_factory.mktemp("predict")
    rng = np.random.default_rng(0)
    scales, parts = [], []
    for name, n in (("verbs", 30), ("nouns", 20)):
        ids = [f"{name}{k}" for k in range(n)]
        items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.3, 0.3, n), rng.normal(size=n), item_ids=ids)
        scales.append(Scale(name, items, ItemTable(tuple(ids), ("yes",) * n, *[(None,) * n] * 3, (False,) * n)))  # type: ignore[call-arg]
        parts.append(irtbench.simulate_responses(rng.normal(size=62), items, rng=rng).to_long())
    save_bank(ItemBank(tuple(scales)), folder / "bank.json")
    whole = pd.concat(parts)
    new = whole["respondent_id"].isin(["r1", "r2"])
    whole[~new].to_csv(folder / "others.csv", index=False)
    form = [f"verbs{k}" for k in range(8)] + [f"nouns{k}" for k in range(4)]
    seen = whole[new & whole["item_id"].isin(form)]
    seen.to_csv(folder / "form.csv", index=False)
    answers = seen.assign(answer=np.where(seen["response"] == 1, "yes", "no")).drop(columns="response")
    answers.to_csv(folder / "answers.csv", index=False)
    return folder


def test_the_file_holds_what_the_function_says(folder: Path, tmp_path: Path) -> None:
    run(f"predict {folder}/bank.json {folder}/form.csv -o {tmp_path}/prediction.csv --quiet")
    found = pd.read_csv(tmp_path / "prediction.csv")
    assert list(found) == COLUMNS
    responses = ResponseMatrix.from_long(pd.read_csv(folder / "form.csv"))
    wanted = predict_accuracy(load_bank(folder / "bank.json").scales, responses)
    for name, values in (("accuracy", wanted.accuracy), ("lower", wanted.lower), ("upper", wanted.upper)):
        np.testing.assert_allclose(found[f"predicted_{name}"], values)
    assert found[["n_seen", "n_items"]].to_numpy().tolist() == [[12, 50]] * 2
    np.testing.assert_allclose(found["accuracy"], np.nanmean(responses.values, axis=1))
    # raw answers are graded by the bank's key
    as_json = run(f"predict {folder}/bank.json {folder}/answers.csv --json").json
    assert [row["predicted_accuracy"] for row in as_json] == pytest.approx(wanted.accuracy.tolist())


def test_a_correction_is_learnt_from_other_systems(folder: Path) -> None:
    found = run("predict bank.json form.csv --learn-from others.csv --level 0.9 --json", cwd=folder).json
    scales = load_bank(folder / "bank.json").scales
    form = ResponseMatrix.from_long(pd.read_csv(folder / "form.csv"))
    others = ResponseMatrix.from_long(pd.read_csv(folder / "others.csv"))
    wanted = predict_accuracy(scales, form, correction=learn_correction(scales, others, form.item_ids), level=0.9)
    assert [row["predicted_upper"] for row in found] == pytest.approx(wanted.upper.tolist())
    assert {row["method"] for row in found} == {"corrected"}


def test_systems_beyond_the_known_are_named(folder: Path, tmp_path: Path) -> None:
    # all right on the form: more than the bank expects of nearly anybody
    strong = pd.read_csv(folder / "form.csv").assign(response=1)
    strong.to_csv(tmp_path / "strong.csv", index=False)
    done = run(f"predict {folder}/bank.json {tmp_path}/strong.csv -o {tmp_path}/p.csv")
    line = done.err.strip().splitlines()[-1]
    assert line.startswith("irtbench: 2 of 2 systems beyond all known ones (2 above): r1, r2; ")
    found = pd.read_csv(tmp_path / "p.csv")
    assert found["beyond_known"].tolist() == ["above", "above"]
    # nothing is said of systems like those known
    assert "beyond" not in run(f"predict {folder}/bank.json {folder}/form.csv").err


def test_scoring_a_form_on_the_whole_bank_says_the_accuracy_on_all_items(folder: Path, tmp_path: Path) -> None:
    wanted = predict_accuracy(
        load_bank(folder / "bank.json").scales, ResponseMatrix.from_long(pd.read_csv(folder / "form.csv")), level=0.9
    )
    text = run(f"score {folder}/bank.json {folder}/form.csv --level 0.9").out
    first = f"{100 * wanted.accuracy[0]:.1f}% right of all 50 items of the bank is expected"
    assert f"{wanted.respondent_ids[0]}: {first} [{100 * wanted.lower[0]:.1f}, {100 * wanted.upper[0]:.1f}]" in text
    whole = pd.read_csv(folder / "others.csv")
    whole[whole["respondent_id"] == "r3"].to_csv(tmp_path / "whole.csv", index=False)
    assert "of all 50 items" not in run(f"score {folder}/bank.json {tmp_path}/whole.csv").out
