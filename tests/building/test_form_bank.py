"""The bank of a form scores on the scale of the whole bank and with fair percentiles; docs/tutorial_logs.md does it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from builders.refusals import is_refused
from irtbench import ItemParameters, ItemTable, Norms, Scale, estimate_ability, harness_ids, score_responses
from irtbench.bank.bank import ItemBank, load_bank, save_bank
from irtbench.building.assembly import assemble_forms, form_bank
from irtbench.models.curves import simulate_responses


def crowd_scale(n_items: int = 60, n_people: int = 800) -> tuple[Scale, np.ndarray]:
    """A scale whose norm sample answered all its items, and the true abilities of its people."""
    rng = np.random.default_rng(1)
    ids = [f"i{k}" for k in range(n_items)]
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2.0, n_items), rng.normal(size=n_items), item_ids=ids)
    theta = rng.normal(size=n_people)
    found = estimate_ability(simulate_responses(theta, items, rng=rng), items)
    groups = {"country": tuple(["de", "fr"] * (n_people // 2))}
    norms = Norms(found.theta, None, found.standard_error, groups)
    return Scale("all", items, ItemTable.plain(ids), norms=norms), theta


def test_items_keep_their_parameters_and_the_others_are_left_out_by_name() -> None:
    scale, _ = crowd_scale()
    form = assemble_forms(scale, length=5).forms[0]
    short = form_bank(scale, form)
    assert short.scales[0].items.item_ids == form
    np.testing.assert_array_equal(short.scales[0].items.intercept, scale.items.select(form).intercept)
    everything = simulate_responses([0.5, -0.5], scale.items, rng=np.random.default_rng(2))
    whole = score_responses(short, everything)
    only = score_responses(short, everything.select_items(form))
    pd.testing.assert_frame_equal(whole, only)
    is_refused("item x is not in the bank", form_bank, scale, ["x"])
    is_refused("has no item", form_bank, scale, [])


def test_a_rank_on_a_form_is_fair_and_the_population_is_that_of_all_items(tmp_path: Path) -> None:
    scale, _ = crowd_scale(n_people=4000)
    form = assemble_forms(scale, length=6).forms[0]
    short = form_bank(scale, form, seed=3)
    norms = short.scales[0].norms
    np.testing.assert_array_equal(norms.theta, scale.norms.theta)
    assert norms.on_form.std() < 0.9 < norms.theta.std()
    people = simulate_responses(np.random.default_rng(5).normal(size=4000), short.scales[0].items,
                                rng=np.random.default_rng(6))  # fmt: skip
    fair = score_responses(short, people)["percentile_empirical"]
    plain = ItemBank((replace(short.scales[0], norms=scale.norms),))
    shrunk = score_responses(plain, people)["percentile_empirical"]
    # ranks among those who answered the same are uniform; among EAPs of 60 items they crowd at the middle
    assert fair.std() == pytest.approx(100 / 12**0.5, abs=1.0)
    assert shrunk.std() < fair.std() - 1
    save_bank(short, tmp_path / "bank.json")
    assert json.loads((tmp_path / "bank.json").read_text())["schema_version"] == 3
    again = load_bank(tmp_path / "bank.json")
    pd.testing.assert_frame_equal(score_responses(again, people), score_responses(short, people))
    group = norms.group("country", "de")
    np.testing.assert_array_equal(group.on_form, norms.on_form[::2])


def test_ids_are_those_of_the_harness_and_sorted() -> None:
    files = harness_ids(["t/10", "u/v/3", "t/9"])
    assert json.loads(files["lm_eval_samples.json"]) == {"t": [9, 10], "u/v": [3]}
    assert json.loads(files["inspect_sample_ids.json"]) == {"t": ["10", "9"], "u/v": ["3"]}
    assert "helm_instances.json" not in files
    helm = harness_ids(["mmlu:subject=law/id7", "mmlu:subject=law/id12"], formats=["helm"])
    assert json.loads(helm["helm_instances.json"]) == {"mmlu:subject=law": ["id7", "id12"]}
    assert list(harness_ids(["plain"])) == ["item_ids.txt"]
    split = harness_ids(["task/a/b", "task/c"], formats=["inspect"], tasks=["task"])
    assert json.loads(split["inspect_sample_ids.json"]) == {"task": ["a/b", "c"]}
    is_refused("harness lm-eval: item t/x: expected task/index", harness_ids, ["t/x"], formats=["lm-eval"])
    is_refused("one of lm-eval, inspect, helm, plain but got lmeval", harness_ids, ["t/x"], formats=["lmeval"])


def test_the_files_are_those_of_the_contract(tmp_path: Path) -> None:
    scale, _ = crowd_scale(40, 100)
    scale.table().assign(topic=["x", "y"] * 20).to_csv(tmp_path / "items.csv", index=False)
    (tmp_path / "pairs.csv").write_text("item_1,item_2\ni1,i2\n")
    limits = "--limit topic=x:..3 --limit topic=y:20%.. --enemies pairs.csv"
    found = run(f"form assemble items.csv -o out --length 8 {limits} --json", cwd=tmp_path).json
    out = tmp_path / "out"
    assert json.loads((out / "form.json").read_text()) == found
    assert {"objective", "gap", "seconds", "optimal"} <= found.keys()
    assert found["gap"] == 0
    form = pd.read_csv(out / "form.csv")
    assert list(form)[:5] == ["form", "position", "item_id", "scale", "model"]
    assert (form["topic"] == "x").sum() <= 3
    assert {path.name for path in out.iterdir()} == {"form.csv", "form.json", "bank.json", "item_ids.txt"}
    assert (out / "item_ids.txt").read_text().split() == form["item_id"].tolist()
    # beside it, two parallel forms that share nothing with it
    more = "--length 3 --forms 2 --seconds 1 --other-form out/form.csv --most-overlap 0"
    run(f"form assemble items.csv -o two {more} -q", cwd=tmp_path)
    two = tmp_path / "two"
    assert {"bank_1.json", "bank_2.json", "item_ids_1.txt", "item_ids_2.txt"} <= {path.name for path in two.iterdir()}
    assert set(pd.read_csv(two / "form.csv")["item_id"]).isdisjoint(form["item_id"])
    assert load_bank(two / "bank_2.json").scales[0].items.n_items == 3
