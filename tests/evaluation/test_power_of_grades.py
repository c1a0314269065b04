"""Power of a difference in mean score: as simulated, the size it says reaches it, and the command with a bank."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from builders.command_line import refused, run
from irtbench import CategoryParameters, InputError
from irtbench.evaluation.power import score_power
from irtbench.models.curves import share_moments
from irtbench.models.item_models.graded import Graded


def a_bank(n: int = 400) -> CategoryParameters:
    rng = np.random.default_rng(1)
    b = np.sort(rng.normal(0, 0.8, (n, 1)) + rng.normal(0, 0.9, (n, 4)), axis=1)
    table = pd.DataFrame(b, columns=[f"step_{k}" for k in range(1, 5)]).assign(
        item_id=[f"g{j}" for j in range(n)], discrimination=rng.uniform(0.6, 1.8, n), categories="1|2|3|4|5"
    )
    return CategoryParameters.from_table(table, [Graded()] * n)


def test_power_is_that_of_tests_of_simulated_systems() -> None:
    items, rng, n = a_bank(), np.random.default_rng(2), 50
    mean, within = share_moments([0.3, 0.0], items.as_items())
    apart = mean[0] - mean[1]
    said = score_power(n, float(apart.mean()), float(np.sqrt(apart.var() + within.sum(axis=0).mean())))
    found = []
    for _ in range(800):
        some = items.select([items.item_ids[k] for k in rng.integers(0, 400, n)])
        scores = some.draw([0.3, 0.0], rng=rng)
        found.append(ttest_rel(*scores, alternative="greater").pvalue <= 0.05)
    assert np.mean(found) == pytest.approx(said.power, abs=0.05)
    at_size = score_power(said.n_powered, said.difference, said.deviation)
    assert at_size.power >= 0.8 > score_power(said.n_powered - 1, said.difference, said.deviation).power


def test_what_cannot_be_is_refused_in_one_line() -> None:
    for change in ({"n": 0}, {"difference": 0.0}, {"alpha": 1.0}, {"difference": 1e-6}):
        with pytest.raises(InputError, match="power: "):
            score_power(**{"n": 10, "difference": 0.1, "deviation": 0.3} | change)


def test_the_command_tells_two_abilities_apart_by_graded_items(tmp_path) -> None:
    a_bank(60).table().to_csv(tmp_path / "items.csv", index=False)
    run(f"power --bank {tmp_path}/items.csv --theta 0.5 --against 0 -n 50 -n 200 -o {tmp_path}/out")
    rows = json.loads((tmp_path / "out/power.json").read_text())["systems_apart"]
    assert rows[0]["power"] < rows[1]["power"]
    assert pd.read_csv(tmp_path / "out/trials.csv")["se_theta"].notna().all()
    for options in ("--against 0", "--bank items.csv --against 1"):
        refused(f"power {options}", saying="", cwd=tmp_path)
