"""scripts/simulate_large.py: the same responses wide and long, in any order, for the same seed."""

import sys
from pathlib import Path

import pandas as pd
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import simulate_large  # noqa: E402


def written(folder: Path, *options: str) -> pd.DataFrame:
    simulate_large.main(["250", "6", "--part", "100", "--missing", "0.2", "-o", str(folder), *options])
    assert sorted(path.name for path in folder.iterdir()) == [f"part-0000{k}.parquet" for k in range(3)]
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())], ignore_index=True)


def test_wide_and_long_tables_hold_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = written(tmp_path / "wide").set_index("respondent_id")
    assert wide.shape == (250, 6)
    assert wide.index[[0, 249]].tolist() == ["r1", "r250"]
    assert 0.1 < wide.isna().mean().mean() < 0.3
    truth = pd.read_csv(tmp_path / "wide-truth.csv").set_index("item_id")
    assert (wide.mean().corr(truth["difficulty"])) < -0.9
    expected = wide.stack().dropna().astype(int)
    for order in ("respondent", "random"):
        long = written(tmp_path / order, "--layout", "long", "--order", order)
        found = long.set_index(["respondent_id", "item_id"])["response"]
        assert found.index.is_unique
        assert found.loc[expected.index].tolist() == expected.tolist()
        assert len(found) == len(expected)
    assert capsys.readouterr().out.count("250 respondents") == 3
    with pytest.raises(SystemExit):
        simulate_large.main(["0", "6", "-o", str(tmp_path / "x")])
    assert not (tmp_path / "x").exists()
