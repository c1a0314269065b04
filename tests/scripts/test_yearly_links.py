"""scripts/yearly_links.py runs at a tiny size, and its columns say what they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_two_short_chains() -> None:
    sizes = ["--chains", "2", "--years", "2", "--people", "200", "--items", "12", "--common", "6", "--scored", "20"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "yearly_links.py"), *sizes],
        capture_output=True, text=True, check=True, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    names, _, first, second = done.stdout.splitlines()
    columns = names.split()
    assert columns[:4] == ["bias_a", "sd_a", "se_a", "alone_a"]
    of_year = [dict(zip(columns, map(float, line.split()[1:]), strict=True)) for line in (first, second)]
    assert of_year[0]["se_b"] == of_year[0]["alone_b"]  # one link is no chain
    assert of_year[1]["se_b"] < of_year[1]["alone_b"]  # of two, the crowd between cancels
    assert 0.7 < of_year[1]["scores_with"] <= 1
