"""Scores of parts of a table are those of the whole, in other processes too; what is wrong in a part is named."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.answered_banks import make_scale, wide_responses
from builders.command_line import run_program
from builders.refusals import is_refused

BANK = irtbench.ItemBank((make_scale("a", 20), make_scale("b", 10)))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    table = wide_responses(BANK, 60, missing=0.2, seed=2).astype({"respondent_id": str})
    return table.astype(dict.fromkeys(table.columns[1:], float)).replace({"respondent_id": "^r"}, "p", regex=True)


def whole(frame: pd.DataFrame, **settings: object) -> pd.DataFrame:
    return irtbench.score_responses(BANK, frame.set_index("respondent_id"), irtbench.ScoringSettings(**settings))


def assert_alike(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """Ends of intervals on either grid are right to .02 of a standard error, everything else to 1e-3."""
    assert list(found) == list(wanted)
    ends = [name for name in found.columns.astype(str) if name.endswith(("_lower", "_upper"))]
    rest = found.columns.difference(ends)
    pd.testing.assert_frame_equal(found[rest], wanted[rest].reset_index(drop=True), check_dtype=False, atol=1e-3)
    for name in ("theta_lower", "theta_upper"):
        assert (np.abs(found[name] - wanted[name].to_numpy()) < 0.03 * found["se"]).all()


@pytest.mark.parametrize("method", ["eap", "wle"])
def test_parts_give_the_scores_of_the_whole(frame: pd.DataFrame, method: str) -> None:
    scorer = irtbench.PartitionScorer(BANK, method=method)
    found = pd.concat([scorer(frame[:25]), scorer(frame[25:])], ignore_index=True)
    assert_alike(found, whole(frame, method=method))


LIGHT = """
import pickle, sys
import pandas as pd
from irtbench.scoring import ability_comparison, bulk, prediction, scores
heavy = {"torch", "pyro", "statsmodels", "sklearn", "scipy.stats", "matplotlib"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
pickle.load(open("scorer", "rb"))(pd.read_parquet("part.parquet")).to_parquet("scores.parquet")
assert not {"torch", "pyro"} & set(sys.modules)
"""


def test_it_travels_and_scoring_loads_nothing_heavy(frame: pd.DataFrame, tmp_path: Path) -> None:
    scorer = irtbench.PartitionScorer(BANK)
    (tmp_path / "scorer").write_bytes(pickle.dumps(scorer))
    frame.to_parquet(tmp_path / "part.parquet")
    ended = run_program(LIGHT, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "scores.parquet"), scorer(frame))


def test_an_empty_part_has_the_columns_and_types_of_any_other(frame: pd.DataFrame) -> None:
    scorer = irtbench.PartitionScorer(BANK)
    empty = scorer(frame[:0])
    pd.testing.assert_series_equal(empty.dtypes, scorer(frame).dtypes)
    assert len(empty) == 0
    assert scorer.schema().startswith(
        "respondent_id string, scale string, n_items bigint, n_correct bigint, accuracy double"
    )


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        (lambda f: f.drop(columns="respondent_id"), "no column respondent_id"),
        (lambda f: pd.concat([f, f[:1]]), "respondents of a part must be unique but p0 is repeated"),
        (lambda f: f.assign(a3=2.0), "respondent p0, item a3: expected 1, 0 or missing but got 2"),
        (lambda f: f.assign(a3="yes"), "expected 1, 0 or missing but a column holds other values"),
        (lambda f: f.assign(stranger=1.0), "stranger"),
        (lambda f: f.assign(respondent_id=[None, *f["respondent_id"][1:]]), "expected a name in every row"),
    ],
)
def test_what_is_wrong_in_a_part_is_named(frame: pd.DataFrame, change, saying: str) -> None:  # type: ignore[no-untyped-def]
    is_refused(saying, irtbench.PartitionScorer(BANK), change(frame))


def test_a_bank_file_and_columns_left_aside(frame: pd.DataFrame, tmp_path: Path) -> None:
    irtbench.save_bank(BANK, tmp_path / "bank.json")
    scorer = irtbench.PartitionScorer(tmp_path / "bank.json", respondent="who", unknown_items="ignore")
    assert_alike(scorer(frame.rename(columns={"respondent_id": "who"}).assign(age=30.0)), whole(frame))


@pytest.mark.filterwarnings("ignore")  # dask's own
def test_dask_calls_it_on_its_partitions(frame: pd.DataFrame) -> None:
    dask = pytest.importorskip("dask.dataframe")
    scorer = irtbench.PartitionScorer(BANK)
    found = dask.from_pandas(frame, npartitions=4).map_partitions(scorer, meta=scorer.empty()).compute()
    assert_alike(found.reset_index(drop=True), whole(frame))
