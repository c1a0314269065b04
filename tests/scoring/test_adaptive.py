"""Adaptive tests: the items, abilities and errors of catR step by step; what always holds; policies; the command."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer.testing
from hypothesis import given
from hypothesis import strategies as st

from builders.command_line import run
from builders.refusals import is_refused
from irtbench import ItemParameters, ItemTable, Quadrature, Scale, estimate_ability, simulate_responses
from irtbench.bank.bank import ItemBank, save_bank
from irtbench.cli.main import application
from irtbench.models.curves import icc
from irtbench.scoring.adaptive import CRITERIA, Adaptive, ItemCurves
from irtbench.scoring.adaptive_paths import replay_adaptive, simulate_adaptive

#: catR 3.17's names of our rules.
RULES = {"MFI": "information", "MPWI": "posterior", "KLP": "kullback", "MEPV": "variance", "bOpt": "difficulty"}


def catr_grid() -> Quadrature:
    """catR integrates by the trapezoid rule over 81 nodes on [-4, 4]."""
    nodes = np.linspace(-4, 4, 81)
    log_weights = -0.5 * nodes**2
    log_weights[[0, -1]] += np.log(0.5)
    return Quadrature(nodes, log_weights - np.log(np.exp(log_weights).sum()))


@pytest.fixture
def folder(reference: Path) -> Path:
    return reference / "next" / "06_cat"


def catr_bank(folder: Path, name: str) -> ItemParameters:
    table = pd.read_csv(folder / f"{name}_bank.csv")
    return ItemParameters.from_difficulty(table["a"], table["b"], table["c"], item_ids=table["item"])


# the last for the 2PL alone: catR expects the variance by the probability at the estimate, see the test below
@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name in ("a2pl", "a3pl") for rule in RULES if (name, rule) != ("a3pl", "MEPV")]
)
def test_the_path_is_that_of_catr(folder: Path, name: str, rule: str) -> None:
    items, goal = catr_bank(folder, name), {"a2pl": 0.30, "a3pl": 0.33}[name]
    answers = pd.read_csv(folder / f"{name}_responses.csv").set_index("person")
    paths = list(pd.read_csv(folder / f"{name}_cat_steps.csv").query("rule == @rule").groupby("person"))
    assert paths
    for person, path in paths:
        test = Adaptive(items, rule=RULES[rule], se=goal, most_items=40, quadrature=catr_grid())
        item: str | None = path["item"].iloc[0]  # catR's first item is that of MFI at 0 under every rule
        while item is not None:
            test.record(item, answers.loc[person, item])
            item = test.next_item()
        found = test.table()
        assert found["item_id"].tolist() == path["item"].tolist()
        np.testing.assert_allclose(found["theta"], path["theta"], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found["se"], path["se"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["a2pl", "a3pl"])
def test_every_criterion_is_that_of_catr(folder: Path, name: str) -> None:
    items, grid = catr_bank(folder, name), catr_grid()
    wanted = pd.read_csv(folder / f"{name}_criteria_p3_step6.csv").set_index("item")
    path = pd.read_csv(folder / f"{name}_cat_steps.csv").query("rule == 'MFI' and person == 'p3'").head(5)
    test = Adaptive(items, quadrature=grid)
    for item, response in zip(path["item"], path["response"], strict=True):
        test.record(item, response)
    curves = ItemCurves.at(grid.nodes, items)
    free = np.flatnonzero(np.isin(items.item_ids, wanted.index))
    own = wanted.loc[[items.item_ids[k] for k in free]]
    mass = test._mass
    for rule, column in (("information", "info_at_theta"), ("posterior", "MPWI"), ("kullback", "KLP")):
        ratio = CRITERIA[rule](curves, mass, test.theta, free) / own[column].to_numpy()  # type: ignore[index]
        np.testing.assert_allclose(ratio, ratio[0], rtol=2e-8)  # catR's are not normalised
    # the expected variance with catR's probabilities, those at the estimate
    p = icc(test.theta, items)[0, free]
    log_q, log_p = curves.logs[:, ::2], curves.logs[:, 1::2]
    after = [mass[:, None] * np.exp(logs[:, free]) for logs in (log_p, log_q)]
    after = [each / each.sum(axis=0) for each in after]
    variance = [(each * (grid.nodes[:, None] - grid.nodes @ each) ** 2).sum(axis=0) for each in after]
    np.testing.assert_allclose(p * variance[0] + (1 - p) * variance[1], own["EPV"], rtol=1e-8)
    at_posterior = mass @ np.exp(log_p[:, free])
    ours = -CRITERIA["variance"](curves, mass, test.theta, free)
    np.testing.assert_allclose(ours, at_posterior * variance[0] + (1 - at_posterior) * variance[1], rtol=1e-12)


parameters = st.tuples(st.floats(0.05, 5), st.floats(-5, 5), st.sampled_from([0.0, 0.1, 0.3]))


@given(drawn=st.lists(parameters, min_size=1, max_size=12), data=st.data())
def test_theta_never_falls_after_a_right_answer_nor_rises_after_a_wrong_one(drawn, data) -> None:
    a, b, c = (np.array(values) for values in zip(*drawn, strict=True))
    rule = data.draw(st.sampled_from(list(CRITERIA)))
    test = Adaptive(ItemParameters.from_difficulty(a, b, c), rule=rule, se=None)
    while (item := test.next_item()) is not None:
        before = test.theta
        response = data.draw(st.sampled_from([1, 0]))
        test.record(item, response)
        assert (test.theta - before) * (1 if response else -1) >= -1e-12
    assert test.stopped == "no_items"
    assert test.n_items == len(drawn)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 30))
def test_theta_is_the_eap_of_scoring(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.uniform(0.4, 2.5, n), rng.normal(size=n), rng.uniform(0, 0.3, n))
    responses = simulate_responses(rng.normal(size=1), items, rng=rng)
    found = replay_adaptive(items, responses, se=None)
    wanted = estimate_ability(responses, items)
    assert found.theta == pytest.approx(wanted.theta, abs=1e-6)
    assert found.standard_error == pytest.approx(wanted.standard_error, abs=1e-6)


ITEMS = ItemParameters.from_difficulty([1.5] * 9, [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2])


def test_a_missing_answer_is_what_the_policy_says() -> None:
    skipped, wrong, refuses = (Adaptive(ITEMS, missing=policy) for policy in ("skip", "wrong", "error"))
    skipped.record("item5", None)
    assert (skipped.theta, skipped.n_items) == (pytest.approx(0, abs=1e-12), 1)
    assert np.isnan(skipped.table()["response"][0])
    assert skipped.next_item() != "item5"
    wrong.record("item5", np.nan)
    zero = Adaptive(ITEMS)
    zero.record("item5", 0)
    assert wrong.theta == zero.theta < 0
    saying = "item item5: not answered; expected 1 or 0, or missing='skip' or 'wrong'"
    is_refused(saying, refuses.record, "item5", None)
    assert refuses.n_items == 0


def asked(response: int, **wish: Any) -> Adaptive:
    """A test to its end, all answers alike."""
    test = Adaptive(ITEMS, **wish)
    while (item := test.next_item()) is not None:
        test.record(item, response)
    return test


@pytest.mark.parametrize(
    ("wish", "reason", "n_items"),
    [
        ({"se": 0.7}, "se", range(1, 8)),
        ({"se": None, "most_items": 4}, "length", [4]),
        ({"se": 0.7, "least_items": 8}, "se", [8]),
        ({"se": None, "least_gain": 0.05}, "gain", range(2, 9)),
        ({"se": None}, "no_items", [9]),
        ({"se": 0.01, "least_items": 9, "least_gain": 5.0}, "no_items", [9]),
    ],
)
def test_it_ends_for_the_reason_reported(wish: dict[str, Any], reason: str, n_items: Sequence[int]) -> None:
    test = asked(1, **wish)
    assert test.stopped == reason
    assert test.n_items in n_items


def test_shares_are_kept_and_the_best_are_drawn_among() -> None:
    columns = {item: "x" if k < 6 else "y" for k, item in enumerate(ITEMS.item_ids)}
    test = asked(0, columns=columns, shares={"x": 0.5, "y": 0.5}, se=None, most_items=6)
    assert sorted(test.table()["item_id"].map(columns)) == ["x"] * 3 + ["y"] * 3
    uneven = asked(0, columns=columns, shares={"x": 0.8, "y": 0.2}, se=None, most_items=2)
    assert uneven.table()["item_id"].map(columns).tolist() == ["x", "y"]  # of one item x has all: .2 too much
    firsts = {Adaptive(ITEMS, best_of=3, rng=np.random.default_rng(seed)).next_item() for seed in range(40)}
    assert firsts == {"item4", "item5", "item6"}
    assert Adaptive(ITEMS).next_item() == Adaptive(ITEMS).criteria()["item_id"][0] == "item5"


def test_no_item_is_asked_by_more_tests_than_allowed() -> None:
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 60), rng.normal(size=60))
    free = simulate_adaptive(items, rng.normal(size=60), most_items=6, se=None)
    limited = simulate_adaptive(items, rng.normal(size=60), most_items=6, se=None, most_exposure=0.2)
    assert free.exposure()["n_tests"].max() == 60  # everyone's first item
    assert limited.exposure()["n_tests"].max() <= 12
    assert (limited.n_items == 6).all()


def test_items_with_reversed_keys_are_never_asked() -> None:
    items = ItemParameters.from_difficulty([3.0, 1.0, -2.0], [0.0, 0.0, 0.0])
    found = simulate_adaptive(items, [0.0], se=None)
    assert set(found.paths["item_id"]) == {"item1", "item2"}
    is_refused("item item3: its slope is not positive", Adaptive(items).record, "item3", 1)
    is_refused("no item can be asked", Adaptive, items.select(["item3"]))


def test_only_what_was_answered_is_asked_in_a_replay_by_default() -> None:
    responses = np.array([[1.0, np.nan, 0.0, 1.0, np.nan, 1.0, 0.0, 0.0, 1.0]])
    found, asked, wrong = (
        replay_adaptive(ITEMS, responses, se=None, **wish)
        for wish in ({}, {"ask_unanswered": True}, {"ask_unanswered": True, "missing": "wrong"})
    )
    assert (found.n_items.tolist(), asked.n_items.tolist()) == ([7], [9])
    assert asked.paths["item_id"][0] == "item5"
    assert asked.theta == pytest.approx(found.theta)
    assert wrong.theta[0] < found.theta[0]


@pytest.mark.parametrize(
    ("wish", "saying"),
    [
        ({"rule": "best"}, "rule: expected 'information', 'posterior', "),
        ({"se": 0}, "se: expected a number"),
        ({"shares": {"x": 0.7, "y": 0.6}}, "shares add up to 1.3"),
        ({"least_items": 5, "most_items": 4}, "at least 5 items but at most 4"),
        ({"lenght": 5}, "unknown keyword lenght"),
        ({"unavailable": ["item0"]}, "item item0 is not in the bank"),
    ],
)
def test_what_is_wrong_is_named_in_a_line(wish, saying) -> None:
    is_refused(saying, Adaptive, ITEMS, **wish)


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    details = replace(ItemTable.plain(ITEMS.item_ids), key=("yes",) * 9, label=("x", "y", "z") * 3)
    save_bank(ItemBank((Scale("all", ITEMS, details),)), tmp_path / "bank.json")
    rng = np.random.default_rng(5)
    simulate_responses([-1.0, 0.0, 1.0], ITEMS, rng=rng).to_long().to_csv(tmp_path / "responses.csv", index=False)
    return tmp_path / "bank.json"


def test_the_command_replays_and_simulates(bank: Path, tmp_path: Path) -> None:
    run("form adapt bank.json --replay responses.csv --length 4 -o path.csv -q", cwd=tmp_path)
    path = pd.read_csv(tmp_path / "path.csv")
    wanted = replay_adaptive(ITEMS, pd.read_csv(tmp_path / "responses.csv"), most_items=4).paths
    assert path["item_id"].tolist() == wanted["item_id"].tolist()
    assert path["theta"].tolist() == pytest.approx(wanted["theta"].tolist())
    assert path["stopped"].dropna().tolist() == ["length"] * 3
    shares = "--share x=50% --share y=.5 --length 4"
    found = run(f"form adapt bank.json --simulate 5 --theta 1 {shares} --json", cwd=tmp_path).json
    assert len(found["ends"]) == 5
    assert {"xyz"[(int(row["item_id"].removeprefix("item")) - 1) % 3] for row in found["paths"]} == {"x", "y"}


def test_the_command_asks_at_a_prompt(bank: Path, tmp_path: Path) -> None:
    path = tmp_path / "path.csv"
    command = ["form", "adapt", str(bank), "--length", "3", "-o", str(path)]
    done = typer.testing.CliRunner().invoke(application("form adapt"), command, input="Yes\nno\n\n")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(path)
    assert found["item_id"][0] == "item5"
    assert found["response"].fillna(-1).tolist() == [1, 0, -1]
    assert found["stopped"].tolist()[-1] == "length"
