"""The Winograd protocol: the paper's tables out of responses with its counts, cases by hand, bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact
from statsmodels.stats.proportion import confint_proportions_2indep

from builders.refusals import is_refused
from irtbench import ResponseMatrix, mcnemar
from irtbench.data.items import ItemTags
from irtbench.data.readers.item_table import read_tags, read_twins
from irtbench.evaluation.consistency import (
    ACCURACY,
    AFTER,
    BEFORE,
    BOTH,
    CONSISTENCY,
    compare_measures,
    contrast_measures,
    switch_protocol,
)

# Tables 2 and 3 of Trichelair et al. (2019), in per cent: full data, unswitched, switched, consistency (131 switchable
# of 273 items); associative (37) and not (236). Every one is a whole count of its items, and the counts of Table 3 add
# up to those of the full data: 27 + 122 = 149, 34 + 134 = 168, 31 + 143 = 174.
PAPER = {
    "single LM": (54.58, 54.96, 54.20, 56.49, 73.0, 51.7),
    "ensemble of 10 LMs": (61.54, 58.78, 49.62, 43.51, 91.9, 56.8),
    "ensemble of 14 LMs": (63.74, 63.36, 53.43, 44.27, 83.8, 60.6),
}
COUNTS = {
    "single LM": (149, 72, 71, 74, 27, 122),
    "ensemble of 10 LMs": (168, 77, 65, 57, 34, 134),
    "ensemble of 14 LMs": (174, 83, 70, 58, 31, 143),
}


@pytest.fixture(scope="module")
def wsc(real_data):
    return pd.read_csv(real_data / "wsc273" / "items.csv")


def responses_with(items, counts):
    """Right and wrong responses to the original and the switched items that have these counts.

    Consistent are those right both times and those wrong both times, n - before - after + 2 both of n switchable
    items. The other items make up the rest of the accuracy.
    """
    _, before, after, consistent, associative, others = counts
    # the one item that is both switchable and associative is first and right both times
    switchable = items[items["is_switchable"] == 1].sort_values("is_associative", ascending=False, kind="stable").index
    both, odd = divmod(consistent - len(switchable) + before + after, 2)
    assert not odd
    right, switched = pd.Series(0, index=items.index), pd.Series(np.nan, index=items.index)
    right[switchable[:before]] = 1
    switched[switchable] = 0
    switched[switchable[:both].append(switchable[before : before + after - both])] = 1
    for tag, wanted in ((1, associative), (0, others)):
        own = items["is_associative"] == tag
        free = items.index[own & (items["is_switchable"] == 0)]
        right[free[: wanted - right[own].sum()]] = 1
    return right, switched


@pytest.fixture(scope="module")
def protocol(wsc):
    assert (len(wsc), wsc["is_switchable"].sum(), wsc["is_associative"].sum()) == (273, 131, 37)
    assert (wsc["is_switchable"] & wsc["is_associative"]).sum() == 1
    rows = []
    for system, counts in COUNTS.items():
        right, switched = responses_with(wsc, counts)
        rows += [(system, item, value) for item, value in zip(wsc["item_id"], right, strict=True)]
        rows += [(system, f"{item}s", value) for item, value in zip(wsc["item_id"], switched, strict=True)]
    long = pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"]).dropna()
    data = ResponseMatrix.from_long(long.sample(frac=1, random_state=0))  # the order of rows does not matter
    twins = {f"{item}s": item for item in wsc["item_id"][wsc["is_switchable"] == 1]}
    tags = ItemTags(tuple(wsc["item_id"]), tuple(("associative",) if tag else () for tag in wsc["is_associative"]))
    return switch_protocol(data, twins, tags=tags)


def test_tables_2_and_3_of_the_paper(protocol):
    table = protocol.table().set_index(["respondent_id", "measure"])
    names = [ACCURACY, BEFORE, AFTER, CONSISTENCY, "associative", "not associative"]
    for system, printed in PAPER.items():
        found = table.loc[system].loc[names]
        assert found["n_items"].tolist() == [273, 131, 131, 131, 37, 236]
        assert found["count"].tolist() == list(COUNTS[system])
        # 53.43 of the paper is 53.435 cut off
        assert (np.abs(100 * found["share"].to_numpy() - printed) <= [0.0052] * 4 + [0.051] * 2).all()
        assert ((found["lower"] < found["share"]) & (found["share"] < found["upper"])).all()


def test_the_measures_by_hand():
    """Four pairs: right both times, before only, after only, never; and an item without a twin."""
    data = ResponseMatrix(np.array([[1.0, 1, 1, 0, 0, 1, 0, 0, 1]]), ("s",), tuple("aAbBcCdDe"))
    found = switch_protocol(data, {"A": "a", "B": "b", "C": "c", "D": "d"}).table().set_index("measure")
    assert found["count"].to_dict() == {ACCURACY: 3, BEFORE: 2, AFTER: 2, CONSISTENCY: 2, BOTH: 1}
    assert found["n_items"].to_dict() == {ACCURACY: 5, BEFORE: 4, AFTER: 4, CONSISTENCY: 4, BOTH: 4}
    # pairs with a missing response do not count
    data = ResponseMatrix(np.array([[1, 1, 0, np.nan], [1, np.nan, 1, np.nan]]), ("s", "t"), ("a", "A", "b", "B"))
    with pytest.warns(RuntimeWarning, match="consistency of t is undefined"):
        protocol = switch_protocol(data, {"A": "a", "B": "b"})
    found = protocol.table().set_index(["respondent_id", "measure"])
    assert found.loc[("s", CONSISTENCY), ["n_items", "count"]].tolist() == [1, 1]
    assert found.loc[("s", BEFORE), "n_items"] == 2
    assert np.isnan(found.loc[("t", CONSISTENCY), ["share", "lower", "upper"]].astype(float)).all()


def test_contrasts_of_the_papers_systems(protocol):
    table = contrast_measures(protocol).set_index(["respondent_id", "first"])
    for system, (_, before, after, consistent, associative, others) in COUNTS.items():
        row = table.loc[(system, BEFORE)]
        assert row["difference"] == pytest.approx((before - after) / 131)
        # McNemar: of the items that differ, as many before only as this
        lost = (131 - consistent + before - after) // 2
        gained = 131 - consistent - lost
        assert row["p"] == pytest.approx(mcnemar([1] * lost + [0] * gained, [0] * lost + [1] * gained).p)
        row = table.loc[(system, "associative")]
        counted = [[associative, 37 - associative], [others, 236 - others]]
        assert row["p"] == pytest.approx(fisher_exact(counted).pvalue)
        theirs = confint_proportions_2indep(associative, 37, others, 236, method="newcomb")
        assert (row["lower"], row["upper"]) == pytest.approx(theirs, abs=1e-6)
    # the paper's point: both ensembles lean on associations
    for system in ("ensemble of 10 LMs", "ensemble of 14 LMs"):
        assert table.loc[(system, "associative"), "p"] < 0.01


def test_systems_are_compared_on_every_measure_with_p_adjusted_over_all(protocol):
    table = compare_measures(protocol)
    assert len(table) == 7 * 3
    p = np.sort(table["permutation_p"])
    assert table["permutation_p_adjusted"].min() == pytest.approx(min(1, len(table) * p[0]))
    one = table[(table["measure"] == CONSISTENCY) & (table["second"] == "ensemble of 10 LMs")].iloc[0]
    values = dict(zip(protocol.system_ids, protocol.measure(CONSISTENCY).values, strict=True))
    assert one["mcnemar_p"] == pytest.approx(mcnemar(values[one["first"]], values[one["second"]]).p)
    against = compare_measures(protocol, against="single LM")
    assert set(against["second"]) == {"single LM"}


def matrix(*item_ids):
    return ResponseMatrix(np.ones((1, len(item_ids))), ("s",), item_ids)


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: switch_protocol(matrix("A"), {"A": "a"}), "all are switched"),
        (lambda: switch_protocol(matrix("A", "b"), {"A": "a"}), "no response to the original of A"),
        (lambda: switch_protocol(matrix("a", "A", "B"), {"A": "a", "B": "a"}), "two switched forms"),
        (lambda: switch_protocol(matrix("a", "A", "B"), {"A": "a", "B": "A"}), "both an original and a switched"),
        (lambda: switch_protocol(matrix("a"), {}, tags=ItemTags(("b",), ((),))), "unknown item a"),
        (lambda: switch_protocol(matrix("a"), {}, tags=ItemTags(("a",), ((ACCURACY,),))), "cannot be called accuracy"),
        (lambda: compare_measures(switch_protocol(matrix("a"), {})), "at least two systems"),
    ],
)
def test_bad_input_is_refused(call, saying):
    is_refused(saying, call)


def test_twins_and_tags_from_one_table(tmp_path):
    (tmp_path / "items.csv").write_text("item_id,twin_of,associative\na,,1\nA,a,\nb,,0\n")
    assert read_twins(tmp_path / "items.csv") == {"A": "a"}
    assert read_tags(tmp_path / "items.csv", ["associative"]).tags == (("associative",), (), ())
    for rows, saying in (
        ("a,\nA,z\n", r"row 2 \(line 3\), column twin_of: 'z' is no item of the table"),
        ("a,\nA,a\nB,A\n", "'A' is itself a switched item"),
        ("a,\nA,a\nB,a\n", "'a' has two switched forms"),
        ("a,\nb,\n", "no item has a twin"),
        ("a,\na,a\n", "item names must be unique but 'a' is repeated"),
    ):
        (tmp_path / "items.csv").write_text("item_id,twin_of\n" + rows)
        is_refused(saying, read_twins, tmp_path / "items.csv")
