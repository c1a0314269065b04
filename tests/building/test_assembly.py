"""Forms are the best of all subsets of small banks; each wish is kept, or named where it cannot be; for accuracy."""

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irtbench
from builders.command_line import run
from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench import FormWishes, InputError, ItemBank, ItemParameters, Limit, assemble_forms
from irtbench.building import form_program
from irtbench.diagnostics.measurement_precision import measurement_precision
from irtbench.models.curves import information, simulate_responses

THETA = np.array([-1.0, 0.0, 1.0])
FEW = settings(max_examples=15)


def drawn_items(seed: int, n: int, guessing: float = 0.0) -> ItemParameters:
    rng = np.random.default_rng(seed)
    return ItemParameters.from_difficulty(rng.uniform(0.5, 2.2, n), rng.normal(size=n), guessing)


def subsets(n: int, sizes: range) -> list[tuple[int, ...]]:
    return [chosen for size in sizes for chosen in combinations(range(n), size)]


@FEW
@given(seed=st.integers(0, 10_000), n=st.integers(4, 9), guessing=st.sampled_from([0.0, 0.2]), data=st.data())
def test_the_most_informative_form_is_the_best_of_all_subsets(seed, n, guessing, data) -> None:
    items = drawn_items(seed, n, guessing)
    length = data.draw(st.integers(1, n))
    shape = data.draw(st.sampled_from([(1.0, 1.0, 1.0), (1.0, 2.0, 1.0), (3.0, 1.0, 0.5)]))
    each = information(THETA, items) / np.array(shape)[:, None]
    best = max(each[:, chosen].sum(axis=1).min() for chosen in subsets(n, range(length, length + 1)))
    found = assemble_forms(items, length=length, theta=tuple(THETA), shape=shape)
    has = [items.item_ids.index(item) for item in found.forms[0]]
    assert len(has) == length
    assert each[:, has].sum(axis=1).min() == pytest.approx(best, abs=1e-5)
    assert found.objective == pytest.approx(best, abs=1e-5)
    assert found.optimal
    assert found.bound == pytest.approx(best, abs=1e-5)


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), n=st.integers(4, 9), share=st.floats(0.1, 0.95))
def test_the_shortest_form_is_the_shortest_of_all_subsets(seed, n, share) -> None:
    items = drawn_items(seed, n)
    each, by_size = information(THETA, items), subsets(n, range(1, n + 1))
    se = float((share * each.sum(axis=1).min()) ** -0.5)
    shortest = next(len(k) for k in by_size if (each[:, k].sum(axis=1) >= se**-2 - 1e-9).all())
    found = assemble_forms(items, se=se, theta=tuple(THETA))
    assert len(found.forms[0]) == shortest
    assert (found.objective, found.bound) == pytest.approx((shortest, shortest), abs=1e-6)  # the solver's own tolerance
    assert found.precision["se"].max() <= se * (1 + 1e-6)

    def reached(chosen: Sequence[int]) -> float:
        return measurement_precision(items.select([items.item_ids[j] for j in chosen])).marginal_reliability

    reliability = share * reached(range(n))
    found = assemble_forms(items, reliability=reliability)
    assert len(found.forms[0]) == next(len(k) for k in by_size if reached(k) >= reliability)
    assert found.precision["reliability"].min() >= reliability - 2e-6


@FEW
@given(seed=st.integers(0, 10_000), data=st.data())
def test_under_limits_enemies_and_named_items_it_is_the_best_subset_that_keeps_them(seed, data) -> None:
    n, length = 9, 4
    items = drawn_items(seed, n)
    names = items.item_ids
    lists = st.lists(st.sampled_from(["a", "b", "a;b", ""]), min_size=n, max_size=n)
    kinds = data.draw(lists.filter(lambda kinds: "a" in "".join(kinds)))
    enemies = tuple(data.draw(st.lists(st.sampled_from(list(combinations(names, 2))), max_size=3)))
    required, forbidden = data.draw(st.sampled_from([((), ()), (("item1",), ()), (("item2",), ("item3", "item9"))]))
    least, most = data.draw(st.sampled_from([(1, 2), (2, 3), (0, 1)]))

    def kept(chosen: tuple[int, ...]) -> bool:
        has, n_a = {names[k] for k in chosen}, sum("a" in kinds[k] for k in chosen)
        apart = not any(set(pair) <= has for pair in enemies) and has.isdisjoint(forbidden)
        return least <= n_a <= most and n_a >= 0.25 * length and apart and has >= set(required)

    wishes = FormWishes(
        length=length, theta=tuple(THETA), enemies=enemies, required=required, forbidden=forbidden,
        limits=(Limit("kind", "a", least, most), Limit("kind", "a", least_share=0.25)),
    )  # fmt: skip
    columns = pd.DataFrame({"item_id": names, "kind": kinds})
    allowed = [chosen for chosen in combinations(range(n), length) if kept(chosen)]
    if not allowed:
        said = refusal(items, wishes=wishes, columns=columns)
        assert re.search(r"^form: no form of the bank's 9 items meets all wishes; .*give way", said)
        return
    found = assemble_forms(items, wishes, columns=columns)
    assert kept(tuple(names.index(item) for item in found.forms[0]))
    each = information(THETA, items)
    assert found.objective == pytest.approx(max(each[:, chosen].sum(axis=1).min() for chosen in allowed), abs=1e-5)


def test_a_large_bank_by_its_core_gives_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the core is so small that it must be made larger."""
    items, objectives = drawn_items(1, 120), []
    wanted = [{"length": 8}, {"se": 0.35}, {"reliability": 0.9}, {"length": 8, "objective": "population"}]
    for small, core in ((10_000, 200), (60, 30), (1, 0)):
        monkeypatch.setattr(form_program, "SMALL", small)
        monkeypatch.setattr(form_program, "CORE", core)
        found = [assemble_forms(items, **wish) for wish in wanted]
        assert all(each.optimal for each in found)
        objectives.append([each.objective for each in found])
    np.testing.assert_allclose(objectives[1:], objectives[:1] * 2, rtol=1e-6)


def test_the_population_weighs_where_people_are() -> None:
    items = ItemParameters.from_difficulty([1.0] * 5, [-3.0, -1.0, 0.0, 1.5, 3.0])
    assert assemble_forms(items, length=1, objective="population").forms == (("item3",),)
    assert assemble_forms(items, length=1, theta=(3.0,)).forms == (("item5",),)


def test_several_scales_share_the_form_so_that_the_poorest_gets_most() -> None:
    b = np.linspace(-0.5, 0.5, 8)
    parts = [
        ItemParameters.from_difficulty([a] * 8, b, item_ids=[f"{name}{k}" for k in range(8)])
        for name, a in (("verbs", 2.0), ("nouns", 1.0))
    ]
    bank = ItemBank((scale_of(parts[0], name="verbs"), scale_of(parts[1], name="nouns")))
    found = assemble_forms(bank, length=5, theta=(0.0,))
    assert found.table()["scale"].value_counts().to_dict() == {"nouns": 4, "verbs": 1}
    fixed = assemble_forms(bank, length=5, theta=(0.0,), limits=[Limit("scale", "verbs", 3)])
    assert fixed.table()["scale"].value_counts().to_dict() == {"verbs": 3, "nouns": 2}


@pytest.mark.parametrize(("n", "wish", "most"), [(30, {"length": 5}, 0.05), (20, {"reliability": 0.6}, 0.1)])
def test_parallel_forms_share_no_item_and_are_alike(n: int, wish: dict[str, float], most: float) -> None:
    found = assemble_forms(drawn_items(3, n), forms=2, seconds=60, **wish)
    assert found.optimal  # so few items are, however busy the machine
    first, second = found.forms
    assert len(first) == len(second) == wish.get("length", found.objective)
    assert set(first).isdisjoint(second)
    at = found.precision.pivot(index="form", columns="theta", values="information")
    assert ((at.max() - at.min()) / at.mean()).max() < most
    assert found.precision["reliability"].min() >= wish.get("reliability", 0) - 2e-6


def test_overlap_and_uses_are_kept() -> None:
    items = drawn_items(4, 18)
    first = assemble_forms(items, length=4).forms[0]
    new = assemble_forms(items, length=4, other_forms=(first,), most_overlap=2).forms[0]
    assert len(set(first) & set(new)) == 2
    two = assemble_forms(items, length=4, forms=2, most_overlap=3, seconds=2).forms
    assert len(set(two[0]) & set(two[1])) <= 3
    third = assemble_forms(items, length=4, other_forms=(first, new), most_uses=1).forms[0]
    assert set(third).isdisjoint(first + new)
    again = assemble_forms(items, length=4, other_forms=(first, new), most_uses=2).forms[0]
    assert set(again).isdisjoint(set(first) & set(new))
    both = assemble_forms(items, length=3, forms=2, other_forms=(first,), most_overlap=0, seconds=2).forms
    assert len({*both[0], *both[1], *first}) == 10


def refusal(items: ItemParameters, **wishes: Any) -> str:
    with pytest.raises(InputError) as error:
        assemble_forms(items, **wishes)
    assert "\n" not in str(error.value)
    return str(error.value)


KINDS = pd.DataFrame({"item_id": [f"item{k}" for k in range(1, 13)], "kind": ["a", "b"] * 6})


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({}, "expected one of length, se, reliability but got none"),
        ({"length": 3, "se": 0.3}, "got length and se"),
        ({"length": 0}, "FormWishes.length: expected a number of at least 1 but got 0"),
        ({"se": -1.0}, "FormWishes.se: expected a number above 0 but got -1.0"),
        ({"lenght": 3}, "FormWishes.lenght: unknown key"),
        ({"length": 3, "theta": ()}, "expected at least one theta"),
        ({"length": 3, "shape": (1.0,)}, "shape has 1 values for 5 of theta"),
        ({"se": 0.5, "shape": (1.0,) * 5}, "shape goes with length"),
        ({"length": 3, "required": ("x",)}, "required: item x is not in the bank"),
        ({"length": 3, "required": ("item1",), "forbidden": ("item1",)}, "both required and forbidden"),
        ({"length": 3, "enemies": (("item1", "item1"),)}, "at least two different items"),
        ({"length": 3, "enemies": (("item1", "y"),)}, "enemies: item y is not in the bank"),
        ({"length": 3, "enemies_by": "group"}, "no column group of the items; there is: scale, kind"),
        ({"length": 3, "limits": (Limit("scale", "none", 1),)}, "no item has scale=none; column scale has: all"),
        ({"length": 3, "limits": ({"column": "scale", "value": "all"},)}, "expected at_least, at_most"),
        ({"length": 3, "limits": ({"column": "c", "value": "v", "at_least": 3, "at_most": 2},)},
         "at least 3 but at most 2"),
        ({"length": 50}, "this has to give way: length 50 (12 is possible)"),
        ({"se": 0.01}, "this has to give way: se 0.01 at theta "),
        ({"reliability": 0.999}, "this has to give way: reliability 0.999 on all (0."),
        ({"length": 2, "required": ("item1", "item2", "item3")},
         "one of these has to give way: length 2 (3 is possible); required items: item"),
        ({"length": 6, "limits": (Limit("kind", "a", at_most=1), Limit("kind", "b", at_most=2))},
         "length 6 (3 is possible); at most 1 of kind=a (4 is possible); at most 2 of kind=b (5 is possible)"),
        ({"length": 11, "enemies_by": "kind"}, "one of these has to give way: length 11 (2 is possible); enemies: (i"),
        ({"length": 10, "limits": (Limit("kind", "a", most_share=0.2),)},
         "length 10 (7 is possible); at most 20% of kind=a (missed by 2 items)"),
        ({"length": 5, "limits": tuple(Limit("kind", k, *ends) for k in "ab" for ends in ((4,), (None, 2)))},
         "several have to give way together: "),
        ({"length": 7, "forms": 2}, "length 7 (form 1)"),
        ({"length": 9, "other_forms": (tuple(f"item{k}" for k in range(1, 9)),), "most_overlap": 3},
         "length 9 (7 is possible); at most 3 items of other form 1 (5 is possible)"),
    ],
)  # fmt: skip
def test_a_wish_that_is_none_or_cannot_be_met_is_named_with_what_can_be_had(wish, said) -> None:
    assert said in refusal(drawn_items(5, 12), columns=KINDS, **wish)


def test_what_is_said_to_be_had_can_be_had_and_the_table_of_items_may_be_the_bank_and_brings_its_columns() -> None:
    items = drawn_items(6, 20)
    possible = re.search(r"se 0.1 at theta [-\d.]+ \(([\d.]+) is possible\)", refusal(items, se=0.1))
    se = float(possible[1]) * 1.001
    assert assemble_forms(items, se=se).precision["se"].max() <= se
    possible = re.search(r"\(([\d.]+) is possible\)", refusal(items, reliability=0.99))
    assert len(assemble_forms(items, reliability=float(possible[1]) - 1e-4).forms[0]) <= 20
    items = drawn_items(8, 10)
    table = items.table().assign(topic=["x"] * 5 + ["y"] * 5)
    found = assemble_forms(table, length=4, limits=[Limit("topic", "x", 3)])
    assert found.table()["topic"].tolist().count("x") == 3
    assert found.table()["position"].tolist() == [1, 2, 3, 4]
    assert "no row for item item10" in refusal(items, length=4, columns=table.iloc[:9])
    assert "item item1 is there twice" in refusal(items, length=4, columns=pd.concat([table, table]))
    assert "column item_id missing" in refusal(items, length=4, columns=table.drop(columns="item_id"))


# --- accuracy on all items -------------------------------------------------------------------------------------------


def items_of(rng: np.random.Generator, n: int) -> ItemParameters:
    return ItemParameters.from_difficulty(rng.lognormal(0.1, 0.4, n), rng.normal(size=n))


def test_the_first_item_and_what_it_leaves_by_hand() -> None:
    # ten responses to three items, each half right: both right in four of ten for the first and second, a covariance of
    # .4 - .25, in three for the first and third, and in two for the second and third
    known = np.array([[*map(float, responses)] for responses in ("1111100000", "1111010000", "1010101010")]).T
    raw = np.cov(known.T, bias=True)
    np.testing.assert_allclose(raw, [[0.25, 0.15, 0.05], [0.15, 0.25, -0.05], [0.05, -0.05, 0.25]])
    # shrunk by .2, with a level of variance .25 in all of systems beyond; the first is best for either kind
    covariance = 0.8 * raw + 0.25
    np.fill_diagonal(covariance, 0.5)
    np.testing.assert_allclose(covariance.sum(axis=1), [1.16, 1.08, 1.0])
    items = ItemParameters.from_difficulty([1.0] * 3, [0.0, 0.1, 0.2])
    found = assemble_forms(items, length=1, objective="accuracy", known=known)
    assert found.forms == (("item1",),)
    # the variance of the mean of three, 3.24 / 9, less (1.16 / 3)^2 / .5
    assert found.objective == pytest.approx(np.sqrt(3.24 / 9 - (1.16 / 3) ** 2 / 0.5))
    assert not found.optimal
    assert f"accuracy known to {found.objective:.3f}" in repr(found)


def test_a_form_is_as_hard_as_the_whole_and_tells_more_than_one_drawn() -> None:
    rng = np.random.default_rng(3)
    items = items_of(rng, 200)
    known = simulate_responses(rng.normal(size=300), items, rng=rng)
    new = simulate_responses(rng.normal(1, 1, size=300), items, rng=rng)
    truth = new.values.mean(axis=1)
    scale = scale_of(items)
    drawn = [rng.choice(items.item_ids, 30, replace=False) for _ in range(5)]
    for responses in (known, None):
        form = assemble_forms(scale, length=30, objective="accuracy", known=responses).forms[0]
        hard = known.select_items(list(form)).values.mean()
        assert abs(hard - known.values.mean()) < 0.06
        found = irtbench.predict_accuracy(scale, new.select_items(list(form)))
        others = [irtbench.predict_accuracy(scale, new.select_items(list(one))).accuracy for one in drawn]
        error = np.abs(found.accuracy - truth).mean()
        assert error < np.mean([np.abs(other - truth).mean() for other in others])
        assert ((found.lower <= truth) & (truth <= found.upper)).mean() > 0.93
    out, wanted = form[0], next(item for item in items.item_ids if item not in form)
    again = assemble_forms(scale, length=30, objective="accuracy", required=(wanted,), forbidden=(out,)).forms[0]
    assert (wanted in again, out in again, len(again)) == (True, False, 30)


def test_what_does_not_go_with_accuracy_is_refused() -> None:
    items = ItemParameters.from_difficulty([1.0] * 5, np.arange(5.0))
    gap = np.ones((4, 5))
    gap[0, 0] = np.nan
    for wishes, saying in (
        ({"se": 0.5}, "got se"),
        ({"length": 2, "forms": 2}, "got forms"),
        ({"length": 2, "enemies": [("item1", "item2")]}, "got enemies"),
        ({"length": 2, "known": gap}, "complete responses of at least two"),
        ({"length": 6}, "5 items are left"),
        ({"length": 2, "required": ("item9",)}, "item9 is not in the bank"),
    ):
        is_refused(saying, assemble_forms, items, objective="accuracy", **wishes)
    is_refused("go with the objective accuracy", assemble_forms, items, length=2, known=np.ones((4, 5)))


def test_the_command_writes_the_same_form(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    scale = scale_of(items_of(rng, 30))
    known = simulate_responses(rng.normal(size=50), scale.items, rng=rng)
    irtbench.save_bank(irtbench.ItemBank((scale,)), tmp_path / "bank.json")
    known.to_long().to_csv(tmp_path / "known.csv", index=False)
    done = run("form assemble bank.json --for accuracy --length 6 --learn-from known.csv -o form", cwd=tmp_path)
    wanted = assemble_forms(scale, length=6, objective="accuracy", known=known)
    assert tuple(pd.read_csv(tmp_path / "form" / "form.csv")["item_id"]) == wanted.forms[0]
    assert f"the accuracy on all items is known to a standard deviation of {wanted.objective:.3f}" in done.out
