"""``irtbench screen``: whose answers count, why the others' do not, and what that changes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from irtbench.cli.options import Answers, Columns, Figures, Folder, ItemColumns, Json, Quiet, Seed, Table, Where, named
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

FILES = (
    "respondents.csv", "answers.csv", "screening.json", "item_times.csv", "screening_effect.csv", "items_effect.csv",
    "similar_pairs.csv",
)  # fmt: skip


def screen(
    answers: Answers,
    output: Folder,
    items: Annotated[
        Path, typer.Option("--items", metavar="ITEMS", help="Items with key, label, and which are attention checks.")
    ],
    min_responses: Annotated[int | None, typer.Option("--min-responses", help="Fewest responses.")] = None,
    min_approval: Annotated[
        float | None, typer.Option("--min-approval", help="Smallest approval rate on the platform, such as .97.")
    ] = None,
    respondents: Annotated[
        Path | None,
        typer.Option("--respondents", metavar="FILE", help="Table with respondent_id and approval_rate."),
    ] = None,
    attention_share: Annotated[
        float | None, typer.Option("--attention-share", help="Smallest share of attention checks right.")
    ] = None,
    min_seconds: Annotated[float | None, typer.Option("--min-seconds", help="Smallest median time an item.")] = None,
    fast_quantile: Annotated[
        float | None,
        typer.Option("--fast-quantile", help="The same, as a robust quantile of the crowd's times, such as .01."),
    ] = None,
    min_effort: Annotated[
        float | None, typer.Option("--min-effort", help="Smallest share of answers that are no rapid guesses, as .9.")
    ] = None,
    rapid_method: Annotated[
        Literal["normative", "mixture"], typer.Option("--rapid-method", help="How rapid guesses are recognised.")
    ] = "normative",
    rapid: Annotated[
        Literal["keep", "missing"],
        typer.Option("--rapid", help="Whether rapid guesses stay among the screened answers."),
    ] = "keep",
    max_straight_line: Annotated[
        int | None, typer.Option("--max-straight-line", help="Longest run of one and the same answer.")
    ] = None,
    max_pattern: Annotated[
        int | None, typer.Option("--max-pattern", help="Longest run of answers that a repeated pattern foretells.")
    ] = None,
    chance_level: Annotated[
        float | None, typer.Option("--chance-level", help="Chance of a right guess, such as .3333.")
    ] = None,
    min_agreement: Annotated[
        float | None, typer.Option("--min-agreement", help="Smallest mean share of the others who answered the same.")
    ] = None,
    person_fit_p: Annotated[
        float | None, typer.Option("--person-fit-p", help="Smallest p of person fit (lz*) after a first fit.")
    ] = None,
    similar: Annotated[
        float | None,
        typer.Option("--similar", help="Name pairs too alike, at this adjusted p such as .05; nobody is removed."),
    ] = None,
    effect: Annotated[
        bool, typer.Option("--effect", help="Agreement, reliability and item parameters before and after.")
    ] = False,
    column: Columns = [],  # noqa: B006 - typer copies it
    item_column: ItemColumns = [],  # noqa: B006
    where: Where = [],  # noqa: B006
    table: Table = "auto",
    figures: Figures = None,
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Screen a crowd: each rule given is applied, in the order of the help, and the first that applies is the reason.

    Writes respondents.csv (kept, reason, what was measured), answers.csv (of those kept), screening.json; with times
    item_times.csv; with --similar similar_pairs.csv; with --effect screening_effect.csv and items_effect.csv.
    """
    from irtbench.data.answer_times import rapid_guesses
    from irtbench.data.approval_rates import APPROVAL_COLUMNS, approval_column, approval_rates
    from irtbench.data.grading import grade
    from irtbench.data.readers.item_table import read_items
    from irtbench.data.readers.recognise import read_answers
    from irtbench.data.readers.table import read_table
    from irtbench.data.screening import ScreeningSettings
    from irtbench.data.screening import screen as screen_crowd

    settings = ScreeningSettings(
        min_responses=min_responses, min_approval=min_approval, attention_share=attention_share,
        min_seconds=min_seconds, fast_quantile=fast_quantile, min_effort=min_effort, rapid_method=rapid_method,
        max_straight_line=max_straight_line, max_pattern=max_pattern, chance_level=chance_level,
        min_agreement=min_agreement, person_fit_p=person_fit_p,
    )  # fmt: skip
    if similar is not None and not 0 < similar < 1:
        raise InputError(f"--similar {similar:g}: expected a level between 0 and 1")
    known = read_items(items, columns=named("--item-column", item_column), where=named("--where", where))
    given = read_answers(answers, format=table, columns=named("--column", column)).frame
    if where:
        given = given[given["item_id"].isin(known.item_ids)].reset_index(drop=True)
    timed = given if "seconds" in given else None
    if rapid == "missing" and timed is None:
        raise InputError(f"--rapid missing: file {answers} has no seconds")
    approval = None
    if min_approval is not None:
        people, file = (given, answers) if respondents is None else (read_table(respondents), respondents)
        found_in = approval_column(people.columns)
        if found_in is None or "respondent_id" not in people:
            raise InputError(
                f"--min-approval: file {file}: expected columns respondent_id and {' or '.join(APPROVAL_COLUMNS)}"
            )
        approval = approval_rates(people, found_in, place=f"file {file}")
    responses = grade(given, known)
    screening = screen_crowd(responses, known, settings, seconds=timed, answers=given, approval=approval)
    times = None
    if timed is not None:
        times = rapid_guesses(timed, method=rapid_method)
    scales, pairs, changed = known.scales(), None, None
    with (
        output_folder(output, files=FILES) as folder,
        figures_in(figures) as draw,
        reporting(quiet=quiet) as progress,
    ):
        if person_fit_p is not None or similar is not None or effect:
            from irtbench.estimation.settings import FitSettings
            from irtbench.study.crowd_similarity import crowd_similarity, most_similar
            from irtbench.study.person_screening import fit_scales, screen_by_fit
            from irtbench.study.screening_effect import screening_effect

            progress("first fit")
            screening = screen_by_fit(screening, responses, scales, FitSettings(), seed=seed)
        people_table = screening.table()
        if similar is not None:
            progress("pairs of respondents")
            kept = responses.select_respondents(screening.kept)
            fits = fit_scales(kept, scales, FitSettings(standard_errors=False), seed=seed)
            alike = crowd_similarity(given, kept, fits)
            pairs = alike.table()
            pairs = pairs[pairs["p_adjusted"] < similar]
            people_table = people_table.join(most_similar(alike, responses.respondent_ids, level=similar))
        if effect:
            progress("before and after")
            changed = screening_effect(screening, responses, known, scales, FitSettings(), answers=given, seed=seed)
        is_kept = dict(zip(screening.respondent_ids, screening.kept, strict=True))
        stays = given["respondent_id"].map(is_kept).fillna(False).astype(bool)
        if rapid == "missing" and times is not None:
            stays &= ~times.rapid
        counts = people_table["reason"].replace("", "kept").value_counts(sort=False)
        found: dict[str, Any] = {
            "n_respondents": len(people_table),
            "n_kept": int(screening.kept.sum()),
            "reasons": {str(name): int(n) for name, n in counts.items()},
            "n_answers": len(given),
            "n_answers_kept": int(stays.sum()),
            "time_limit": screening.time_limit,
            "n_rapid_guesses": None if times is None else int(times.rapid.sum()),
            "n_similar_pairs": None if pairs is None else len(pairs),
            "settings": asdict(settings),
        }
        if changed is not None:
            found["effect"] = changed.scales
        write_table(people_table, folder / "respondents.csv")
        write_table(given[stays], folder / "answers.csv")
        if times is not None and timed is not None:
            share = timed.assign(rapid=times.rapid).groupby("item_id", sort=False)["rapid"].mean()
            by_item = times.thresholds.rename("threshold").to_frame().join(share.rename("share_rapid"))
            write_table(by_item.rename_axis("item_id").reset_index(), folder / "item_times.csv")
        if pairs is not None:
            write_table(pairs, folder / "similar_pairs.csv")
        if changed is not None:
            write_table(changed.scales, folder / "screening_effect.csv")
            write_table(changed.items, folder / "items_effect.csv")
        write_json(found, folder / "screening.json")
        if draw is not None:
            from irtbench.report.crowd_plots import screening_figures

            draw(screening_figures(found["reasons"]))
    if json:
        print(to_json(found))
    elif not quiet:
        reasons = ", ".join(f"{n} {name}" for name, n in found["reasons"].items() if name != "kept")
        say(
            f"{found['n_kept']} of {found['n_respondents']} respondents kept{f': removed {reasons}' if reasons else ''}"
        )
        if changed is not None:
            show_table(changed.scales, title="Before and after", rest=output / "screening_effect.csv")
        if pairs is not None and not pairs.empty:
            alike_names = [f"{a} and {b}" for a, b in zip(pairs["respondent_1"], pairs["respondent_2"], strict=True)]
            say(f"too alike: {name_first(alike_names)}")
        same_items = [word for column in item_column for word in ("--item-column", column)]
        same_items += [word for condition in where for word in ("--where", condition)]
        say_next("irtbench", "agree", output / "answers.csv", "--items", items, *same_items)
