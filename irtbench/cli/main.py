"""The command ``irtbench``: its commands, and what a user sees when one fails."""

from __future__ import annotations

import codecs
import gc
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial, wraps
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from irtbench.cli.large import processes_of_run
from irtbench.cli.options import Command, say
from irtbench.cli.result_files import held, inputs_of_command, overwriting, remove_unfinished, removed_at_the_end
from irtbench.data.input_error import InputError
from irtbench.data.place import keep_credentials, note_credentials, without_credentials

WAITING = "irtbench waits for a server"  # threads of `irtbench.data.readers.file_systems`, not loaded for the help
SHOW_TRACEBACK = "IRTBENCH_TRACEBACK"

PURPOSE = "From crowd answers to a calibrated evaluation scale, and from a system's answers to its human percentile."
#: Parameters of commands that name what is written, or where it goes; any other path is read.
OUTPUTS = ("output", "explanation", "figures", "html", "study")
#: Those whose folder has files that they name: what they are read from is no pipe.
RELATIVE_TO = ("study_file",)
#: What is wrong with options and arguments; typer exports the class below it alone.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
DUCKDB = "_duckdb"
BY_CTRL_C = 128 + signal.SIGINT  # exit status
STOPPING = ("SIGTERM", "SIGHUP")  # signals that end a run in good order, as Ctrl-C does
MOST_SECONDS = 2.0  # for that; a library may be at work for longer before it lets go
#: Exit status of a run that was sent such a signal.
stopped_with: ContextVar[int | None] = ContextVar("stopped_with", default=None)
#: In the order of the help, with its line there; of two words the first is a group of commands.
COMMANDS: Mapping[str, str] = {
    "quickstart": "A simulated study, built and scored.",
    "convert": "Any known format to the long table.",
    "doctor": "What a data set holds, and what is wrong with it.",
    "init": "A study file for a data set, after a few questions.",
    "crowd plan": "People and items needed for a wanted precision.",
    "crowd sample": "Items of a corpus for a crowd, and its sheets.",
    "crowd screen": "Whose answers count, and why.",
    "crowd agree": "Agreement of the crowd.",
    "crowd raters": "How severe raters are, and fair scores.",
    "crowd keys": "Items by the probability that their key is wrong.",
    "build": "A study file to bank, scores and report.",
    "dimensions": "How many abilities there are.",
    "fit": "Item parameters and abilities from responses.",
    "items show": "A bank to read: its items, ability by raw score.",
    "items diagnose": "Classical statistics, item, pair and person fit.",
    "items difficulty": "Difficulty explained by features of the items.",
    "items bias": "Items that are harder for one group than another.",
    "link": "New people, or new items, on an old bank's scale.",
    "form assemble": "A short form of a bank.",
    "form adapt": "Adaptive tests: replayed, simulated, or here.",
    "score": "Ability and human percentile of systems.",
    "compare": "Is one system better than another?",
    "predict": "Accuracy on the whole bank, from a part of it.",
    "evaluate breakdown": "Accuracy by type of item.",
    "evaluate consistency": "Accuracy on switched twins of items.",
    "evaluate calibration": "Stated probabilities against outcomes.",
    "evaluate human-bound": "Human accuracy with a bound.",
    "evaluate artifacts": "Items that give themselves away.",
    "evaluate power": "What a test set of n items can show.",
    "report": "The report of a finished study again.",
    "simulate": "Responses with known truth.",
}
GROUPS: Mapping[str, str] = {
    "crowd": "A crowd: planned, sampled for, screened; its raters.",
    "items": "The items: shown, diagnosed, hard, biased.",
    "form": "Forms of a bank: short ones, adaptive ones.",
    "evaluate": "Systems on items, without a model of these.",
}
#: Where a command's function is, unless in the module of its group's name, or of its own.
MODULES: Mapping[str, str] = {
    "quickstart": "build", "report": "build", "convert": "data_files", "doctor": "data_files",
    "compare": "systems", "predict": "systems",
    "init": "data_files", "dimensions": "items", "items difficulty": "difficulty", "items bias": "bias",
}  # fmt: skip
#: Names of the last release, which still work, and those of today.
RENAMED: Mapping[str, str] = {
    name.split()[1]: name for name in COMMANDS if name.split()[0] in GROUPS and name != "items show"
} | {"extend": "link --extend"}
#: Headings of the help, each above the commands from this one on: the order of the work.
HEADINGS: Mapping[str, str] = {
    "quickstart": "Begin",
    "crowd": "Crowds",
    "build": "Scales and items",
    "form": "Short forms and tests",
    "score": "Systems and people",
    "evaluate": "Evaluation",
    "report": "Reports and simulation",
}
#: What follows the program's name.
TOP = tuple(dict.fromkeys(name.split()[0] for name in COMMANDS))
#: What the shell that completes a line has in the environment, and the variable with the line's words so far.
COMPLETE, WORDS = "_IRTBENCH_COMPLETE", ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
#: Libraries whose distribution has another name than what is imported.
DISTRIBUTIONS = {"pyro": "pyro-ppl", "sklearn": "scikit-learn"}
#: Of the command line and its groups.
PLAIN: Mapping[str, Any] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
EXTRAS = {"sklearn": "artifacts", "fsspec": "remote"}  # of irtbench, by the module that they bring


class Sections(TyperGroup):
    """The command line whose help has the commands under headings."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the help."""
        return [*TOP]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, a section a heading."""
        rows: dict[str, list[tuple[str, str]]] = {}
        heading = "Commands"
        for name in self.list_commands(ctx):
            heading = HEADINGS.get(name, heading)
            rows.setdefault(heading, []).append((name, GROUPS.get(name) or COMMANDS[name]))
        for title, commands in rows.items():
            with formatter.section(title):
                formatter.write_dl(commands)


def application(name: str = "") -> typer.Typer:
    """The command line, of which the command of this name is loaded and nothing else is.

    Without a name none is loaded: for the help, and a shell that completes a name.
    """
    app = typer.Typer(name="irtbench", cls=Sections, help=PURPOSE, callback=callback, **PLAIN)
    groups: dict[str, typer.Typer] = {}
    for known, short in COMMANDS.items():
        group, _, own = known.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(**PLAIN)
            app.add_typer(groups[group], name=group, help=GROUPS[group])
        into = groups.get(group, app)
        if known == name:
            wrapped = noting_inputs(function_of(name))
            into.command(own, short_help=short, cls=Command.of(wrapped))(wrapped)
        else:
            into.command(own, short_help=short)(lambda: None)
    return app


def function_of(name: str) -> Callable[..., Any]:
    """The function behind a command, its parameters the options."""
    group, _, own = name.rpartition(" ")
    own = own.replace("-", "_")
    module = import_module(f"irtbench.cli.{MODULES.get(name, group or own)}")
    typed: Callable[..., Any] = getattr(module, own).as_typer()
    return typed


def command_in(words: Sequence[str]) -> str:
    """The command that a line begins with; empty where it is none, or a group alone."""
    return next((name for name in (" ".join(words[:n]) for n in (1, 2)) if name in COMMANDS), "")


def of_today(words: Sequence[str]) -> tuple[list[str], str]:
    """The words with the name that their command has today, and a line on the one that it had."""
    first, *rest = words or [""]
    today = RENAMED.get(first, "")
    if first == "items" and rest and f"items {rest[0]}" not in COMMANDS and rest[0] not in ("-h", "--help"):
        today = "items show"
    return ([*today.split(), *rest], f"irtbench {first} is now: irtbench {today}") if today else ([*words], "")


def noting_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which first notes the paths it was given to read: no result may replace one of them.

    What it knows of addresses is without their credentials. What comes from a pipe is kept in a file, for it can be
    read only once.
    """

    @wraps(command)
    def noted(**given: Any) -> Any:
        given = {name: keep_credentials(value) if isinstance(value, Path) else value for name, value in given.items()}
        with ExitStack() as kept, held(overwriting, given.get("overwrite", False)):
            paths = []
            for name, value in given.items():
                if name in OUTPUTS:
                    continue
                if name not in RELATIVE_TO:
                    given[name] = value = (
                        [kept_input(path, kept) for path in value]
                        if isinstance(value, list)
                        else kept_input(value, kept)
                    )
                paths += [path for path in (value if isinstance(value, list | tuple) else [value])
                          if isinstance(path, Path)]  # fmt: skip
            from irtbench.cli.output import one_screen

            with held(inputs_of_command, tuple(paths)), one_screen():
                return command(**given)

    return noted


class PlainWarning(logging.Formatter):
    """Warnings of libraries too are shown without credentials."""

    def format(self, record: logging.LogRecord) -> str:
        """The line that is shown."""
        return without_credentials(super().format(record))


def kept_input(value: Any, kept: ExitStack) -> Any:
    """A file with what a pipe gives (``-`` for standard input); anything else as it is."""
    if not isinstance(value, Path):
        return value
    path = Path("/dev/stdin") if value == Path("-") else keep_credentials(value)
    if not (path.is_fifo() or path.is_char_device()):
        return path
    folder = kept.enter_context(removed_at_the_end(Path(tempfile.mkdtemp(prefix="irtbench-"))))
    file = folder / path.name
    with path.open("rb") as source, file.open("wb") as target:
        shutil.copyfileobj(source, target)
    return file


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"irtbench {version('irtbench')}")
        raise typer.Exit


def callback(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options before the command."""


def main() -> None:
    """Run the command line; wrong input is one line and status 2, anything unforeseen one line and status 1.

    No command but the one asked for is imported. Without any argument it is the help. A shell that
    completes a line gives the words in the environment, and no argument.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(PlainWarning("irtbench: warning: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for word in sys.argv:
        note_credentials(word)
    warnings.showwarning = partial(show_warning, set())
    for name in STOPPING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    if STOPPING and sys.platform != "win32":
        end_in_time()
    show_any_text()
    completing = COMPLETE in os.environ
    arguments, renamed = of_today(sys.argv[1:])
    if not arguments or (len(arguments) == 1 and arguments[0] in GROUPS):
        arguments.append("--help")
    words = completed_words() if completing else arguments
    asked = command_in(words)
    if not (asked or completing or words[0].startswith("-")) and (wrong := no_such_command(words)):
        fail(wrong, 2)
    # importing torch and pandas makes objects by the hundred thousand, none of them garbage: the collector would look
    # through them again and again, and once more at the end, which takes half a second
    gc.set_threshold(1_000_000, 50, 50)
    others = {*threading.enumerate()}  # of whoever calls this in a process of their own
    try:
        app = application(asked)
        with processes_of_run(asked.split()):
            status = app(arguments, prog_name="irtbench", standalone_mode=False)
        if status == BY_CTRL_C:  # what newer versions of typer make of it, others raise Abort
            fail("stopped by Ctrl-C", BY_CTRL_C)
        if renamed and not {"-q", "--quiet"} & set(arguments):
            say(f"warning: {renamed}")
        if isinstance(status, int) and status:
            sys.exit(status)
    except SystemExit:
        raise
    except BaseException as error:
        if (status := stopped_with.get()) is not None:  # a library has made another exception of the signal's
            sys.exit(status)
        end_with(error, asked)
    finally:
        if DUCKDB not in sys.modules:  # which complains of objects that are there at the end
            gc.freeze()
        leave_what_waits(sys.exc_info()[1], others)


def leave_what_waits(ending: BaseException | None, others: Set[threading.Thread]) -> None:
    """End the program at once where a server has not answered this command, whose library would be waited for."""
    waits = any(thread.name == WAITING for thread in {*threading.enumerate()} - others)
    if waits and isinstance(ending, SystemExit):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(ending.code if isinstance(ending.code, int) else 1)


def end_with(error: BaseException, asked: str) -> NoReturn:
    """Say in one line why the command ends."""
    match error:
        case UsageError():
            place = f"irtbench {asked}".rstrip()
            words: str = error.format_message()  # type: ignore[attr-defined]
            words = words.replace("Value error, ", "").rstrip(".")
            fail(f"{words} ({place} --help shows what there is)", 2, place=place)
        case typer.Abort() | KeyboardInterrupt():
            fail("stopped by Ctrl-C", BY_CTRL_C)
        case InputError():
            fail(str(error), 2)
        case OSError():
            fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)
        case MemoryError():
            fail("not enough memory for input of this size", 2)
        case Exception() if missing := missing_library(error):
            fail(missing, 2)
    if not isinstance(error, Exception):
        raise error
    if os.environ.get(SHOW_TRACEBACK):  # the last resort: a person gets a line, a developer the traceback on request
        sys.stderr.write(without_credentials(traceback.format_exc()))
        sys.exit(1)
    fail(f"internal error, please report it: {type(error).__name__}: {error} ({SHOW_TRACEBACK}=1 shows more)", 1)


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """End a run that was sent a signal: what was begun is removed on the way out."""
    signal.signal(number, signal.SIG_IGN)
    stopped_with.set(128 + number)
    fail(f"stopped by {signal.Signals(number).name}", 128 + number)


def end_in_time() -> None:
    """End a run that was sent a signal even where a library is at work that lets no handler run, or not for long.

    The system writes the signal's number into a pipe, from which a thread reads it.
    """
    numbers, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def wait() -> None:
        stopping = {getattr(signal, name, None) for name in STOPPING}
        ignored = {number for number in stopping if number and signal.getsignal(number) is signal.SIG_IGN}
        while (number := os.read(numbers, 1)[0]) not in stopping - ignored:
            pass
        time.sleep(MOST_SECONDS)
        remove_unfinished()
        if signal.getsignal(number) is not signal.SIG_IGN:  # `stop` has not printed it yet
            print(f"irtbench: stopped by {signal.Signals(number).name}", file=sys.stderr, flush=True)
        os._exit(128 + number)

    Thread(target=wait, daemon=True).start()


def completed_words() -> list[str]:
    """Words after the program's name on a line that a shell completes, but for the one still being typed."""
    line = next((os.environ[name] for name in WORDS if name in os.environ), "")
    words = line.split()[1:]
    return words if line[-1:].isspace() else words[:-1]


def missing_library(error: Exception) -> str:
    """Say what is to be installed; empty if the error is not that a library is missing."""
    module = ((error.name if isinstance(error, ModuleNotFoundError) else None) or "").partition(".")[0]
    if module in ("", "irtbench"):
        return ""
    name = DISTRIBUTIONS.get(module, module)
    what = f"'irtbench[{EXTRAS[module]}]'" if module in EXTRAS else "irtbench"
    return f"this needs {name}, which is not installed; pip install {what} installs all that is missing"


def as_json(error: UnicodeError) -> tuple[str, int]:
    r"""What replaces letters that an encoding lacks: ``\u00fc``; and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def show_any_text() -> None:
    """Let what the terminal's or the pipe's encoding lacks be shown as JSON writes it: never an error.

    What the caller has closed leads nowhere, so that no file that is opened takes its place.
    """
    codecs.register_error("as_json", as_json)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: its own
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="as_json")


def no_such_command(words: Sequence[str]) -> str:
    """Say that there is none, and which there are that are called much the same; empty for a group and its help."""
    group = words[0] if words[0] in GROUPS else ""
    if group and (len(words) == 1 or words[1].startswith("-")):
        return ""
    name = words[1] if group else words[0]
    known = {one.removeprefix(f"{group} "): one for one in COMMANDS if one.startswith(f"{group} ")}
    known = known or {**dict(zip(TOP, TOP, strict=True)), **RENAMED}
    alike = [known[one] for one in get_close_matches(name, known)]
    advice = f"did you mean {' or '.join(alike)}?" if alike else f"expected one of {', '.join(known if group else TOP)}"
    return f"no command '{f'{group} {name}'.strip()}'; {advice}"


def fail(message: str, status: int, *, place: str = "irtbench") -> NoReturn:
    """Print one line on standard error and stop."""
    say(message, place=place)
    sys.exit(status)


def show_warning(
    said: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the place in our code; one that was said before is not said again."""
    if str(message) not in said:
        said.add(str(message))
        say(f"warning: {message}")
