"""Features of items and adjusted p values: numbers, kinds, one line for what is wrong, and statsmodels' figures."""

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from builders.refusals import is_refused
from irtbench.data.items import ItemFeatures
from irtbench.data.multiple_testing import adjust
from irtbench.data.readers.item_table import read_features


def test_numbers_flags_and_kinds_become_columns(tmp_path: Path) -> None:
    file = tmp_path / "features.csv"
    file.write_text("item_id,length,negated,kind\nq1,3,true,a\nq2,5.5,false,b\nq3,2,true,c\nq4,1,false,a\nq5,1,false,b\n"
                    "q6,1,false,c\n")  # fmt: skip
    found = read_features(file)
    assert found.names == ("length", "negated", "kind=b", "kind=c")
    np.testing.assert_array_equal(found.values[:3], [[3, 1, 0, 0], [5.5, 0, 1, 0], [2, 1, 0, 1]])
    assert read_features(file, columns=("length",)).names == ("length",)
    assert read_features(file, exclude=("kind", "length")).names == ("negated",)
    assert found.select(["q3", "q1"]).values[:, 0].tolist() == [2, 3]
    pd.testing.assert_frame_equal(ItemFeatures.from_frame(found.table()).table(), found.table())
    is_refused("no row for item q9", found.select, ["q9"])
    is_refused(r"values of shape \(1, 1\) for 2 items, 1 features", ItemFeatures, ("q1", "q2"), ("x",), np.ones((1, 1)))


@pytest.mark.parametrize(
    ("text", "saying"),
    [
        ("item_id,length\nq1,3\nq2,\n", "length of item q2 is empty"),
        ("item_id,length\nq1,3\nq1,4\n", "item_id must be unique but q1"),
        ("item_id\nq1\nq2\n", "no feature; expected a column"),
        ("name,length\nq1,3\n", "column 'item_id' missing"),
        ("item_id,length\nq1,3\nq2,inf\n", "length of item q2 is missing or not finite"),
        ("item_id,length\na,3\nb,1e308\n", r"length of item b is 1e\+308; expected at most 1e\+50 in size"),
        ("item_id,text\nq1,one\nq2,two\nq3,three\nq4,four\n", "text has a text of its own for nearly every item"),
    ],
)
def test_wrong_tables_are_named(tmp_path: Path, text: str, saying: str) -> None:
    (tmp_path / "features.csv").write_text(text)
    is_refused(saying, read_features, tmp_path / "features.csv")


@given(p=st.lists(st.floats(0, 1), min_size=1, max_size=12))
@pytest.mark.parametrize("method", ["holm", "fdr_bh"])
def test_adjusted_p_is_that_of_statsmodels(method: str, p: list[float]) -> None:
    with patch("gc.collect"):  # of a process of thousands of tests it takes a third of a second each time
        expected = multipletests(p, method=method)[1]
    np.testing.assert_allclose(adjust(np.array(p), method), expected, atol=1e-15)


def test_what_is_missing_is_no_test() -> None:
    # Holm: .01 * 3, .02 * 2, .9; Benjamini and Hochberg: .01 * 3, .02 * 3 / 2, .9
    p = np.array([0.02, np.nan, 0.9, 0.01])
    np.testing.assert_allclose(adjust(p), [0.04, np.nan, 0.9, 0.03])
    np.testing.assert_allclose(adjust(p, "fdr_bh"), [0.03, np.nan, 0.9, 0.03])
    assert np.isnan(adjust(np.array([np.nan]))).all()
    assert adjust(np.array([])).size == 0
