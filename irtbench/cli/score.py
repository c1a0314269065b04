"""``irtbench score``: a system's responses to ability and human percentile, without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

import irtbench.report
from irtbench.cli.declared import Fields, Outcome, Run, command
from irtbench.cli.large import choice_of, first_parquet, large_table, ranks_of_run
from irtbench.cli.options import AllowAddress, Content, Reading, SystemFile, mapped, named, refuse, say_left_out
from irtbench.cli.output import (
    Shown,
    Words,
    carried_in_words,
    interval_texts,
    next_command,
    top_and_bottom,
    write_table,
)
from irtbench.cli.result_files import output_folder, unfinished_folder
from irtbench.data.harmless_text import unguarded
from irtbench.data.place import address_of
from irtbench.data.readers.recognise import is_outside
from irtbench.data.responses import name_first
from irtbench.data.shown import counted
from irtbench.scoring.optional_columns import percentiles_by_group, with_groups, with_plausible_values
from irtbench.scoring.percentiles import as_given, why_not_compared
from irtbench.scoring.scores import ScoringSettings, grading_of, in_categories, score_responses

LARGE_FILE = 100_000  # respondents of a wide Parquet file, from which on it is scored part by part
LARGE_LONG_FILE = 1_000_000  # rows of a long one
LARGE_TEXT, LARGE_GZIP = 10_000_000, 1_000_000  # bytes of a CSV file, and of a gzipped one
WRITTEN = (".csv", ".csv.gz", ".parquet")
MOST_EXPLAINED = 50  # rows of scores whose surprises are named
MOST_PREDICTED = 10  # respondents whose accuracy on all items is given
MOST_SURPRISES = 5  # of each kind named there for a respondent on a scale
MOST_COMPARED = 20  # respondents whose comparison in pairs is the next command
REMARKS = {
    "no_items": "no item answered",
    "few_items": "few items answered",
    "all_correct": "all right: at least this able",
    "all_wrong": "all wrong: at most this able",
    "at_bound": "at the end of the range",
    "unlikely_pattern": "no percentile: answers unlike those of people of this ability",
    "little_information": "no percentile: these items say too little",
}


@dataclass(frozen=True)
class People:
    """Those that percentiles compare with."""

    norm: Annotated[
        Literal["normal", "empirical", "smoothed"] | None,
        typer.Option("--norm", help="What the percentile refers to; normal, or smoothed for a norm group."),
    ] = None
    norms: Annotated[
        Path | None,
        typer.Option("--norms", metavar="FILE", help="Norm sample instead of the bank's: theta, scale, se, weight."),
    ] = None
    margins: Annotated[
        Path | None,
        typer.Option(
            "--margins",
            metavar="FILE",
            help="Weight the norm sample to a population: column, value, share of the respondents' columns.",
        ),
    ] = None
    norm_group: Annotated[
        str | None,
        typer.Option("--norm-group", metavar="COLUMN=VALUE", help="Part of the norm sample to compare with."),
    ] = None

    def behind(self, bank: irtbench.ItemBank) -> irtbench.ItemBank:
        """The bank with these people behind it.

        Raises
        ------
        InputError
            If a scale has no norm sample to weight, the norm leaves it aside, or the shares cannot be reached (`rake`).
        """
        known = bank if self.norms is None else irtbench.with_norms(bank, self.norms)
        return known if self.margins is None else weighted_to(known, self.margins, self.norm)

    def wanted(self, settings: ScoringSettings, seed: int) -> ScoringSettings:
        """The settings with the norm, and its group."""
        group = None if self.norm_group is None else next(iter(named("--norm-group", [self.norm_group]).items()))
        norm = self.norm or ("normal" if group is None and self.margins is None else "smoothed")
        return replace(settings, norm=norm, norm_group=group, seed=seed)


@dataclass(frozen=True)
class ScoredFile(SystemFile):
    """How the file that is scored is read, and graded by the bank."""

    content: Content = "auto"
    allow_address: AllowAddress = field(default_factory=list)


@dataclass(frozen=True)
class Added:
    """What is computed in addition to the scores."""

    norm_groups: Annotated[
        list[str],
        typer.Option(
            "--norm-groups", metavar="COLUMN", help="Percentiles within each group of the norm sample too, by column."
        ),
    ] = field(default_factory=list)
    plausible: Annotated[
        int, typer.Option("--plausible", metavar="N", help="N draws of ability of each, pv1 and on.", min=0, max=1000)
    ] = 0
    explanation: Annotated[
        Path | None,
        typer.Option("--explain", metavar="DIR", help="Folder for surprises.csv and difficulty.csv."),
    ] = None

    def demand_of(self, bank: irtbench.ItemBank) -> None:
        """Refuse columns that no norm sample has, and to explain items in categories."""
        columns = list(dict.fromkeys(name for scale in bank.scales if scale.norms for name in scale.norms.groups))
        missing = [name for name in self.norm_groups if name not in columns]
        there = name_first(columns) if columns else "none"
        refuse(
            {
                f"--norm-groups: no column {name_first(missing)} in the norm sample; there is: {there}": bool(missing),
                "--explain: goes with items that are right or wrong":
                in_categories(bank) and self.explanation is not None,
            }
        )  # fmt: skip

    def folder(self, run: Run) -> Path | None:
        """Where the explanation is written until the command ends."""
        if self.explanation is None:
            return None
        return run.ending.enter_context(output_folder(self.explanation, files=("surprises.csv", "difficulty.csv")))


def weighted_to(bank: irtbench.ItemBank, margins: Path, norm: str | None) -> irtbench.ItemBank:
    """The bank whose norm samples have a population's shares."""
    if norm == "normal":
        raise irtbench.InputError(
            "--margins: the normal norm has no weights; expected --norm smoothed or empirical with it"
        )
    shares, scales = irtbench.bank.read_margins(margins), []
    for scale in bank.scales:
        if scale.norms is None:
            raise irtbench.InputError(f"--margins: scale {scale.name} has no norm sample; expected --norms FILE")
        try:
            scales.append(replace(scale, norms=irtbench.bank.raked_norms(scale.norms, shares)))
        except irtbench.InputError as error:
            raise irtbench.InputError(f"{margins}: scale {scale.name}: {error}") from None
    return irtbench.ItemBank(tuple(scales))


@command(
    output=Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="scores.csv; also .parquet, .json, .md, .tex, .html."),
    ],
    html=True,
    trials="count",
)
def score(
    *,
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json.")],
    responses: Annotated[
        Path, typer.Argument(metavar="RESPONSES", help="Responses 1 / 0, or answers, which the bank's key grades.")
    ],
    file: ScoredFile,
    settings: Annotated[ScoringSettings, Fields(without=("norm", "norm_group", "seed"))],
    people: People,
    scaling: Annotated[
        float | None,
        typer.Option("--scaling-constant", metavar="D", help="Of a table of items: D before slopes; 1.7 of NAEP's."),
    ] = None,
    added: Added,
    reading: Reading,
    run: Run,
) -> Outcome:
    """Score systems (or people) on a bank: ability, its error, and the human percentile, a row for each scale.

    Items that the bank's own study asked and left out (attention checks, items that it removed) do not count; they are
    named.
    """
    known = people.behind(irtbench.load_bank(bank, upper_asymptotes=True, categories=True, scaling=scaling))
    added.demand_of(known)
    settings = people.wanted(settings, run.seed)
    if goes_by_parts(responses, run.output, reading, in_memory_for(added, run)):
        return score_by_parts(known, responses, settings, file, added, reading, run)
    explain_in = added.folder(run)
    run.progress("reading")
    matrix, left_out = file.read(known, responses, reading, content=file.content)
    run.progress(f"scoring {matrix.n_respondents} respondents")
    scores = score_responses(known, matrix, settings, unknown_items="ignore")
    scores = with_plausible_values(scores, known, matrix, settings, added.plausible) if added.plausible else scores
    groups = percentiles_by_group(known, matrix, added.norm_groups, settings, unknown_items="ignore")
    scores, explained = with_groups(scores, groups), None
    found: Any = [row | {"items_left_out": left_out_of(left_out, str(row["scale"]), known)}
                  for row in scores.to_dict(orient="records")]  # fmt: skip
    if explain_in is not None:
        explained = irtbench.scoring.explain_all(known, matrix, unknown_items="ignore")
        found = {"scores": found, "surprises": explained.surprises(), "difficulty": explained.difficulty}
        for name in ("surprises", "difficulty"):
            write_table(found[name], explain_in / f"{name}.csv")

    def words() -> Words:
        yield from scores_in_words(known, scores, settings)
        if matrix.n_respondents <= MOST_PREDICTED and not in_categories(known):
            yield from whole_in_words(known, matrix, settings.level)
        yield groups_shown(groups, scores)
        yield from (
            f"{scale.name}: {scale.norms.n} people of the norm sample weighted to {people.margins.name}, who are worth "
            f"{scale.norms.effective_n:.0f} of equal weight"
            for scale in known.scales
            if people.margins is not None and scale.norms is not None
        )
        if explained is not None and added.explanation is not None:
            yield from explanation_in_words(explained, scores, added.explanation)
        if run.output is not None and reading == Reading(trials=reading.trials) and not file.answers_map:
            yield what_follows(known, matrix.n_respondents, bank, responses, run.output.parent)

    return Outcome(json=found, files=scores, words=words(), **drawn(known, settings, lambda: scores))


def left_out_of(
    left_out: Sequence[irtbench.bank.bank.LeftOut], scale: str, bank: irtbench.ItemBank
) -> list[dict[str, str]]:
    """What --json says of a scale: items removed from it, and those that are of no scale of the bank."""
    others = {other.name for other in bank.scales} - {scale}
    return [{"item_id": item.item_id, "reason": item.reason} for item in left_out if item.scale not in others]


def in_memory_for(added: Added, run: Run) -> str:
    """Why several processes cannot score part by part; empty if they can, or there is one."""
    asked = {"--explain": added.explanation, "--figures": run.figures, "--html": run.html}
    several = ranks_of_run.get() is not None
    return next((f"{name} needs all of them in memory" for name, path in asked.items() if several and path), "")


def score_by_parts(
    bank: irtbench.ItemBank,
    file: Path,
    settings: ScoringSettings,
    how: ScoredFile,
    added: Added,
    reading: Reading,
    run: Run,
) -> Outcome:
    """Scores of a table that is not read whole, by one process or several.

    Raises
    ------
    InputError
        As `score_file`; or if another run writes the same file with several processes.
    """
    assert run.place is not None
    place, ranks = run.place, ranks_of_run.get()
    left_out: list[irtbench.bank.bank.LeftOut] = []
    layout: Any = reading.format if reading.format in ("long", "wide") else "auto"
    follows = ranks is not None and not ranks.is_first
    explain_in = added.folder(run)
    first = nullcontext(Path(ranks.text_from_first(""))) if ranks and follows else unfinished_folder(run.folder)
    with first as unfinished:
        if ranks is not None and not follows:
            if unfinished is None:
                raise irtbench.InputError(
                    f"output {run.output}: another run works on this file; expected it to end first"
                )
            ranks.text_from_first(str(unfinished))
        n = irtbench.scoring.score_file(
            bank, address_of(file) or file, place, settings,
            layout=layout, content=how.content,
            columns=choice_of(reading), unknown_items=how.unknown_items,
            grading=grading_of(bank, mapped(how.answers_map)), left_out=left_out, unfinished=unfinished,
            progress=run.progress, together=ranks, allow_address=how.allow_address, norm_groups=added.norm_groups,
            plausible=added.plausible, explain_in=explain_in,
        )  # fmt: skip
    if not follows:
        say_left_out(left_out)
    return Outcome(
        json={"n_respondents": n, "output": run.output, "items_left_out": [vars(item) for item in left_out]},
        words=[f"{counted(n, 'respondent')} scored, written to {run.output}"],
        **drawn(bank, settings, lambda: written(place)),
    )


def written(file: Path) -> pd.DataFrame:
    """Scores as they were written part by part."""
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    table = pd.read_csv(file, dtype={"respondent_id": "str", "scale": "str"}, keep_default_na=False, na_values=[""])
    return table.assign(
        respondent_id=table["respondent_id"].map(unguarded),
        **{name: table[name].fillna("").astype("str") for name in ("flags", "percentile_flags")},
    )


def drawn(bank: irtbench.ItemBank, settings: ScoringSettings, scores: Callable[[], pd.DataFrame]) -> dict[str, Any]:
    """The figures of scores, and their page."""
    return {
        "figures": lambda: irtbench.report.score_figures(bank.scales, scores(), level=settings.level),
        "page": lambda: irtbench.report.score_page(bank, scores(), settings),
    }


def goes_by_parts(file: Path, output: Path | None, reading: Reading, in_memory: str) -> bool:
    """Whether a table is scored part by part: a large one, CSV or Parquet, into CSV or Parquet.

    Parameters
    ----------
    file, output
        What is read, and what is written.
    reading
        How it is read.
    in_memory
        An option that needs all responses in memory; empty if there is none.

    Raises
    ------
    InputError
        If it must be, for it is at an address or several processes were started, and the options do not allow it.
    """
    reason = in_memory or option_in_memory(output, reading)
    started, address = ranks_of_run.get() is not None, address_of(file)
    if reason and (started or address is not None):
        who = "several processes score" if started else f"{address}: a table at an address is scored"
        raise irtbench.InputError(f"{who} part by part into a CSV or Parquet file; {reason}")
    if reason or started or address is not None:
        return not reason
    if file.is_dir():
        return first_parquet(file) is not None and large_table(file, reading) is not None
    return not is_outside(file) and is_large(file, reading)


def option_in_memory(output: Path | None, reading: Reading) -> str:
    """What all responses must be in memory for, in words; empty if there is nothing."""
    if output is None or not output.name.lower().endswith(WRITTEN):
        return "expected -o FILE.csv or FILE.parquet"
    if reading.trials not in ("count", "error"):
        return f"--trials {reading.trials} needs all responses in memory"
    taken = {name: getattr(reading, name) for name in ("format", "columns", "trials", "threshold", "items", "exclude")}
    changed = "options that choose or change responses need all of them in memory"
    return "" if reading == Reading(**taken) else changed


def is_large(file: Path, reading: Reading) -> bool:
    """Whether a long or wide table is so large that it is not read whole."""
    readers = irtbench.data.readers
    start = readers.packed.first_bytes(file)
    if start != readers.packed.PARQUET:
        return file.stat().st_size >= (LARGE_GZIP if start.startswith(readers.packed.GZIP) else LARGE_TEXT)
    try:
        table = irtbench.data.LargeTable.open(file)
    except irtbench.InputError:
        return False  # the reader says what is wrong
    named = "long" if readers.long_table.long_columns(table.names, reading.columns) else "wide"
    wide = (named if reading.format == "auto" else reading.format) == "wide"
    return table.n_rows >= (LARGE_FILE if wide else LARGE_LONG_FILE)


def what_follows(known: irtbench.ItemBank, n_respondents: int, bank: Path, responses: Path, folder: Path) -> str | None:
    """The command that compares several systems, or says of one what it misses."""
    if in_categories(known) or n_respondents > MOST_COMPARED:
        return None
    if n_respondents == 1:
        return next_command("score", bank, responses, "--explain", folder / "explained")
    without = ["--item-error", "none"] if any(scale.items.covariance is None for scale in known.scales) else []
    return next_command("compare", responses, "--bank", bank, *without, "-o", folder / "comparison")


def scores_in_words(bank: irtbench.ItemBank, scores: pd.DataFrame, settings: ScoringSettings, file: str = "") -> Words:
    """Scores in words a person understands without a manual."""
    shown, people = as_given(top_and_bottom(scores)), bank.respondents or "crowd"
    places = interval_texts(shown, "percentile", "percentile_lower", "percentile_upper", ".0f")
    asked = "n_trials" if "n_trials" in shown else "n_items"
    view = {
        "who": shown["respondent_id"],
        "scale": shown["scale"],
        "points" if in_categories(bank) else "right": [
            f"{k} of {n}" for k, n in zip(shown["n_correct"], shown[asked], strict=True)
        ],
        "ability": interval_texts(shown, "theta", "theta_lower", "theta_upper", ".2f"),
        f"better than ... of the {people}": [text.replace(" ", "% ", 1) for text in places],
        "remarks": [
            ", ".join(REMARKS[flag] for flag in dict.fromkeys(f"{flags};{more}".split(";")) if flag)
            for flags, more in zip(shown["flags"], shown["percentile_flags"], strict=True)
        ],
    }
    yield Shown(pd.DataFrame(view), rest=file, of=len(scores))
    for row, place in zip(shown.to_dict("records"), places, strict=True) if len(scores) <= len(bank.scales) else ():
        why = why_not_compared(row)
        better = place and f"better than {place.replace(' ', f'% of the {people} ', 1)}"
        where = f"no percentile is given: {why}" if why else better
        yield bool(row["n_items"] and where) and f"{row['respondent_id']} on {row['scale']}: {where}"
    yield from map(link_in_words, bank.scales)
    yield from (item_error_in_words(scale, settings) for scale in bank.scales)
    yield (
        settings.norm == "normal"
        and any(scale.norms and scale.norms.weights is not None for scale in bank.scales)
        and "the norm sample has weights, which a normal population has not: --norm smoothed takes them"
    )
    crowd = {
        "normal": f"the population that was estimated from the {people} of the study"
        if any(scale.population is not None for scale in bank.scales)
        else f"a normal population, as fitted to the {people} of the study",
        "empirical": "those of the norm sample",
        "smoothed": "the population that the norm sample represents",
    }[settings.norm]
    group = "" if settings.norm_group is None else f" with {settings.norm_group[0]} {settings.norm_group[1]}"
    yield (
        f"Ability: {scale_in_words(bank)}. The {people}: {crowd}{group}. In brackets "
        f"{100 * settings.level:g}% intervals."
    )


def explanation_in_words(explained: irtbench.scoring.Explanation, scores: pd.DataFrame, folder: Path) -> Words:
    """Where respondents differ from people of their ability."""
    levels = top_and_bottom(explained.difficulty)
    ends = zip(levels["difficulty_from"], levels["difficulty_to"], strict=True)
    names = "expected", "expected_lower", "expected_upper"
    view = {
        "who": levels["respondent_id"],
        "scale": levels["scale"],
        "items of difficulty": [f"{low:.2f} to {high:.2f}" for low, high in ends],
        "items": levels["n_items"],
        "% right": [f"{100 * share:.0f}" for share in levels["observed"]],
        "% right of people of this ability": interval_texts(100 * levels[[*names]], *names, ".0f"),
    }
    yield Shown(
        pd.DataFrame(view), "Accuracy by difficulty", folder.absolute() / "difficulty.csv", len(explained.difficulty)
    )
    surprises = explained.surprises()
    for who, scale in scores[["respondent_id", "scale"]].head(MOST_EXPLAINED).to_numpy().tolist():
        own = surprises[(surprises["respondent_id"] == who) & (surprises["scale"] == scale)]
        for kind, words in (("missed", "misses, people of this ability do not"), ("right", "gets, they do not")):
            items = own.loc[own["surprise"] == kind, "item_id"].tolist()
            yield bool(items) and f"{who} on {scale} {words}: {name_first(items, most=MOST_SURPRISES)}"


def groups_shown(groups: pd.DataFrame, scores: pd.DataFrame) -> Shown | None:
    """The percentile in each group of those who are given a percentile."""
    given = scores.loc[scores["percentile_flags"] == "", ["respondent_id", "scale"]]
    found = given.merge(groups, on=["respondent_id", "scale"])
    shown = top_and_bottom(found)
    places = interval_texts(shown, "percentile", "percentile_lower", "percentile_upper", ".0f")
    view = {
        "who": shown["respondent_id"],
        "scale": shown["scale"],
        "among people with": shown["column"] + " " + shown["value"],
        "people": shown["n_people"],
        "better than": [place.replace(" ", "% ", 1) for place in places],
    }
    return None if found.empty else Shown(pd.DataFrame(view), title="Within groups of the norm sample", of=len(found))


ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def link_in_words(scale: irtbench.Scale) -> str | None:
    """What a link adds to the errors of scores on this scale; None where it was not linked."""
    if scale.line is None:
        if "link" not in scale.provenance:
            return None
        return f"{scale.name} was linked by items of unknown covariance: the link's error is not in these intervals"
    at = np.sqrt(scale.line.variance(np.array([scale.line.intercept])))[0]
    links = "a link" if scale.line.generation == 1 else f"{scale.line.generation} links"
    return (
        f"{scale.name} lies on its base scale by {links}, whose error is in these intervals: standard error {at:.3f} "
        f"at ability {scale.line.intercept:.2f}"
    )


def item_error_in_words(scale: irtbench.Scale, settings: irtbench.ScoringSettings) -> str | None:
    """That the items' own error is in the scores unasked, since few respondents answered them; None where not."""
    how = irtbench.scoring.scores.item_error_on(scale, settings)
    if settings.item_error != "auto" or how == "none":
        return None
    return carried_in_words(how, irtbench.scoring.item_error_share(scale.items, scale.population), scale.name)


def scale_in_words(bank: irtbench.ItemBank) -> str:
    """Where the crowd is on the scale of ability; a Rasch model's and an anchored one's is not the crowd's own."""
    places = [
        f"{density.mean:z.2f} and {density.deviation:.2f} on {scale.name}"
        for scale in bank.scales
        if (density := scale.population) is not None
        and (abs(density.mean) > ROUNDING or abs(density.deviation - 1) > ROUNDING)
    ]
    if not places:
        return f"0 is the mean of the {bank.respondents or 'crowd'} and 1 the standard deviation"
    return f"mean and standard deviation of the {bank.respondents or 'crowd'} are {name_first(places)}"


def whole_in_words(bank: irtbench.ItemBank, responses: irtbench.ResponseMatrix, level: float) -> list[str]:
    """What accuracy on all items of the bank is expected of those who answered a part of them, a line each."""
    ids = [item for scale in bank.scales for item in scale.items.item_ids]
    if any(scale.items.upper_asymptote is not None for scale in bank.scales) or not set(responses.item_ids) & set(ids):
        return []
    found = irtbench.predict_accuracy(
        bank.scales, responses.select_items([item for item in responses.item_ids if item in set(ids)]), level=level
    )
    shares = zip(found.respondent_ids, found.n_seen, found.accuracy, found.lower, found.upper, strict=True)
    return [
        f"{who}: {100 * middle:.1f}% right of all {found.n_items} items of the bank is expected "
        f"[{100 * low:.1f}, {100 * high:.1f}] (irtbench predict)"
        for who, n_seen, middle, low, high in shares
        if irtbench.scoring.percentiles.FEW_ITEMS <= n_seen < found.n_items
    ]
