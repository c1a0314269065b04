"""``irtbench link --extend``: new items join a bank whose own items stay."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run


def long_table(source: Path, target: Path) -> None:
    """A wide table without names of respondents as a long one."""
    responses = irtbench.as_responses(pd.read_csv(source))
    responses.to_long().astype({"response": int}).to_csv(target, index=False)


def test_new_items_and_people_are_those_of_mirt(reference: Path, tmp_path: Path) -> None:
    folder = reference / "next" / "05_linking"
    old = pd.read_csv(folder / "a2pl_pars_X.csv")
    items = irtbench.ItemParameters.from_difficulty(old["a"], old["b"], item_ids=list(old["item"]))
    items.table().to_csv(tmp_path / "old.csv", index=False)
    long_table(folder / "a2pl_data_Y.csv", tmp_path / "new.csv")
    run(f"link --extend {tmp_path}/old.csv {tmp_path}/new.csv -o {tmp_path}/out -q")
    found = json.loads((tmp_path / "out" / "extend.json").read_text())
    (group,) = pd.read_csv(folder / "a2pl_fixed_group.csv").itertuples()
    assert found["released"] == []
    assert found["group_mean"] == pytest.approx(group.mean, abs=1e-3)  # mirt stops a little early
    assert found["group_sd"] == pytest.approx(group.sd, abs=1e-3)
    expected = pd.read_csv(folder / "a2pl_fixed_pars_Y.csv", index_col="item")
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    assert scale.items.item_ids[:20] == items.item_ids
    np.testing.assert_array_equal(scale.items.select(items.item_ids).discrimination, items.discrimination)
    assert found["items"] == [item for item in expected.index if item not in items.item_ids]
    new = scale.items.select(found["items"])
    np.testing.assert_allclose(new.discrimination, expected.loc[found["items"], "a"], atol=2e-3)
    np.testing.assert_allclose(new.intercept, expected.loc[found["items"], "d"], atol=2e-3)
    assert scale.provenance["old"]["bank"]["old.csv"].startswith("sha256:")
    assert "new.csv" in scale.provenance["new"]["data"]


def test_an_item_that_drifted_is_no_anchor_and_stays_in_the_bank(tmp_path: Path) -> None:
    rng = np.random.default_rng(21)
    a, b = rng.uniform(1, 2, 14), rng.normal(0, 0.8, 14)
    names = [f"item{k + 1}" for k in range(14)]
    old = irtbench.ItemParameters.from_difficulty(a[:10], b[:10], item_ids=names[:10])
    old.table().to_csv(tmp_path / "old.csv", index=False)
    true = irtbench.ItemParameters.from_difficulty(a, b + np.where(np.arange(14) == 2, 2.0, 0), item_ids=names)
    drawn = irtbench.simulate_responses(rng.normal(0.5, 1.2, size=1500), true, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(tmp_path / "new.csv", index=False)
    for name, more in (("out", []), ("kept", ["--drift", "keep"])):
        run(f"link --extend {tmp_path}/old.csv {tmp_path}/new.csv -o {tmp_path}/{name}", *more)
    found, kept = (json.loads((tmp_path / name / "extend.json").read_text()) for name in ("out", "kept"))
    assert "item3" in found["released"]
    assert kept["released"] == []
    assert found["group_mean"] == pytest.approx(0.5, abs=0.1)
    assert found["group_mean"] - kept["group_mean"] > 0.05
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    assert scale.items.item_ids == true.item_ids
    assert scale.items.select(["item3"]).difficulty[0] == pytest.approx(b[2])
    error = scale.items.select(names[10:]).difficulty - b[10:]
    assert np.abs(error).max() < 0.25
    refused("link --extend out/bank.json new.csv -o again", saying="extend: no item is new", cwd=tmp_path)


def test_a_small_banks_own_error_is_in_what_rests_on_it(tmp_path: Path) -> None:
    """As in `tests/estimation/test_shared_parameters.py`, through `fit`, `fit --anchors` and `extend`."""
    rng = np.random.default_rng(3)
    true = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 11), np.linspace(-1, 1, 11))
    old = irtbench.simulate_responses(rng.normal(size=120), true.select(true.item_ids[:8]), rng=rng)
    new = irtbench.simulate_responses(rng.normal(0.5, 1.1, size=600), true.select(true.item_ids[2:]), rng=rng)
    for name, drawn in (("old", old), ("new", new)):
        drawn.to_long().astype({"response": int}).to_csv(tmp_path / f"{name}.csv", index=False)
    done = run(f"fit {tmp_path}/old.csv -o {tmp_path}/bank")
    assert "few people answered the items" in done.out
    found = json.loads((tmp_path / "bank" / "fit.json").read_text())
    assert found["item_error"] == "integrate"
    assert found["item_error_share"] > 0.015
    said, errors = {}, {}
    for anchors in ("bank.json", "items.csv"):
        done = run(f"fit {tmp_path}/new.csv --anchors {tmp_path}/bank/{anchors} -o {tmp_path}/fit")
        found = json.loads((tmp_path / "fit" / "fit.json").read_text())
        said[anchors], errors[anchors] = found["anchor_error"], found["population_se_mean"]
    assert said == {"bank.json": "joint", "items.csv": "taken as known"}
    assert "the anchors are taken as known" in done.out
    assert errors["bank.json"] > 1.5 * errors["items.csv"]
    run(f"link --extend {tmp_path}/bank/bank.json {tmp_path}/new.csv -o {tmp_path}/out")
    found = json.loads((tmp_path / "out" / "extend.json").read_text())
    assert found["anchor_error"] == "joint"
    assert found["group_se_mean"] == pytest.approx(errors["bank.json"], rel=1e-6)
    (before,), (after,) = (irtbench.load_bank(tmp_path / name / "bank.json").scales for name in ("bank", "out"))
    np.testing.assert_allclose(after.joint_error.covariance[:8, :, :8], before.joint_error.covariance, rtol=1e-5)
    flat = after.joint_error.covariance.reshape(33, 33)
    free = np.arange(33) % 3 < 2
    assert np.linalg.eigvalsh(flat[np.ix_(free, free)]).min() > 0
    # what the first two items, which these people did not see, share with new ones is the location of the bank
    shared = flat[1, 25] / np.sqrt(flat[1, 1] * flat[25, 25])
    assert 0.1 < shared < 0.9
