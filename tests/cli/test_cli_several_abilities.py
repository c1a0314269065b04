"""``irtbench fit`` with several abilities and with a posterior: what the tables say, and where they are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture(scope="module")
def responses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve items of two abilities, 300 respondents."""
    rng = np.random.default_rng(0)
    slopes = np.zeros((12, 2))
    slopes[:6, 0], slopes[6:, 1] = 1.5, 1.5
    p = 1 / (1 + np.exp(-(rng.normal(size=(300, 2)) @ slopes.T + rng.normal(0, 0.8, 12))))
    values = (rng.random(p.shape) < p).astype(int)
    rows = [(f"r{i}", f"q{j}", values[i, j]) for i in range(300) for j in range(12)]
    path = tmp_path_factory.mktemp("several") / "responses.csv"
    pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"]).to_csv(path, index=False)
    return path


def test_two_abilities_have_standard_errors_and_are_refused_where_one_is_expected(
    responses: Path, tmp_path: Path
) -> None:
    done = run(f"fit {responses} --factors 2 --output {tmp_path}/two")
    assert "standard errors: of intercepts and of slopes on principal axes" in done.out
    items = pd.read_csv(tmp_path / "two" / "items.csv")
    assert (items[["se_discrimination", "se_intercept", "se_slope_1", "se_slope_2"]] > 0).all().all()
    found = json.loads((tmp_path / "two" / "fit.json").read_text())
    assert found["integration_error"] < 1e-6
    assert found["quadrature"].startswith("lattice of")
    refused(
        f"items diagnose {responses} --items two/items.csv --output no",
        saying="column slope_2: items of several abilities; expected one ability",
        cwd=tmp_path,
    )
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
def test_items_with_a_posterior_end_with_quantiles(responses: Path, tmp_path: Path) -> None:
    run(f"fit {responses} --posterior normal --prior weak --output {tmp_path}/one")
    items = pd.read_csv(tmp_path / "one" / "items.csv")
    names = [
        f"{n}_{level}" for n in ("discrimination", "difficulty", "guessing") for level in ("lower", "median", "upper")
    ]
    assert list(items.columns[-9:]) == names
    assert (items["discrimination_lower"] < items["discrimination"]).all()
    assert (items["discrimination"] < items["discrimination_upper"]).all()
    # slopes have a longer tail above than below
    above = items["discrimination_upper"] - items["discrimination_median"]
    assert (above > items["discrimination_median"] - items["discrimination_lower"]).mean() > 0.9
    found = json.loads((tmp_path / "one" / "fit.json").read_text())
    assert found["posterior"]["sd_doubtful"] == []
