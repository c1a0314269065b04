"""``irtbench evaluate calibration`` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run

COLUMNS = ["system", "bin", "n", "mean_predicted", "observed_share", "lower", "upper", "overconfidence"]


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    """Two systems on the same 600 items in different order, the second too sure of what the first says."""
    rng = np.random.default_rng(0)
    q = rng.beta(1, 1, 600)
    y = (rng.random(600) < q).astype(int)
    item = [f"i{k}" for k in range(600)]
    honest = pd.DataFrame({"system": "honest", "item": item, "probability": q, "label": y})
    sure = pd.DataFrame({"system": "sure", "item": item, "probability": (q > 0.5) * 0.96 + 0.02, "label": y})
    pd.concat([honest, sure.sample(frac=1, random_state=0)]).to_csv(tmp_path / "p.csv", index=False)
    return tmp_path / "p.csv"


def test_it_writes_a_table_a_json_and_a_figure(predictions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(f"evaluate calibration {predictions} --by system --item item --paired -o {out} --json").json
    assert sorted(file.name for file in out.iterdir()) == ["calibration.json", "reliability.csv", "reliability.svg"]
    assert json.loads((out / "calibration.json").read_text()) == found
    honest, sure = found["systems"]
    assert (honest["system"], honest["n_pairs"], honest["bin_size"]) == ("honest", 600, 60)
    assert honest["debiased_lower"] == 0
    assert sure["debiased_lower"] > 0.1
    assert sure["clearly_overconfident"] == 1
    table = pd.read_csv(out / "reliability.csv")
    assert list(table)[: len(COLUMNS)] == COLUMNS
    assert table.query("system == 'honest'")["n"].tolist() == [60] * 10
    assert table.query("system == 'sure'")["n"].sum() == 600
    (difference,) = found["differences"]
    assert (difference["system_1"], difference["system_2"]) == ("honest", "sure")
    assert difference["upper"] < 0
    svg = (out / "reliability.svg").read_text()
    assert all(text in svg for text in ("honest", "sure", "stated probability"))


def test_classes_count_one_against_the_rest(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("p_a,p_b,p_c,label\n.7,.2,.1,a\n.3,.3,.4,c\n.1,.8,.1,c\n")
    (found,) = run(
        f"evaluate calibration {tmp_path}/p.csv --class a=p_a --class b=p_b --class c=p_c --bin-size 9 --json"
    ).json["systems"]
    assert found["n_pairs"] == 9
    # one bin: mean q = mean y = 1/3; Brier = (.09 + .04 + .01 + .09 + .09 + .36 + .01 + .64 + .81) / 9
    assert found["error"] == pytest.approx(0)
    assert found["brier"] == pytest.approx(2.14 / 9)


def test_the_seed_decides_and_rows_may_stand_in_any_order(predictions: Path, tmp_path: Path) -> None:
    pd.read_csv(predictions).sample(frac=1, random_state=1).sort_values("system").to_csv(
        tmp_path / "q.csv", index=False
    )
    one, other = (
        run(f"evaluate calibration {file} --by system --seed 4 --json").json["systems"]
        for file in (predictions, tmp_path / "q.csv")
    )
    assert one == other


@pytest.mark.parametrize(
    ("content", "options", "saying"),
    [
        ("probability,label\n1.5,1\n", [], "row 1 ... expected a probability in [0, 1] but got '1.5'"),
        ("probability,label\n,1\n", [], "row 1 ... column probability"),
        ("probability,label\nhigh,1\n", [], "'high'"),
        ("probability,label\n.5,2\n", [], "row 1 ... expected the label 1 or 0 but got '2'"),
        ("probability,label\n.5,\n", [], "row 1 ... expected the label"),
        ("p,label\n.5,1\n", [], "column 'probability' missing"),
        ("probability,label\n.5,1\n", ["--level", "2"], "level must be between 0 and 1"),
        ("probability,label\n.5,1\n", ["--paired"], "expected --by"),
        ("a,b,label\n.5,.4,a\n", ["--class", "a=a", "--class", "b=b"], "sum to 0.9"),
        ("a,b,label\n.5,.5,c\n", ["--class", "a=a", "--class", "b=b"], "expected one of a, b but got 'c'"),
        ("s,i,probability,label\nx,1,.5,1\nx,1,.5,1\n", ["--by", "s", "--item", "i"], "1 is repeated"),
        (
            "s,i,probability,label\nx,1,.5,1\nx,2,.5,0\ny,1,.5,1\ny,3,.5,1\n",
            ["--by", "s", "--item", "i", "--paired"],
            "item 2, 3 is there for one of two",
        ),
        (
            "s,i,probability,label\nx,1,.5,1\nx,2,.5,0\ny,1,.5,1\ny,2,.5,1\n",
            ["--by", "s", "--item", "i", "--paired"],
            "disagree on what happened at item 2",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_wrong_is_refused_and_nothing_is_written(
    tmp_path: Path, content: str, options: list[str], saying: str
) -> None:
    (tmp_path / "p.csv").write_text(content)
    refused(f"evaluate calibration {tmp_path}/p.csv", *options, "-o", tmp_path / "out", saying=saying)
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("probability,label\n.5,1\n2,0\n")
    refused(f"evaluate calibration {tmp_path}/p.csv -o {tmp_path}/out", saying="row 2 (line 3)")
