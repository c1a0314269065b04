"""The study that several tests of the report look at, fitted once."""

from pathlib import Path

import pytest
from report_study import FULL, PLAIN, simulated_files

import irtbench


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    simulated_files(path)
    (path / "full.toml").write_text(FULL, encoding="utf-8")
    (path / "plain.toml").write_text(PLAIN, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def study(folder: Path) -> irtbench.Study:
    return irtbench.run_study(irtbench.read_study(folder / "full.toml"))


@pytest.fixture(scope="session")
def plain_study(folder: Path) -> irtbench.Study:
    """Graded responses, no systems, and the one scale fails."""
    return irtbench.run_study(irtbench.read_study(folder / "plain.toml"))
