"""``irtbench raters``: how severe the raters are, and what an average one would have given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from irtbench.cli.options import AllowUnconverged, Columns, FiguresOrBeside, Folder, Html, Json, Quiet, Seed, named
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, page_in
from irtbench.cli.progress import demand_converged, reporting, say_doubts

FILES = (
    "raters.csv", "items.csv", "scores.csv", "precision.csv", "interactions.csv", "raters.json", "severities.svg",
    "fair_scores.svg",
)  # fmt: skip
TIMES = (0.5, 1, 2, 4)  # as many ratings as a respondent has on average


def raters(
    ratings: Annotated[
        Path,
        typer.Argument(metavar="RATINGS", help="Table of respondent_id, item_id, rater_id, score; a row a rating."),
    ],
    output: Folder,
    model: Annotated[
        Literal["gpcm", "grm"], typer.Option("--model", help="Partial credit, or graded response.")
    ] = "gpcm",
    item_slopes: Annotated[bool, typer.Option("--item-slopes", help="Slopes by item; otherwise all are 1.")] = False,
    consistency: Annotated[
        bool, typer.Option("--consistency", help="Slopes by rater: who tells respondents apart less well.")
    ] = False,
    rater_steps: Annotated[
        bool, typer.Option("--rater-steps", help="Each rater uses the categories in its own way.")
    ] = False,
    answer_effect: Annotated[
        bool, typer.Option("--answer-effect", help="Ratings of one answer share more than ability; slower.")
    ] = False,
    severities: Annotated[
        Literal["auto", "fixed", "learnt"],
        typer.Option("--severities", help="Parameters, or drawn from a normal learnt; auto: learnt from 31 raters on."),
    ] = "auto",
    interaction: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="Groups of ratings for which a rater may be more severe."),
    ] = None,
    levels: Annotated[
        str | None, typer.Option("--levels", metavar="A,B,C", help="Scores that are words, the lowest first.")
    ] = None,
    column: Columns = [],  # noqa: B006 - typer copies it
    figures: FiguresOrBeside = None,
    html: Html = None,
    seed: Seed = 0,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Severity of raters with standard errors, fair scores, and what more ratings would buy (many-facet model).

    Writes raters.csv, items.csv, scores.csv (theta and fair scores with intervals), precision.csv, raters.json and with
    --by interactions.csv. Nothing is random: --seed is taken as by other commands, and changes nothing.
    """
    from irtbench.data.readers.rating_table import read_ratings
    from irtbench.estimation.raters.fit_ratings import fit_raters

    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures, beside=folder) as draw,
        page_in(html) as show,
    ):
        progress("reading")
        words = [] if levels is None else [word.strip() for word in levels.split(",")]
        table = read_ratings(ratings, columns=named("--column", column), levels=words, interaction=interaction)
        progress(f"fitting {len(table):,} ratings")
        found = fit_raters(
            table, model=model, item_slopes=item_slopes, consistency=consistency, rater_steps=rater_steps,
            answer_effect=answer_effect, raters=severities, interaction=interaction,
        )  # fmt: skip
        mean = found.n_ratings / found.n_respondents
        precision = found.precision(sorted({max(1, round(mean * times)) for times in TIMES}))
        write_table(found.table(), folder / "raters.csv")
        write_table(found.item_rows(), folder / "items.csv")
        write_table(found.scores(), folder / "scores.csv")
        write_table(precision, folder / "precision.csv")
        if found.interactions is not None:
            write_table(found.interactions, folder / "interactions.csv")
        write_json(found.summary(), folder / "raters.json")
        if draw is not None:
            from irtbench.report.rater_figures import rater_figures

            draw(rater_figures(found))
        if show is not None:
            from irtbench.report.rater_figures import rater_page

            show(rater_page(found, precision))
    say_doubts(found.doubts)
    if json:
        print(to_json(found.summary() | {"raters": found.table(), "precision": precision}))
    elif not quiet:
        shown = found.table().sort_values("severity", ascending=False, kind="stable")
        show_table(shown.drop(columns=["part"] if found.n_parts == 1 else []), title="Raters, the most severe first",
                   rest=(output, "raters.csv"))  # fmt: skip
        show_table(precision, title="What ratings of a respondent buy", rest=(output, "precision.csv"))
        say(
            f"severities: standard deviation {found.rater_sd:.2f} logits, {found.separation:.0%} of their variance is "
            f"no error; ability: standard deviation {found.ability_sd:.2f}; fair scores are in {output / 'scores.csv'}"
        )
    unsettled = [] if found.converged else ["the steps did not settle: there are too few ratings"]
    demand_converged(unsettled, allow_unconverged=allow_unconverged, quiet=True)
