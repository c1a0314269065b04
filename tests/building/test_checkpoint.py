"""Finished steps survive on disk to the last bit, and nothing else is taken for one."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.simulated import drawn, simulated
from irtbench import FitSettings, ResponseMatrix, fit_model
from irtbench.building.prune_rules import PruneRules
from irtbench.building.pruned import Checkpoint, checkpoint_key, to_plain

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Inner:
    name: str
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Record:
    number: int
    inner: Inner
    several: tuple[Inner, ...]
    perhaps: Inner | None
    table: pd.DataFrame
    sums: dict[str, float]


def from_disk(record: T, folder: Path) -> T:
    Checkpoint(folder, "key").save("step", record)
    found = Checkpoint(folder, "key").load("step", type(record))
    assert found is not None
    return found


def test_every_bit_comes_back_and_numbers_of_numpy_as_numbers(tmp_path: Path) -> None:
    inner = Inner("a", np.array([[0.1 + 0.2, np.nan], [-np.inf, 1e-310]]))
    table = pd.DataFrame({"model": ["one", "two"], "bic": [1 / 3, np.nan], "n": [1, 2], "good": [True, False]})
    several = (inner, Inner("b", np.empty((0, 2))))
    found = from_disk(Record(np.int64(2**53 + 1), inner, several, None, table, {"x": np.float64(1 / 3)}), tmp_path)
    np.testing.assert_array_equal(found.inner.values, inner.values)
    assert [part.name for part in found.several] == ["a", "b"]
    assert found.several[1].values.shape == (0, 2)
    assert (found.number, type(found.number)) == (2**53 + 1, int)
    assert (found.perhaps, found.sums) == (None, {"x": 1 / 3})
    pd.testing.assert_frame_equal(found.table, table)
    for value, plain in ((np.int32(-7), -7), (np.bool_(True), True), (np.float32(0.5), 0.5), (np.str_("a"), "a")):
        assert to_plain(value) == plain
        assert type(to_plain(value)) is type(plain)
        assert to_plain((value, [value])) == [plain, [plain]]


@pytest.mark.parametrize(
    "settings",
    [FitSettings(kind="3pl", prior="weak"), FitSettings(population="estimated"), FitSettings(prior="hierarchical")],
    ids=["3pl", "estimated population", "hierarchical prior"],
)
def test_fits_of_every_kind_come_back(tmp_path: Path, settings: FitSettings) -> None:
    """With few respondents to many items their abilities are estimated with the items."""
    shape = (10, 60) if settings.prior == "hierarchical" else (300, 8)
    fitted = fit_model(simulated(*shape, seed=1, missing=0.1)[0], settings)
    found = from_disk(fitted, tmp_path)
    assert (found.summary(), found.settings, found.priors) == (fitted.summary(), settings, fitted.priors)
    np.testing.assert_array_equal(found.quadrature.weights, fitted.quadrature.weights)
    for name, errors in fitted.items.standard_errors().items():
        np.testing.assert_array_equal(found.items.standard_errors()[name], errors)
    assert (fitted.abilities is None) == (settings.prior != "hierarchical")
    if fitted.abilities is not None:
        np.testing.assert_array_equal(found.abilities.theta, fitted.abilities.theta)
        np.testing.assert_array_equal(found.abilities.standard_error, fitted.abilities.standard_error)


def test_what_is_absent_damaged_or_of_another_key_is_not_taken_up(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new", "key")
    inner = Inner("a", np.arange(3.0))
    assert checkpoint.load("step", Inner) is None
    assert not (tmp_path / "new").exists()
    checkpoint.save("step", inner)
    assert Checkpoint(tmp_path / "new", "other").load("step", Inner) is None
    whole = (tmp_path / "new" / "step.json").read_text()
    for damaged in ("", whole[: len(whole) // 2], "[]", "null", "{}", whole.replace('"shape"', '"form"'), "\x00"):
        (tmp_path / "new" / "step.json").write_text(damaged)
        assert checkpoint.load("step", Inner) is None
    # a run that was killed while it wrote leaves the part only, and the next one writes over it
    (tmp_path / "new" / "step.json").unlink()
    (tmp_path / "new" / f".step.json.{os.getpid()}.part").write_text(whole[:20])
    assert checkpoint.load("step", Inner) is None
    checkpoint.save("step", inner)
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["step.json"]
    # the key knows data and settings
    responses = drawn(30, 8)
    flipped = np.where(np.arange(30)[:, None] == 0, 1 - responses.values, responses.values)
    other = ResponseMatrix(flipped, responses.respondent_ids, responses.item_ids)
    renamed = ResponseMatrix(responses.values, responses.respondent_ids, tuple("abcdefgh"))
    keys = [
        checkpoint_key(data, settings)
        for data in (responses, other, renamed)
        for settings in (PruneRules(), PruneRules(order=()))
    ]
    assert len(set(keys)) == 6
    assert checkpoint_key(drawn(30, 8), PruneRules()) == keys[0]
