"""Results show themselves in a line and in a small table, whatever their size and whatever the names in them."""

from dataclasses import dataclass, is_dataclass

import numpy as np
import pytest

import irtbench
from irtbench.data.checked_settings import Settings
from irtbench.data.shown import MOST_LETTERS, MOST_ROWS, Figures, Shown

RESULTS = [
    name
    for name in irtbench._HOMES
    if is_dataclass(found := getattr(irtbench, name))
    and not issubclass(found, Settings)
    # parts of a model, not results
    and name not in ("NodeTensors", "ItemTensors", "Priors", "GuessingPrior", "BifactorNodes", "ItemGroups")
]


@dataclass(frozen=True)
class Two(Figures):
    n: int
    share: float


@dataclass(frozen=True, eq=False)
class Many(Shown):
    item_ids: tuple[str, ...]
    values: np.ndarray
    note: str = ""


def test_a_line_has_sizes_and_single_figures() -> None:
    assert repr(Two(3, 1 / 3)) == "<Two: n 3, share 0.3333>"
    many = Many(("a", "b"), np.zeros((1000, 2)), "x" * 200)
    assert repr(many) == f"<Many: 2 items, values (1000 x 2), note {'x' * MOST_LETTERS}...>"


def test_single_figures_are_a_table_of_one_row() -> None:
    assert Two(3, 0.5).table().to_dict("records") == [{"n": 3, "share": 0.5}]


@pytest.mark.parametrize("name", RESULTS)
def test_every_public_result_shows_itself_and_has_a_table(name) -> None:
    found = getattr(irtbench, name)
    assert issubclass(found, Shown)
    assert found.__repr__ is Shown.__repr__
    assert callable(found.table)


def test_results_of_every_room_are_among_those() -> None:
    rooms = {irtbench._HOMES[name].split(".")[0] for name in RESULTS}
    assert rooms >= {"models", "estimation", "diagnostics", "analysis", "evaluation", "scoring", "bank", "building"}
    assert len(RESULTS) > 45


def test_a_large_result_is_short() -> None:
    values = np.random.default_rng(1).integers(0, 2, (3000, 400))
    matrix = irtbench.as_responses(values)
    assert repr(matrix) == f"<ResponseMatrix: 3000 respondents x 400 items, 100% observed, {values.mean():.0%} correct>"
    page = matrix._repr_html_()
    assert len(page) < 10_000
    assert page.count("<tr") == MOST_ROWS + 1
    assert "3000 rows x 401 columns" in page


def test_names_cannot_bring_markup_or_drive_a_terminal() -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    matrix = irtbench.ResponseMatrix(np.ones((1, 1)), (evil,), (evil,))
    page = matrix._repr_html_()
    assert "<script" not in page
    assert "\x1b" not in page
    scale = irtbench.Scale(
        evil, irtbench.ItemParameters.from_difficulty([1.0], [0.0], item_ids=[evil]), irtbench.ItemTable.plain([evil])
    )
    assert "<script" not in scale._repr_html_()
    assert "\x1b" not in repr(scale) + scale._repr_html_()
