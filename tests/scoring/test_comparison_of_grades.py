"""Systems that were graded, compared: intervals of the difference in ability cover, items' error carried."""

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.estimation.fit_categories import fit_categories
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.scoring.ability_comparison import compare_abilities
from irtbench.scoring.item_error import draw_items


def items_of(rng: np.random.Generator, n: int = 24) -> CategoryParameters:
    """Graded, partial credit and 2PL by turns."""
    models = [(Graded(), PartialCredit(), Logistic())[j % 3] for j in range(n)]
    b = np.sort(rng.normal(0, 0.7, (n, 1)) + rng.normal(0, 0.9, (n, 3)), axis=1)
    table = pd.DataFrame(b, columns=["step_1", "step_2", "step_3"]).assign(
        item_id=[f"g{j:02d}" for j in range(n)], discrimination=rng.uniform(0.7, 1.8, n), difficulty=b[:, 1],
        n_categories=[2 if isinstance(model, Logistic) else 4 for model in models],
    )  # fmt: skip
    return CategoryParameters.from_table(table, models)


def test_draws_of_items_have_the_covariance_of_the_estimates_and_steps_that_rise() -> None:
    rng = np.random.default_rng(1)
    truth = items_of(rng, 6)
    models = dict(zip(truth.item_ids, truth.models, strict=True))
    known = fit_categories(truth.simulate(rng.normal(size=250), rng=rng), models).items
    drawn = draw_items(known.as_items(), 800, rng=rng)
    values = np.stack([each.categories.parameters for each in drawn])
    np.testing.assert_allclose(values.mean(axis=0), known.parameters, atol=0.06)
    assert known.covariance is not None
    for j in range(6):
        n = len(known.names[j])
        np.testing.assert_allclose(np.cov(values[:, j, :n].T), known.covariance[j, :n, :n], atol=0.02, rtol=0.25)
    assert (np.diff(values[:, 0, 1:4], axis=1) < 0).all()


@pytest.mark.parametrize(("n", "least"), [(1, 0.85), pytest.param(8, 0.9, marks=pytest.mark.slow)])
def test_intervals_of_differences_cover(n: int, least: float) -> None:
    covered, wider = [], []
    for seed in range(n):
        rng = np.random.default_rng(10 + seed)
        truth = items_of(rng)
        models = dict(zip(truth.item_ids, truth.models, strict=True))
        items = fit_categories(truth.simulate(rng.normal(size=200), rng=rng), models).items.as_items()
        scale = Scale("all", items, ItemTable.plain(items.item_ids))
        theta = rng.normal(size=8)
        scores = truth.simulate(theta, rng=rng)
        found = compare_abilities(scale, scores, rng=rng, n_item_draws=50).pairs()
        known = compare_abilities(scale, scores, rng=rng, n_item_draws=0).pairs()
        first, second = np.triu_indices(8, 1)
        between = theta[first] - theta[second]
        covered += ((found["theta_lower"] <= between) & (between <= found["theta_upper"])).tolist()
        wider.append(
            ((found["theta_upper"] - found["theta_lower"]) / (known["theta_upper"] - known["theta_lower"])).mean()
        )
    assert least < np.mean(covered) < (0.99 if n > 1 else 1.01)
    assert np.mean(wider) > 1.01


def test_the_command_compares_shares_of_points_with_a_bank_and_without(tmp_path) -> None:
    rng = np.random.default_rng(3)
    truth = items_of(rng, 20).select([f"g{j:02d}" for j in range(20) if j % 3 < 2])
    scores = truth.simulate(np.r_[rng.normal(size=300), 1.0, -0.5], rng=rng)
    scores.index = [*(f"r{k}" for k in range(300)), "large", "small"]
    long = (
        scores.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id", value_name="score")
    )
    long.to_csv(tmp_path / "all.csv", index=False)
    two = long[long["respondent_id"].isin(["large", "small"])]
    two.to_csv(tmp_path / "two.csv", index=False)
    words = dict(enumerate(["bad", "poor", "fair", "good"]))
    two.assign(score=two["score"].map(words)).to_csv(tmp_path / "words.csv", index=False)
    run(f"fit {tmp_path}/all.csv --model gpcm -o {tmp_path}/fit -q")
    tables = []
    for name, options in (
        ("two", ["--levels", "0,1,2,3"]), ("words", ["--levels", "bad,poor,fair,good"]),
        ("two", ["--bank", tmp_path / "fit/bank.json"]),
    ):  # fmt: skip
        run(f"compare {tmp_path}/{name}.csv -o {tmp_path}/out", *options)
        tables.append(pd.read_csv(tmp_path / "out/comparison.csv"))
    share = scores.loc["large"].mean() / 3
    for table in tables:
        np.testing.assert_allclose(table["accuracy_first"], share)
        assert table["accuracy_p"][0] < 0.05
    assert tables[2]["theta_difference"][0] > 0.5
    refused = run(f"compare {tmp_path}/words.csv -o {tmp_path}/x --levels poor,fair,good", status=None)
    assert (refused.status, len(refused.lines)) == (2, 1)
