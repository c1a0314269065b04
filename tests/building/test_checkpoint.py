"""Finished steps survive on disk to the last bit, and nothing else is taken for one."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from irtbench import FitSettings, FittedModel, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.analysis.dimensions import Dimensions, find_dimensions
from irtbench.building.pruned import Checkpoint, checkpoint_key, to_plain


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


def simulated(*, missing: float = 0.0, seed: int = 1) -> ResponseMatrix:
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.uniform(1, 2, 8), rng.normal(0, 0.7, 8))
    return simulate_responses(rng.normal(size=300), items, rng=rng, missing=missing)


def test_every_bit_comes_back(tmp_path: Path) -> None:
    inner = Inner("a", np.array([[0.1 + 0.2, np.nan], [-np.inf, 1e-310]]))
    table = pd.DataFrame({"model": ["one", "two"], "bic": [1 / 3, np.nan], "n": [1, 2], "good": [True, False]})
    record = Record(3, inner, (inner, Inner("b", np.empty((0, 2)))), None, table, {"x": 0.1})
    Checkpoint(tmp_path, "key").save("step", record)
    found = Checkpoint(tmp_path, "key").load("step", Record)
    assert found is not None
    np.testing.assert_array_equal(found.inner.values, inner.values)
    assert [part.name for part in found.several] == ["a", "b"]
    assert found.several[1].values.shape == (0, 2)
    assert (found.number, found.perhaps, found.sums) == (3, None, {"x": 0.1})
    pd.testing.assert_frame_equal(found.table, table)


def test_numbers_of_numpy_come_back_as_numbers(tmp_path: Path) -> None:
    inner = Inner("a", np.zeros(1))
    record = Record(np.int64(2**53 + 1), inner, (), None, pd.DataFrame({"x": [1]}), {"x": np.float64(1 / 3)})  # type: ignore[arg-type]
    Checkpoint(tmp_path, "key").save("step", record)
    found = Checkpoint(tmp_path, "key").load("step", Record)
    assert found is not None
    assert (found.number, type(found.number)) == (2**53 + 1, int)
    assert found.sums == {"x": 1 / 3}
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
    fitted = fit_model(simulated(missing=0.1), settings)
    Checkpoint(tmp_path, "key").save("fit", fitted)
    found = Checkpoint(tmp_path, "key").load("fit", FittedModel)
    assert found is not None
    assert found.summary() == fitted.summary()
    assert found.settings == settings
    assert found.priors == fitted.priors
    np.testing.assert_array_equal(found.quadrature.weights, fitted.quadrature.weights)
    for name, errors in fitted.items.standard_errors().items():
        np.testing.assert_array_equal(found.items.standard_errors()[name], errors)


def test_abilities_estimated_with_the_items_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 300), rng.normal(size=300))
    fitted = fit_model(simulate_responses(rng.normal(size=20), items, rng=rng), FitSettings(prior="hierarchical"))
    Checkpoint(tmp_path, "key").save("fit", fitted)
    found = Checkpoint(tmp_path, "key").load("fit", FittedModel)
    assert found is not None
    assert found.abilities is not None
    assert fitted.abilities is not None
    np.testing.assert_array_equal(found.abilities.theta, fitted.abilities.theta)
    np.testing.assert_array_equal(found.abilities.standard_error, fitted.abilities.standard_error)


def test_the_number_of_abilities_comes_back(tmp_path: Path) -> None:
    responses = simulated()
    dimensions = find_dimensions(responses, ["left"] * 4 + ["right"] * 4, max_factors=2, n_samples=2)
    Checkpoint(tmp_path, "key").save("dimensions", dimensions)
    found = Checkpoint(tmp_path, "key").load("dimensions", Dimensions)
    assert found is not None
    assert dimensions.rotated is not None
    assert found.rotated is not None
    pd.testing.assert_frame_equal(found.analysis.table(), dimensions.analysis.table())
    pd.testing.assert_frame_equal(found.models, dimensions.models)
    pd.testing.assert_frame_equal(found.rotated.table(), dimensions.rotated.table())


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


def test_the_key_knows_data_and_settings() -> None:
    responses = simulated()
    values = responses.values.copy()
    values[0, 0] = 1 - values[0, 0]
    other = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    renamed = ResponseMatrix(responses.values, responses.respondent_ids, tuple("abcdefgh"))
    keys = [checkpoint_key(data, settings) for data in (responses, other, renamed) for settings in (1, 2)]
    assert len(set(keys)) == 6
    assert checkpoint_key(simulated(), 1) == keys[0]
