"""Where a system differs from people of its ability: by hand, and against the model's own people."""

import numpy as np
import pytest

from builders.scales import scale_of
from irtbench import ItemParameters, Quadrature, Scale, explain, icc, simulate_responses


def make_scale(n_items: int) -> Scale:
    return scale_of(ItemParameters.from_difficulty(np.full(n_items, 1.5), np.linspace(-2, 2, n_items)))


def test_two_abilities_and_two_items_by_hand() -> None:
    # People are able (P = .9 and .8) or not (P = .3 and .2), half each. Right on the first and wrong on the second:
    # item 1 given item 2 wrong: weights .2 and .8, (.2 x .9 + .8 x .3) = .42;
    # item 2 given item 1 right: weights .75 and .25, .75 x .8 + .25 x .2 = .65.
    # Both: weights .9 x .2 = .18 and .3 x .8 = .24, that is 3/7 and 4/7.
    nodes = np.array([-1.0, 0.0, 1.0])
    logit = np.log(np.array([[0.3 / 0.7, 0.2 / 0.8], [0.9 / 0.1, 0.8 / 0.2]]))
    a, d = (logit[1] - logit[0]) / 2, (logit[1] + logit[0]) / 2
    items = ItemParameters(("one", "two"), a, d, np.zeros(2), np.zeros(2, dtype=bool))
    # the middle has no mass, and the nodes lie so close together for slopes of 1.4 that no finer ones are wanted
    population = Quadrature(nodes, np.log([0.5, 1e-300, 0.5]))
    found = explain(scale_of(items, population=population), np.array([[1.0, 0.0]]), n_levels=1)
    assert found.items["expected"].tolist() == pytest.approx([0.42, 0.65], abs=1e-6)
    row = found.difficulty.iloc[0]
    # expected accuracy: 4/7 x .25 + 3/7 x .85; variance of the sum: E(sum PQ) + Var(sum P)
    assert row["expected"] == pytest.approx(4 / 7 * 0.25 + 3 / 7 * 0.85)
    noise = 4 / 7 * (0.21 + 0.16) + 3 / 7 * (0.09 + 0.16)
    between = 4 / 7 * 3 / 7 * 1.2**2
    assert row["z"] == pytest.approx((0.5 - row["expected"]) / (np.sqrt(noise + between) / 2))


def test_planted_surprises_are_found_first() -> None:
    # a person of theta 1 on 40 items who misses the easiest and gets the hardest
    scale = make_scale(40)
    values = (icc([0.0], scale.items)[0] > 0.5).astype(float)
    values[0], values[39] = 0.0, 1.0
    found = explain(scale, values[None]).surprises()
    first = dict(found[["item_id", "surprise"]].head(2).to_numpy().tolist())
    assert first == {"item1": "missed", "item40": "right"}
    assert (found["chance"].diff().dropna() >= 0).all()


def test_the_models_own_people_are_as_expected() -> None:
    # chance of a surprise is below its limit by definition; z of the levels about standard normal
    scale = make_scale(50)
    rng = np.random.default_rng(5)
    responses = simulate_responses(rng.normal(size=400), scale.items, rng=rng, missing=0.1)
    found = explain(scale, responses, surprising_below=0.1)
    expected = found.items["expected"].to_numpy()
    given = np.where(found.items["response"] == 1, expected, 1 - expected)
    # P(surprise) = E(P 1{P < .1} + Q 1{Q < .1}); sd of the share over 18,000 responses about .0015
    wanted = np.mean(np.where(expected < 0.1, expected, 0) + np.where(expected > 0.9, 1 - expected, 0))
    assert (given < 0.1).mean() == pytest.approx(wanted, abs=0.006)
    assert (found.items["surprise"] != "").mean() == (given < 0.1).mean()
    shown = found.surprises()  # the chance is that of the response given
    assert shown["chance"].between(0, 0.1).all()
    np.testing.assert_allclose(np.sort(shown["chance"]), np.sort(given[given < 0.1]))
    # items are calibrated: mean response equals mean expected
    assert found.items["response"].mean() == pytest.approx(expected.mean(), abs=0.012)
    levels = found.difficulty
    inside = (levels["observed"] >= levels["expected_lower"]) & (levels["observed"] <= levels["expected_upper"])
    assert inside.mean() > 0.93
    # 1.96 standard deviations on either side, one of which z has; cut at 0 and 1
    sd = (levels["observed"] - levels["expected"]) / levels["z"]
    for side, column in ((-1, "expected_lower"), (1, "expected_upper")):
        np.testing.assert_allclose(levels[column], (levels["expected"] + side * 1.96 * sd).clip(0, 1), atol=1e-9)
    assert levels.groupby("level")["n_items"].sum().to_numpy() == pytest.approx(400 * 9, abs=80)
