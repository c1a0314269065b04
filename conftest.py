"""Examples in docstrings and in the documentation may write files: each runs in an empty folder of its own."""

from pathlib import Path

import pytest

collect_ignore_glob = ["docs/conf.py", "docs/extensions/*"]  # they need Sphinx, and have no examples


@pytest.fixture
def few_samples_of_r2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its bootstrap: ends of the interval are known to a tenth of its width, which coverage does not see."""
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 100, True: 60})


@pytest.fixture(autouse=True)
def _own_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        folder: Path = tmp_path_factory.mktemp("example")
        patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
        patch.chdir(folder)
        if request.node.name.startswith("irtbench.analysis.explained_difficulty"):
            request.getfixturevalue("few_samples_of_r2")
        elif request.node.name.startswith("irtbench.analysis.explained_responses"):  # they show effects to a tenth
            patch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 10, True: 10})
            patch.setattr("irtbench.analysis.explained_responses.MOST_UPDATES", 8)
