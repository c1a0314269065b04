"""Accuracy by type: counts by hand, an independent tabulation of real data, planted advantages, bad input."""

import numpy as np
import pytest

from builders.refusals import is_refused
from irtbench import ResponseMatrix, mcnemar, paired_bootstrap
from irtbench.data.items import ItemTags
from irtbench.data.readers.item_table import read_tags
from irtbench.evaluation.breakdown import ALL, UNTYPED, accuracy_by_type, advantage_by_type, type_counts, values_by_type

# Five items: two of one type, one of both, one of the other, one of none
TAGS = ItemTags(("i1", "i2", "i3", "i4", "i5"), (("x",), ("x",), ("x", "y"), ("y",), ()))


def responses_of(rows, item_ids=TAGS.item_ids):
    return ResponseMatrix(np.array(list(rows.values()), dtype=float), tuple(rows), tuple(item_ids))


def test_counts_and_shares_both_ways_by_hand():
    counts = type_counts(TAGS)
    assert counts.types == ("x", "y")
    assert (counts.n_items.tolist(), counts.n_only.tolist()) == ([3, 2], [2, 1])
    assert counts.share_of_items == pytest.approx([3 / 5, 2 / 5])
    assert counts.share_of_mentions == pytest.approx([3 / 5, 2 / 5])  # five mentions on five items
    assert counts.shared.tolist() == [[3, 1], [1, 2]]
    assert (counts.n_all, counts.n_untyped, counts.overlap) == (5, 1, True)
    assert counts.overlap_table().to_dict("records") == [
        {"type_1": "x", "type_2": "y", "n_shared": 1, "share_of_smaller": 0.5}
    ]
    apart = type_counts(ItemTags(("a", "b", "c"), (("x",), ("y",), ("x",))))
    assert (apart.overlap, apart.overlap_table().empty) == (False, True)
    assert apart.share_of_mentions == pytest.approx(apart.share_of_items)


def test_an_item_of_two_types_counts_in_each_and_missing_responses_do_not():
    found = accuracy_by_type(responses_of({"s": [1, 0, 1, 0, 1]}), TAGS).set_index("type")
    assert found["accuracy"].to_dict() == pytest.approx({ALL: 3 / 5, "x": 2 / 3, "y": 1 / 2, UNTYPED: 1.0})
    assert found["n_items"].to_dict() == {ALL: 5, "x": 3, "y": 2, UNTYPED: 1}
    # Wilson for 1 of 2 at 95%: (.5 + z^2/4 +- z sqrt(1/8 + z^2/16)) / (1 + z^2/2), z = 1.959964
    z = 1.959964
    half = z * np.sqrt(1 / 8 + z**2 / 16) / (1 + z**2 / 2)
    assert found.loc["y", ["lower", "upper"]].tolist() == pytest.approx([0.5 - half, 0.5 + half])
    found = accuracy_by_type(responses_of({"s": [1, np.nan, np.nan, np.nan, 0]}), TAGS).set_index("type")
    assert found["n_items"].to_dict() == {ALL: 2, "x": 1, "y": 0, UNTYPED: 1}
    assert np.isnan(found.loc["y", ["accuracy", "lower", "upper"]].astype(float)).all()


def test_a_planted_advantage_is_found_where_it_was_planted_only():
    rng = np.random.default_rng(0)
    types = np.repeat(["hard", "easy", "odd"], 200)
    first = (rng.random(600) < 0.5).astype(float)
    second = (rng.random(600) < np.where(types == "odd", 0.25, 0.5)).astype(float)
    ids = tuple(f"i{k}" for k in range(600))
    tags = ItemTags(ids, tuple((name,) for name in types))
    table = advantage_by_type(responses_of({"a": first, "b": second}, ids), tags, [("a", "b")]).set_index("type")
    assert table.index[table["permutation_p_adjusted"] <= 0.05].tolist() == ["odd"]
    own, odd = table.loc["odd"], types == "odd"
    assert own["lower"] <= 0.25 <= own["upper"]
    assert own["p"] == paired_bootstrap(first[odd], second[odd]).p
    groups = [f"g{k // 4}" for k in range(600)]
    grouped = advantage_by_type(responses_of({"a": first, "b": second}, ids), tags, [("a", "b")], groups=groups)
    expected = paired_bootstrap(first[odd], second[odd], groups=groups[400:])
    assert grouped.set_index("type").loc["odd", "p"] == expected.p != own["p"]
    assert own["permutation_p"] == pytest.approx(mcnemar(first[odd], second[odd]).p)
    assert own["accuracy_first"] == first[odd].mean()
    # Holm over the three types: the smallest p times 3; the row over all items is no part of the family
    assert own["p_adjusted"] == pytest.approx(3 * own["p"])
    assert np.isnan(table.loc[ALL, "p_adjusted"])


def test_a_type_without_a_response_is_nan_and_no_test():
    data = responses_of({"a": [1, 0, 1, np.nan, 1], "b": [0, 1, 1, np.nan, 0]})
    tags = ItemTags(TAGS.item_ids, (("x",), ("x",), ("x",), ("y",), ("x",)))
    table = advantage_by_type(data, tags, [("a", "b")]).set_index("type")
    assert np.isnan(table.loc["y", ["advantage", "p", "p_adjusted"]].astype(float)).all()
    assert table.loc["x", "p_adjusted"] == table.loc["x", "p"]  # the only test


def test_item_figures_by_type_by_hand():
    table = values_by_type({"difficulty": [0.0, 1.0, 5.0, 3.0, np.nan]}, TAGS).set_index("type")
    assert table.loc["x", ["n_items", "mean", "lowest", "median", "highest"]].tolist() == [3, 2.0, 0.0, 1.0, 5.0]
    assert table.loc["x", "sd"] == pytest.approx(np.sqrt((4 + 1 + 9) / 2))
    assert table.loc["y", "sd"] == pytest.approx(np.sqrt(2))
    assert table.loc[UNTYPED, "n_items"] == 0
    assert np.isnan(table.loc[UNTYPED, "mean"])


def test_tags_from_texts_lists_and_columns_of_1_and_0(tmp_path):
    file = tmp_path / "items.csv"
    file.write_text("item_id,kind,uses,flag\na,p,u; v,1\nb,q,v,0\nc,,,\n")
    assert read_tags(file, ["kind"]).tags == (("p",), ("q",), ())
    assert read_tags(file, ["uses"], separator=";").tags == (("u", "v"), ("v",), ())
    assert read_tags(file, ["uses"]).tags[0] == ("u; v",)
    assert read_tags(file, ["flag"]).tags == (("flag",), (), ())
    assert read_tags(file, ["kind", "flag"]).tags == (("p", "flag"), ("q",), ())
    assert read_tags(file, ["kind"], where={"flag": "1"}).item_ids == ("a",)
    is_refused("at least one column of tags", read_tags, file, [])
    for rows, saying in (("a,p\na,q\n", r"row 2 \(line 3\), column item_id: item names must be unique but 'a'"),
                         (",p\n", "it is empty")):  # fmt: skip
        file.write_text(f"item_id,kind\n{rows}")
        is_refused(saying, read_tags, file, ["kind"])


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: ItemTags(("a", "a"), ((), ())), "a is repeated"),
        (lambda: ItemTags(("a",), (("x", "x"),)), "a tag twice"),
        (lambda: ItemTags(("a",), ()), "tags has 0 values for 1 items"),
        (lambda: TAGS.select(["i9"]), "unknown item i9"),
        (lambda: type_counts(ItemTags(("a",), ((),))), "no item has a type"),
        (lambda: type_counts(ItemTags(("a",), ((ALL,),))), "cannot be called"),
        (lambda: accuracy_by_type(responses_of({"s": [1]}, ["i9"]), TAGS), "unknown item i9"),
        (lambda: advantage_by_type(responses_of({"s": [1] * 5}), TAGS, [("s", "t")]), "unknown system t"),
        (lambda: values_by_type({"difficulty": [1.0]}, TAGS), r"shape \(1,\) for 5 items"),
    ],
)
def test_bad_input_is_refused(call, saying):
    is_refused(saying, call)
