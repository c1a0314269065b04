"""``irtbench evaluate power`` as a user meets it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from builders.command_line import refused, run


def test_it_writes_a_table_a_json_and_a_figure_for_each_size(tmp_path: Path) -> None:
    found = run(f"evaluate power -n 100 -n 273 --hurt 0 --hurt 0.02 -o {tmp_path}/out --json").json
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["power.csv", "power.json", "power_100.svg", "power_273.svg"]
    assert json.loads((tmp_path / "out" / "power.json").read_text()) == found
    table = pd.read_csv(tmp_path / "out" / "power.csv")
    assert list(table) == ["n_items", "hurt", "effect", "p"]
    row = table.query("n_items == 100 and hurt == 0 and effect == 0.02").iloc[0]
    assert row["p"] == pytest.approx(0.98**100)
    luck = found["guessers"][1]
    assert (round(luck["one"], 3), round(luck["best"], 3)) == (0.045, 0.369)
    assert "100 items" in (tmp_path / "out" / "power_100.svg").read_text()


def test_a_wanted_effect_gives_power_and_the_size_needed() -> None:
    found = run("evaluate power -n 500 --hurt 0.05 --effect 0.02 --json").json
    needed = found["size_needed"][0]
    assert needed["n_expected"] < needed["n_powered"]
    assert 0 < found["power"][0]["power"] < 0.8  # 500 items are too few
    assert needed["n_powered"] > 500


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (["--alpha", "2"], "--alpha"),
        (["--hurt", "0.6"], "at most 1"),
        (["-n", "0"], "at least one item"),
        (["--effect", "-1"], "above 0"),
        (["--threshold", "3"], "threshold"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(tmp_path: Path, arguments: list[str], saying: str) -> None:
    refused("evaluate power", *arguments, "-o", tmp_path / "out", saying=saying)
    assert not (tmp_path / "out").exists()
