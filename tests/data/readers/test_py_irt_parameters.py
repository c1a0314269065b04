"""py-irt's estimates as items: its formula, its scale, and what it calls a 3PL."""

import json
from pathlib import Path

import numpy as np
import pytest

from builders.refusals import is_refused
from irtbench.data.input_error import InputError
from irtbench.models.curves import icc
from irtbench.models.parameter_table import read_parameters

ABILITY = [-1.0, 0.5, 2.0, 4.5]
TWO = {
    "ability": ABILITY,
    "diff": [-0.3, 1.2, 2.0],
    "disc": [0.8, 1.5, -0.2],
    "irt_model": "2pl",
    "item_ids": {"0": "q1", "1": "q2", "2": "q3"},
    "subject_ids": {"0": "a", "1": "b", "2": "c", "3": "d"},
}


def write(folder: Path, **changes: object) -> Path:
    content = {name: value for name, value in (TWO | changes).items() if value is not ...}
    (folder / "best_parameters.json").write_text(json.dumps(content))
    return folder / "best_parameters.json"


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_the_curves_are_those_of_py_irt_on_a_standardised_theta(tmp_path: Path, model: str) -> None:
    path = write(tmp_path) if model == "2pl" else write(tmp_path, irt_model="1pl", disc=...)
    items = read_parameters(path)
    assert items.item_ids == ("q1", "q2", "q3")
    theta = np.array(ABILITY)
    slope = np.array(TWO["disc"]) if model == "2pl" else np.ones(3)
    theirs = 1 / (1 + np.exp(-slope * (theta[:, None] - np.array(TWO["diff"]))))
    np.testing.assert_allclose(icc((theta - theta.mean()) / theta.std(), items), theirs, rtol=1e-12)


def test_its_3pl_has_an_upper_asymptote_and_is_refused_unless_that_is_one(tmp_path: Path) -> None:
    kept = write(tmp_path, irt_model="3pl", lambdas=[0.0, 0.001, 0.0])
    assert read_parameters(kept).discrimination == pytest.approx(np.array(TWO["disc"]) * np.std(ABILITY))
    with pytest.raises(InputError, match="3pl of py-irt, in which 1 items have an upper asymptote below 1"):
        read_parameters(write(tmp_path, irt_model="3pl", lambdas=[0.0, 0.2, 0.0]))
    with pytest.raises(InputError, match="4pl of py-irt, in which 2 items"):
        read_parameters(write(tmp_path, irt_model="4pl", lambdas=[1.0, 0.2, 0.5]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diff": [1, 2]}, "3 item_ids, 2 diff, 3 disc"),
        ({"diff": ["x", 1, 2]}, "field diff: expected finite numbers"),
        ({"disc": 3}, "field disc: expected a list of numbers but it is of type int"),
        ({"ability": ...}, "field ability: expected a list of numbers but it is missing"),
        ({"ability": [1, 1]}, "field ability: expected abilities that differ"),
        ({"irt_model": "multidim_2pl"}, "field irt_model: expected 1pl or 2pl but it is multidim_2pl"),
        ({"item_ids": {"1": "a"}}, "field item_ids: expected a name for each of 3 items"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    is_refused(message, read_parameters, write(tmp_path, **changes))
