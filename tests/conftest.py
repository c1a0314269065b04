"""Real data stand beside the checkout; tests that need them are skipped with one clear line where they are absent."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy machine is no failure
settings.load_profile("any machine")

SHARED = Path(os.environ.get("IRTBENCH_REAL_DATA", Path(__file__).resolve().parents[2] / "shared"))


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
