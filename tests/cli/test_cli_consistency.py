"""``irtbench evaluate consistency`` as a user meets it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "items.csv").write_text("item_id,twin_of,easy\na,,1\nA,a,\nb,,0\nB,b,\nc,,0\n")
    (tmp_path / "r.csv").write_text(
        "respondent_id,item_id,response\n"
        "m,a,1\nm,A,1\nm,b,1\nm,B,0\nm,c,0\n"
        "n,a,0\nn,A,0\nn,b,0\nn,B,1\nn,c,1\n"
    )  # fmt: skip
    (tmp_path / "labels.csv").write_text(
        "respondent_id,item_id,answer\np,a,yes\nq,a,yes\np,b,no\nq,b,no\np,c,yes\nq,c,no\n"
    )
    return tmp_path


def arguments(study: Path, *more: object) -> list[object]:
    return ["evaluate", "consistency", study / "r.csv", "--items", study / "items.csv", "--tag", "easy", *more]


def test_it_writes_tables_a_json_and_a_figure(study: Path) -> None:
    found = run(*arguments(study, "--annotations", study / "labels.csv", "-o", study / "out", "--json")).json
    names = sorted(file.name for file in (study / "out").iterdir())
    assert names == ["consistency.csv", "consistency.json", "consistency.svg", "contrasts.csv", "systems.csv"]
    assert json.loads((study / "out" / "consistency.json").read_text()) == found
    table = pd.read_csv(study / "out" / "consistency.csv").set_index(["respondent_id", "measure"])["count"]
    assert table["m"].to_dict() == {
        "accuracy": 2, "before switching": 2, "after switching": 1, "consistency": 1, "both right": 1, "easy": 1,
        "not easy": 1,
    }  # fmt: skip
    assert table["n"].to_dict()["consistency"] == 1
    # pairs of labels: two of three agree; .5 of yes and no expected: kappa (2/3 - 1/2) / (1/2)
    assert found["annotations"]["fleiss_kappa"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("more", "saying"),
    [
        (["--twin-of", "other"], "column 'other' missing"),
        (["--twin-of", "easy"], "'1' is no item of the table"),
        (["--against", "z"], "unknown system z"),
        (["--level", "0"], "level"),
        (["--annotations", "absent.csv"], "absent.csv"),
    ],
)
@pytest.mark.filterwarnings("ignore:the bootstrap is undefined")
def test_bad_input_is_refused_and_nothing_is_written(study: Path, more: list[str], saying: str) -> None:
    refused(*arguments(study, *more, "-o", study / "out"), saying=saying)
    assert not (study / "out").exists()


def test_a_switched_response_without_its_original_is_named_in_one_line(study: Path) -> None:
    (study / "r.csv").write_text("respondent_id,item_id,response\nm,A,1\nm,b,1\n")
    refused(*arguments(study), saying="no response to the original of A")
