"""Results show themselves in a line and in a small table, whatever their size and whatever the names in them."""

from dataclasses import dataclass, is_dataclass

import numpy as np

import irtbench
from irtbench.data.checked_settings import Settings
from irtbench.data.shown import MOST_LETTERS, MOST_ROWS, Figures, Shown, meaning_of

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


def test_a_line_has_sizes_and_single_figures_which_are_a_table_of_one_row() -> None:
    assert repr(Two(3, 1 / 3)) == "<Two: n 3, share 0.3333>"
    assert Two(3, 0.5).table().to_dict("records") == [{"n": 3, "share": 0.5}]
    many = Many(("a", "b"), np.zeros((1000, 2)), "x" * 200)
    assert repr(many) == f"<Many: 2 items, values (1000 x 2), note {'x' * MOST_LETTERS}...>"


def test_every_public_result_shows_itself_and_has_a_table() -> None:
    assert len(RESULTS) > 45
    for name in RESULTS:
        found = getattr(irtbench, name)
        assert issubclass(found, Shown)
        assert found.__repr__ is Shown.__repr__
        assert found.table is not Shown.table or found.summary is not Shown.summary or found._columns, name


def test_every_column_of_every_result_has_a_meaning() -> None:
    found = [Shown]
    for name in irtbench._HOMES:
        getattr(irtbench, name)
    for one in found:
        found += one.__subclasses__()
    listed = {one for one in found if vars(one).get("_columns") and one.__module__.startswith("irtbench.")}
    assert len(listed) > 30
    assert [(one.__name__, name) for one in listed for name, text in one.column_meanings().items() if not text] == []


def test_columns_come_from_fields_properties_and_parts() -> None:
    @dataclass(frozen=True, eq=False)
    class Parts(Shown, columns="item_ids, value=many.values, note=many.note, twice, absent"):
        """Of parts.

        Parameters
        ----------
        item_ids
            The items, of
            two lines.
        absent
            What is not there.
        """

        item_ids: tuple[str, ...]
        many: Many
        absent: np.ndarray | None = None

        @property
        def twice(self) -> np.ndarray:
            """The values again,

            doubled.
            """
            return 2 * self.many.values

    found = Parts(("a", "b"), Many(("c", "d"), np.array([1.0, 2.0]), "no"))
    assert found.table().to_dict("list") == {
        "item_id": ["a", "b"], "value": [1.0, 2.0], "note": ["no", "no"], "twice": [2.0, 4.0]
    }  # fmt: skip
    assert found.summary() == {}
    assert {name: meaning_of(Parts, name) for name in ("item_ids", "twice", "absent")} == {
        "item_ids": "The items, of two lines.", "twice": "The values again,", "absent": "What is not there."
    }  # fmt: skip


def test_a_large_result_is_short() -> None:
    values = np.random.default_rng(1).integers(0, 2, (3000, 400))
    matrix = irtbench.as_responses(values)
    assert repr(matrix) == f"<ResponseMatrix: 3000 respondents x 400 items, 100% observed, {values.mean():.0%} correct>"
    page = matrix._repr_html_()
    assert len(page) < 10_000
    assert page.count("<tr") == MOST_ROWS + 1
    assert "3000 rows x 401 columns" in page
    # names cannot bring markup or drive a terminal
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
