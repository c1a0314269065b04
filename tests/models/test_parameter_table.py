"""Item parameters to a table and back: what is read is what was fitted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders.simulated import simulated
from irtbench import InputError, ItemParameters, item_fit, parameter_table, read_parameters

MIXED = ItemParameters.from_difficulty(
    [1.0, 1.2, 0.8], [-0.5, 0.0, 0.5], [0.0, 0.2, 0.25], guessing_estimated=[False, False, True]
)


def written(items: ItemParameters, folder: Path) -> Path:
    responses = simulated(50, items.n_items, seed=1)[0]
    parameter_table(items, responses).to_csv(folder / "items.csv", index=False)
    return folder / "items.csv"


def test_guessing_is_estimated_where_the_table_says_3pl_and_nowhere_else(tmp_path: Path) -> None:
    path = written(MIXED, tmp_path)
    found = read_parameters(path)
    assert found.model == ("2pl", "2pl_fixed_guessing", "3pl")
    assert found.guessing_estimated.tolist() == [False, False, True]
    for name in ("discrimination", "intercept", "guessing"):
        np.testing.assert_array_equal(getattr(found, name), getattr(MIXED, name))


def test_an_estimated_guessing_costs_its_degree_of_freedom_after_reading_too(tmp_path: Path) -> None:
    responses, items, _ = simulated(800, 10, seed=2)
    path = tmp_path / "items.csv"
    held = replace(items, guessing=np.full(10, 0.1))
    df = {}
    for name, fitted in (("held", held), ("estimated", replace(held, guessing_estimated=np.ones(10, dtype=bool)))):
        parameter_table(fitted, responses).to_csv(path, index=False)
        df[name] = item_fit(responses, read_parameters(path)).df
        assert df[name].tolist() == item_fit(responses, fitted).df.tolist()
    assert (df["held"] - df["estimated"]).tolist() == [1] * 10


def test_without_model_and_guessing_all_are_two_parameter_items(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item_id,discrimination,intercept\none,1.5,-0.5\ntwo,-1,0\n")
    found = read_parameters(path)
    assert found.guessing.tolist() == [0.0, 0.0]
    assert not found.guessing_estimated.any()


def test_what_is_no_parameter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item_id,discrimination,intercept,guessing\none,1.5,-0.5,1\n")
    with pytest.raises(InputError, match=r"items\.csv: item parameters: guessing must be in \[0, 1\) .* one"):
        read_parameters(path)
    path.write_text("item_id,discrimination\none,1.5\n")
    with pytest.raises(InputError, match="intercept"):
        read_parameters(path)
