"""``irtbench bias``: items that are harder for one group than for another at the same ability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

from irtbench.cli.bias_effect import FIGURES, effect_or_reason
from irtbench.cli.bias_effect import FILES as EFFECT_FILES
from irtbench.cli.bias_of_systems import FILES as SYSTEM_FILES
from irtbench.cli.bias_of_systems import AgainstPeople, systems_against_people
from irtbench.cli.fit_in_categories import levels_of
from irtbench.cli.fit_options import IN_CATEGORIES, Levels
from irtbench.cli.options import (
    FiguresOrBeside,
    Folder,
    Html,
    Json,
    NumberOfOptions,
    Quiet,
    Responses,
    Seed,
    WhereToCompute,
    demand_varied_items,
)
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, page_in
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.analysis.item_bias import ItemBias
    from irtbench.analysis.mantel_haenszel import MantelHaenszel
    from irtbench.analysis.score_regression import ScoreRegression
    from irtbench.estimation.settings import FitSettings

FILES = ("bias.csv", "bias.json", *EFFECT_FILES, *FIGURES, *SYSTEM_FILES)
SHOWN = (
    *("item_id", "delta", "size", "odds_ratio", "ets_class", "rms_difference", "r2_change", "r2_class", "chi2", "x2"),
    *("p", "p_adjusted", "p_uniform", "p_crossing"),
)
DIRECTION = ": negative delta is harder for the focal group"


@reads_files(trials="count")
def bias(
    responses: Responses,
    output: Folder,
    groups: Annotated[
        Path | None, typer.Option("--groups", metavar="G", help="Table with respondent_id and group.")
    ] = None,
    bank: Annotated[
        Path | None,
        typer.Option("--bank", metavar="BANK", help="In place of --groups: a few systems against a bank's people."),
    ] = None,
    families: Annotated[
        Path | None,
        typer.Option(
            "--families", metavar="F", help="With --bank: respondent_id and group; systems of one are not independent."
        ),
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option("--control", metavar="PEOPLE", help="With --bank: responses of people to put in their place."),
    ] = None,
    permutations: Annotated[
        int, typer.Option("--permutations", min=1, max=10_000, help="With --control: how many groups of people.")
    ] = 20,
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="With --bank: the scale, where it has several.")
    ] = None,
    focal: Annotated[
        str | None, typer.Option("--focal", help="The group compared with the other; else the smaller one.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="The group it is compared with, where there are more than two.")
    ] = None,
    method: Annotated[
        Literal["likelihood", "likelihood_ratio", "logistic", "mantel-haenszel"],
        typer.Option("--method", help="How each item is tested; likelihood and likelihood_ratio are the same."),
    ] = "likelihood",
    match: Annotated[
        Literal["ability", "score"] | None,
        typer.Option("--match", help="Who counts as equally able; score goes with logistic and mantel-haenszel."),
    ] = None,
    purify: Annotated[
        bool, typer.Option("--purify/--no-purify", help="Whether items that differ leave anchors and score.")
    ] = True,
    continuity: Annotated[
        bool, typer.Option("--continuity/--no-continuity", help="Continuity correction of mantel-haenszel.")
    ] = True,
    model: Annotated[
        Literal["2pl", "3pl", "grm", "gpcm"],
        typer.Option("--model", help="2pl, 3pl where items are guessed; grm, gpcm: responses are grades."),
    ] = "2pl",
    levels: Levels = None,
    prior: Annotated[
        Literal["none", "weak"] | None,
        typer.Option("--prior", help="Prior of the items; none for 2pl and weak for 3pl unless said otherwise."),
    ] = None,
    guessing: Annotated[float, typer.Option("--guessing", help="With 2pl: lower asymptote held at this value.")] = 0.0,
    options: NumberOfOptions = 4,
    device: WhereToCompute = "auto",
    alpha: Annotated[float, typer.Option("--alpha", help="p, not adjusted, below which an item is no anchor.")] = 0.05,
    adjustment: Annotated[
        Literal["fdr_bh", "holm"], typer.Option("--adjust", help="How p is adjusted for the number of items.")
    ] = "fdr_bh",
    figures: FiguresOrBeside = None,
    html: Html = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Compare items between groups: people of two kinds, or people and machines.

    Writes bias.csv and bias.json. Two groups are compared at the same ability; with mantel-haenszel, and with logistic
    and --match score, two groups or more at the same sum score. Items that all got right or all got wrong, and those
    that one group was not asked, cannot be compared: they are left out and named.

    Where items differ, writes what they do to the test: test_bias.csv, the difference in expected score between equally
    able members of the groups; test_curves.csv, the same along ability; and ability_change.csv, everyone's ability and
    percentile with all items and without those that differ.

    Grades (--model grm, gpcm) are compared in their categories, by the likelihood or by ordinal logistic regression.

    With --bank the responses are those of a few systems (5 to 30), and the bank's items are held as people calibrated
    them: each item's shift for the systems is a random effect. Writes bias.csv, bias.json, systems.csv and control.csv.
    """
    if bank is not None:
        beside = {
            "--groups": groups, "--focal": focal, "--reference": reference, "--match": match, "--prior": prior,
            "--method": None if method == "likelihood" else method, "--model": None if model == "2pl" else model,
            "--guessing": guessing or None, "--no-purify": None if purify else True, "--levels": levels,
        }  # fmt: skip
        if given_too := [name for name, value in beside.items() if value is not None]:
            raise InputError(f"--bank: {given_too[0]} does not go with it; expected one or the other")
        how = AgainstPeople(bank, scale, families, control, permutations, alpha, adjustment)
        systems_against_people(
            responses,
            how,
            reading=reading,
            output=output,
            files=FILES,
            figures=figures,
            html=html,
            seed=seed,
            quiet=quiet,
            json=json,
        )
        return
    for name, value in (("--families", families), ("--control", control), ("--scale", scale)):
        if value is not None:
            raise InputError(f"{name}: goes with --bank alone")
    if groups is None:
        raise InputError("bias: expected --groups G, or --bank BANK for a few systems against a bank's people")
    from irtbench.analysis.item_bias import comparable_in_categories, comparable_items, item_bias
    from irtbench.analysis.mantel_haenszel import mantel_haenszel
    from irtbench.analysis.score_regression import score_regression
    from irtbench.data.readers.groups import read_groups
    from irtbench.estimation.settings import FitSettings

    graded = model in IN_CATEGORIES
    refuse_beside_grades(graded, method=method, levels=levels, guessing=guessing)
    by_score = matched_by_score(method, match, models=model == "3pl" or guessing > 0 or prior is not None)
    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=FILES) as folder,
        figures_in(figures, beside=folder) as draw,
        page_in(html) as show,
    ):
        labels = levels_of(levels) or None
        given = reading.scores(responses, labels or ()) if graded else reading.matrix(responses)
        respondent_ids = tuple(given.index) if isinstance(given, pd.DataFrame) else given.respondent_ids
        group_of = read_groups(groups)
        names = compared_groups(group_of, respondent_ids, reference, focal, any_number=by_score)
        there = np.array([group_of.get(r) in names for r in respondent_ids])
        group = np.array([group_of[r] for r, kept_too in zip(respondent_ids, there, strict=True) if kept_too], object)
        data: Any
        if isinstance(given, pd.DataFrame):
            data, item_ids = given[there], [*given.columns]
            kept = [*comparable_in_categories(data, [group == name for name in names], labels)]
        else:
            data, item_ids = given.select_respondents(there), [*given.item_ids]
            in_all = [set(comparable_items(data, group == name)) for name in names[1:]]
            kept = [item for item in item_ids if all(item in comparable for comparable in in_all)]
        demand_varied_items(kept, responses)
        left_out = sorted(set(item_ids) - set(kept))
        sizes = ", ".join(f"{int((group == name).sum())} {name}" for name in names)
        progress(f"{len(kept)} items, {names[0]} is the reference: {sizes}")
        data = data[kept] if graded else data.select_items(kept)
        settings = FitSettings(
            kind="3pl" if model == "3pl" else "2pl", prior=prior, guessing=guessing, n_options=options, device=device
        )
        if method == "mantel-haenszel":
            tested = mantel_haenszel(
                data, list(group), reference=names[0], purify=purify, continuity=continuity, alpha=alpha,
                adjustment=adjustment,
            )  # fmt: skip
            items, found = tested.table(), about_scores(tested, method)
        elif by_score:
            regressed = score_regression(
                data, list(group), reference=names[0], in_categories=graded, levels=labels, purify=purify, alpha=alpha,
                adjustment=adjustment,
            )  # fmt: skip
            items, found = regressed.table(), about_scores(regressed, method)
        else:
            result = item_bias(
                data, group == names[1], method="logistic" if method == "logistic" else "likelihood_ratio",
                purify=purify, alpha=alpha, adjustment=adjustment, settings=settings,
                models=model if graded else None, levels=labels,
            )  # fmt: skip
            if not result.status.converged:
                progress(f"the fit with the last anchors did not converge: {result.status}")
            items, found = result.table(), about_abilities(result, names, settings) | {"model": model}
            if result.merged:
                found["categories_merged"] = list(result.merged)
        flagged = list(items["item_id"][items["p_adjusted"] < alpha])
        found |= {"flagged": flagged, "items_left_out": left_out}
        worst_first = list(items.sort_values("p", kind="stable")["item_id"])
        effect, not_said = None, "of grades it is not known; items by group are in bias.csv" if flagged else ""
        if not graded:
            effect, not_said = effect_or_reason(
                data, list(group), [item for item in worst_first if item in set(flagged)], reference=names[0],
                settings=settings, seed=seed,
            )  # fmt: skip
        if effect is not None:
            found |= effect.about()
            effect.write(folder)
        if draw is not None:
            from irtbench.report.check_figures import bias_figures

            draw([*bias_figures(items, alpha=alpha), *([] if effect is None else effect.figures())])
        if show is not None:
            from irtbench.report.item_pages import bias_page

            show(bias_page(items, found, [] if effect is None else effect.figures(apart=True), alpha=alpha))
        if not_said:
            found["test_not_available"] = not_said
        write_table(items, folder / "bias.csv")
        write_json(found, folder / "bias.json")
    if json:
        print(to_json(found | {"items": items}))
    elif not quiet:
        worst = items.sort_values("p", kind="stable").head(20)
        shown = [name for name in SHOWN if name in items and not items[name].isna().all()]
        title = f"{' and '.join(names[1:])} against {names[0]}{DIRECTION * (len(names) == 2)}"
        show_table(worst[shown], title=title, rest=output / "bias.csv")
        say(f"{len(flagged)} of {len(kept)} items differ")
        if effect is not None:
            effect.tell()
        if not_said:
            say(f"what this does to the test: {not_said}")
        if "focal_mean" in found:
            say(
                f"ability of {names[1]}: mean {found['focal_mean']:.2f}, "
                f"standard deviation {found['focal_sd']:.2f} where {names[0]} have 0 and 1"
            )
        if found.get("caution"):
            say(found["caution"])
        if found.get("n_left_out"):
            say(f"{found['n_left_out']} respondents did not answer all items and have no score: they are left out")
        if found.get("categories_merged"):
            say(f"given by one group alone, a category counts as the one beside it: {name_first(result.merged)}")
        if left_out:
            say(f"left out: {', '.join(left_out)}")


def refuse_beside_grades(graded: bool, *, method: str, levels: str | None, guessing: float) -> None:
    """Refuse what does not go with grades, or goes with them alone."""
    if levels is not None and not graded:
        raise InputError("--levels: goes with grades: --model grm or gpcm")
    if graded and method == "mantel-haenszel":
        raise InputError("--method mantel-haenszel: of right and wrong; expected likelihood or logistic of grades")
    if graded and guessing > 0:
        raise InputError("--guessing: goes with right and wrong; expected none of grades")


def matched_by_score(method: str, match: str | None, *, models: bool) -> bool:
    """Whether respondents are matched by sum score; refuses what does not go together."""
    by_score = method == "mantel-haenszel" or match == "score"
    if method == "mantel-haenszel" and match == "ability":
        raise InputError("--match ability: mantel-haenszel compares respondents of equal score; expected score")
    if method.startswith("likelihood") and match == "score":
        raise InputError("--match score: the likelihood ratio compares the equally able; expected ability")
    if by_score and models:
        raise InputError("--model, --prior and --guessing: a sum score knows no model; leave them out with it")
    return by_score


SCORE_IS_NOT_ABILITY = (
    "a sum score stands for ability only where items discriminate alike: between groups of unequal ability clean items "
    "are flagged too often, the more the larger the groups; confirm with --method likelihood"
)


def about_scores(result: MantelHaenszel | ScoreRegression, method: str) -> dict[str, Any]:
    """What bias.json says of a comparison at the same score."""
    return {
        "reference": next(iter(result.groups)),
        "groups": result.groups,
        "method": method,
        "match": "score",
        "caution": SCORE_IS_NOT_ABILITY,
        "n_left_out": result.n_left_out,
        "rounds": result.rounds,
        "settled": result.settled,
    }


def about_abilities(result: ItemBias, names: Sequence[str], settings: FitSettings) -> dict[str, Any]:
    """What bias.json says of a comparison at the same ability."""
    return {
        "reference": names[0],
        "focal": names[1],
        "n_reference": result.sizes[0],
        "n_focal": result.sizes[1],
        "method": result.method,
        "match": "ability",
        "model": settings.kind,
        "prior": settings.priors.describe(),
        "converged": result.status.converged,
        "stopped_because": str(result.status),
        "focal_mean": result.focal_mean,
        "focal_sd": result.focal_sd,
        "rounds": result.rounds,
    }


def compared_groups(
    group_of: dict[str, str],
    respondent_ids: tuple[str, ...],
    reference: str | None,
    focal: str | None,
    *,
    any_number: bool,
) -> tuple[str, ...]:
    """Names of the groups among the respondents, the reference first: two, or all where any number may be compared.

    The reference is the largest unless said, and of two the smaller is focal.

    Raises
    ------
    InputError
        If a name is unknown, both are the same, there are not two groups, or more than two are there and not both
        named where two are needed.
    """
    if focal is None and any_number:
        sizes = Counter(group_of[r] for r in respondent_ids if r in group_of)
        if len(sizes) > 2 and (reference is None or reference in sizes):
            first = reference or max(sizes, key=lambda name: sizes[name])
            return (first, *sorted(name for name in sizes if name != first))
    return two_groups(group_of, respondent_ids, reference, focal)


def two_groups(
    group_of: dict[str, str], respondent_ids: tuple[str, ...], reference: str | None, focal: str | None
) -> tuple[str, str]:
    """Names of the reference and the focal group among the respondents; the smaller one is focal unless said.

    Raises
    ------
    InputError
        If a name is unknown, both are the same, or more than two groups are there and not both are named.
    """
    sizes = Counter(group_of[r] for r in respondent_ids if r in group_of)
    named_groups = [name for name in (reference, focal) if name is not None]
    for name in named_groups:
        if name not in sizes:
            raise InputError(f"--groups: no respondent is in group {name}; expected one of {', '.join(sorted(sizes))}")
    others = [name for name, _ in sorted(sizes.items(), key=lambda entry: -entry[1]) if name not in named_groups]
    if len(set(named_groups)) < len(named_groups) or len(others) + len(named_groups) < 2:
        raise InputError("--groups: expected respondents of two groups but all are in one")
    if len(named_groups) < 2 and len(sizes) > 2:
        raise InputError(f"--groups: {len(sizes)} groups; say which two with --reference and --focal")
    return reference or others[0], focal or others[-1]
