"""Scores from Parquet to Parquet: the same numbers as one by one, and one line for what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.answered_banks import make_scale
from builders.parquet_folder import wide_frame
from builders.refusals import is_refused
from builders.scales import grades, scale_of
from irtbench import ColumnChoice, ItemBank, Norms, Quadrature, ResponseMatrix, score_file
from irtbench.data import response_blocks
from irtbench.data.readers import table_blocks
from irtbench.data.readers.table import read_table
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.scoring.optional_columns import percentiles_by_group
from irtbench.scoring.scores import ScoringSettings, category_responses, score_responses


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


def write(responses: ResponseMatrix, path: Path, **more: object) -> Path:
    """Wide, and more columns, that are not the bank's items."""
    frame = wide_frame(responses).rename(columns={"respondent_id": "who"}).assign(**more)
    frame.to_parquet(path, index=False)
    return path


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_the_same_scores_as_one_by_one(
    bank: ItemBank, tmp_path: Path, missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where some are missing, items of the bank are absent, too, and one is not the bank's."""
    monkeypatch.setattr(response_blocks, "ROWS", 64)  # several parts, out of step with the respondents
    responses, target = responses_to(bank, 300, missing=missing), tmp_path / "scores.parquet"
    source = write(responses, tmp_path / "responses.parquet")
    if missing:
        responses = responses.select_items([*responses.item_ids[:85], *responses.item_ids[90:112]])
        write(responses, source, stranger=1)
        is_refused("items unknown to the bank: stranger", score_file, bank, source, target)
    assert score_file(bank, source, target, unknown_items="ignore") == 300
    found, expected = pd.read_parquet(target), score_responses(bank, responses)
    assert list(found) == list(expected)
    for name in ("respondent_id", "scale", "n_items", "n_correct", "method", "flags"):
        assert found[name].tolist() == expected[name].tolist(), name
    for name in ("accuracy", "theta", "se", "theta_lower", "theta_upper", "percentile_empirical", "person_fit"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found["percentile"], expected["percentile"], atol=4e-5)


@pytest.mark.parametrize(("missing", "shuffled"), [(0.3, True), (0.0, False)])
def test_the_long_form_gives_the_scores_of_the_wide_one(
    bank: ItemBank, tmp_path: Path, missing: float, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing responses are null, -1 or no row at all; but for one respondent, who has rows of null."""
    monkeypatch.setattr(response_blocks, "ROWS", 16)
    monkeypatch.setattr(table_blocks, "ROWS_READ", 777)  # cuts respondents in two
    responses, source = responses_to(bank, 60, missing=missing), tmp_path / "long.parquet"
    frame = wide_frame(responses).melt("respondent_id", var_name="item_id", value_name="response", ignore_index=False)
    frame = frame.sort_index(kind="stable").reset_index()
    kept = frame["response"].notna() | (frame["index"] == 2) | (frame.index % 3 == 0)
    frame.loc[frame.index % 2 == 0, "response"] = frame["response"].fillna(-1)
    frame = frame[kept].drop(columns="index")
    if shuffled:
        frame = frame.sample(frac=1, random_state=0)
    frame.to_parquet(source, index=False, row_group_size=1000)
    lines: list[str] = []
    assert score_file(bank, source, tmp_path / "scores.parquet", progress=lines.append) == 60
    assert any("are not adjacent" in line for line in lines) == shuffled
    order = pd.unique(frame["respondent_id"])
    wanted = score_responses(bank, responses).set_index("respondent_id").loc[order].reset_index()
    found = pd.read_parquet(tmp_path / "scores.parquet")
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-4, atol=1e-4, check_dtype=False)


def test_other_names_types_and_methods_of_a_long_file(bank: ItemBank, tmp_path: Path) -> None:
    responses = responses_to(bank, 12, missing=0.0)
    frame = responses.to_long().rename(columns={"respondent_id": "who", "item_id": "what", "response": "passed"})
    frame["who"] = frame["who"].str[1:].astype(int)  # numbers as names
    frame["passed"] = frame["passed"] == 1
    frame.to_parquet(tmp_path / "r.parquet", index=False)
    settings = ScoringSettings(method="map")
    names = {"respondent_id": "who", "item_id": "what", "response": "passed"}
    assert score_file(bank, tmp_path / "r.parquet", tmp_path / "s.parquet", settings, columns=names) == 12
    wanted = score_responses(bank, responses, settings)
    found = pd.read_parquet(tmp_path / "s.parquet")
    assert found["theta"].tolist() == pytest.approx(wanted["theta"].tolist())
    assert found["respondent_id"].tolist() == wanted["respondent_id"].str[1:].tolist()


@pytest.mark.parametrize("form", ["numbers", "words", "wide answers", "scattered answers"])
def test_csv_is_scored_as_parquet_is(bank: ItemBank, tmp_path: Path, form: str) -> None:
    responses = responses_to(bank, 40, missing=0.1)
    source = write(responses, tmp_path / "r.parquet")
    score_file(bank, source, tmp_path / "expected.parquet")
    table, expected = pd.read_parquet(source), pd.read_parquet(tmp_path / "expected.parquet")
    keys = {item: "ab"[k % 2] for k, item in enumerate(responses.item_ids)}
    keyed = [
        replace(of, details=replace(of.details, key=tuple(map(keys.get, of.details.item_ids)))) for of in bank.scales
    ]
    if form == "words":
        table = table.astype(object).replace({1: "true", 0: "0.0"})
    elif form != "numbers":
        for item, key in keys.items():
            table[item] = table[item].astype(object).map({1: f" {key} ", 0: "c"})
    if form == "scattered answers":
        table = table.rename(columns={"who": "respondent_id"})
        table = table.melt("respondent_id", var_name="item_id", value_name="answer").dropna()
        expected = expected[expected["respondent_id"] != responses.respondent_ids[2]]  # who answered nothing
    file = tmp_path / ("r.csv.gz" if form == "numbers" else "r.csv")
    table.to_csv(file, index=False)
    assert score_file(ItemBank(tuple(keyed)), file, tmp_path / "s.csv") == len(expected) / 2
    order = ["respondent_id", "scale"]
    found, expected = (each.sort_values(order) for each in (pd.read_csv(tmp_path / "s.csv"), expected))
    for name in ("theta", "se", "percentile", "person_fit", "n_items", "n_correct"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-3, err_msg=name)


def test_columns_that_say_something_of_the_respondents_are_no_items(bank: ItemBank, tmp_path: Path) -> None:
    responses = responses_to(bank, 20, missing=0)
    wide_frame(responses).assign(age=31, country="DK").to_csv(tmp_path / "more.csv")
    assert score_file(bank, tmp_path / "more.csv", tmp_path / "scores.parquet") == 20
    found, expected = pd.read_parquet(tmp_path / "scores.parquet"), score_responses(bank, responses)
    np.testing.assert_allclose(found["theta"], expected["theta"], atol=1e-6)
    assert found["respondent_id"].tolist() == expected["respondent_id"].tolist()


def test_names_that_are_formulas_come_back(bank: ItemBank, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("who,plain0\n=1+1,1\n'=2+2,0\n")
    score_file(bank, tmp_path / "r.csv", tmp_path / "s.csv")
    assert pd.read_csv(tmp_path / "s.csv")["respondent_id"].tolist()[::2] == ["'=1+1", "'=2+2"]
    assert read_table(tmp_path / "s.csv")["respondent_id"].tolist()[::2] == ["=1+1", "=2+2"]


def long_or_wide(table: pd.DataFrame, form: str, name: str) -> pd.DataFrame:
    """Respondents as the index, or in the long form with that name of the cells."""
    table = table.rename_axis("respondent_id").reset_index()
    return table if form == "wide" else table.melt("respondent_id", var_name="item_id", value_name=name)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_scores_in_categories_go_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(response_blocks, "ROWS", 16)
    rng = np.random.default_rng(4)
    known = grades(rng, 6, ("poor", "fair", "good"), (1, 2, 3), models=[Graded()])
    bank = ItemBank((scale_of(known.as_items()),))
    table = known.simulate(rng.normal(size=50), rng=rng).astype(object).rename(index="r{}".format)
    table.iloc[3, 2] = None
    given = long_or_wide(table.map(lambda cell: None if cell is None else str(cell)), form, "score")
    given.to_parquet(tmp_path / "r.parquet", index=False)
    assert score_file(bank, tmp_path / "r.parquet", tmp_path / "s.csv") == 50
    found, expected = pd.read_csv(tmp_path / "s.csv"), score_responses(bank, table)
    assert list(found) == list(expected)
    for name in ("n_correct", "n_trials", "theta", "person_fit"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
    people = replace(bank.scales[0], norms=Norms([-0.5, 0.0, 0.7], groups={"land": ("a", "b", "b")}))
    coded = category_responses(bank, table)
    pd.testing.assert_frame_equal(*(percentiles_by_group(people, each, ["land"]) for each in (table, coded)))
    saying, where = "expected none for items in categories", tmp_path / "s.csv"
    is_refused(saying, score_file, bank, tmp_path / "r.parquet", where, columns=ColumnChoice(threshold=0.5))
    given.replace("poor", "bad").to_parquet(tmp_path / "w.parquet", index=False)
    saying = "item g00: bad is none of its categories; expected poor"
    is_refused(saying, score_file, bank, tmp_path / "w.parquet", where)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_shares_count_from_a_threshold_on(tmp_path: Path, form: str) -> None:
    bank, file, target = ItemBank((make_scale("plain", 12),)), tmp_path / "shares.csv", tmp_path / "t.csv"
    answered = responses_to(bank, 40, missing=0.1).answered()
    shares = answered.table().set_index("respondent_id") * 0.4 + 0.3  # .7 is right
    long_or_wide(shares, form, "response").to_csv(file, index=False)
    is_refused(r"expected 1, 0 or missing but got 0\.[37]", score_file, bank, file, target, content="responses")
    score_file(bank, file, target, columns=ColumnChoice(threshold=0.5))
    by_parts, at_once = (
        t.set_index("respondent_id")["theta"] for t in (pd.read_csv(target), score_responses(bank, answered))
    )
    np.testing.assert_allclose(by_parts[at_once.index], at_once, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,plain0,plain1\na,1,0\nb,1,x1\n", "row 2, column plain1: expected 1, 0 or missing but it holds 'x1'"),
        ("who,plain0,plain1\na,1,0\nb,1\n", "row 2 .line 3.: expected 3 fields but got 2"),
        ("who,plain0,plain1\na,1,0\na,1,1\n", "respondent a comes twice"),
        ("who,other\na,1\n", "items unknown to the bank: other"),
        ("respondent_id,item_id,response\na,plain0,1\n,plain1,1\n", "row 2, column respondent_id: expected a name"),
        ("respondent_id,item_id,response\na,plain0,1\nb,plain0,1\na,plain0,0\n", "a and item plain0 come twice"),
        ("respondent_id,item_id,answer\na,plain0,1\na,plain1,0\n", "no key for item plain0"),
    ],
)
def test_bad_input_is_named(bank: ItemBank, tmp_path: Path, text: str, message: str) -> None:
    """Of tables of text; others, which the same code reads block by block, are tested with their encoding."""
    (tmp_path / "r.csv").write_text(text)
    is_refused(message, score_file, bank, tmp_path / "r.csv", tmp_path / "s.csv")
