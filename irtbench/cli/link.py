"""``irtbench link``: a new calibration on the scale of an old bank, by the items they have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from irtbench.cli.fit import estimable, fit_one_ability, provenance_of
from irtbench.cli.options import AllowUnconverged, Folder, Json, Quiet, Seed
from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.progress import demand_converged, reporting, say_doubts
from irtbench.cli.reading import Reading, reads_files
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank
    from irtbench.bank.scale import Scale

FILES = ("bank.json", "link.json", "drift.csv")


@reads_files(trials="count")
def link(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="The old scale: bank.json, or items.csv.")],
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
        Literal["mean-mean", "mean-sigma", "haebara", "stocking-lord"],
        typer.Option("--method", help="What of the common items is made alike: means, deviations, curves."),
    ] = "stocking-lord",
    drift: Annotated[
        Literal["release", "keep"],
        typer.Option("--drift", help="Whether common items that no longer fit are left out of the link."),
    ] = "release",
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="The scale, where the banks have several.")
    ] = None,
    model: Annotated[Literal["2pl", "3pl"], typer.Option("--model", help="Of the new items, with responses.")] = "2pl",
    prior: Annotated[
        Literal["none", "weak"] | None,
        typer.Option("--prior", help="Of the new items; none for 2pl and weak for 3pl unless said otherwise."),
    ] = None,
    seed: Seed = 0,
    allow_unconverged: AllowUnconverged = False,
    quiet: Quiet = False,
    json: Json = False,
    *,
    reading: Reading,
) -> None:
    """Put a new calibration on an old bank's scale by common items: theta_old = A theta_new + B.

    Takes responses, which are fitted first, or items already fitted. Writes bank.json, the new items on the old scale
    with the old norms; link.json, A and B and the new people's mean and standard deviation on the old scale; and
    drift.csv, a common item a row. Standard errors are those of the line between the two calibrations.
    """
    from irtbench.bank.bank import ItemBank, save_bank
    from irtbench.bank.known_items import read_bank
    from irtbench.building.drift import find_drift
    from irtbench.building.linked_scale import linked_scale
    from irtbench.building.linking import link_scales

    if (responses is None) == (items is None):
        raise InputError("link: expected either RESPONSES or --items NEW")
    fitted: dict[str, Any] = {"converged": True}
    with reporting(quiet=quiet) as progress, output_folder(output, files=FILES) as folder:
        old = chosen_scale(read_bank(bank), scale, bank)
        if items is not None:
            new = chosen_scale(read_bank(items), scale, items)
        else:
            assert responses is not None
            new, fitted = fitted_scale(responses, reading, model=model, prior=prior, seed=seed, progress=progress)
        found_drift = find_drift(old.items, new.items)
        released = [] if drift == "keep" else sorted(set(found_drift.item_ids) - set(found_drift.kept))
        common = [item for item in found_drift.item_ids if item not in released]
        found = link_scales(old.items, new.items, method=method, common=common, population=old.population)
        people = (0.0, 1.0) if new.population is None else (new.population.mean, new.population.deviation)
        linked = linked_scale(old, new, found)
        linked = replace(linked, provenance=ancestry(linked, bank, items))
        report: dict[str, Any] = {
            **{str(name): value for name, value in found.table().iloc[0].items()},
            "items": list(found.item_ids),
            "released": released,
            **{f"group_{name}": value for name, value in found.population(*people).items()},
        }
        table = found_drift.table().assign(released=[item in released for item in found_drift.item_ids])
        save_bank(ItemBank((linked,)), folder / "bank.json")
        write_json(report, folder / "link.json")
        write_table(table, folder / "drift.csv")
    if json:
        print(to_json(report | {"drift": table}))
    elif not quiet:
        show_table(table.drop(columns=["difficulty_old", "difficulty_new"]))
        say(f"theta_old = {found.slope:.4f} theta_new + {found.intercept:.4f}: {method}, {len(common)} common items")
        if np.isnan(found.se_slope):
            say(
                "standard errors unknown, for the covariances of the items are; a bank.json has them, items.csv has not"
            )
        else:
            say(f"standard errors: slope {found.se_slope:.4f}, intercept {found.se_intercept:.4f}")
        say(f"the new people on the old scale: mean {report['group_mean']:.3f}, sd {report['group_sd']:.3f}")
        if released:
            say(f"drifted and left out of the link: {name_first(released)}")
    say_doubts(fitted.get("doubts", []))
    unconverged = [] if fitted["converged"] else [str(fitted["stopped_because"])]
    demand_converged(unconverged, allow_unconverged=allow_unconverged, quiet=quiet)


def chosen_scale(bank: ItemBank, name: str | None, file: Path) -> Scale:
    """The scale of this name, or the only one."""
    names = [scale.name for scale in bank.scales]
    if len(names) == 1 and name is None:
        return bank.scales[0]
    if name is None:
        raise InputError(f"{file}: several scales; expected --scale with one of {name_first(names)}")
    if name not in names:
        raise InputError(f"{file}: no scale {name}; expected --scale with one of {name_first(names)}")
    return bank.scales[names.index(name)]


def fitted_scale(
    responses: Path,
    reading: Reading,
    *,
    model: Literal["2pl", "3pl"],
    prior: Literal["none", "weak"] | None,
    seed: int,
    progress: Any,
) -> tuple[Scale, dict[str, Any]]:
    """The new people's responses calibrated on a scale of their own, and what fit.json has of that."""
    from irtbench.estimation.settings import FitSettings

    settings = FitSettings(kind=model, prior=prior)
    data, left_out, _ = estimable(reading.response_matrix(responses), settings, responses)
    if left_out:
        progress(f"left out: {name_first([removal.item_id for removal in left_out])}: all right, or all wrong")
    progress(f"fitting {data.n_respondents} respondents x {data.n_items} items")
    found, _, _, scale = fit_one_ability(data, settings, seed)
    return replace(scale, provenance=provenance_of(found, responses)), found


def ancestry(linked: Scale, bank: Path, items: Path | None) -> dict[str, Any]:
    """Provenance of the linked bank: the link, the files, and what they say of where they are from; the date once."""
    from datetime import UTC, datetime

    from irtbench.data.file_hash import file_hash

    found: dict[str, Any] = {**linked.provenance, "date": datetime.now(UTC).date().isoformat()}
    found["old"] = {"bank": {bank.name: file_hash(bank)}, **found["old"]}
    if items is not None:
        found["new"] = {"bank": {items.name: file_hash(items)}, **found["new"]}
    else:  # fitted just now
        found["new"] = {name: value for name, value in found["new"].items() if name != "date"}
    return found
