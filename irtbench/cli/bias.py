"""``irtbench bias``: items that are harder for one group than for another at the same ability."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from irtbench.cli.options import Folder, Json, Quiet, Responses, Seed, demand_varied_items
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.progress import reporting
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError


@reads_files
def bias(
    responses: Responses,
    groups: Annotated[Path, typer.Option("--groups", metavar="G", help="Table with respondent_id and group.")],
    output: Folder,
    focal: Annotated[
        str | None, typer.Option("--focal", help="The group compared with the other; else the smaller one.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="The group it is compared with, where there are more than two.")
    ] = None,
    method: Annotated[
        Literal["likelihood_ratio", "logistic"], typer.Option("--method", help="How each item is tested.")
    ] = "likelihood_ratio",
    model: Annotated[
        Literal["2pl", "3pl"],
        typer.Option("--model", help="Two- or three-parameter logistic; 3pl where items are guessed."),
    ] = "2pl",
    prior: Annotated[
        Literal["none", "weak"] | None,
        typer.Option("--prior", help="Prior of the items; none for 2pl and weak for 3pl unless said otherwise."),
    ] = None,
    guessing: Annotated[float, typer.Option("--guessing", help="With 2pl: lower asymptote held at this value.")] = 0.0,
    options: Annotated[int, typer.Option("--options", help="Answers to choose from, for the prior of guessing.")] = 4,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option("--device", help="Where to compute; auto takes a GPU if there is one."),
    ] = "auto",
    alpha: Annotated[float, typer.Option("--alpha", help="Adjusted p below which an item is no anchor.")] = 0.05,
    adjustment: Annotated[
        Literal["fdr_bh", "holm"], typer.Option("--adjust", help="How p is adjusted for the number of items.")
    ] = "fdr_bh",
    seed: Seed = 0,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Compare items between two groups: people of two kinds, or people and machines.

    Writes bias.csv and bias.json. Items that all got right or all got wrong, and those that one group was not asked,
    cannot be compared: they are left out and named.
    """
    from irtbench.analysis.item_bias import comparable_items, item_bias
    from irtbench.data.readers.groups import read_groups
    from irtbench.estimation.settings import FitSettings

    with reporting(quiet=quiet) as progress, output_folder(output, files=("bias.csv", "bias.json")) as folder:
        settings = FitSettings(kind=model, prior=prior, guessing=guessing, n_options=options, device=device)
        given = reading.matrix(responses)
        group_of = read_groups(groups)
        names = two_groups(group_of, given.respondent_ids, reference, focal)
        data = given.select_respondents(np.array([group_of.get(r) in names for r in given.respondent_ids]))
        is_focal = np.array([group_of[r] == names[1] for r in data.respondent_ids])
        kept = comparable_items(data, is_focal)
        demand_varied_items(kept, responses)
        left_out = sorted(set(data.item_ids) - set(kept))
        progress(f"{len(kept)} items, {(~is_focal).sum()} {names[0]} against {is_focal.sum()} {names[1]}")
        result = item_bias(
            data.select_items(kept), is_focal, method=method, alpha=alpha, adjustment=adjustment, settings=settings
        )
        if not result.status.converged:
            progress(f"the fit with the last anchors did not converge: {result.status}")
        items = result.table()
        flagged = [item for item, p in zip(result.item_ids, result.p_adjusted, strict=True) if p < alpha]
        found = {
            "reference": names[0],
            "focal": names[1],
            "n_reference": int((~is_focal).sum()),
            "n_focal": int(is_focal.sum()),
            "method": method,
            "model": model,
            "prior": settings.priors.describe(),
            "converged": result.status.converged,
            "stopped_because": str(result.status),
            "focal_mean": result.focal_mean,
            "focal_sd": result.focal_sd,
            "rounds": result.rounds,
            "flagged": flagged,
            "items_left_out": left_out,
        }
        write_table(items, folder / "bias.csv")
        write_json(found, folder / "bias.json")
    if json:
        print(to_json(found | {"items": items}))
    elif not quiet:
        columns = ["item_id", "delta", "size", "rms_difference", "x2", "p", "p_adjusted", "p_uniform", "p_crossing"]
        worst = items.sort_values("p", kind="stable").head(20)
        show_table(worst[columns], title=f"{names[1]} against {names[0]}: negative delta is harder for {names[1]}")
        say(
            f"{len(flagged)} of {len(kept)} items differ; ability of {names[1]}: "
            f"mean {result.focal_mean:.2f}, standard deviation {result.focal_sd:.2f} where {names[0]} have 0 and 1"
        )
        if left_out:
            say(f"left out: {', '.join(left_out)}")


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
