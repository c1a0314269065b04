"""Agreement of grades: the figures of the books, of two levels those without an order, and intervals that cover."""

import numpy as np
import pandas as pd
import pytest

from builders.refusals import is_refused
from irtbench import agreement
from irtbench.evaluation.agreement_of_grades import ordered_agreement

#: Four observers of twelve units (Krippendorff, 2011, Computing Krippendorff's alpha-reliability): .743, .815, .849.
KRIPPENDORFF = [
    "1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 .",
]  # fmt: skip
#: Four judges of six targets (Shrout & Fleiss, 1979, table 2): ICC(1,1) .17, (2,1) .29, (3,1) .71, (1,4) .44.
SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def long(table: np.ndarray) -> pd.DataFrame:
    """Items by raters as answers."""
    rows, columns = np.nonzero(~np.isnan(table))
    grades = [f"{value:g}" for value in table[rows, columns]]
    return pd.DataFrame({"respondent_id": columns.astype(str), "item_id": rows.astype(str), "answer": grades})


def test_alphas_and_intraclass_correlations_are_those_of_the_books() -> None:
    table = np.array([[np.nan if text == "." else float(text) for text in row.split()] for row in KRIPPENDORFF]).T
    assert agreement(long(table)).krippendorff_alpha == pytest.approx(0.743, abs=5e-4)
    found = ordered_agreement(long(table), list("12345"))
    assert found.krippendorff_ordinal == pytest.approx(0.815, abs=5e-4)
    assert found.krippendorff_interval == pytest.approx(0.849, abs=5e-4)
    assert np.isnan(found.icc_absolute)
    found = ordered_agreement(long(np.array(SHROUT_FLEISS, dtype=float)), [str(k) for k in range(1, 11)])
    assert [round(value, 2) for value in (found.icc, found.icc_absolute, found.icc_consistency, found.icc_mean)] == [
        0.17, 0.29, 0.71, 0.44,
    ]  # fmt: skip
    assert found.icc_lower == pytest.approx(-0.133, abs=2e-3)
    assert found.icc_upper == pytest.approx(0.723, abs=2e-3)
    found = ordered_agreement(long(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])), ["1", "2"])
    assert found.icc == pytest.approx(-1.0)  # (0 - MSW) / (0 + MSW) of two grades each
    assert np.isnan(found.icc_mean)
    for grades in ([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]):
        found = ordered_agreement(long(np.array(grades)), ["1", "2"])
        assert np.isnan([found.icc_lower, found.icc_upper, found.weighted_kappa_lower]).all()


def test_of_two_levels_all_is_as_without_an_order() -> None:
    table = (np.random.default_rng(1).normal(size=(40, 5)) + np.random.default_rng(2).normal(size=(40, 1)) > 0) * 1.0
    table[np.random.default_rng(3).random(table.shape) < 0.2] = np.nan
    found, plain = ordered_agreement(long(table), ["0", "1"]), agreement(long(table))
    for ours, theirs in (("weighted_kappa", "fleiss"), ("krippendorff_ordinal", "krippendorff"), ("gwet_ac2", "gwet")):
        value = {"fleiss": plain.fleiss_kappa, "krippendorff": plain.krippendorff_alpha, "gwet": plain.gwet_ac1}[theirs]
        assert getattr(found, ours) == pytest.approx(value, abs=1e-12)
        assert getattr(found, f"{ours}_se") == pytest.approx(getattr(plain, f"{theirs}_se"), abs=1e-12)


def test_near_grades_agree_where_same_ones_are_rare() -> None:
    rng = np.random.default_rng(4)
    quality = rng.integers(2, 9, size=(200, 1))
    near = np.clip(quality + rng.integers(-1, 2, size=(200, 4)), 1, 9).astype(float)
    levels = [str(k) for k in range(1, 10)]
    assert ordered_agreement(long(near), levels).weighted_kappa > 0.8 > 0.4 > agreement(long(near)).fleiss_kappa
    # labels are in their order, and others are refused
    table = pd.DataFrame({"a": ["poor", "fair"], "b": ["good", "good"], "c": ["fair", "good"]}, index=["x", "y"])
    one, other = (ordered_agreement(table, order) for order in (["poor", "fair", "good"], ["fair", "poor", "good"]))
    assert one.weighted_kappa != other.weighted_kappa
    is_refused("answer 'fair' is none of the levels; expected poor, good", ordered_agreement, table, ["poor", "good"])
    is_refused("expected two or more, each once", ordered_agreement, table, ["poor", "poor"])
