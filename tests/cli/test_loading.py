"""Libraries are loaded while a large file is read, and only then."""

import sys
from pathlib import Path

import pytest

from irtbench.cli import large
from irtbench.cli.large import loading_beside


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "slow_to_load.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_to_load", raising=False)
    monkeypatch.setattr(large, "WORTHWHILE", 10)
    return "slow_to_load"


@pytest.mark.parametrize(("size", "loaded"), [(9, False), (10, True), (500, True)])
def test_a_module_is_loaded_beside_a_large_file_alone(size: int, loaded: bool, module: str, tmp_path: Path) -> None:
    file = tmp_path / "responses.csv"
    file.write_bytes(bytes(size))
    with loading_beside(file, module):
        pass
    assert (module in sys.modules) == loaded


def test_folders_and_files_that_are_not_there_are_left_to_the_reader(module: str, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent.csv"):
        with loading_beside(place, module):
            pass
    assert module not in sys.modules


def test_an_error_of_the_body_comes_through_and_a_missing_module_fails_where_it_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "responses.csv"
    file.write_bytes(bytes(large.WORTHWHILE))
    with pytest.raises(ValueError, match="row 3"), loading_beside(file, "no_such_module_anywhere"):
        raise ValueError("row 3")
