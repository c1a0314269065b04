"""Forms are the best of all subsets of small banks; each wish is kept, or named where it cannot be."""

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.scales import scale_of
from irtbench import FormWishes, InputError, ItemBank, ItemParameters, Limit, assemble_forms, information
from irtbench.building import binary_program
from irtbench.diagnostics.measurement_precision import measurement_precision

THETA = np.array([-1.0, 0.0, 1.0])
FEW = settings(max_examples=25, deadline=None, derandomize=True)


def drawn_items(seed: int, n: int, guessing: float = 0.0) -> ItemParameters:
    rng = np.random.default_rng(seed)
    return ItemParameters.from_difficulty(rng.uniform(0.5, 2.2, n), rng.normal(size=n), guessing)


def any_a(kinds: list[str]) -> bool:
    return any("a" in kind for kind in kinds)


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


@settings(FEW, max_examples=12)
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
    kinds = data.draw(st.lists(st.sampled_from(["a", "b", "a;b", ""]), min_size=n, max_size=n).filter(any_a))
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
        with pytest.raises(InputError, match=r"^form: no form of the bank's 9 items meets all wishes; .*give way"):
            assemble_forms(items, wishes, columns=columns)
        return
    found = assemble_forms(items, wishes, columns=columns)
    assert kept(tuple(names.index(item) for item in found.forms[0]))
    each = information(THETA, items)
    assert found.objective == pytest.approx(max(each[:, chosen].sum(axis=1).min() for chosen in allowed), abs=1e-5)


def test_a_large_bank_by_its_core_gives_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the core is so small that it must be made larger."""
    items, objectives = drawn_items(1, 160), []
    wanted = [{"length": 8}, {"se": 0.35}, {"reliability": 0.9}, {"length": 8, "objective": "population"}]
    for small, core in ((10_000, 200), (60, 40), (1, 0)):
        monkeypatch.setattr(binary_program, "SMALL", small)
        monkeypatch.setattr(binary_program, "CORE", core)
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


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"length": 50}, "this has to give way: length 50 (12 is possible)"),
        ({"se": 0.01}, "this has to give way: se 0.01 at theta "),
        ({"reliability": 0.999}, "this has to give way: reliability 0.999 on all (0."),
        (
            {"length": 2, "required": ("item1", "item2", "item3")},
            "one of these has to give way: length 2 (3 is possible); required items: item",
        ),
        (
            {"length": 6, "limits": (Limit("kind", "a", at_most=1), Limit("kind", "b", at_most=2))},
            "length 6 (3 is possible); at most 1 of kind=a (4 is possible); at most 2 of kind=b (5 is possible)",
        ),
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
def test_a_wish_that_cannot_be_met_is_named_with_what_can_be_had(wish, said) -> None:
    columns = pd.DataFrame({"item_id": [f"item{k}" for k in range(1, 13)], "kind": ["a", "b"] * 6})
    assert said in refusal(drawn_items(5, 12), columns=columns, **wish)


def test_what_is_said_to_be_had_can_be_had() -> None:
    items = drawn_items(6, 20)
    possible = re.search(r"se 0.1 at theta [-\d.]+ \(([\d.]+) is possible\)", refusal(items, se=0.1))
    se = float(possible[1]) * 1.001
    assert assemble_forms(items, se=se).precision["se"].max() <= se
    possible = re.search(r"\(([\d.]+) is possible\)", refusal(items, reliability=0.99))
    assert len(assemble_forms(items, reliability=float(possible[1]) - 1e-4).forms[0]) <= 20


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
        ({"length": 3, "enemies_by": "group"}, "no column group of the items; there is: scale"),
        ({"length": 3, "limits": (Limit("scale", "none", 1),)}, "no item has scale=none; column scale has: all"),
        ({"length": 3, "limits": ({"column": "scale", "value": "all"},)}, "expected at_least, at_most"),
        ({"length": 3, "limits": ({"column": "c", "value": "v", "at_least": 3, "at_most": 2},)},
         "at least 3 but at most 2"),
    ],
)  # fmt: skip
def test_wishes_that_are_none_are_refused_in_a_line(wish, said) -> None:
    assert said in refusal(drawn_items(7, 6), **wish)


def test_the_table_of_items_may_be_the_bank_and_brings_its_columns() -> None:
    items = drawn_items(8, 10)
    table = items.table().assign(topic=["x"] * 5 + ["y"] * 5)
    found = assemble_forms(table, length=4, limits=[Limit("topic", "x", 3)])
    assert found.table()["topic"].tolist().count("x") == 3
    assert found.table()["position"].tolist() == [1, 2, 3, 4]
    assert "no row for item item10" in refusal(items, length=4, columns=table.iloc[:9])
    assert "item item1 is there twice" in refusal(items, length=4, columns=pd.concat([table, table]))
    assert "column item_id missing" in refusal(items, length=4, columns=table.drop(columns="item_id"))
