"""What holds for all tests: the same examples every time, pages without drawings, and where real data stand.

Real data stand beside the checkout; tests that need them are skipped with one clear line where they are absent.
"""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# a busy machine is no failure, and what fails on one machine fails on all
settings.register_profile(
    "any machine", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
# nor do examples hang on the constants of whatever modules are loaded, which take seconds to read in every process
providers.is_local_module_file = lambda path: False  # type: ignore[attr-defined, assignment]

SHARED = Path(os.environ.get("IRTBENCH_REAL_DATA", Path(__file__).resolve().parents[2] / "shared"))


gc.disable()  # what is collected stays to the end: to look through it for garbage takes a quarter of that time


def pytest_collection_finish() -> None:
    """Nor need it be looked through later."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """No examples are looked for in the docstrings of tests."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with one subfolder for each real data set."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"real data absent: {folder} is not a folder (IRTBENCH_REAL_DATA names another place)")
    return folder


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder with R mirt's figures."""
    folder = SHARED / "reference"
    if not folder.is_dir():
        pytest.skip(f"reference figures absent: {folder} is not a folder (IRTBENCH_REAL_DATA names another place)")
    return folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with valid inputs of every command, which the tests of one file share."""
    from builders.valid_inputs import write_valid_inputs

    folder = tmp_path_factory.mktemp("inputs")
    write_valid_inputs(folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def drawings_on_pages() -> Iterator[None]:
    """None is drawn, nor are those in files: of a small study's build they are three quarters.

    Where they count, `report_study.drawn` and `drawn_files` draw them.
    """
    from builders.commands_here import NOT_DRAWN, empty_files
    from irtbench.report import page
    from irtbench.report.drawing import Drawing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drawing, "image", NOT_DRAWN)
        patch.setattr(page, "write_drawing", empty_files)
        yield


@pytest.fixture
def drawn_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that commands write are drawn."""
    from builders.commands_here import WRITTEN
    from irtbench.report import page

    monkeypatch.setattr(page, "write_drawing", WRITTEN)
