"""Files in the exact layout of their writers, and the writers themselves where they are installed."""

import importlib.util
import json
import os
import subprocess
import sys

import pandas as pd
import pytest


@pytest.fixture
def write(tmp_path):
    """Write text as it is, other content as the name ends (.csv, .jsonl, .json), by path below the test's folder."""

    def write_file(name, content, *, indent=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            text = content
        elif path.suffix == ".csv":
            text = pd.DataFrame(content).to_csv(index=False)
        elif path.suffix in (".jsonl", ".jsonlines"):
            text = "".join(json.dumps(value) + "\n" for value in content)
        else:
            text = json.dumps(content, indent=indent)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def run_writer(tmp_path):
    """Run a script of another package in the test's folder; skip where the package is absent."""

    def run(package, script):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: its own writer is not run")
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path / "hf")}
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return tmp_path

    return run


@pytest.fixture
def triples():
    """The observations of a table: respondent, item, response or answer."""

    def take(table):
        value = "response" if "response" in table.frame else "answer"
        return list(table.frame[["respondent_id", "item_id", value]].itertuples(index=False, name=None))

    return take
