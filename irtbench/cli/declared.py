"""A command, declared: settings become options; what it finds is written, drawn and printed in one way."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import typer
from typer.models import ParameterInfo

import irtbench.report
from irtbench.cli.large import ranks_of_run
from irtbench.cli.options import (
    AMONG_RESULTS,
    Figures,
    FiguresOrAmong,
    Folder,
    Html,
    Seed,
    numbers,
    refuse,
    say,
)
from irtbench.cli.output import Words, demand_table_name, reporting, show_words, to_json, write_json, write_table
from irtbench.cli.result_files import output_file, output_folder
from irtbench.data.checked_settings import meanings
from irtbench.data.responses import name_first

LEAST_WIDTH, MOST_WIDTH = 2.0, 40.0  # of figures, in inches
KEYWORD = inspect.Parameter.KEYWORD_ONLY


@dataclass
class Run:
    """What every command is given: where results go, its seed, and where it says how far it is.

    Parameters
    ----------
    output
        Folder or file of the results.
    seed
        Of the random numbers.
    progress
        Takes a line about the step at hand.
    hush
        Ends the progress, before a question is asked.
    place
        Where results are written until they reach the output, all at once.
    figures, html
        Folder of the figures, and file of the page, if they are asked for.
    ending
        What is left when the command ends.
    """

    output: Path | None
    seed: int = 0
    progress: Callable[[str], None] = lambda message: None
    hush: Callable[[], None] = lambda: None
    place: Path | None = None
    figures: Path | None = None
    html: Path | None = None
    ending: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def rng(self) -> np.random.Generator:
        """Random numbers of the seed."""
        return np.random.default_rng(self.seed)

    def opened(self, output: Path, place: AbstractContextManager[Path]) -> Path:
        """Where results are written that reach another output than the one that all commands have."""
        self.output, self.place = output, self.ending.enter_context(place)
        return self.place

    @property
    def folder(self) -> Path:
        """The output of a command that always has one."""
        assert self.output is not None
        return self.output


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command has found.

    Parameters
    ----------
    json
        What ``--json`` prints.
    files
        Tables, texts and values by the name of their file, None for one that is not written; or the one table.
    words
        What people read.
    figures, page
        Make the figures, and the page of ``--html``.
    doubts
        Printed on standard error.
    unconverged
        What did not converge.
    status
        With which the command ends.
    stopped
        Why it ends without any result, with status 1; empty if it does not.
    """

    json: Any
    words: Words = ()
    files: Mapping[str, Any] | pd.DataFrame = field(default_factory=dict)
    figures: Callable[[], Sequence[irtbench.report.page.Block]] | None = None
    page: Callable[[], irtbench.report.page.Page] | None = None
    doubts: Sequence[str] = ()
    unconverged: Sequence[str] = ()
    status: int = 0
    stopped: str = ""

    def write(self, place: Path) -> None:
        """Write the files: tables as such, texts as they are, anything else as JSON or as it saves itself."""
        if isinstance(self.files, pd.DataFrame):
            write_table(self.files, place)
            return
        for name, value in self.files.items():
            match value:
                case None:
                    continue
                case pd.DataFrame():
                    write_table(value, place / name)
                case str():
                    (place / name).write_text(value, encoding="utf-8", newline="")
                case _ if callable(value):
                    value(place / name)
                case _:
                    write_json(value, place / name)


@dataclass(frozen=True)
class Declared:
    """A command; see `command`."""

    function: Callable[..., Outcome]
    files: tuple[str, ...]
    output: Any
    figures: Any
    draws: str
    html: bool
    trials: irtbench.data.readers.trials.Trials
    fits: bool
    seed: Any

    def as_typer(self) -> Callable[..., None]:
        """The function that typer takes: a parameter an option."""
        own = dict(inspect.signature(self.function, eval_str=True).parameters)
        shared = {
            "output": self.output,
            "figures": self.figures,
            "figure_width": self.figures
            and Annotated[
                str | None,
                typer.Option(
                    "--figure-width",
                    metavar="WIDTH",
                    help="How wide the figures are, in inches or millimetres: 3.3in is a journal's column, 6.9in its "
                    "page.",
                ),
            ],
            "html": Html if self.html else None,
            "seed": self.seed,
            "allow_unconverged": Annotated[
                bool, typer.Option("--allow-unconverged", help="Exit with 0 even if a fit did not converge.")
            ]
            if self.fits
            else None,
            "quiet": Annotated[
                bool, typer.Option("--quiet", "-q", help="No progress, no table; errors and warnings only.")
            ],
            "json": Annotated[
                bool, typer.Option("--json", help="Result as JSON on standard output, progress on standard error.")
            ],
            "overwrite": Annotated[
                bool, typer.Option("--overwrite", help="Write over the results of a finished study.")
            ]
            if self.output is not None or "output" in own
            else None,
        }
        shared = {name: hint for name, hint in shared.items() if hint is not None and name not in own}
        needed = self.output is not None and type(None) not in get_args(get_args(self.output)[0])
        defaults = {"output": inspect.Parameter.empty if needed else None, "seed": 0}
        defaults |= dict.fromkeys(("allow_unconverged", "quiet", "json", "overwrite"), False)
        parameters = [one for name, one in own.items() if name != "run"]
        parameters += [
            inspect.Parameter(name, KEYWORD, default=defaults.get(name), annotation=annotation)
            for name, annotation in shared.items()
        ]
        shown, settings = expanded(parameters, trials=self.trials)

        @wraps(self.function)
        def typed(**given: Any) -> None:
            given |= {name: made(given) for name, made in settings.items()}
            options = {name: given.pop(name) for name in shared}
            self.carry_out(given, **options)

        typed.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return typed

    def carry_out(self, given: Mapping[str, Any], **options: Any) -> None:
        """Run the command; write, draw and show what it finds."""
        output: Path | None = options.get("output")
        ranks = ranks_of_run.get()
        if ranks is not None and not ranks.is_first:  # which takes the same steps, and the first process says all
            self.function(**given, run=Run(output, options.get("seed", 0), place=output))
            return
        is_file = self.output is not None and "FILE" in str(get_args(self.output)[1].metavar)
        if is_file and output is not None:
            demand_table_name(output)
        with ExitStack() as stack:
            talk = stack.enter_context(ExitStack())
            progress = talk.enter_context(reporting(quiet=options["quiet"]))
            place = (
                None
                if output is None
                else stack.enter_context(output_file(output) if is_file else output_folder(output, files=self.files))
            )
            draw = stack.enter_context(
                figures_in(
                    options.get("figures"), among=place if self.figures is FiguresOrAmong else None,
                    unasked=place if self.draws else None, ending=self.draws or "svg",
                    width=inches(options.get("figure_width")),
                )
            )  # fmt: skip
            html: Path | None = options.get("html")
            page = html and stack.enter_context(output_file(html))
            ending = stack.enter_context(ExitStack())
            run = Run(output, options.get("seed", 0), progress, talk.close, place, options.get("figures"), html, ending)
            found = self.function(**given, run=run)
            if found.stopped:
                say(found.stopped)
                raise typer.Exit(1)
            if run.place is not None:
                found.write(run.place)
            if draw is not None and found.figures is not None:
                draw(found.figures())
            if page is not None and found.page is not None:
                page.write_text(irtbench.report.render_page(found.page()), encoding="utf-8")
        if options["json"]:
            print(to_json(found.json))
        elif not options["quiet"]:
            show_words(found.words, run.output)
        for doubt in found.doubts:
            say(f"warning: {doubt}")
        if found.unconverged:
            say(f"not converged: {name_first(found.unconverged)}")
            if not options.get("allow_unconverged"):
                raise typer.Exit(1)
        if found.status:
            raise typer.Exit(found.status)


def inches(width: str | None) -> float | None:
    """A width in inches: ``3.3in``, ``84mm``, or a number of inches.

    Examples
    --------
    >>> inches("3.3in"), inches("254 mm"), inches(None)
    (3.3, 10.0, None)

    Raises
    ------
    InputError
        If it is no width, or none that a figure can have.
    """
    if width is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(in|mm|)\s*", width)
    found = float(match[1]) / (25.4 if match[2] == "mm" else 1.0) if match else 0.0
    if not LEAST_WIDTH <= found <= MOST_WIDTH:
        raise irtbench.InputError(
            f"--figure-width: expected {LEAST_WIDTH:g} to {MOST_WIDTH:g} inches, such as 3.3in or 84mm, "
            f"but got {width!r}"
        )
    return found


@contextmanager
def figures_in(
    target: Path | None,
    *,
    among: Path | None = None,
    unasked: Path | None = None,
    ending: str = "svg",
    width: float | None = None,
) -> Iterator[Callable[[Sequence[irtbench.report.page.Block]], None] | None]:
    """Give a function that writes figures into the folder that ``--figures`` names; None where none are wanted.

    In a folder of their own they are SVG, PNG and PDF, with a list of captions, and take the place of the last run's.

    Parameters
    ----------
    target
        The folder; None where the option was not given.
    among
        Where the command is writing its results, among which the figures are where ``--figures`` names no folder.
    unasked
        The same of a command that draws among its results without being asked.
    ending
        Of the figures that are among results.
    width
        Of the figures, in inches.

    Raises
    ------
    InputError
        As `output_folder`; or if there is a width and there are no figures.
    """
    results = among if target == AMONG_RESULTS else unasked
    unwanted = target is None and results is None
    refuse(
        {
            "--figures: expected a folder for them, --figures DIR or -o DIR":
            target == AMONG_RESULTS and results is None,
            "--figure-width: expected the figures too, --figures DIR": unwanted and width is not None,
        }
    )  # fmt: skip
    if unwanted:
        yield None
        return
    own = None if target == AMONG_RESULTS else target
    with nullcontext() if own is None else output_folder(own, files=irtbench.report.written_before(own)) as folder:

        def draw(blocks: Sequence[irtbench.report.page.Block]) -> None:
            if results is not None:
                irtbench.report.write_figures(blocks, results, formats=(ending,), width=width)
            if folder is not None:
                irtbench.report.write_figures(blocks, folder, width=width)

        yield draw


def command(
    *files: str, output: Any = Folder, figures: Any = Figures, draws: str = "", html: bool = False,
    trials: irtbench.data.readers.trials.Trials = "error", fits: bool = False, seed: Any = Seed,
) -> Callable[[Callable[..., Outcome]], Declared]:  # fmt: skip
    """Declare the function below as a command, which takes its inputs and settings and returns what it finds.

    Parameters
    ----------
    files
        Every file that it may write.
    output, figures
        The option, None for none, or where the command has one of its own and opens its output itself.
    draws
        Ending of the figures that it draws among its results unasked; empty for none.
    html
        Whether there is a page to read.
    trials
        What becomes of repeated trials unless given.
    fits
        Whether it fits a model, which may not converge.
    seed
        The option, None for none. Of these options a command may have one of its own in place of the shared one.
    """
    return lambda function: Declared(function, files, output, figures, draws, html, trials, fits, seed)


Option = tuple[inspect.Parameter, bool]


@dataclass(frozen=True)
class Fields:
    """How the fields of settings become options; part of the parameter's annotation.

    Parameters
    ----------
    names
        Options of another name than their field.
    without
        Fields that are none.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()


def expanded(
    parameters: Sequence[inspect.Parameter], **usual: Any
) -> tuple[list[inspect.Parameter], dict[str, Callable[[dict[str, Any]], Any]]]:
    """The parameters as typer takes them, one an option; and what makes the settings of options, which it takes away.

    Of options in `reading`, `usual` are values unless given. Where two options would have the same name, it is that of
    the one that comes first; `reading` comes last, and is before the seed in the help.
    """
    own = {one.name: one for one in parameters}
    settings = {name: settings_in(one.annotation) for name, one in own.items()}
    shown = {name: [one] for name, one in own.items() if settings[name][0] is None}
    taken = {name for (one,) in shown.values() for name in names_of(one.annotation)}
    places: dict[str, dict[str, Option]] = {}
    for name in sorted(own.keys() - shown.keys(), key=lambda name: (name == "reading", [*own].index(name))):
        places[name], shown[name] = {}, []
        for place, (option, commas) in options_of(*settings[name]).items():
            if not (free := with_free_names(option, taken)):
                continue
            alone = place if place not in own and all(place not in known for known in places.values()) else ""
            otherwise = usual.get(place, free.default) if name == "reading" else free.default
            free = free.replace(name=alone or f"{name}_{place}", default=otherwise)
            places[name][place] = free, commas
            taken |= set(names_of(free.annotation))
            shown[name].append(free)
    order = [name for name in own if name != "reading"]
    if "reading" in own:
        order.insert(order.index("seed") if "seed" in order else len(order), "reading")
    made: dict[str, Callable[[dict[str, Any]], Any]] = {
        name: partial(made_of, own[name].annotation, options) for name, options in places.items()
    }
    return [one.replace(kind=KEYWORD) for name in order for one in shown[name]], made


def made_of(hint: Any, options: Mapping[str, Option], given: dict[str, Any]) -> Any:
    """The settings of what is given, in which their options are no more; unfinished where the command finishes them."""
    values = {place: given.pop(option.name) for place, (option, _) in options.items()}
    for place in (place for place, (_, commas) in options.items() if commas):
        values[place] = numbers(f"--{place}", values[place]) if values[place] else ()
    cls, unfinished = settings_in(hint)[0], any(get_origin(part) is partial for part in get_args(hint))
    return partial(cls, **values) if unfinished else cls(**values)


def settings_in(hint: Any) -> tuple[Any, Fields]:
    """The class of settings that a parameter is annotated with, None if it is none, and how it becomes options."""
    cls, *others = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    how = next((part for part in others if isinstance(part, Fields)), Fields())
    cls = get_args(cls)[0] if get_origin(cls) is partial else cls
    return (cls if isinstance(cls, type) and is_dataclass(cls) else None), how


def info_of(hint: Any) -> Any:
    """What typer knows of an option or argument; None of anything else."""
    return next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, ParameterInfo)), None)


def names_of(hint: Any) -> list[str]:
    """The names of an option: in an annotation the first is where its default would be."""
    info = info_of(hint)
    return [] if info is None else [str(name) for name in (info.default, *(info.param_decls or ())) if name]


def with_free_names(option: inspect.Parameter, taken: set[str]) -> inspect.Parameter | None:
    """The option under those of its names that are not taken; None if all are."""
    names = [name for name in names_of(option.annotation) if name not in taken]
    if not names:
        return None
    info = copy(info_of(option.annotation))
    info.default, info.param_decls = names[0], tuple(names[1:])
    return option.replace(annotation=Annotated[get_args(option.annotation)[0], info])


def options_of(cls: Any, how: Fields) -> dict[str, Option]:
    """The option of each field, and whether it takes numbers parted by commas.

    A field that is declared as an option, in its annotation or in the class's ``OPTIONS``, is taken as it is. Of any
    other the help is what the class says of it.
    """
    declared = getattr(cls, "OPTIONS", {})
    hints, plain = (declared, {}) if declared else (get_type_hints(cls, include_extras=True), get_type_hints(cls))
    texts = {name: text.replace("`", "") for name, text in meanings(cls).items()}
    words = {name: re.split(r"(?<=\.) (?=[A-Z])", text)[0] for name, text in texts.items()}  # the first sentence
    names = {one.name: how.names.get(one.name, f"--{one.name.replace('_', '-')}") for one in fields(cls)}
    found = dict[str, Option]()
    for one in fields(cls):
        if one.name in how.without:
            continue
        default: Any = one.default if one.default_factory is MISSING else one.default_factory()
        hint, commas = hints[one.name], False
        if info_of(hint) is None:
            kind, metavar = plain[one.name], None
            commas = get_origin(kind) is tuple and get_args(kind)[0] is float
            if commas:
                kind, metavar, default = str, "N,N,...", ",".join(f"{number:g}" for number in default)
            elif get_origin(kind) is tuple:
                kind, metavar = list[str], "NAME"
            text = re.sub(r"\bNone(?: for|:)", "unless given:", words[one.name])
            text = re.sub(r"\w+_\w+", lambda word: names.get(word[0], word[0]), text)
            hint = Annotated[kind, typer.Option(names[one.name], help=text, metavar=metavar)]
        if get_origin(get_args(hint)[0]) is list and default is not MISSING:
            default = [*default]
        default = inspect.Parameter.empty if default is MISSING else default
        found[one.name] = (
            inspect.Parameter(one.name, KEYWORD, default=default, annotation=hint), commas
        )  # fmt: skip
    return found


def options_given(*settings: Any) -> list[str]:
    """The options whose value is not the one that they have unless given."""
    return [
        names_of(option.annotation)[0].split("/")[-1]
        for given in settings
        for name, (option, _) in options_of(type(given), Fields()).items()
        if option.default is not option.empty and getattr(given, name) != option.default
    ]
