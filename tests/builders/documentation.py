"""Pages of the documentation run as their reader would: shell, Python and files in order, in one folder a page."""

import contextlib
import io
import math
import re
import shlex
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.commands_here import built, run_main
from irtbench.cli.main import RENAMED, TOP, command_in

BOX = re.compile(r"[━─│┃┏┓┗┛┡┩╇┳┻┬┴├┤┼└┘┌┐╞╡]")
NUMBER = re.compile(r"^([^\d.+-]*)([+-]?\d*\.?\d+)(\D*)$")
ASSIGNED = re.compile(r"[A-Z_]+=\S*$")
STATED_FILE = re.compile(r"# (?P<name>[\w./-]+\.\w+)\n")
TOOLS = ("head", "ls", "cat")  # that a page may use beside irtbench


@dataclass(frozen=True)
class Command:
    """A command of a page and what the page shows of its output."""

    text: str
    shown: tuple[str, ...]


def commands(block: str) -> list[Command]:
    """Commands of a block that stand after ``$``, each with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif found and line.strip() and line.strip() != "...":
            found[-1][1].append(line)
    return [Command(text, tuple(shown)) for text, shown in found]


def run(command: Command, folder: Path) -> str:
    """What a command prints, standard error after standard output; it must end with status 0."""
    words = shlex.split(command.text, comments=True)
    if words[0] == "irtbench":
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # a reader sees a line, where tests would end
            ended = run_main(*words[1:], cwd=folder)
        assert ended.status == 0, f"{command.text}: {ended.err}"
        return ended.out + ended.err
    assert words[0] in TOOLS, f"{command.text}: expected irtbench or one of {', '.join(TOOLS)}"
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def not_printed(shown: tuple[str, ...], printed: str) -> list[str]:
    """Lines shown that are none of the lines printed, in the order in which they are shown.

    Lines of tables are compared without their frames, space as one space, numbers to one unit of their last digit.
    """
    lines = iter([line for raw in printed.splitlines() if (line := words_of(raw))])
    return [line for line in shown if not any(alike(words_of(line), other) for other in lines)]


def words_of(line: str) -> list[str]:
    """The words of a line, frames of tables left out."""
    return BOX.sub(" ", line).split()


def alike(shown: list[str], printed: list[str]) -> bool:
    """Whether two lines are the same but for the last digit of numbers; ``...`` at the end stands for any rest."""
    if shown and shown[-1].endswith("..."):
        *shown, last = shown
        if len(printed) < len(shown) or not " ".join(printed[len(shown) :]).startswith(last.removesuffix("...")):
            return False
        printed = printed[: len(shown)]
    return len(shown) == len(printed) and all(_same(one, other) for one, other in zip(shown, printed, strict=True))


def _same(one: str, other: str) -> bool:
    first, second = NUMBER.match(one), NUMBER.match(other)
    if one == other or first is None or second is None:
        return one == other
    if (first[1], first[3]) != (second[1], second[3]) or "." not in first[2]:
        return False
    unit = 10.0 ** -len(first[2].split(".")[1])
    return math.isclose(float(first[2]), float(second[2]), rel_tol=0, abs_tol=1.001 * unit)


def run_python(text: str, names: dict[str, object], folder: Path) -> None:
    """Run a block of Python in a folder, with the names of the blocks before it."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "<documentation>", "exec"), names)


def command_lines(block: str) -> Iterator[list[str]]:
    """The words of every ``irtbench COMMAND ...`` line of a block, what is optional ([--figures]) taken as said."""
    prompted = [command.text for command in commands(block)]
    for line in prompted or block.replace("\\\n", " ").splitlines():
        words = shlex.split(re.sub(r"(?<=\s)\[(?=-)|(?<=\S)\](?=\s|$)", " ", line), comments=True)
        while words and ASSIGNED.match(words[0]):
            words = words[1:]
        if len(words) > 1 and words[0] == "irtbench" and words[1] in (*TOP, *RENAMED) and words[1:2] != words[1:]:
            yield words[1:]


def demand_known_options(words: list[str]) -> None:
    """Have the command take its arguments without being run: each option is one it has, each value one it can have."""
    name = command_in(words)
    assert name, (
        f"irtbench {' '.join(words[:2])}: no command; a name of the last release is {RENAMED.get(words[0])} today"
    )
    command: Any = built(name)
    for word in name.split():
        command = command.commands[word]
    command.make_context(name, words[len(name.split()) :])
