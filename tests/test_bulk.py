"""Scores from Parquet to Parquet: the same numbers as one by one, and one line for what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench.building.bank import ItemBank
from irtbench.building.scale import Norms, Scale
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_response import ItemParameters, simulate_responses
from irtbench.models.quadrature import Quadrature
from irtbench.scoring import bulk
from irtbench.scoring.bulk import score_parquet
from irtbench.scoring.scores import ScoringSettings, score_responses


def make_scale(name: str, n_items: int, *, guessing: float = 0.0) -> Scale:
    rng = np.random.default_rng(n_items)
    ids = [f"{name}{k}" for k in range(n_items)]
    a = rng.lognormal(0.2, 0.4, n_items)
    a[0] = -0.4  # a reversed item
    items = ItemParameters.from_difficulty(a, rng.normal(size=n_items), guessing, item_ids=ids)
    items = replace(items, covariance=np.broadcast_to(np.diag([0.02, 0.02, 0.0]), (n_items, 3, 3)))
    return Scale(name, items, ItemTable.plain(ids), Norms(rng.normal(size=200)))


@pytest.fixture
def bank() -> ItemBank:
    nodes = np.linspace(-6, 6, 61)
    density = 0.7 * np.exp(-(((nodes - 0.4) / 0.7) ** 2) / 2) / 0.7 + 0.3 * np.exp(-((nodes + 0.93) ** 2) / 2)
    skewed = Quadrature(nodes, np.log(density / density.sum()))
    return ItemBank((make_scale("plain", 90), replace(make_scale("guessed", 25, guessing=0.2), population=skewed)))


def responses_to(bank: ItemBank, n: int, *, missing: float) -> ResponseMatrix:
    """Patterns of simulated people; the first three all right, all wrong, and empty."""
    rng = np.random.default_rng(n)
    theta = rng.normal(size=n)
    parts = [simulate_responses(theta, scale.items, rng=rng, missing=missing) for scale in bank.scales]
    values = np.concatenate([part.values for part in parts], axis=1)
    values[0], values[1] = 1, 0
    if missing:
        values[2] = np.nan
    return ResponseMatrix(values, parts[0].respondent_ids, tuple(item for part in parts for item in part.item_ids))


def write(responses: ResponseMatrix, path: Path, *, dtype: str = "Int8") -> Path:
    frame = pd.DataFrame(responses.values, columns=list(responses.item_ids)).astype(dtype)
    frame.insert(0, "who", responses.respondent_ids)
    frame.to_parquet(path, index=False)
    return path


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_the_same_scores_as_one_by_one(
    bank: ItemBank, tmp_path: Path, missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ROWS", 64)  # several parts, out of step with the respondents
    responses = responses_to(bank, 300, missing=missing)
    source = write(responses, tmp_path / "responses.parquet")
    assert score_parquet(bank, source, tmp_path / "scores.parquet") == 300
    found, expected = pd.read_parquet(tmp_path / "scores.parquet"), score_responses(bank, responses)
    assert list(found) == list(expected)
    for name in ("respondent_id", "scale", "n_items", "n_correct", "method", "flags"):
        assert found[name].tolist() == expected[name].tolist(), name
    for name, tolerance in (
        ("accuracy", 1e-6),
        ("theta", 1e-4),
        ("se", 1e-4),
        ("theta_lower", 0.02),  # both spread a node's mass over its cell; within .02 of a standard error each
        ("theta_upper", 0.02),
        ("percentile", 4e-3),
        ("percentile_empirical", 0.51),  # a tie or not with one of 200
        ("person_fit", 1e-3),
    ):
        np.testing.assert_allclose(found[name], expected[name], atol=tolerance, err_msg=name)


def test_other_methods_go_part_by_part_too(bank: ItemBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 32)
    responses = responses_to(bank, 70, missing=0.0)
    source = write(responses, tmp_path / "responses.parquet")
    settings = ScoringSettings(method="wle", item_error="delta")
    score_parquet(bank, source, tmp_path / "scores.parquet", settings)
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "scores.parquet"),
        score_responses(bank, responses, settings),
        check_dtype=False,
        rtol=1e-6,
    )


def test_items_of_the_bank_may_be_absent_and_others_ignored(bank: ItemBank, tmp_path: Path) -> None:
    responses = responses_to(bank, 20, missing=0.1)
    few = responses.select_items([*responses.item_ids[:30], *responses.item_ids[90:100]])
    source = write(few, tmp_path / "few.parquet", dtype="float32")
    frame = pd.read_parquet(source)
    frame["stranger"] = 1
    frame.to_parquet(source, index=False)
    with pytest.raises(InputError, match="items unknown to the bank: stranger"):
        score_parquet(bank, source, tmp_path / "scores.parquet")
    score_parquet(bank, source, tmp_path / "scores.parquet", unknown_items="ignore")
    expected = score_responses(bank, few)
    found = pd.read_parquet(tmp_path / "scores.parquet")
    np.testing.assert_allclose(found["theta"], expected["theta"], atol=1e-4)
    assert found["n_items"].tolist() == expected["n_items"].tolist()


def test_all_forms_of_missing_are_one(bank: ItemBank, tmp_path: Path) -> None:
    items = list(bank.scales[0].items.item_ids[:6])
    scale = replace(
        bank.scales[0], items=bank.scales[0].items.select(items), details=bank.scales[0].details.select(items)
    )
    rows = {"null": [None] * 3 + [1, 0, 1], "code": [-1] * 3 + [1, 0, 1]}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=items).astype("Int8")
    frame.insert(0, "who", list(rows))
    frame.to_parquet(tmp_path / "r.parquet", index=False)
    score_parquet(ItemBank((scale,)), tmp_path / "r.parquet", tmp_path / "s.parquet")
    found = pd.read_parquet(tmp_path / "s.parquet")
    assert found["n_items"].tolist() == [3, 3]
    assert found["theta"][0] == found["theta"][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(plain3=[0] * 9 + [2]), "row 10, column plain3: expected 1, 0 or missing but got 2"),
        (lambda f: f.assign(plain3=["x"] * 10), "column plain3: expected 1, 0 or missing but it holds"),
        (lambda f: f.assign(who=["a", "b"] * 5), "respondent a comes twice"),
        (lambda f: f.assign(who=[None, *"bcdefghij"]), "column who: expected a name in every row"),
        (lambda f: f[:0], "no rows; expected at least one respondent"),
        (lambda f: f[["who"]].assign(other=1), "items unknown to the bank: other"),
    ],
)
def test_bad_input_is_named(bank: ItemBank, tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    source = write(responses_to(bank, 10, missing=0.0), tmp_path / "responses.parquet", dtype="int8")
    change(pd.read_parquet(source)).to_parquet(source, index=False)
    with pytest.raises(InputError, match=message):
        score_parquet(bank, source, tmp_path / "scores.parquet")
