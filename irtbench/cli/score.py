"""``irtbench score``: a system's responses to ability and human percentile, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import typer

from irtbench.bank.bank import ItemBank, load_bank
from irtbench.bank.norm_table import with_norms
from irtbench.cli.graded import left_out_of, read_graded, say_left_out
from irtbench.cli.options import AllowAddress, Figures, Html, Json, Map, Quiet, Seed, UnknownItemsOption, mapped, named
from irtbench.cli.output import (
    demand_table_name,
    say,
    say_next,
    show_table,
    to_json,
    top_and_bottom,
    write_table,
)
from irtbench.cli.presenting import figures_in, maybe_file, maybe_folder, page_in
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.cli.score_large import goes_by_parts, score_large
from irtbench.cli.score_norms import demand_norm_columns, show_groups, weighted_to, with_groups
from irtbench.cli.score_words import (
    interval_texts,
    item_error_in_words,
    link_in_words,
    scale_in_words,
    weights_in_words,
    whole_in_words,
)
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.scoring.comparability import as_given, why_not_compared
from irtbench.scoring.explanation import Explanation, explain_all
from irtbench.scoring.group_percentiles import percentiles_by_group
from irtbench.scoring.plausible_values import with_plausible_values
from irtbench.scoring.scores import ScoringSettings, grading_of, in_categories, score_responses

MOST_EXPLAINED = 50  # rows of scores whose surprises are named
MOST_PREDICTED = 10  # respondents whose accuracy on all items is said
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


@reads_files(trials="count")
def score(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="An item bank, bank.json.")],
    responses: Annotated[
        Path, typer.Argument(metavar="RESPONSES", help="Responses 1 / 0, or answers, which the bank's key grades.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="scores.csv; also .parquet, .json, .md, .tex, .html."),
    ] = None,
    content: Annotated[
        Literal["auto", "responses", "answers"], typer.Option("--content", help="What the table holds.")
    ] = "auto",
    unknown_items: UnknownItemsOption = "error",
    answers_map: Map = [],  # noqa: B006 - typer copies it
    method: Annotated[
        Literal["eap", "map", "ml", "wle", "eap_sum"], typer.Option("--method", help="Estimator of ability.")
    ] = "eap",
    item_error: Annotated[
        Literal["auto", "none", "delta", "draw", "integrate"],
        typer.Option("--item-error", help="How the items' own error enters; auto: where few people answered them."),
    ] = "auto",
    norm: Annotated[
        Literal["normal", "empirical", "smoothed"] | None,
        typer.Option("--norm", help="What the percentile refers to; normal, or smoothed for a norm group."),
    ] = None,
    norms: Annotated[
        Path | None,
        typer.Option("--norms", metavar="FILE", help="Norm sample instead of the bank's: theta, scale, se, weight."),
    ] = None,
    margins: Annotated[
        Path | None,
        typer.Option(
            "--margins",
            metavar="FILE",
            help="Weight the norm sample to a population: column, value, share of the respondents' columns.",
        ),
    ] = None,
    norm_groups: Annotated[
        list[str],
        typer.Option(
            "--norm-groups", metavar="COLUMN", help="Percentiles within each group of the norm sample too, by column."
        ),
    ] = [],  # noqa: B006 - typer copies it
    norm_group: Annotated[
        str | None,
        typer.Option("--norm-group", metavar="COLUMN=VALUE", help="Part of the norm sample to compare with."),
    ] = None,
    scaling: Annotated[
        float | None,
        typer.Option("--scaling-constant", metavar="D", help="Of a table of items: D before slopes; 1.7 of NAEP's."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Coverage of the intervals.")] = 0.95,
    plausible: Annotated[
        int, typer.Option("--plausible", metavar="N", help="N draws of ability of each, pv1 and on.", min=0, max=1000)
    ] = 0,
    explanation: Annotated[
        Path | None,
        typer.Option("--explain", metavar="DIR", help="Folder for surprises.csv and difficulty.csv."),
    ] = None,
    figures: Figures = None,
    html: Html = None,
    allow_address: AllowAddress = [],  # noqa: B006 - typer copies it
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Score systems (or people) on a bank: ability, its error, and the human percentile, a row for each scale.

    Items that the bank's own study asked and left out (attention checks, items that it removed) do not count; they are
    named.
    """
    if output is not None:
        demand_table_name(output)
    known = load_bank(bank, upper_asymptotes=True, categories=True, scaling=scaling)
    known = known if norms is None else with_norms(known, norms)
    if margins is not None:
        known = weighted_to(known, margins, norm)
    demand_norm_columns(known, norm_groups)
    group = None if norm_group is None else next(iter(named("--norm-group", [norm_group]).items()))
    settings = ScoringSettings(
        method=method,
        item_error=item_error,
        norm=norm or ("normal" if group is None and margins is None else "smoothed"),
        norm_group=group,
        level=level,
        seed=seed,
    )
    meant = mapped(answers_map)
    needs_all = {
        "--explain": explanation is not None,
        "--figures": figures is not None,
        "--html": html is not None,
        "--norm-groups": bool(norm_groups),
        "--plausible": plausible > 0,
        "items in categories": in_categories(known),
    }
    if in_categories(known) and explanation is not None:
        raise InputError("--explain: goes with items that are right or wrong")
    in_memory = next((f"{name} needs all of them in memory" for name, asked in needs_all.items() if asked), "")
    if goes_by_parts(responses, output, reading, in_memory):
        assert output is not None
        grading = grading_of(known, meant)
        scored = score_large(
            known, responses, output, settings, reading,
            content=content, unknown_items=unknown_items, grading=grading, allow_address=allow_address,
            quiet=quiet,
        )  # fmt: skip
        if scored is not None:
            n, by_study = scored
            say_left_out(by_study)
            if json:
                said = {"n_respondents": n, "output": output, "items_left_out": [vars(item) for item in by_study]}
                print(to_json(said))
            elif not quiet:
                say(f"{n} respondents scored, written to {output}")
        return
    with reporting(quiet=quiet) as progress:
        progress("reading")
        given = read_graded(
            known, responses, reading, content=content, unknown_items=unknown_items, answers_mapped=meant
        )
        graded = given.responses
        say_left_out(given.left_out)
        progress(f"scoring {graded.n_respondents} respondents")
        scores = score_responses(known, graded, settings, unknown_items=unknown_items)
        if plausible:
            scores = with_plausible_values(scores, known, graded, settings, plausible)
        groups = None
        if norm_groups:
            groups = percentiles_by_group(known, graded, norm_groups, settings, unknown_items=unknown_items)
            scores = with_groups(scores, groups)
        explained = None if explanation is None else explain_all(known, graded, unknown_items=unknown_items)
    with (
        maybe_file(output) as file,
        figures_in(figures) as draw,
        page_in(html) as show,
        maybe_folder(explanation, files=("surprises.csv", "difficulty.csv")) as folder,
    ):
        if file is not None:
            write_table(scores, file)
        if draw is not None:
            from irtbench.report.scoring_figures import score_figures

            draw(score_figures(known.scales, scores, level=level))
        if show is not None:
            from irtbench.report.system_pages import score_page

            show(score_page(known, scores, settings))
        if explained is not None and folder is not None:
            write_table(explained.surprises(), folder / "surprises.csv")
            write_table(explained.difficulty, folder / "difficulty.csv")
    if json:
        rows = [row | {"items_left_out": left_out_of(given.left_out, row["scale"], known)}
                for row in scores.to_dict(orient="records")]  # fmt: skip
        print(to_json(rows if explained is None else {"scores": rows, "surprises": explained.surprises(),
                                                      "difficulty": explained.difficulty}))  # fmt: skip
    elif not quiet:
        show_scores(known, scores, settings, rest=output)
        if graded.n_respondents <= MOST_PREDICTED and not in_categories(known):
            for line in whole_in_words(known, graded, level):
                say(line)
        if groups is not None:
            show_groups(groups, scores, output)
        if margins is not None:
            for scale in known.scales:
                say(weights_in_words(scale, margins))
        if explained is not None and explanation is not None:
            show_explanation(explained, scores, explanation)
        if output is not None and reading == Reading(trials=reading.trials) and not meant:
            say_what_follows(known, graded.n_respondents, bank, responses, output.parent)


def say_what_follows(known: ItemBank, n_respondents: int, bank: Path, responses: Path, folder: Path) -> None:
    """Print the command that compares several systems, or says of one what it misses."""
    if in_categories(known):
        return
    if n_respondents == 1:
        say_next("irtbench", "score", bank, responses, "--explain", folder / "explained")
    elif n_respondents <= MOST_COMPARED:
        exact = any(scale.items.covariance is None for scale in known.scales)
        without = ["--item-error", "none"] if exact else []
        say_next("irtbench", "compare", responses, "--bank", bank, *without, "-o", folder / "comparison")


def show_scores(bank: ItemBank, scores: pd.DataFrame, settings: ScoringSettings, *, rest: Path | None) -> None:
    """Print scores in words a person understands without a manual."""
    shown, people = as_given(top_and_bottom(scores)), bank.respondents or "crowd"
    places = interval_texts(shown, "percentile", "percentile_lower", "percentile_upper", ".0f")
    asked = "n_trials" if "n_trials" in shown else "n_items"
    remarks = [
        ", ".join(REMARKS[flag] for flag in dict.fromkeys(f"{flags};{more}".split(";")) if flag)
        for flags, more in zip(shown["flags"], shown["percentile_flags"], strict=True)
    ]
    show_table(
        pd.DataFrame(
            {
                "who": shown["respondent_id"],
                "scale": shown["scale"],
                "points" if in_categories(bank) else "right": [
                    f"{k} of {n}" for k, n in zip(shown["n_correct"], shown[asked], strict=True)
                ],
                "ability": interval_texts(shown, "theta", "theta_lower", "theta_upper", ".2f"),
                f"better than ... of the {people}": [text.replace(" ", "% ", 1) for text in places],
                "remarks": remarks,
            }
        ),
        rest=rest,
        of=len(scores),
    )
    if len(scores) <= len(bank.scales):
        for row, place in zip(shown.to_dict("records"), places, strict=True):
            who, why = f"{row['respondent_id']} on {row['scale']}", why_not_compared(row)
            if not row["n_items"]:
                continue
            if why:
                say(f"{who}: no percentile is given: {why}")
            elif place:
                say(f"{who}: better than {place.replace(' ', f'% of the {people} ', 1)}")
    normal = f"a normal population, as fitted to the {people} of the study"
    if any(scale.population is not None for scale in bank.scales):
        normal = f"the population that was estimated from the {people} of the study"
    crowd = {
        "normal": normal,
        "empirical": "those of the norm sample",
        "smoothed": "the population that the norm sample stands for",
    }[settings.norm]
    group = "" if settings.norm_group is None else f" with {settings.norm_group[0]} {settings.norm_group[1]}"
    for words in (*map(link_in_words, bank.scales), *(item_error_in_words(scale, settings) for scale in bank.scales)):
        if words:
            say(words)
    if settings.norm == "normal" and any(scale.norms and scale.norms.weights is not None for scale in bank.scales):
        say("the norm sample has weights, which a normal population has not: --norm smoothed takes them")
    say(
        f"Ability: {scale_in_words(bank)}. The {people}: {crowd}{group}. In brackets "
        f"{100 * settings.level:g}% intervals."
    )


def show_explanation(explained: Explanation, scores: pd.DataFrame, folder: Path) -> None:
    """Print where respondents differ from people of their ability."""
    levels = explained.difficulty
    view = top_and_bottom(levels)
    show_table(
        pd.DataFrame(
            {
                "who": view["respondent_id"],
                "scale": view["scale"],
                "items of difficulty": [
                    f"{low:.2f} to {high:.2f}"
                    for low, high in zip(view["difficulty_from"], view["difficulty_to"], strict=True)
                ],
                "items": view["n_items"],
                "% right": [f"{100 * share:.0f}" for share in view["observed"]],
                "% right of people of this ability": interval_texts(
                    100 * view[["expected", "expected_lower", "expected_upper"]],
                    *("expected", "expected_lower", "expected_upper", ".0f"),
                ),
            }
        ),
        title="Accuracy by difficulty",
        rest=folder / "difficulty.csv",
        of=len(levels),
    )
    surprises = explained.surprises()
    for who, scale in scores[["respondent_id", "scale"]].head(MOST_EXPLAINED).to_numpy().tolist():
        own = surprises[(surprises["respondent_id"] == who) & (surprises["scale"] == scale)]
        for kind, words in (("missed", "misses, people of this ability do not"), ("right", "gets, they do not")):
            names = own.loc[own["surprise"] == kind, "item_id"].tolist()
            if names:
                say(f"{who} on {scale} {words}: {name_first(names, most=MOST_SURPRISES)}")
