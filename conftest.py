"""Examples in docstrings and in the documentation may write files: each runs in an empty folder of its own."""

from pathlib import Path

import pytest

collect_ignore_glob = ["docs/conf.py", "docs/extensions/*"]  # they need Sphinx, and have no examples


@pytest.fixture(autouse=True)
def _own_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        folder: Path = tmp_path_factory.mktemp("example")
        request.getfixturevalue("monkeypatch").chdir(folder)
