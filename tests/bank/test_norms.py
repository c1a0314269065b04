"""Norm samples from a table, and weights to a population's shares: by hand, for any sample, in coverage."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import irtbench
from builders.command_line import refused, run
from builders.refusals import is_refused
from builders.scales import bank_of
from irtbench.scoring.percentiles import percentiles

CENSUS = {"sex": {"f": 0.5, "m": 0.5}, "age": {"old": 0.4, "young": 0.6}}


def people(*numbers: int) -> dict[str, list[str]]:
    """So many women of either age, and so many men."""
    return {"sex": np.repeat([*"ffmm"], numbers).tolist(), "age": np.repeat(["old", "young"] * 2, numbers).tolist()}


def test_two_columns_by_hand() -> None:
    """The odds ratio stays: x (.1 + x) = 6 (.5 - x) (.4 - x) has the solution x = .3.

    30, 10, 20, 40 of 100 become .3, .2, .1, .4: weights 1, 2, .5, 1, and Kish's 100^2 / (30 + 40 + 5 + 40) = 86.96.
    """
    raking = irtbench.rake(people(30, 10, 20, 40), CENSUS)
    expected = np.repeat([1.0, 2.0, 0.5, 1.0], [30, 10, 20, 40])
    np.testing.assert_allclose(raking.weights, expected, atol=1e-7)
    assert raking.effective_n == pytest.approx(10_000 / 115)
    assert raking.table()["highest"][0] == pytest.approx(2.0)
    assert "100 respondents, effective 87, weights 0.50 to 2.00" in repr(raking)
    again = irtbench.rake(people(30, 10, 20, 40), CENSUS, start=expected)
    assert again.rounds == 1
    np.testing.assert_allclose(again.weights, expected, atol=1e-7)
    # who is not known keeps a part of the whole: 4 of 5 shared half and half, .667, 2 and 1
    raking = irtbench.rake({"sex": ["f", "f", "f", "m", None]}, {"sex": {"f": 0.5, "m": 0.5}})
    np.testing.assert_allclose(raking.weights, [2 / 3, 2 / 3, 2 / 3, 2, 1])


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=60),
    st.lists(st.floats(0.1, 1.0), min_size=5, max_size=5),
    st.integers(0, 1000),
)
def test_shares_are_those_of_the_population(pairs: list[tuple[str, str]], shares: list[float], seed: int) -> None:
    pairs = [*pairs, *((u, v) for u in "abc" for v in "xy")]  # nobody missing: a solution exists
    margins = {
        "u": dict(zip("abc", np.array(shares[:3]) / sum(shares[:3]), strict=True)),
        "v": dict(zip("xy", np.array(shares[3:]) / sum(shares[3:]), strict=True)),
    }
    groups = dict(zip("uv", zip(*pairs, strict=True), strict=True))
    start = np.random.default_rng(seed).uniform(0.5, 2, len(pairs))
    raking = irtbench.rake(groups, margins, start)
    for column, wanted in margins.items():
        for value, share in wanted.items():
            found = raking.weights[np.array(groups[column]) == value].sum() / len(pairs)
            assert found == pytest.approx(share, abs=1e-8)
    assert raking.weights.sum() == pytest.approx(len(pairs))
    assert 1 <= raking.effective_n <= len(pairs) + 1e-9


def test_percentiles_of_a_lopsided_sample_cover_with_weights_and_not_without() -> None:
    """Population half a, half b, b abler by 1; the sample has four a to one b. 400 samples of 200, theta known."""
    rng, theta = np.random.default_rng(3), np.array([-0.5, 0.4, 1.2])
    truth = 50 * norm.cdf(theta) + 50 * norm.cdf(theta - 1)
    at = irtbench.estimate_ability(np.ones((3, 1)), irtbench.ItemParameters.from_difficulty([1.0], [0.0]))
    exact = replace(at, theta=theta, standard_error=np.zeros(3), lower=theta, upper=theta)
    covered = np.zeros((2, 3))
    for _ in range(400):
        group = rng.random(200) < 0.2
        plain = irtbench.Norms(rng.normal(group * 1.0), groups={"g": tuple(np.where(group, "b", "a").tolist())})
        for k, norms in enumerate((plain, irtbench.raked_norms(plain, {"g": {"a": 0.5, "b": 0.5}}))):
            place = percentiles(exact, norms, norm="empirical")
            covered[k] += ((place.lower < truth) & (truth < place.upper)) / 400
    assert (covered[1] > 0.93).all()
    assert (covered[0] < 0.4).any()


@pytest.mark.parametrize(
    ("margins", "said"),
    [
        ({"land": {"de": 1.0}}, "margins: no column land of the respondents is kept; there is: sex, age"),
        ({"sex": {"f": 1.0}}, "margins: no share of sex m, which respondents have; expected one"),
        ({"sex": {"f": 0.4, "m": 0.4, "d": 0.2}}, "margins: nobody has sex d; expected values taken together"),
        ({"sex": {"f": 0.4, "m": 0.4}}, "margins: shares of sex must be above 0 and add up to 1 but add up to 0.8"),
        ({"sex": {"f": 1.0, "m": 0.0}}, "margins: shares of sex must be above 0"),
        ({}, "margins: expected at least one column"),
        ({"sex": {"f": 0.9, "m": 0.1}, "age": {"old": 0.1, "young": 0.9}}, "no weights of these 8 people have the"),
    ],
)
def test_shares_that_cannot_be_had_are_named(margins: dict[str, dict[str, float]], said: str) -> None:
    is_refused(said, irtbench.rake, people(4, 0, 0, 4), margins)


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A bank with 300 people of two countries, of whom those of fr are abler."""
    rng = np.random.default_rng(5)
    items = irtbench.ItemParameters.from_difficulty(np.full(30, 1.4), np.linspace(-2, 2, 30))
    land = np.where(np.arange(300) % 3 == 0, "fr", "de")
    norms = irtbench.Norms(rng.normal(land == "fr"), None, np.full(300, 0.3), {"land": tuple(land.tolist())})
    irtbench.save_bank(bank_of(items, norms), tmp_path / "bank.json")
    irtbench.simulate_responses([0.2], items, rng=rng).table().to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "census.csv").write_text("column,value,share\nland,de,0.2\nland,fr,0.8\n")
    return tmp_path


def test_score_weights_the_norm_sample_to_a_population(pack: Path) -> None:
    found = {}
    for name, more in (("plain", ["--norm", "smoothed"]), ("raked", ["--margins", pack / "census.csv"])):
        done = run(f"score {pack}/bank.json {pack}/log.csv -o {pack}/s.csv", *more)
        found[name] = (pd.read_csv(pack / "s.csv").iloc[0], " ".join(done.out.split()))
    plain, raked = found["plain"][0], found["raked"][0]
    assert raked["percentile"] < plain["percentile"] - 5
    # 200 people of weight .3 and 100 of 2.4: 300^2 / (18 + 576) = 151.5
    assert "all: 300 people of the norm sample weighted to census.csv, who are worth 152" in found["raked"][1]
    (scale,) = irtbench.load_bank(pack / "bank.json").scales
    by_hand = irtbench.raked_norms(scale.norms, {"land": {"de": 0.2, "fr": 0.8}})
    expected = irtbench.score_responses(replace(scale, norms=by_hand), pd.read_csv(pack / "log.csv"), norm="smoothed")
    assert raked["percentile_lower"] == pytest.approx(expected["percentile_lower"][0])


def test_score_says_the_percentile_in_each_group(pack: Path) -> None:
    done = run(f"score {pack}/bank.json {pack}/log.csv --norm-groups land -o {pack}/s.csv")
    row = pd.read_csv(pack / "s.csv").iloc[0]
    bank, log = irtbench.load_bank(pack / "bank.json"), pd.read_csv(pack / "log.csv")
    for value, n in (("de", 200), ("fr", 100)):
        expected = irtbench.score_responses(bank, log, norm="smoothed", norm_group=("land", value)).iloc[0]
        for name in ("percentile", "percentile_lower", "percentile_upper"):
            assert row[f"{name}:land={value}"] == pytest.approx(expected[name])
        assert f"land {value} {n}" in " ".join(done.out.split()).replace("│ ", "")
    assert row["percentile:land=fr"] < row["percentile:land=de"]


def test_columns_of_scores_are_no_groups_of_people(pack: Path) -> None:
    run("score bank.json log.csv -o scores.csv -q", cwd=pack)
    scores = pd.read_csv(pack / "scores.csv")
    scores.assign(country="de", age=31, **{"percentile:country=de": 0.5}).to_csv(pack / "people.csv", index=False)
    for file, groups in (("scores.csv", []), ("people.csv", ["country", "age"])):
        bank = irtbench.with_norms(irtbench.load_bank(pack / "bank.json"), pack / file)
        assert list(bank.scales[0].norms.groups) == groups
    saying = "no column accuracy in the norm sample; there is: none"
    refused("score bank.json log.csv --norms scores.csv --norm-groups accuracy", cwd=pack, saying=saying)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--margins census.csv --norm normal", "--margins: the normal norm has no weights; expected"),
        ("--norm-groups age", "--norm-groups: no column age in the norm sample; there is: land"),
        ("--margins other.csv", "other.csv: scale all: margins: no share of land fr, which respondents have"),
        ("--margins twice.csv", "twice.csv: land de comes twice; expected a row a value"),
        ("--margins log.csv", "log.csv: column 'column' missing"),
    ],
)
def test_wrong_margins_and_groups_are_one_line(pack: Path, more: str, said: str) -> None:
    (pack / "other.csv").write_text("column,value,share\nland,de,1\n")
    (pack / "twice.csv").write_text("column,value,share\nland,de,0.5\nland,de,0.5\n")
    refused(f"score bank.json log.csv {more}", cwd=pack, saying=said)


def test_weights_that_the_norm_leaves_aside_are_named(pack: Path) -> None:
    (scale,) = irtbench.load_bank(pack / "bank.json").scales
    raked = replace(scale, norms=irtbench.raked_norms(scale.norms, {"land": {"de": 0.2, "fr": 0.8}}))
    irtbench.save_bank(irtbench.ItemBank((raked,)), pack / "raked.json")
    said = "the norm sample has weights, which a normal population has not: --norm smoothed takes them"
    for file, more, there in (("bank", [], False), ("raked", [], True), ("raked", ["--norm", "smoothed"], False)):
        done = run(f"score {pack}/{file}.json {pack}/log.csv", *more)
        assert (said in " ".join(done.out.split())) is there
