"""Options that only ``irtbench fit`` has, in the order of its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

#: Models of right and wrong: ModelKind, without the time it takes to load.
RightOrWrong = Literal["rasch", "1pl", "2pl", "3pl", "4pl"]
IN_CATEGORIES = ("grm", "gpcm", "pcm", "rsm", "nominal")


def known_model(model: str) -> str:
    """The model, if it is one of ours or a file."""
    names = [*get_args(RightOrWrong), *IN_CATEGORIES]
    if model not in names and not Path(model).is_file():
        raise typer.BadParameter(f"'{model}' is not one of {', '.join(map(repr, names))}, nor a table of models.")
    return model


Model = Annotated[
    str,
    typer.Option(
        "--model",
        callback=known_model,
        metavar="MODEL",
        autocompletion=lambda: [*get_args(RightOrWrong), *IN_CATEGORIES],
        help="Of right and wrong rasch, 1pl, 2pl, 3pl, 4pl; of grades and partial credit grm, gpcm, pcm, rsm; nominal; "
        "or a table with each item's: item_id, model.",
    ),
]
Levels = Annotated[
    str | None,
    typer.Option("--levels", metavar="A,B,...", help="Of grades that are labels: all in order, the lowest first."),
]
Prior = Annotated[
    Literal["auto", "none", "weak", "hierarchical"],
    typer.Option("--prior", help="Prior of the items; auto takes one that suits how many answered, and says which."),
]
Population = Annotated[
    Literal["normal", "estimated"], typer.Option("--population", help="Density of ability: normal, or estimated.")
]
Guessing = Annotated[float, typer.Option("--guessing", help="Not with 3pl: lower asymptote fixed at this value.")]
ByItem = Annotated[
    Path | None,
    typer.Option("--by-item", metavar="FILE", help="Models of single items: item_id, model, guessing."),
]
Anchors = Annotated[
    Path | None,
    typer.Option(
        "--anchors",
        metavar="FILE",
        help="Items whose parameters are known and stay: bank.json, or items.csv; the rest joins them.",
    ),
]
Groups = Annotated[
    Path | None,
    typer.Option("--groups", metavar="G", help="Table with respondent_id and group: a population of ability for each."),
]
Reference = Annotated[
    str | None,
    typer.Option("--reference", help="With --groups: that of mean 0 and standard deviation 1; else the largest."),
]
PriorGuessing = Annotated[
    str | None,
    typer.Option(
        "--prior-guessing",
        metavar="DENSITY",
        help="Prior of guessing: normal:MEAN,SD of logit c, or beta:ALPHA,BETA of c; in place of the usual one.",
    ),
]
PriorSlope = Annotated[
    str | None, typer.Option("--prior-slope", metavar="normal:MEAN,SD", help="Prior of slopes a, your own.")
]
PriorIntercept = Annotated[
    str | None,
    typer.Option("--prior-intercept", metavar="normal:MEAN,SD", help="Prior of intercepts d = -a b, your own."),
]
PriorUpper = Annotated[
    str | None,
    typer.Option(
        "--prior-upper",
        metavar="DENSITY",
        help="With 4pl: prior of the upper asymptote u, in the same words; beta:19,1 unless said otherwise.",
    ),
]
Constraints = Annotated[
    Path | None,
    typer.Option(
        "--constraints",
        metavar="FILE",
        help="Parameters that are the same, in sets, without a prior: item_id, parameter (a, d, c; d1, ...), set.",
    ),
]
Dispersion = Annotated[
    Literal["scale", "item"] | None,
    typer.Option("--dispersion", help="Of trials more alike than independent ones: one dispersion, or one by item."),
]
AbilityOn = Annotated[
    Path | None,
    typer.Option(
        "--ability-on",
        metavar="FILE",
        help="Table with respondent_id and what is known of them: effects on ability (latent regression).",
    ),
]
Factors = Annotated[int, typer.Option("--factors", min=1, help="Abilities; more than one with 2pl only.")]
Pattern = Annotated[
    Path | None,
    typer.Option(
        "--pattern",
        metavar="FILE",
        help="Which slopes on several abilities are estimated (1) and which zero (0): item_id, slope_1, ...",
    ),
]
TestletColumn = Annotated[
    str | None,
    typer.Option(
        "--testlets",
        metavar="COLUMN",
        help="Column of testlets: their items share an ability of their own beside the general one.",
    ),
]
TestletTable = Annotated[
    Path | None,
    typer.Option("--item-table", metavar="ITEMS", help="Table with that column, if RESPONSES has it not."),
]
SpecificSlopes = Annotated[
    Literal["free", "equal"],
    typer.Option("--specific-slopes", help="Of testlets: one for each item, or one for all items of a testlet."),
]
Posterior = Annotated[
    Literal["normal", "lowrank"] | None,
    typer.Option("--posterior", help="Fit a variational posterior of the items: its means and standard deviations."),
]
Card = Annotated[
    Path | None,
    typer.Option(
        "--card",
        metavar="FILE",
        help="TOML with what the bank says of itself: title, description, license, population, collection, citation.",
    ),
]
ScoresAs = Annotated[
    Literal["csv", "parquet", "none"],
    typer.Option("--scores", help="Abilities of the respondents as scores.csv, as scores.parquet, or not at all."),
]
CacheOfTable = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        help="Where a table too large for memory is encoded, and kept for the next run; a temporary folder if not "
        "said.",
    ),
]
RemoveCache = Annotated[
    bool, typer.Option("--remove-cache", help="Remove what --cache holds of this table at the end.")
]
