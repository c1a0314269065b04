"""Commands run on a pseudo-terminal of a given size, as a user at a keyboard meets them."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COMMAND = "from irtbench.cli.main import main; main()"
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Seen:
    """What stood on the terminal, and how the command ended."""

    status: int
    raw: str
    columns: int

    @property
    def lines(self) -> list[str]:
        """Its lines without escape sequences."""
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n").splitlines()

    @property
    def height(self) -> int:
        """Lines of the terminal that they take."""
        return sum(max(1, -(-cell_len(line) // self.columns)) for line in self.lines)


def run_on_terminal(
    *arguments: object,
    columns: int = 80,
    lines: int = 24,
    cwd: Path | None = None,
    typed: str = "",
    program: str = COMMAND,
    **environment: str,
) -> Seen:
    """Run the command on a terminal of that size; `typed` is at the keyboard."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    settings = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    settings |= {"TERM": "xterm-256color", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | environment
    done = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=settings, close_fds=True,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed.encode())
    raw = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # nobody has the other end any more
            break
        if not part:
            break
        raw += part
    os.close(ours)
    return Seen(done.wait(timeout=600), raw.decode(errors="replace"), columns)
