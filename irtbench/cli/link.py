"""``irtbench link``: a new calibration on the scale of an old bank, by the items they have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from irtbench.cli.estimable import estimable
from irtbench.cli.extend import PriorSlopeOfNew, extend
from irtbench.cli.fit import fit_one_ability
from irtbench.cli.fit_in_categories import CategoriesFit
from irtbench.cli.fit_results import provenance_of
from irtbench.cli.link_options import (
    DriftOption,
    ModelOfNew,
    OldBank,
    PriorOfNew,
    ScaleName,
    ancestry,
    chosen_scale,
    model_of,
    parted,
)
from irtbench.cli.options import AllowUnconverged, Figures, Folder, Json, PriorItems, Quiet, Seed
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import demand_converged, reporting, say_doubts
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.bank.scale import Scale

FILES = ("bank.json", "link.json", "extend.json", "drift.csv")
Method = Literal["mean-mean", "mean-sigma", "haebara", "stocking-lord"]
METHOD: Method = "stocking-lord"  # unless said
WITHOUT = ", without those that the items of a calibration share (a bank.json of fit or build has them)"


@reads_files(trials="count")
def link(
    bank: OldBank,
    output: Folder,
    responses: Annotated[
        Path | None,
        typer.Argument(metavar="[RESPONSES]", help="Graded responses of new people, common items among them."),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option("--items", metavar="NEW", help="In place of responses: the new bank.json or items.csv."),
    ] = None,
    method: Annotated[
        Method,
        typer.Option("--method", help="What of the common items is made alike: means, deviations, curves."),
    ] = METHOD,
    drift: DriftOption = "release",
    scale: ScaleName = None,
    model: ModelOfNew = None,
    prior: PriorOfNew = None,
    add: Annotated[
        bool, typer.Option("--extend", help="Keep the old bank's items as anchors, and add the new ones to it.")
    ] = False,
    prior_items: PriorItems = None,
    prior_slope: PriorSlopeOfNew = None,
    figures: Figures = None,
    seed: Seed = 0,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Put a new calibration on an old bank's scale by common items: theta_old = A theta_new + B; or add items to it.

    Takes responses, which are fitted first, or items already fitted. Writes bank.json, the new items on the old scale
    with the old norms and the link's error, which later scores carry; link.json, A and B, the new people's mean and
    standard deviation on the old scale, and all links before this one; and drift.csv, a common item a row. Standard
    errors are those of the line between the two populations, of links before this one too.

    With --extend the bank's own items stay as they are (anchors), and the new ones are estimated on their scale. The
    old items are first estimated anew by these people: those that drifted are no anchors. Writes bank.json;
    extend.json, these people's mean and standard deviation on the old scale, and the items added; and drift.csv.
    Standard errors carry the anchors' own where the bank has their covariance. With --prior-items what is expected of
    new items (`items difficulty` writes it) counts beside their answers, so that they need fewer.
    """
    if add:
        if responses is None or items is not None or method != METHOD:
            raise InputError("--extend: expected RESPONSES, and neither --items nor --method")
        extend(
            bank, responses, output, drift, scale, model, prior, prior_items, prior_slope, figures, seed,
            allow_unconverged, quiet, json, reading=reading,
        )  # fmt: skip
        return
    if prior_items is not None or prior_slope is not None:
        raise InputError("--prior-items and --prior-slope are of new items in a bank: expected --extend")
    from irtbench.bank.bank import ItemBank, save_bank
    from irtbench.bank.known_items import read_bank
    from irtbench.building.drift import find_drift
    from irtbench.building.extending import linked_scale
    from irtbench.building.link_error import ancestry_of
    from irtbench.building.linking import link_scales
    from irtbench.data.file_hash import file_hash

    if (responses is None) == (items is None):
        raise InputError("link: expected either RESPONSES or --items NEW")
    fitted: dict[str, Any] = {"converged": True}
    with reporting(quiet=quiet) as progress, output_folder(output, files=FILES) as folder, figures_in(figures) as draw:
        known = read_bank(bank, categories=True)
        old = chosen_scale(known, scale, bank)
        if items is not None:
            new = chosen_scale(read_bank(items, categories=True), scale, items)
        else:
            assert responses is not None
            kind, levels = model_of(old, model)
            new, fitted = fitted_scale(
                responses, reading, model=kind, levels=levels, prior=prior, seed=seed, progress=progress
            )
        found_drift = find_drift(old.items, new.items)
        common, released = parted(found_drift, drift)
        found = link_scales(old, new, method=method, common=common)
        people = (0.0, 1.0) if new.population is None else (new.population.mean, new.population.deviation)
        linked = linked_scale(old, new, found)
        came = dict(new.provenance) if items is None else {"bank": {items.name: file_hash(items)}, **new.provenance}
        if items is None:  # fitted just now
            came.pop("date")
        linked = replace(linked, provenance={**linked.provenance, **ancestry(old, bank, came)})
        same_name = set(old.items.item_ids) & set(new.items.item_ids)
        other_categories = sorted(same_name - set(found_drift.item_ids))
        report: dict[str, Any] = {
            **{str(name): value for name, value in found.table().iloc[0].items()},
            "items": list(found.item_ids),
            "released": released,
            "in_other_categories": other_categories,
            **{f"group_{name}": value for name, value in found.population(*people).items()},
            "errors": "joint" if found.joint else "independent",
            "covariance_of_scores": None if linked.line is None else linked.line.upper(),
            "ancestry": ancestry_of(linked.provenance),
        }
        table = found_drift.table().assign(released=[item in released for item in found_drift.item_ids])
        save_bank(ItemBank((linked,), known.card), folder / "bank.json")
        write_json(report, folder / "link.json")
        write_table(table, folder / "drift.csv")
        if draw is not None:
            from irtbench.report.bank_figures import drift_figures

            draw(drift_figures(table))
    if json:
        print(to_json(report | {"drift": table}))
    elif not quiet:
        show_table(table.drop(columns=["difficulty_old", "difficulty_new"]), rest=output / "drift.csv")
        say(f"theta_old = {found.slope:.4f} theta_new + {found.intercept:.4f}: {method}, {len(common)} common items")
        if np.isnan(found.se_slope):
            say(
                "standard errors unknown, for the covariances of the items are; a bank.json has them, items.csv has not"
            )
        else:
            of_what = "" if found.joint else WITHOUT
            say(f"standard errors: slope {found.se_slope:.4f}, intercept {found.se_intercept:.4f}{of_what}")
        if len(report["ancestry"]) > 1:
            say(f"{len(report['ancestry'])} links back to the first scale, whose errors are in these")
        say(f"the new people on the old scale: mean {report['group_mean']:.3f}, sd {report['group_sd']:.3f}")
        if other_categories:
            say(f"in other categories, or of another model, and no part of the link: {name_first(other_categories)}")
        if released:
            say(f"drifted and left out of the link: {name_first(released)}")
            say("the standard errors take that for certain: see what the link is with them (--drift keep)")
        say_next("irtbench", "score", output / "bank.json", "NEW.csv")
    say_doubts(fitted.get("doubts", []))
    unconverged = [] if fitted["converged"] else [str(fitted["stopped_because"])]
    demand_converged(unconverged, allow_unconverged=allow_unconverged, quiet=quiet)


def fitted_scale(
    responses: Path,
    reading: Reading,
    *,
    model: str,
    levels: list[str] | None,
    prior: Literal["none", "weak"] | None,
    seed: int,
    progress: Any,
) -> tuple[Scale, dict[str, Any]]:
    """The new people's responses calibrated on a scale of their own, and what fit.json has of that.

    Scores in categories where levels are given, or none of them for numbers.
    """
    from irtbench.estimation.settings import FitSettings

    if levels is not None:
        progress(f"fitting {responses}: {model}")
        results, _ = CategoriesFit(
            file=responses, reading=reading, levels=tuple(levels), model=model, prior=prior or "auto", seed=seed
        ).fit()  # fmt: skip
        assert results.scale is not None
        return replace(results.scale, provenance=provenance_of(results.found, responses)), results.found
    settings = FitSettings(kind="3pl" if model == "3pl" else "2pl", prior=prior)
    data, left_out, _ = estimable(reading.response_matrix(responses), settings, responses)
    if left_out:
        progress(f"left out: {name_first([removal.item_id for removal in left_out])}: all right, or all wrong")
    progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
    results = fit_one_ability(data, settings, seed)
    found, scale = results.found, results.scale
    assert scale is not None
    return replace(scale, provenance=provenance_of(found, responses)), found
