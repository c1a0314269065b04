"""Power and set sizes: exact sums, other programs, simulation; of right and wrong, and of grades."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, ttest_rel

from builders.command_line import run
from builders.refusals import is_refused
from builders.scales import grades
from irtbench import CategoryParameters, paired_bootstrap
from irtbench.evaluation.power import expected_p, expected_p_table, guessers_luck, power, score_power, size_needed
from irtbench.models.curves import share_moments
from irtbench.models.item_models.graded import Graded


def p_of(n, helped, hurt):
    first, second = np.zeros(n), np.zeros(n)
    first[:helped] = 1
    second[helped : helped + hurt] = 1
    return paired_bootstrap(first, second, alternative="greater").p


def test_what_the_post_prints(reference: Path):
    """Of p it prints in words: about .13, and what begins to exceed .05; its plots are images."""
    printed = pd.read_csv(reference / "papers" / "jansen_printed_numbers.csv").set_index("what")["value"]
    about = printed['effect 2%, 0 hurt: expected p "approximately"']
    assert expected_p(100, 0.02, 0.0) == pytest.approx(about, abs=0.005)
    assert expected_p(100, 0.05, 0.01) < printed['effect 5%, 2% hurt (7 helped, 2 hurt): p "begins to exceed"']
    assert expected_p(100, 0.05, 0.02) > printed['effect 5%, 2% hurt (7 helped, 2 hurt): p "begins to exceed"']
    toy = pd.read_csv(reference / "papers" / "jansen_toy_10_questions.csv")
    exact = paired_bootstrap(toy["experimental"], toy["baseline"], alternative="greater").p
    # its 10,000 resamples have a standard error of .005
    assert printed["toy data: p of 10,000 resamples (Monte Carlo)"] == pytest.approx(exact, abs=0.015)


def test_the_grid_that_the_posts_code_computes(reference: Path):
    """Items hurt from 0 to 19%, six effects, four sizes, by exact sums instead of resamples."""
    grid = pd.read_csv(reference / "papers" / "jansen_grid_of_the_code_exact_p.csv")
    assert sorted(set(grid["hurt_percent"])) == list(range(20))
    for row in grid.itertuples():
        n_items, gain = int(row.n_items), int(row.helped) - int(row.hurt)
        found: float = expected_p(n_items, gain / n_items, int(row.hurt) / n_items) if gain else p_of(
            row.n_items, row.helped, row.hurt
        )  # fmt: skip
        assert found == pytest.approx(row.exact_p, abs=1.5e-6), row


def test_a_table_leaves_out_what_adds_up_to_more_than_all_items():
    # hurt .4 and helped .4 + .3 are 1.1 of the items; .4 and .4 + .2 are all of them
    found = expected_p_table(effects=[0.2, 0.3], hurt=[0.4], sizes=[20])
    assert found["effect"].tolist() == [0.2]


@pytest.mark.parametrize(("n", "effect", "hurt", "alpha"), [(40, 0.2, 0.05, 0.01), (25, 0.2, 0.0, 0.1)])
def test_power_is_the_share_of_all_possible_sets_that_are_significant(n, effect, hurt, alpha):
    """Every count of items helped and hurt with its trinomial chance, and its own bootstrap p."""
    expected = 0.0
    for worse in range(n + 1):
        for better in range(n - worse + 1):
            chance = binom.pmf(worse, n, hurt) * binom.pmf(better, n - worse, (hurt + effect) / (1 - hurt))
            if chance > 1e-9 and better > 0 and p_of(n, better, worse) <= alpha:
                expected += chance
    assert power(n, effect, hurt, alpha=alpha) == pytest.approx(expected, abs=1e-6)


def test_power_of_a_large_set_needs_few_counts_worked_out(monkeypatch):
    # 20% decided one way and 18.5% the other: 300 counts are likely, of which 33 are worked out
    few = power(3_000, 0.015, 0.185)
    monkeypatch.setattr("irtbench.evaluation.power.N_COUNTS", 10_000)
    assert few == pytest.approx(power(3_000, 0.015, 0.185), abs=3e-4)


def test_a_set_that_turns_out_as_expected_with_p_of_alpha_has_half_the_power():
    needed = size_needed(0.02, 0.05)
    assert expected_p(needed.n_expected, 0.02, 0.05) <= 0.05 < expected_p(needed.n_expected - 1, 0.02, 0.05)
    assert power(needed.n_expected, 0.02, 0.05) == pytest.approx(0.5, abs=0.03)


@given(effect=st.floats(0.1, 0.2), hurt=st.floats(0, 0.2), wanted=st.floats(0.55, 0.95))
@example(effect=0.125, hurt=5e-324, wanted=0.75)
@settings(max_examples=4)
def test_the_size_needed_reaches_the_power_and_its_predecessor_does_not(effect, hurt, wanted):
    n = size_needed(effect, hurt, wanted_power=wanted).n_powered
    assert power(n, effect, hurt) >= wanted
    assert n == 1 or power(n - 1, effect, hurt) < wanted


@pytest.mark.parametrize(("effect", "hurt"), [(0.9, 0.05), (0.2, 0.4), (0.4, 0.3)])
def test_power_is_known_where_every_item_is_helped_or_hurt(effect, hurt):
    # .05 + .9 is more than 1 - .05 by rounding
    assert power(50, effect, hurt) == pytest.approx(power(50, effect - 1e-9, hurt), abs=1e-6)


def test_the_luck_of_the_best_of_ten_guessers():
    # METHODS 9: P(X > 150 of 273) = .045, the best of 10: .369
    luck = guessers_luck(273, 0.55, n_guessers=10)
    assert luck.n_correct == 151
    assert luck.one == pytest.approx(binom.sf(150, 273, 0.5))
    assert (round(luck.one, 3), round(luck.best, 3)) == (0.045, 0.369)
    one_of_four = guessers_luck(40, 0.35, guess=0.25, n_guessers=5)
    assert one_of_four.best == pytest.approx(1 - binom.cdf(14, 40, 0.25) ** 5)
    # .55 x 100 is 55.00000000000001 in floating point, .29 x 100 is 28.999999999999996: 56 and 30 exceed them
    assert [guessers_luck(100, share).n_correct for share in (0.55, 0.29)] == [56, 30]
    assert (guessers_luck(10, 1.0).one, guessers_luck(10, 1.0).best) == (0, 0)


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: expected_p(10, 0.2, -0.1), "at least 0"),
        (lambda: size_needed(0.1, 0.1, wanted_power=1), "power must be between 0 and 1"),
        (lambda: size_needed(0.00001, 0.001), "more than 1,000,000 items"),
        (lambda: guessers_luck(0, 0.5), "at least one item"),
        (lambda: guessers_luck(10, 0.5, guess=1.5), "guess must be between 0 and 1"),
        (lambda: score_power(0, 0.1, 0.3), "power: "),
        (lambda: score_power(10, 0.0, 0.3), "power: "),
        (lambda: score_power(10, 0.1, 0.3, alpha=1.0), "power: "),
        (lambda: score_power(10, 1e-6, 0.3), "power: "),
    ],
)
def test_bad_input_is_refused(call, saying):
    is_refused(saying, call)


def a_bank(n: int = 400) -> CategoryParameters:
    return grades(np.random.default_rng(1), n, range(1, 6), models=[Graded()])


def test_power_is_that_of_tests_of_simulated_systems() -> None:
    items, rng, n = a_bank(), np.random.default_rng(2), 50
    mean, within = share_moments([0.3, 0.0], items.as_items())
    apart = mean[0] - mean[1]
    said = score_power(n, float(apart.mean()), float(np.sqrt(apart.var() + within.sum(axis=0).mean())))
    tests = items.select([items.item_ids[k] for k in rng.integers(0, 400, 400 * n)])
    scores = tests.draw([0.3, 0.0], rng=rng).reshape(2, 400, n)
    found = ttest_rel(*scores, axis=1, alternative="greater").pvalue <= 0.05
    assert np.mean(found) == pytest.approx(said.power, abs=0.05)
    at_size = score_power(said.n_powered, said.difference, said.deviation)
    assert at_size.power >= 0.8 > score_power(said.n_powered - 1, said.difference, said.deviation).power


def test_the_command_tells_two_abilities_apart_by_graded_items(tmp_path) -> None:
    a_bank(20).table().to_csv(tmp_path / "items.csv", index=False)
    run(f"power --bank {tmp_path}/items.csv --theta 0.5 --against 0 -n 50 -n 200 -o {tmp_path}/out")
    rows = json.loads((tmp_path / "out/power.json").read_text())["systems_apart"]
    assert rows[0]["power"] < rows[1]["power"]
    assert pd.read_csv(tmp_path / "out/trials.csv")["se_theta"].notna().all()
