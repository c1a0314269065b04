"""The bank's file: what is written reads back to the same, and anything else is refused in one line."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench import ItemParameters, ItemTable, Norms, Quadrature, Scale, normal_grid
from irtbench.bank.bank import ItemBank, load_bank, read_bank, save_bank
from irtbench.bank.schema import BankDocument


def small_scale(name: str = "neutral") -> Scale:
    ids, covariance = ("n01", "n02"), [[[0.04, 0.01, 0], [0.01, 0.09, 0], [0, 0, 0]], [[np.nan] * 3] * 3]
    items = ItemParameters(ids, [1.25, -0.1], [0.5, 1 / 3], [0.0, 0.2], [False, True], np.array(covariance))
    text = ('A "man" sleeps.\nA man dreams. – é', None)
    details = ItemTable(ids, ("neutral", None), ("neutral", "neutral"), (None, "twin1"), text, (False, False))
    return Scale(name, items, details, Norms(np.array([-0.5, 0.12345678])), None, {"seed": 7, "rules": {"h2": 0.15}})


@pytest.fixture
def bank() -> ItemBank:
    other = replace(small_scale("entailment"), norms=None, population=normal_grid(5, bound=2.0))
    return ItemBank((small_scale(), other))


@pytest.fixture
def path(bank: ItemBank, tmp_path: Path) -> Path:
    """The bank's file."""
    save_bank(bank, tmp_path / "bank.json")
    return tmp_path / "bank.json"


finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(min_size=1, max_size=8)
perhaps_text = st.none() | st.text(max_size=20)
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def scales(draw: st.DrawFn, name: str) -> Scale:
    ids = tuple(draw(st.lists(names, min_size=1, max_size=4, unique=True)))
    n = len(ids)

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(values, min_size=n, max_size=n))

    def numbers(low: float, high: float, **more: Any) -> Any:
        return np.array(column(st.floats(low, high, **more)))

    factor = np.array(column(st.lists(st.floats(-5, 5), min_size=9, max_size=9))).reshape(n, 3, 3)
    covariance = factor + factor.transpose(0, 2, 1)
    covariance[np.array(column(st.booleans())) & (np.arange(n) > 0)] = np.nan
    parameters = numbers(-100, 100), numbers(-50, 50), numbers(0, 1, exclude_max=True), np.array(column(st.booleans()))
    items = ItemParameters(ids, *parameters, draw(st.sampled_from([None, covariance])))
    details = ItemTable(ids, *(tuple(column(perhaps_text)) for _ in range(4)), (False,) * n)  # type: ignore[call-arg]
    norms, population = None, None
    if thetas := draw(st.none() | st.lists(st.floats(-6, 6), min_size=1, max_size=5)):
        norms = Norms(np.array(thetas), np.linspace(0.1, 2, len(thetas)) if draw(st.booleans()) else None)
    if log_weights := draw(st.none() | st.lists(st.floats(-700, 0), min_size=3, max_size=5)):
        mass = np.array([*log_weights[:-1], -np.inf])
        population = Quadrature(np.linspace(-3, 3, len(mass)), mass - np.logaddexp.reduce(mass))
    provenance = draw(st.dictionaries(st.text(max_size=5), plain_json, max_size=3))
    return Scale(name, items, details, norms, population, provenance)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_bank_reads_back_to_the_last_bit(tmp_path: Path, data: st.DataObject) -> None:
    scale_names = data.draw(st.lists(names, min_size=1, max_size=2, unique=True))
    bank = ItemBank(tuple(data.draw(scales(name)) for name in scale_names))
    path = tmp_path / "bank.json"
    save_bank(bank, path)
    read = load_bank(path)
    np.testing.assert_equal(asdict(read), asdict(bank))  # NaN equal to NaN
    assert read.content_hash == bank.content_hash
    written = path.read_bytes()
    save_bank(read, path)
    assert path.read_bytes() == written


def test_the_file_is_made_for_git(bank: ItemBank, path: Path, tmp_path: Path) -> None:
    changed, first = tmp_path / "changed.json", bank.scales[0]
    items = replace(first.items, discrimination=np.array([1.25, 0.3]))
    save_bank(ItemBank((replace(first, items=items), bank.scales[1])), changed)
    before, after = path.read_text().splitlines(), changed.read_text().splitlines()
    different = [k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert len(different) == 2  # the hash, and the item
    assert "content_hash" in before[different[0]]
    assert json.loads(after[different[1]].strip().rstrip(","))["discrimination"] == 0.3


def test_the_schema_version_is_the_lowest_that_holds_the_bank(bank: ItemBank, path: Path) -> None:
    assert bank.schema_version == 1
    norms = json.loads(path.read_text())["scales"][0]["norms"]
    assert set(norms) == {"n", "theta", "weights"}
    newer = Norms(np.array([-0.5, 0.1]), None, np.array([0.25, 0.375]), {"language": ("en", None)})
    save_bank(ItemBank((replace(bank.scales[0], norms=newer), bank.scales[1])), path)
    assert json.loads(path.read_text())["schema_version"] == 2
    read = load_bank(path).scales[0].norms
    assert read.standard_error.tolist() == [0.25, 0.375]
    assert read.groups == {"language": ("en", None)}


Change = Callable[[dict[str, Any]], object]


def assert_refused(path: Path, message: str) -> None:
    is_refused(f"^{re.escape(f'bank {path}: ')}.*{re.escape(message)}", load_bank, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema_version=7), "has schema_version 7, this irtbench reads up to 6: update irtbench"),
        (lambda d: d.update(schema_version=0), "schema_version: Input should be greater than or equal to 1"),
        (lambda d: d.pop("schema_version"), "not an item bank"),
        (lambda d: d.pop("content_hash"), "content_hash: Field required"),
        (lambda d: d.update(scales=[]), "scales: List should have at least 1 item"),
        (lambda d: d["scales"][0].update(items=[]), "scales[0].items: List should have at least 1 item"),
        (lambda d: d["scales"][1].pop("norms"), "scales[1].norms: Field required"),
        (lambda d: d["scales"][0]["items"][1].pop("intercept"), "scales[0].items[1].intercept: Field required"),
        (lambda d: d["scales"][0]["items"][1].update(intercept="2"), "scales[0].items[1].intercept: Input should be"),
        (lambda d: d["scales"][0]["items"][1].update(intercept=10**400), "scales[0].items[1].intercept: Input"),
        (lambda d: d["scales"][0]["items"][0].update(covariance=[1.0]), "scales[0].items[0].covariance: List should"),
        (lambda d: d["scales"][0]["items"][0].update(note="x"), "scales[0].items[0].note: Extra inputs"),
        (lambda d: d["scales"][0]["population"].update(kind="gamma"), "scales[0].population: Input tag 'gamma'"),
        (
            lambda d: d["scales"][1]["population"]["nodes"].append(1e300),
            "scales[1].population.grid.nodes[5]: Input should be less than or equal to 100",
        ),
        (lambda d: d["scales"][0]["items"][0].update(discrimination=9.0), "its content does not fit its hash: edited"),
        (lambda d: d["scales"][0]["provenance"].update(seed=8), "its content does not fit its hash: edited by hand?"),
    ],
)
def test_a_changed_file_is_refused(path: Path, change: Change, message: str) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    assert_refused(path, message)


def population(nodes: list[float], log_weights: list[float | None]) -> Change:
    return lambda s: s.update(population={"kind": "grid", "nodes": nodes, "log_weights": log_weights})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["items"][1].update(item_id="n01"), "item_id must be unique but n01 is repeated"),
        (lambda s: s["items"][1].update(guessing=1.0), "guessing must be in [0, 1) but is not for n02"),
        (lambda s: s["norms"].update(n=3), "norms state n 3 for 2 values of theta"),
        (lambda s: s["norms"].update(theta=[], n=0), "at least one finite number"),
        (lambda s: s["norms"].update(weights=[1.0, -1.0]), "weights must be positive"),
        (population([0.0, 1.0, 1.0], [0.0] * 3), "population needs increasing nodes"),
        (population([0.0, 1.0, 2.0], [None] * 3), "population needs increasing nodes"),
        (population([0.0, 1.0, 2.0], [0.0] * 3), "population.log_weights: expected weights whose sum is 1"),
        (lambda s: s["items"][1].update(discrimination=1e300), "item n02: discrimination 1e+300; expected at most 100"),
        (lambda s: s["items"][0].update(intercept=-1e308), "item n01: intercept -1e+308; expected at most 62.5"),
        (lambda s: s["items"][1].update(intercept=51.0), "item n02: intercept 51; expected at most 50"),
        (lambda s: s["items"][0].update(covariance=[1e300] + [0.0] * 5), "item n01: a covariance 1e+300"),
        (lambda s: s["norms"].update(theta=[0.0, 1e300]), "each of at most 1000 in size"),
        (lambda s: s["norms"].update(weights=[1.0, 1e300]), "of at most 1e+12"),
        (lambda s: s["norms"].update(standard_error=[1.0, 1e300]), "of at most 1000"),
    ],
)
def test_contradictions_and_numbers_that_no_scale_has_are_refused_even_with_a_good_hash(
    path: Path, change: Change, message: str
) -> None:
    document = json.loads(path.read_text())
    change(document["scales"][0])
    del document["content_hash"]
    path.write_text(BankDocument.model_validate(document).to_text())
    assert_refused(path, message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1.25", "NaN", "not JSON: NaN is not a finite number"),
        ("1.25", "-Infinity", "not JSON: -Infinity is not a finite number"),
        ("1.25", "1e999", "not JSON: 1e999 is not a finite number"),
        ('"n01"', '"n\\ud8001"', "half a character in the text 'n\\ud8001'"),
        ("", "respondent_id,item_id,response\nr1,i1,1\n", "not JSON"),
        ("", "", "not JSON"),
        ("", "[1, 2]", "not an item bank"),
        ("", '"bank"', "not an item bank"),
        ("", '{"ability": [0.1], "diff": [1.0]}', "not an item bank"),
        ("", "PK\x03\x04\udcff\udcfe\x00", "not a text file"),
        ("", "[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_bank_is_refused(path: Path, old: str, new: str, message: str) -> None:
    """A part of the file replaced, or all of it."""
    text = path.read_text().replace(old, new) if old else new
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert_refused(path, message)


def test_a_truncated_file_is_refused_wherever_it_is_cut_and_one_that_is_not_there(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 37):
        path.write_bytes(whole[:length])
        is_refused("not JSON|not a text file", load_bank, path)
    assert_refused(path.with_name("none.json"), "cannot be read: No such file or directory")
    assert_refused(path.parent, "cannot be read: Is a directory")


def test_an_item_that_hardly_tells_people_apart_is_no_error(bank: ItemBank, path: Path) -> None:
    """Its difficulty is far off, its curve is not; a table of items has the same bounds as a bank."""
    scale = bank.scales[0]
    items = replace(scale.items, discrimination=np.array([1.25, 1e-6]), intercept=np.array([0.5, 2.0]))
    save_bank(ItemBank((replace(scale, items=items),)), path)
    assert load_bank(path).scales[0].items.difficulty[1] == -2e6
    table = path.with_name("items.csv")
    scale.items.table().assign(intercept=[0.0, 1e300]).to_csv(table, index=False)
    for read in (load_bank, read_bank):
        is_refused(r"items\.csv: item n02: intercept 1e\+300; expected at most 50 in size", read, table)


def test_a_failed_save_leaves_the_old_bank_and_nothing_beside_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        save_bank(ItemBank((small_scale("other"),)), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_scale_must_fit_together() -> None:
    scale = small_scale()
    none = {"items": scale.items.select([]), "details": scale.details.select([])}
    is_refused("same items in one order", replace, scale, details=scale.details.select(["n02", "n01"]))
    is_refused("attention check", replace, scale, details=replace(scale.details, attention=(True, False)))
    is_refused("at least one item", replace, scale, **none)
    is_refused("plain JSON", replace, scale, provenance={"p": float("nan")})
    is_refused("plain JSON", replace, scale, provenance={"where": Path("x")})


def test_a_table_of_coefficients_of_mirt_is_a_bank(tmp_path: Path) -> None:
    """As write.csv(coef(fit, simplify = TRUE)$items) writes it: names of rows under an empty name."""
    (tmp_path / "coef.csv").write_text('"","a1","d","g","u"\n"Item.1",0.83,2.77,0,1\n"Item.2",0.72,0.99,0.1,1\n')
    (scale,) = load_bank(tmp_path / "coef.csv").scales
    assert scale.items.item_ids == ("Item.1", "Item.2")
    assert scale.items.intercept.tolist() == [2.77, 0.99]
    assert scale.items.guessing.tolist() == [0.0, 0.1]


@pytest.mark.parametrize(
    ("provenance", "doubt"),
    [
        ({"converged": True, "doubts": []}, ""),
        ({"converged": False, "doubts": ["slopes"]}, "its fit did not converge"),
        ({"fit": {"converged": True, "doubts": ["no ability"]}}, "no ability"),
        ({"fit": "of another make", "doubts": 3}, ""),
        ({"doubts": 3}, ""),
    ],
)
def test_a_scale_in_doubt_is_named_when_it_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, provenance: dict[str, Any], doubt: str
) -> None:
    scale = replace(small_scale(), provenance=provenance)
    assert scale.doubt == doubt
    save_bank(ItemBank((scale,)), tmp_path / "bank.json")
    load_bank(tmp_path / "bank.json")
    said = [record.getMessage().partition(": ")[2] for record in caplog.records]
    assert said == [f"scale neutral is in doubt: {doubt}"] * bool(doubt)
