"""A reader that another package names by an entry point reads its files like any of ours."""

import subprocess
import sys
from pathlib import Path

READER = """
from irtbench.data.readers.observations import Observation, Reader

def read(head, settings, left_out):
    for number, value in head.values():
        yield Observation(value["toy"], value["q"], number, score=value["s"])

READER = Reader("toy", "toys", "response", lambda head: head.kind == "lines" and head.has("toy", "q", "s"), read)
"""
POINTS = "[irtbench.readers]\ntoy = toy_package:READER\nbroken = toy_package:NOTHING\nother = toy_package:read\n"


def test_a_format_of_another_package(tmp_path: Path) -> None:
    """One that cannot be loaded, or is no reader, is left out with a warning."""
    (tmp_path / "toy_package.py").write_text(READER)
    (tmp_path / "toy-1.0.dist-info").mkdir()
    (tmp_path / "toy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (tmp_path / "toy-1.0.dist-info" / "entry_points.txt").write_text(POINTS)
    (tmp_path / "a.jsonl").write_text('{"toy": "t1", "q": "i1", "s": 1}\n{"toy": "t2", "q": "i1", "s": 0}\n')
    program = (
        f"import logging, sys\nsys.path.insert(0, {str(tmp_path)!r})\nlogging.basicConfig()\n"
        "import irtbench\nfound = irtbench.read_responses('a.jsonl')\n"
        "print(found.format, found.frame.to_dict('list'))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120, capture_output=True, text=True
    )
    expected = {"respondent_id": ["t1", "t2"], "item_id": ["i1", "i1"], "response": [1.0, 0.0]}
    assert ended.stdout.strip() == f"toy {expected}"
    assert "broken (toy_package:NOTHING) is left out: it cannot be loaded" in ended.stderr
    assert "other (toy_package:read) is left out: expected" in ended.stderr
