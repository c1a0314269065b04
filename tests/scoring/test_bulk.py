"""Scores from Parquet to Parquet: the same numbers as one by one, and one line for what is wrong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.answered_banks import make_scale
from irtbench import ColumnChoice, InputError, ItemBank, ItemTable, Norms, Quadrature, ResponseMatrix, Scale, score_file
from irtbench.data import response_blocks
from irtbench.data.readers import table_blocks
from irtbench.data.readers.table import read_table
from irtbench.models.category_parameters import CategoryParameters
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


def write(responses: ResponseMatrix, path: Path, *, strangers: int = 0) -> Path:
    """Wide, and so many items more that are not the bank's."""
    frame = pd.DataFrame(responses.values, columns=list(responses.item_ids)).astype("Int8")
    frame = frame.assign(**{f"stranger{k}": 1 for k in range(strangers)})
    frame.insert(0, "who", responses.respondent_ids)
    frame.to_parquet(path, index=False)
    return path


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_the_same_scores_as_one_by_one(
    bank: ItemBank, tmp_path: Path, missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where some are missing, items of the bank are absent, too, and one is not the bank's."""
    monkeypatch.setattr(response_blocks, "ROWS", 64)  # several parts, out of step with the respondents
    responses = responses_to(bank, 300, missing=missing)
    if missing:
        responses = responses.select_items([*responses.item_ids[:85], *responses.item_ids[90:112]])
    source = write(responses, tmp_path / "responses.parquet", strangers=int(missing > 0))
    if missing:
        with pytest.raises(InputError, match="items unknown to the bank: stranger0"):
            score_file(bank, source, tmp_path / "scores.parquet")
    assert score_file(bank, source, tmp_path / "scores.parquet", unknown_items="ignore") == 300
    found, expected = pd.read_parquet(tmp_path / "scores.parquet"), score_responses(bank, responses)
    assert list(found) == list(expected)
    for name in ("respondent_id", "scale", "n_items", "n_correct", "method", "flags"):
        assert found[name].tolist() == expected[name].tolist(), name
    for name in ("accuracy", "theta", "se", "theta_lower", "theta_upper", "percentile_empirical", "person_fit"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found["percentile"], expected["percentile"], atol=4e-5)


def long_file(responses: ResponseMatrix, path: Path, *, shuffled: bool = False, row_group_size: int = 1000) -> Path:
    """The long form, missing responses as null, -1 or no row at all; but for one respondent, who has rows of null."""
    rows, columns = np.divmod(np.arange(responses.values.size), responses.n_items)
    frame = pd.DataFrame(
        {
            "respondent_id": np.array(responses.respondent_ids)[rows],
            "item_id": np.array(responses.item_ids)[columns],
            "response": pd.array(responses.values.ravel(), dtype="Int8"),
        }
    )
    kept = frame["response"].notna() | (rows == 2) | (np.arange(len(frame)) % 3 == 0)
    frame.loc[np.arange(len(frame)) % 2 == 0, "response"] = frame["response"].fillna(-1)
    frame = frame[kept]
    if shuffled:
        frame = frame.sample(frac=1, random_state=0)
    frame.to_parquet(path, index=False, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize(("missing", "shuffled"), [(0.3, True), (0.0, False)])
def test_the_long_form_gives_the_scores_of_the_wide_one(
    bank: ItemBank, tmp_path: Path, missing: float, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_blocks, "ROWS", 16)
    monkeypatch.setattr(table_blocks, "ROWS_READ", 777)  # cuts respondents in two
    responses = responses_to(bank, 60, missing=missing)
    source = long_file(responses, tmp_path / "long.parquet", shuffled=shuffled)
    lines: list[str] = []
    assert score_file(bank, source, tmp_path / "scores.parquet", progress=lines.append) == 60
    assert any("are not adjacent" in line for line in lines) == shuffled
    wanted, found = score_responses(bank, responses), pd.read_parquet(tmp_path / "scores.parquet")
    if shuffled:
        order = pd.unique(pd.read_parquet(source)["respondent_id"])
        assert found["respondent_id"].tolist() == [name for name in order for _ in range(2)]
        wanted = wanted.set_index("respondent_id").loc[order].reset_index()
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
    keyed = [
        replace(scale, details=replace(scale.details, key=tuple("ab"[k % 2] for k in range(scale.items.n_items))))
        for scale in bank.scales
    ]
    if form == "words":
        table = table.astype(object).replace({1: "true", 0: "0.0"})
    elif form != "numbers":
        for scale in keyed:
            for item, key in zip(scale.details.item_ids, scale.details.key, strict=True):
                table[item] = table[item].astype(object).map({1: f" {key} ", 0: "c"})
    if form == "scattered answers":
        table = table.rename(columns={"who": "respondent_id"})
        table = table.melt("respondent_id", var_name="item_id", value_name="answer").dropna()
        expected = expected[expected["respondent_id"] != responses.respondent_ids[2]]  # who answered nothing
    file = tmp_path / ("r.csv.gz" if form == "numbers" else "r.csv")
    table.to_csv(file, index=False)
    assert score_file(ItemBank(tuple(keyed)), file, tmp_path / "s.csv") == len(expected) / 2
    found, expected = (
        scores.sort_values(["respondent_id", "scale"]) for scores in (pd.read_csv(tmp_path / "s.csv"), expected)
    )
    for name in ("theta", "se", "percentile", "person_fit", "n_items", "n_correct"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-3, err_msg=name)


def test_columns_that_say_something_of_the_respondents_are_no_items(bank: ItemBank, tmp_path: Path) -> None:
    responses = responses_to(bank, 20, missing=0)
    frame = pd.DataFrame(responses.values, columns=list(responses.item_ids)).astype("Int8")
    frame.assign(age=31, country="DK", respondent_id=responses.respondent_ids).to_csv(tmp_path / "more.csv")
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
    ids = ("g1", "g2", "g3", "n1", "n2", "n3")
    categories = (("poor", "fair", "good"),) * 3 + ((1, 2, 3),) * 3
    parameters = np.column_stack([np.full(6, 1.5), np.tile([1.0, -1.0], (6, 1))])
    known = CategoryParameters(ids, (Graded(),) * 6, categories, parameters, np.full(6, 3))
    bank = ItemBank((Scale("all", known.as_items(), ItemTable.plain(ids)),))
    places = np.random.default_rng(4).integers(0, 3, (50, 6))
    cells = [[own[k] for own, k in zip(categories, row, strict=True)] for row in places]
    table = pd.DataFrame(cells, columns=list(ids), index=[f"r{k}" for k in range(50)], dtype=object)
    table.iloc[3, 2] = None
    given = long_or_wide(table.map(lambda cell: None if cell is None else str(cell)), form, "score")
    given.to_parquet(tmp_path / "r.parquet", index=False)
    assert score_file(bank, tmp_path / "r.parquet", tmp_path / "s.csv") == 50
    found, expected = pd.read_csv(tmp_path / "s.csv"), score_responses(bank, table)
    assert list(found) == list(expected)
    for name in ("n_correct", "n_trials", "theta", "person_fit"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
    people = replace(bank.scales[0], norms=Norms([-0.5, 0.0, 0.7], groups={"land": ("a", "b", "b")}))
    of_labels, of_codes = (
        percentiles_by_group(people, given, ["land"]) for given in (table, category_responses(bank, table))
    )
    pd.testing.assert_frame_equal(of_labels, of_codes)
    given.replace("poor", "bad").to_parquet(tmp_path / "w.parquet", index=False)
    with pytest.raises(InputError, match="item g1: bad is none of its categories; expected poor"):
        score_file(bank, tmp_path / "w.parquet", tmp_path / "s.csv")
    with pytest.raises(InputError, match="expected none for items in categories"):
        score_file(bank, tmp_path / "r.parquet", tmp_path / "s.csv", columns=ColumnChoice(threshold=0.5))


@pytest.mark.parametrize("form", ["wide", "long"])
def test_shares_count_from_a_threshold_on(tmp_path: Path, form: str) -> None:
    bank = ItemBank((make_scale("plain", 12),))
    answered = responses_to(bank, 40, missing=0.1).answered()
    shares = answered.table().set_index("respondent_id") * 0.4 + 0.3  # .7 is right
    long_or_wide(shares, form, "response").to_csv(tmp_path / "shares.csv", index=False)
    with pytest.raises(InputError, match=r"expected 1, 0 or missing but got 0\.[37]"):
        score_file(bank, tmp_path / "shares.csv", tmp_path / "t.csv", content="responses")
    score_file(bank, tmp_path / "shares.csv", tmp_path / "t.csv", columns=ColumnChoice(threshold=0.5))
    by_parts = pd.read_csv(tmp_path / "t.csv").set_index("respondent_id")["theta"]
    at_once = score_responses(bank, answered).set_index("respondent_id")["theta"]
    np.testing.assert_allclose(by_parts[at_once.index], at_once, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("who,plain0,plain1\na,1,0\nb,2,0\n", "row 2, column plain0: expected 1, 0 or missing but got 2"),
        ("who,plain0,plain1\na,1,0\nb,1,x1\n", "row 2, column plain1: expected 1, 0 or missing but it holds 'x1'"),
        ("who,plain0,plain1\na,1,0\nb,1\n", "row 2 .line 3.: expected 3 fields but got 2"),
        ("who,plain0,plain1\na,1,0\na,1,1\n", "respondent a comes twice"),
        ("who,other\na,1\n", "items unknown to the bank: other"),
        ("respondent_id,item_id,response\na,plain0,1\na,plain1,7\n", "row 2, column response"),
        ("respondent_id,item_id,response\na,plain0,1\na,,1\n", "row 2, column item_id: expected a name"),
        ("respondent_id,item_id,response\na,plain0,1\n,plain1,1\n", "row 2, column respondent_id: expected a name"),
        ("respondent_id,item_id,response\na,plain0,1\nb,plain0,1\na,plain0,0\n", "a and item plain0 come twice"),
        ("respondent_id,item_id,answer\na,plain0,1\na,plain1,0\n", "no key for item plain0"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_bad_input_is_named(bank: ItemBank, tmp_path: Path, text: str, message: str, suffix: str) -> None:
    """By tables read block by block as `fit` has them: of each kind of fault one, in either kind of file."""
    (tmp_path / "r.csv").write_text(text)
    if suffix == "parquet" and "fields" not in message:  # a Parquet table has the same columns in each row
        pd.read_csv(tmp_path / "r.csv").to_parquet(tmp_path / "r.parquet", index=False)
        (tmp_path / "r.csv").unlink()
    (source,) = tmp_path.iterdir()
    with pytest.raises(InputError, match=message):
        score_file(bank, source, tmp_path / "s.csv")
