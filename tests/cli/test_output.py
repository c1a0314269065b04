"""Tables as files: large ones are written by another way, and to the same bytes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench.cli import output
from irtbench.cli.output import Shown, tell, write_many_rows, write_table


def table_of(n: int, texts: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, n)
    numbers[:8] = [0.0, -0.0, 1.0, np.nan, 1e-5, 123456789012345680.0, np.inf, 5e-324]
    return pd.DataFrame(
        {
            "name": [texts[k % len(texts)] for k in range(n)],
            "number": numbers,
            "n": rng.integers(-9, 9, n),
            "whole": rng.integers(0, 3, n).astype(np.float64),
        }
    )


@pytest.mark.parametrize("texts", [["a", "", "é b", "'=1+1"], ["a", "b,c"], ['say "so"', "x"], ["a\nb", "c"]])
def test_many_rows_are_written_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    table = table_of(200, texts)
    write_table(table, tmp_path / "few.csv")
    monkeypatch.setattr(output, "MANY_ROWS", 1)
    write_table(table, tmp_path / "many.csv")
    assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "few.csv").read_bytes()


def test_which_tables_go_the_short_way(tmp_path: Path) -> None:
    plain = table_of(20, ["a", ""])
    assert write_many_rows(plain, tmp_path / "t.csv")
    assert not write_many_rows(plain.assign(flag=True), tmp_path / "t.csv")
    assert not write_many_rows(plain.assign(n=plain["n"].astype("Int64")), tmp_path / "t.csv")
    assert not write_many_rows(plain.assign(mixed=[1, "a"] * 10), tmp_path / "t.csv")
    assert not write_many_rows(plain[["name"]], tmp_path / "t.csv")
    assert not write_many_rows(plain.rename(columns={"n": "n,m"}), tmp_path / "t.csv")


def test_of_a_long_table_the_ends_are_shown_and_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"name": [f"row{k}" for k in range(1_500)]})
    tell([Shown(table)], Path("t.csv"))
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 50
    assert all(name in said for name in ("row0 ", "row26 ", "row1487 ", "row1499 "))
    assert "row27 " not in said
    assert "the first 27 and the last 13 of 1,500 rows; all are in t.csv" in said
    tell([Shown(table.head(40))], None)
    assert "all are in" not in capsys.readouterr().out
