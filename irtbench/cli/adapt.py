"""``irtbench form adapt``: adaptive tests, replayed, simulated, or asked at a prompt."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import typer

import irtbench
from irtbench import report
from irtbench.cli.assemble import read_bank, table_of
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.graded import read_graded
from irtbench.cli.output import say, show_table
from irtbench.cli.reading import Reading
from irtbench.cli.settings_options import Fields
from irtbench.data.input_error import InputError
from irtbench.scoring.adaptive import AdaptiveSettings

if TYPE_CHECKING:
    from irtbench.bank.scale import Scale
    from irtbench.data.responses import ResponseMatrix
    from irtbench.scoring.adaptive_paths import AdaptivePaths

PathFile = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="path.csv to write; also .parquet, .json.")
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
        float | None, typer.Option("--theta", help="Ability of the simulated respondents; drawn unless said.")
    ] = None
    ask_unanswered: Annotated[
        bool, typer.Option("--ask-unanswered", help="Ask items that the respondent has no response to, too.")
    ] = False


@dataclass(frozen=True)
class TestedOn:
    """The scale, and what shares of its items are wanted."""

    scale: Annotated[str | None, typer.Option("--scale", help="The scale of a bank that has several.")] = None
    share: Annotated[
        list[str], typer.Option("--share", metavar="VALUE=SHARE", help="Wanted share of a value of --by; repeat.")
    ] = field(default_factory=list)
    by: Annotated[str, typer.Option("--by", metavar="COLUMN", help="The column of the shares.")] = "label"
    items: Annotated[
        Path | None, typer.Option("--columns-of", metavar="FILE", help="A table with that column: item_id and others.")
    ] = None


@command(output=PathFile)
def adapt(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json, or a table items.csv.")],
    who: WhoIsTested,
    on: TestedOn,
    settings: Annotated[
        AdaptiveSettings,
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
        raise InputError("--replay and --simulate: expected one of them, or neither for a prompt")
    settings = replace(settings, se=se or None, shares=shares_of(on.share))
    own, columns = scale_and_column(bank, on.scale, on.by if on.share else None, on.items)
    run.progress("choosing items")
    if who.replay is not None:
        given = responses_to(own, who.replay, reading)
        found = irtbench.replay_adaptive(
            own, given, settings, columns=columns, ask_unanswered=who.ask_unanswered, seed=run.seed
        )
    elif who.simulate is not None:
        drawn = run.rng.normal(size=who.simulate)
        abilities = drawn if who.theta is None else np.full(who.simulate, who.theta)
        found = irtbench.simulate_adaptive(own, abilities, settings, columns=columns, seed=run.seed)
    else:
        run.hush()  # no bar beside a prompt
        found = ask_here(own, settings, columns, run.seed)

    def tell() -> None:
        show_table(found.ends(), rest=run.output)
        if len(found.ends()):
            say(f"{found.n_items.mean():.1f} items each; mean standard error {found.standard_error.mean():.3f}")

    return Outcome(
        json={"paths": found.table(), "ends": found.ends()}, files=found.table(), tell=tell,
        figures=lambda: report.adaptive_figures(found, wanted=settings.se),
    )  # fmt: skip


def responses_to(scale: Scale, path: Path, reading: Reading) -> ResponseMatrix:
    """Responses, or scores where the scale's items are in categories."""
    from irtbench.bank.bank import ItemBank

    if scale.items.categories is None:
        return reading.matrix(path)
    return read_graded(ItemBank((scale,)), path, reading, unknown_items="ignore").responses


def shares_of(given: list[str]) -> dict[str, float]:
    """Read ``VALUE=SHARE`` arguments, .2 or 20%."""
    found = {}
    for text in given:
        value, equals, number = text.rpartition("=")
        try:
            found[value] = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
        except ValueError:
            equals = ""
        if not (equals and value):
            raise InputError(f"--share {text}: expected VALUE=SHARE, such as neutral=30%")
    return found


def scale_and_column(
    path: Path, name: str | None, by: str | None, items: Path | None
) -> tuple[Scale, dict[str, str] | None]:
    """The scale to test on, and the column that shares are of."""
    from irtbench.bank.bank import ItemBank
    from irtbench.building.item_pool import make_pool

    given = read_bank(path)
    scales: tuple[Scale, ...]
    scales = given.scales if isinstance(given, ItemBank) else make_pool(given, None).scales
    names = [scale.name for scale in scales]
    if name is None and len(scales) > 1:
        raise InputError(f"bank {path}: has several scales; expected --scale, one of {', '.join(names)}")
    if name is not None and name not in names:
        raise InputError(f"--scale {name}: the bank has no such scale; it has: {', '.join(names)}")
    own = scales[0 if name is None else names.index(name)]
    if by is None:
        return own, None
    source: Any = given if isinstance(given, pd.DataFrame) else own
    pool = make_pool(source, None if items is None else table_of(items))
    return own, dict(zip(pool.item_ids, pool.column(by), strict=True))


def ask_here(scale: Scale, settings: AdaptiveSettings, columns: dict[str, str] | None, seed: int) -> AdaptivePaths:
    """Ask at the prompt, item by item; answers are graded by the bank's key where it has one."""
    from irtbench.scoring.adaptive import Adaptive, scores_of
    from irtbench.scoring.adaptive_paths import AdaptivePaths

    test = Adaptive(scale, settings, columns=columns, rng=np.random.default_rng(seed))
    details = dict(zip(scale.details.item_ids, zip(scale.details.text, scale.details.key, strict=True), strict=True))
    places = {item: k for k, item in enumerate(scale.items.item_ids)}
    while (item := test.next_item()) is not None:
        text, key = details[item]
        scores = None if scale.items.categories is None else scores_of(scale.items, places[item])
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
    end = (np.array([test.theta]), np.array([test.standard_error]))
    return AdaptivePaths(path, ("prompt",), np.array([test.n_items]), *end, (test.stopped,), before)


def graded_here(given: str, key: str | None, scores: tuple[Any, ...] | None = None) -> Any:
    """1 or 0, or one of the scores; None without an answer, NaN where it is no answer that can be graded."""
    text = given.strip()
    if not text:
        return None
    if key is not None:
        return float(text.casefold() == key.strip().casefold())
    return ({"1": 1.0, "0": 0.0} if scores is None else {str(score): score for score in scores}).get(text, np.nan)
