"""Files damaged at random: a command works, says why statistics forbid it, or says in one line what is wrong."""

from pathlib import Path

import numpy as np
import pytest

from builders.commands_here import Ended, run_main
from builders.damage import DAMAGES
from builders.valid_inputs import COMMANDS_READING, write_valid_inputs

pytestmark = pytest.mark.usefixtures("few_samples_of_r2")


def demand_good_end(ended: Ended, out: Path) -> None:
    """Status 0; 1 with a reason that is none of ours; or 2 with one line and nothing written."""
    assert ended.status in (0, 1, 2), ended
    assert "internal error" not in ended.err, ended.err
    if ended.status == 1:
        assert "not converged" in ended.err, ended.err
    if ended.status == 2:
        assert len(ended.lines) == 1, ended.err
        assert ended.lines[0].startswith("irtbench: ")
        assert not out.exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("one_of", [10, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS_READING)
def test_no_damage_is_unforeseen(command: str, one_of: int, tmp_path: Path) -> None:
    write_valid_inputs(tmp_path)
    arguments, files = COMMANDS_READING[command]
    for number, name in enumerate(files):
        whole = (tmp_path / name).read_bytes()
        for damage in DAMAGES[(number + 1 + len(command)) % one_of :: one_of]:
            rng = np.random.default_rng([len(command), number, len(damage.__name__)])
            (tmp_path / name).write_bytes(damage(whole, rng))
            demand_good_end(run_main(*arguments, cwd=tmp_path), tmp_path / "out")
            remove_results(tmp_path / "out")
        (tmp_path / name).write_bytes(whole)


def remove_results(out: Path) -> None:
    if out.exists():
        for file in out.iterdir():
            file.unlink()
        out.rmdir()
