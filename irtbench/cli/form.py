"""``irtbench form``: a short test out of a bank, and adaptive tests, replayed, simulated, or asked at a prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

import irtbench.report
from irtbench.bank.bank import BankLike, scales_of
from irtbench.cli.declared import Fields, Outcome, Run, command
from irtbench.cli.options import Reading, chosen_scale, named, read_graded
from irtbench.cli.output import Shown, Words, next_command
from irtbench.data.readers.irt_programs import recognises
from irtbench.data.readers.records import look_at
from irtbench.data.readers.table import read_table
from irtbench.data.shown import counted

PAIR = ["item_1", "item_2"]  # columns of a table of pairs, such as local_dependence.csv
_END = r"(\d+(?:\.\d+)?%?)"
_LIMIT = re.compile(rf"([^=]+)=(.*):(?:{_END}|{_END}?\.\.{_END}?)", re.DOTALL)
SHARE_OF = {"at_least": "least_share", "at_most": "most_share"}


@dataclass(frozen=True)
class Purpose:
    """What a form of a length is best for."""

    objective: Annotated[
        Literal["maximin", "population"],
        typer.Option("--objective", help="Most information where there is least, or for the population's mean."),
    ] = "maximin"
    best_for: Annotated[
        Literal["ability", "accuracy"],
        typer.Option("--for", help="What --length items are to measure: ability, or the accuracy on all items."),
    ] = "ability"
    learn_from: Annotated[
        Path | None,
        typer.Option(
            "--learn-from", metavar="RESPONSES", help="For accuracy: responses 1 / 0 of known systems to all items."
        ),
    ] = None


@dataclass(frozen=True)
class FormContents:
    """The items of which a form is made, and the limits on them."""

    scale: Annotated[
        list[str], typer.Option("--scale", metavar="NAME", help="Of these scales of the bank alone; repeat.")
    ] = field(default_factory=list)
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="More columns of each item: item_id and others.")
    ] = None
    limit: Annotated[
        list[str],
        typer.Option("--limit", metavar="COLUMN=VALUE:MIN..MAX", help="Items with a value: 5..10, ..3, 20%..; repeat."),
    ] = field(default_factory=list)
    enemies: Annotated[
        Path | None,
        typer.Option("--enemies", metavar="FILE", help="Pairs that may not be in one form: item_1, item_2."),
    ] = None
    other_form: Annotated[
        list[Path],
        typer.Option("--other-form", metavar="FILE", help="A form in use: form.csv, or an id a line; repeat."),
    ] = field(default_factory=list)

    def of(self, bank: BankLike, path: Path) -> BankLike:
        """The bank, of which the scales named alone are taken."""
        if not self.scale:
            return bank
        if not isinstance(bank, irtbench.ItemBank):
            raise irtbench.InputError(f"--scale {self.scale[0]}: {path} is no bank; expected bank.json")
        names = [one.name for one in bank.scales]
        if unknown := [name for name in self.scale if name not in names]:
            raise irtbench.InputError(f"--scale {unknown[0]}: the bank has no such scale; it has: {', '.join(names)}")
        return replace(bank, scales=tuple(one for one in bank.scales if one.name in self.scale))

    def added_to(self, wishes: irtbench.FormWishes, purpose: Purpose) -> irtbench.FormWishes:
        """The wishes with what the files and limits say."""
        return replace(
            wishes,
            objective="accuracy" if purpose.best_for == "accuracy" else purpose.objective,
            limits=tuple(limit_of(text) for text in self.limit),
            enemies=()
            if self.enemies is None
            else tuple(zip(*(read_table(self.enemies, PAIR)[name] for name in PAIR), strict=True)),
            other_forms=tuple(read_form(file) for file in self.other_form),
        )


@command("form.csv", "form.json", html=True)
def assemble(
    *,
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json, or a table items.csv.")],
    wishes: Annotated[
        irtbench.FormWishes,
        Fields(
            {"required": "--require", "forbidden": "--forbid"},
            without=("objective", "limits", "enemies", "other_forms"),
        ),
    ],
    purpose: Purpose,
    contents: FormContents,
    ids: Annotated[
        list[str],
        typer.Option("--ids", metavar="HARNESS", help="lm-eval, inspect, helm or plain; all that fit; repeat."),
    ] = [],  # noqa: B006 - typer copies it
    task: Annotated[
        list[str],
        typer.Option(
            "--task", metavar="NAME", help="A task that item ids begin with, if it is not up to the last slash."
        ),
    ] = [],  # noqa: B006 - typer copies it
    run: Run,
) -> Outcome:
    """Choose the items of a short form: exactly one of --length, --se, --reliability says how short.

    Writes form.csv, form.json, bank.json (the form, which score takes), and the ids of its items for evaluation
    harnesses. Several forms: bank_1.json, bank_2.json and so on.
    """
    given = contents.of(read_bank(bank), bank)
    columns = None if contents.items is None else read_table(contents.items, ["item_id"])
    run.progress("choosing the items")
    known = None if purpose.learn_from is None else responses_to(given, purpose.learn_from, Reading())
    try:
        found = irtbench.assemble_forms(given, contents.added_to(wishes, purpose), columns=columns, known=known)
    except irtbench.building.form_program.TimeOut as error:
        return Outcome(json=None, stopped=f"{error}; expected more --seconds or fewer wishes")
    texts: dict[str, str] = {}
    banks: dict[str, Any] = {}
    for number, form in enumerate(found.forms, start=1):
        own = partial(numbered, number=number, n_forms=wishes.forms)
        of_form = irtbench.harness_ids(form, formats=tuple(ids), tasks=tuple(task))  # type: ignore[arg-type]
        texts |= {own(name): text for name, text in of_form.items()}
        banks[own("bank.json")] = partial(irtbench.save_bank, irtbench.form_bank(given, form, seed=run.seed))
    summary = found.summary() | {"seed": run.seed, "ids": sorted(texts)}
    return Outcome(
        json=summary, files={"form.csv": found.table(), "form.json": summary, **banks, **texts},
        figures=lambda: irtbench.report.form_figures(scales_of(given), found),
        page=lambda: irtbench.report.forms_page(scales_of(given), found), words=forms_in_words(found, run.folder),
    )  # fmt: skip


def read_bank(path: Path) -> BankLike:
    """A bank, or item parameters from a table or a file of py-irt."""
    if path.suffix.lower() == ".json" and path.is_file() and not recognises(look_at(path)):
        return irtbench.load_bank(path, categories=True)
    parameters = irtbench.read_parameters(path, categories=True)
    if path.suffix.lower() == ".json":
        return parameters
    table = read_table(path, ["item_id"]).set_index("item_id", drop=False).loc[list(parameters.item_ids)]
    own = parameters.table()
    others = [name for name in table.columns if name not in own and name != "categories"]
    return own.assign(**{name: table[name].to_numpy() for name in others})


def responses_to(bank: BankLike, path: Path, reading: Reading) -> irtbench.ResponseMatrix:
    """What systems gave to the items of a bank: right or wrong, or scores."""
    return read_graded(irtbench.ItemBank(scales_of(bank)), path, reading, unknown_items="ignore")[0]


def read_form(path: Path) -> tuple[str, ...]:
    """The items of a form: the column item_id of a table, or a text with an id a line."""
    if path.suffix.lower() in (".csv", ".gz", ".parquet", ".tsv"):
        return tuple(read_table(path, ["item_id"])["item_id"])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise irtbench.InputError(f"file {path}: cannot be read: {error}") from None
    return tuple(line.strip() for line in lines if line.strip())


def limit_of(text: str) -> irtbench.Limit:
    """``label=neutral:5..10``, either end left out for none, with % for shares.

    Raises
    ------
    InputError
        If it is written otherwise.
    """
    found = _LIMIT.fullmatch(text)
    column, value, exact, low, high = found.groups() if found else ("", "", "", "", "")
    ends = {"at_least": exact or low, "at_most": exact or high}
    if not any(ends.values()):
        raise irtbench.InputError(
            f"--limit {text}: expected COLUMN=VALUE:MIN..MAX, such as label=neutral:5..10 or set=a:..20%"
        )
    fields: dict[str, Any] = {}
    for name, end in ends.items():
        if end and end.endswith("%"):
            fields[SHARE_OF[name]] = float(end.removesuffix("%")) / 100
        elif end and "." in end:
            raise irtbench.InputError(f"--limit {text}: expected a whole number or a share in % but got {end}")
        elif end:
            fields[name] = int(end)
    return irtbench.Limit(column=column, value=value, **fields)


def numbered(name: str, number: int, n_forms: int) -> str:
    """``bank_2.json`` where there are several forms."""
    stem, dot, ending = name.rpartition(".")
    return name if n_forms == 1 else f"{stem}_{number}{dot}{ending}"


def forms_in_words(found: irtbench.building.AssembledForms, folder: Path) -> Words:
    """How precise the forms are, and how good the choice is."""
    n, forms = len(found.forms[0]), len(found.forms)
    items = counted(n, "item")
    many = items if forms == 1 else f"{forms} forms of {items} each"
    best = "no other choice is better" + ("" if found.optimal else f" by more than {found.gap:.2%}")
    if found.wishes.objective == "accuracy":
        best = f"the accuracy on all items is known to a standard deviation of {found.objective:.3f}"
    return [
        Shown(found.precision, rest="form.json"),
        f"{found.wishes.wanted}: {many}; {best}, {found.seconds:.1f} s; written to {folder}",
        next_command("score", folder / numbered("bank.json", 1, forms), "NEW.csv"),
    ]


@dataclass(frozen=True)
class WhoIsTested:
    """Known responses, simulated respondents, or whoever is at the prompt."""

    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="RESPONSES", help="Responses 1 / 0 to read the answers from.")
    ] = None
    simulate: Annotated[
        int | None, typer.Option("--simulate", metavar="N", help="So many respondents of a normal population.", min=1)
    ] = None
    theta: Annotated[
        float | None, typer.Option("--theta", help="Ability of the simulated respondents; drawn unless given.")
    ] = None
    ask_unanswered: Annotated[
        bool, typer.Option("--ask-unanswered", help="Ask items that the respondent has no response to, too.")
    ] = False


@dataclass(frozen=True)
class TestedOn:
    """The scale, and what shares of its items are wanted."""

    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="The scale of a bank that has several.")
    ] = None
    share: Annotated[
        list[str], typer.Option("--share", metavar="VALUE=SHARE", help="Wanted share of a value of --by; repeat.")
    ] = field(default_factory=list)
    by: Annotated[str, typer.Option("--by", metavar="COLUMN", help="The column of the shares.")] = "label"
    items: Annotated[
        Path | None, typer.Option("--columns-of", metavar="FILE", help="A table with that column: item_id and others.")
    ] = None


@command(
    output=Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="path.csv to write; also .parquet, .json.")
    ]
)
def adapt(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json, or a table items.csv.")],
    who: WhoIsTested,
    on: TestedOn,
    settings: Annotated[
        irtbench.AdaptiveSettings,
        Fields({"most_items": "--length", "least_items": "--least"}, without=("se", "shares")),
    ],
    reading: Reading,
    run: Run,
    se: Annotated[float, typer.Option("--se", help="Ends at this standard error; 0 for no such end.", min=0)] = 0.3,
) -> Outcome:
    """Run adaptive tests: --replay responses that are known, --simulate respondents, or neither to be asked here.

    Writes path.csv: respondent, step, item, response, ability and its standard error after it, and why the test ended.
    """
    if who.replay is not None and who.simulate is not None:
        raise irtbench.InputError("--replay and --simulate: expected one of them, or neither for a prompt")
    settings = replace(settings, se=se or None, shares=shares_of(on.share))
    own, columns = scale_and_column(bank, on)
    run.progress("choosing items")
    if who.replay is not None:
        found = irtbench.replay_adaptive(
            own, responses_to(own, who.replay, reading), settings, columns=columns, ask_unanswered=who.ask_unanswered,
            seed=run.seed,
        )  # fmt: skip
    elif who.simulate is not None:
        n, theta = who.simulate, who.theta
        abilities = run.rng.normal(size=n) if theta is None else np.full(n, theta)
        found = irtbench.simulate_adaptive(own, abilities, settings, columns=columns, seed=run.seed)
    else:
        run.hush()  # no bar next to a prompt
        found = ask_here(own, settings, columns, run.seed)
    ends = found.ends()
    return Outcome(
        json={"paths": found.table(), "ends": ends}, files=found.table(), words=[
            Shown(ends),
            len(ends) > 0
            and f"{found.n_items.mean():.1f} items each; mean standard error {found.standard_error.mean():.3f}",
        ],
        figures=lambda: irtbench.report.adaptive_figures(found, wanted=settings.se),
    )  # fmt: skip


def shares_of(given: list[str]) -> dict[str, float]:
    """Read ``VALUE=SHARE`` arguments, .2 or 20%."""
    try:
        return {
            value: float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
            for value, number in named("--share", given).items()
        }
    except ValueError:
        raise irtbench.InputError(f"--share {', '.join(given)}: expected VALUE=SHARE, such as neutral=30%") from None


def scale_and_column(path: Path, on: TestedOn) -> tuple[irtbench.Scale, dict[str, str] | None]:
    """The scale to test on, and the column that shares are of."""
    given = read_bank(path)
    own = chosen_scale(irtbench.ItemBank(scales_of(given)), on.scale, path)
    if not on.share:
        return own, None
    source: Any = given if isinstance(given, pd.DataFrame) else own
    columns = None if on.items is None else read_table(on.items, ["item_id"])
    pool = irtbench.building.form_wishes.make_pool(source, columns)
    return own, dict(zip(pool.item_ids, pool.column(on.by), strict=True))


def ask_here(
    scale: irtbench.Scale, settings: irtbench.AdaptiveSettings, columns: dict[str, str] | None, seed: int
) -> irtbench.scoring.AdaptivePaths:
    """Ask at the prompt, item by item; answers are graded by the bank's key where it has one."""
    test = irtbench.Adaptive(scale, settings, columns=columns, rng=np.random.default_rng(seed))
    details = dict(zip(scale.details.item_ids, zip(scale.details.text, scale.details.key, strict=True), strict=True))
    places = {item: k for k, item in enumerate(scale.items.item_ids)}
    while (item := test.next_item()) is not None:
        text, key = details[item]
        scores = (
            None if scale.items.categories is None else irtbench.scoring.adaptive.scores_of(scale.items, places[item])
        )
        expected = "the answer" if key is not None else "1 right, 0 wrong"
        if scores is not None:
            expected, key = " or ".join(map(str, scores)), None
        given = typer.prompt(f"{text or item} ({expected}; empty: no answer; q: end)", default="", show_default=False)
        if given.strip() == "q":
            break
        response = graded_here(given, key, scores)
        if response is not None and response != response:
            typer.echo("expected 1 or 0" if scores is None else f"expected {expected}")
            continue
        test.record(item, response)
    path, before = test.table(), test.again().theta
    path.insert(0, "respondent_id", "prompt")
    return irtbench.scoring.AdaptivePaths(
        path, ("prompt",), np.array([test.n_items]), np.array([test.theta]), np.array([test.standard_error]),
        (test.stopped,), before,
    )  # fmt: skip


def graded_here(given: str, key: str | None, scores: tuple[Any, ...] | None = None) -> Any:
    """1 or 0, or one of the scores; None without an answer, NaN where it is no answer that can be graded."""
    text = given.strip()
    if not text:
        return None
    if key is not None:
        return float(text.casefold() == key.strip().casefold())
    return ({"1": 1.0, "0": 0.0} if scores is None else {str(score): score for score in scores}).get(text, np.nan)
