"""Item parameters to a table, in our columns and those of R mirt and catR, and back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run
from builders.refusals import is_refused
from builders.simulated import simulated
from irtbench import ItemParameters, parameter_table, read_parameters
from irtbench.models.parameter_table import Program, read_model_names

MIXED = ItemParameters.from_difficulty(
    [1.0, 1.2, 0.8], [-0.5, 0.0, 0.5], [0.0, 0.2, 0.25], guessing_estimated=[False, False, True]
)


def test_guessing_is_estimated_where_the_table_says_3pl_and_nowhere_else(tmp_path: Path) -> None:
    parameter_table(MIXED, simulated(50, 3, seed=1)[0]).to_csv(tmp_path / "items.csv", index=False)
    found = read_parameters(tmp_path / "items.csv")
    assert found.model == ("2pl", "2pl_fixed_guessing", "3pl")
    assert found.guessing_estimated.tolist() == [False, False, True]
    for name in ("discrimination", "intercept", "guessing"):
        np.testing.assert_array_equal(getattr(found, name), getattr(MIXED, name))


def test_what_is_no_model_or_parameter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item_id,model\ni1,2pl\ni2,zzz\ni3,aaa\n")
    is_refused(r"row 2 \(line 3\), column model: expected one of .* but got 'zzz'", read_model_names, path)
    path.write_text("item_id,discrimination,intercept,guessing\none,1.5,-0.5,1\n")
    is_refused(r"items\.csv: item parameters: guessing must be in \[0, 1\) .* one", read_parameters, path)
    path.write_text("item_id,discrimination\none,1.5\n")
    is_refused("intercept", read_parameters, path)


ITEMS = irtbench.ItemParameters.from_difficulty([1.0, -0.5, 2.0], [-1.0, 0.25, 1.5], [0.0, 0.2, 0.25])


@pytest.mark.parametrize("program", ["mirt", "catr"])
@pytest.mark.parametrize("names", ["item_id", "item", ""])
def test_what_is_written_is_read(tmp_path: Path, program: Program, names: str) -> None:
    table = irtbench.parameter_columns(ITEMS, program).rename(columns={"item_id": names})
    table.to_csv(tmp_path / "items.csv", index=False)
    found = irtbench.read_parameters(tmp_path / "items.csv")
    assert found.item_ids == ITEMS.item_ids
    for name in ("discrimination", "intercept", "guessing"):
        np.testing.assert_allclose(getattr(found, name), getattr(ITEMS, name), rtol=1e-15)
    assert irtbench.read_bank(tmp_path / "items.csv").scales[0].items.item_ids == ITEMS.item_ids


def test_the_letters_mean_what_they_mean_there() -> None:
    mirt, catr = (irtbench.parameter_columns(ITEMS, program).iloc[2] for program in ("mirt", "catr"))
    assert (mirt["a1"], mirt["d"], mirt["g"], mirt["u"]) == (2.0, -3.0, 0.25, 1.0)
    assert (catr["a"], catr["b"], catr["c"], catr["d"]) == (2.0, 1.5, 0.25, 1.0)


def test_upper_asymptotes_go_there_and_back(tmp_path: Path) -> None:
    four = replace(ITEMS, upper_asymptote=np.array([1.0, 0.9, 0.95]))
    irtbench.parameter_columns(four, "mirt").to_csv(tmp_path / "items.csv", index=False)
    found = irtbench.read_parameters(tmp_path / "items.csv", upper_asymptotes=True)
    assert found.upper_asymptote.tolist() == [1.0, 0.9, 0.95]


@pytest.mark.parametrize(
    "columns", [{"item": ["i1"], "a": [2.0], "b": [0.5]}, {"item_id": ["i1"], "discrimination": 2, "intercept": -1}]
)
def test_two_columns_are_enough(tmp_path: Path, columns: dict[str, Any]) -> None:
    pd.DataFrame(columns).to_csv(tmp_path / "items.csv", index=False)
    found = irtbench.read_parameters(tmp_path / "items.csv")
    assert (found.discrimination[0], found.intercept[0], found.guessing[0]) == (2.0, -1.0, 0.0)
    assert not found.guessing_estimated.any()


@pytest.mark.parametrize(
    ("columns", "saying"),
    [
        ({"item": ["x"], "a1": [1], "d": [0], "g": [0], "u": [0.9]}, "upper asymptote"),
        ({"item": ["x"], "a1": [1], "a2": [1], "d": [0]}, "several abilities"),
        ({"a": [1], "b": [0]}, "no column of the items' names"),
        ({"item": ["x"], "a": ["one"], "b": [0]}, "column a: expected a number but got 'one'"),
    ],
)
def test_what_is_no_item_of_one_ability_is_named(tmp_path: Path, columns: dict[str, list], saying: str) -> None:
    pd.DataFrame(columns).to_csv(tmp_path / "items.csv", index=False)
    is_refused(saying, irtbench.read_parameters, tmp_path / "items.csv")


def test_a_flat_item_has_no_difficulty() -> None:
    flat = irtbench.as_parameters(
        pd.DataFrame({"item_id": ["item1", "item2"], "discrimination": [1, 0], "intercept": 0})
    )
    is_refused("slope 0 of item2", irtbench.parameter_columns, flat, "catr")
    assert irtbench.parameter_columns(flat, "mirt")["a1"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("program", "columns"), [("mirt", "a1 d g u"), ("catr", "a b c d")])
def test_the_command_writes_what_is_asked_for(tmp_path: Path, program: str, columns: str) -> None:
    ITEMS.table().to_csv(tmp_path / "items.csv", index=False)
    run(f"items show {tmp_path}/items.csv -o {tmp_path}/out --export {program} -q")
    assert list(pd.read_csv(tmp_path / "out" / f"items_{program}.csv")) == ["item_id", *columns.split(), "scale"]
    refused(
        f"items show {tmp_path}/items.csv --export {program}", saying="--export: expected a folder for them, -o DIR"
    )
