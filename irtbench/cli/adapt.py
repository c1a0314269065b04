"""``irtbench adapt``: adaptive tests, replayed, simulated, or asked at a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

from irtbench.cli.assemble import read_bank, table_of
from irtbench.cli.graded import read_graded
from irtbench.cli.options import Figures, Json, Quiet, Seed
from irtbench.cli.output import demand_table_name, say, show_table, to_json, write_table
from irtbench.cli.presenting import figures_in, maybe_file
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.bank.scale import Scale
    from irtbench.data.responses import ResponseMatrix
    from irtbench.scoring.adaptive import AdaptiveSettings
    from irtbench.scoring.adaptive_paths import AdaptivePaths


@reads_files
def adapt(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json, or a table items.csv.")],
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="RESPONSES", help="Responses 1 / 0 to read the answers from.")
    ] = None,
    simulate: Annotated[
        int | None, typer.Option("--simulate", metavar="N", help="So many respondents of a normal population.", min=1)
    ] = None,
    theta: Annotated[
        float | None, typer.Option("--theta", help="Ability of the simulated respondents; drawn unless said.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="path.csv to write; also .parquet, .json.")
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", help="The scale of a bank that has several.")] = None,
    rule: Annotated[
        Literal["information", "posterior", "kullback", "variance", "difficulty"],
        typer.Option("--rule", help="How the next item is chosen."),
    ] = "information",
    best_of: Annotated[int, typer.Option("--best-of", help="Drawn among so many of the best.", min=1)] = 1,
    se: Annotated[float, typer.Option("--se", help="Ends at this standard error; 0 for no such end.", min=0)] = 0.3,
    most_items: Annotated[int | None, typer.Option("--length", help="Ends after so many items.", min=1)] = None,
    least_items: Annotated[int, typer.Option("--least", help="Not before so many items.", min=0)] = 0,
    least_gain: Annotated[
        float | None, typer.Option("--least-gain", help="Ends where an item lowers the standard error by less.", min=0)
    ] = None,
    share: Annotated[
        list[str], typer.Option("--share", metavar="VALUE=SHARE", help="Wanted share of a value of --by; repeat.")
    ] = [],  # noqa: B006 - typer copies it
    by: Annotated[str, typer.Option("--by", metavar="COLUMN", help="The column of the shares.")] = "label",
    items: Annotated[
        Path | None, typer.Option("--columns-of", metavar="FILE", help="A table with that column: item_id and others.")
    ] = None,
    most_exposure: Annotated[
        float | None, typer.Option("--most-exposure", help="Share of the tests that may ask an item.")
    ] = None,
    missing: Annotated[
        Literal["skip", "wrong", "error"],
        typer.Option("--missing", help="What it means that an item was asked and not answered."),
    ] = "skip",
    ask_unanswered: Annotated[
        bool, typer.Option("--ask-unanswered", help="Ask items that the respondent has no response to, too.")
    ] = False,
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Run adaptive tests: --replay responses that are known, --simulate respondents, or neither to be asked here.

    Writes path.csv: respondent, step, item, response, ability and its standard error after it, and why the test ended.
    """
    from irtbench.scoring.adaptive import AdaptiveSettings
    from irtbench.scoring.adaptive_paths import replay_adaptive, simulate_adaptive

    if output is not None:
        demand_table_name(output)
    if replay is not None and simulate is not None:
        raise InputError("--replay and --simulate: expected one of them, or neither for a prompt")
    settings = AdaptiveSettings(
        rule=rule, best_of=best_of, se=se or None, most_items=most_items, least_items=least_items,
        least_gain=least_gain, missing=missing, shares=shares_of(share), most_exposure=most_exposure,
    )  # fmt: skip
    own, columns = scale_and_column(bank, scale, by if share else None, items)
    with reporting(quiet=quiet or (replay is None and simulate is None)) as progress:  # no bar beside a prompt
        progress("choosing items")
        if replay is not None:
            found = replay_adaptive(
                own,
                responses_to(own, replay, reading),
                settings,
                columns=columns,
                ask_unanswered=ask_unanswered,
                seed=seed,
            )
        elif simulate is not None:
            drawn = np.random.default_rng(seed).normal(size=simulate)
            abilities = drawn if theta is None else np.full(simulate, theta)
            found = simulate_adaptive(own, abilities, settings, columns=columns, seed=seed)
        else:
            found = ask_here(own, settings, columns, seed)
    with maybe_file(output) as file, figures_in(figures) as draw:
        if file is not None:
            write_table(found.table(), file)
        if draw is not None:
            from irtbench.report.scoring_figures import adaptive_figures

            draw(adaptive_figures(found, wanted=settings.se))
    if json:
        print(to_json({"paths": found.table(), "ends": found.ends()}))
    elif not quiet:
        show_paths(found, output)


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


def show_paths(found: AdaptivePaths, output: Path | None) -> None:
    """Print where the tests ended."""
    ends = found.ends()
    show_table(ends, rest=output)
    if len(ends):
        say(f"{found.n_items.mean():.1f} items each; mean standard error {found.standard_error.mean():.3f}")
