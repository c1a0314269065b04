"""``irtbench bias SYSTEMS --bank BANK``: a few systems against the people on whom a bank stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from irtbench.cli.output import output_folder, say, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in, page_in
from irtbench.cli.progress import reporting
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.analysis.item_shifts import ItemShifts, ShiftControl
    from irtbench.cli.reading import Reading

FILES = ("systems.csv", "control.csv")
MOST_SHOWN = 20


@dataclass(frozen=True)
class AgainstPeople:
    """How systems are compared with the people of a bank: options of the command.

    Parameters
    ----------
    bank, scale
        The known items, and which of the bank's scales.
    families
        Table of each system's family; None if each stands alone.
    control, permutations
        Responses of people for the negative control, None for none; and how many groups of them.
    alpha, adjustment
        When an item is flagged.
    """

    bank: Path
    scale: str | None
    families: Path | None
    control: Path | None
    permutations: int
    alpha: float
    adjustment: Literal["fdr_bh", "holm"]


def systems_against_people(
    responses: Path,
    how: AgainstPeople,
    *,
    reading: Reading,
    output: Path,
    files: tuple[str, ...],
    figures: Path | None,
    html: Path | None,
    seed: int,
    quiet: bool,
    json: bool,
) -> None:
    """Run the comparison and write its files."""
    from irtbench.analysis.item_shifts import item_shifts, shift_control
    from irtbench.bank.known_items import read_bank
    from irtbench.cli.link_options import chosen_scale
    from irtbench.data.readers.groups import read_groups

    rng = np.random.default_rng(seed)
    with (
        reporting(quiet=quiet) as progress,
        output_folder(output, files=files) as folder,
        figures_in(figures, beside=folder) as draw,
        page_in(html) as show,
    ):
        items = chosen_scale(read_bank(how.bank), how.scale, how.bank).items
        given = reading.matrix(responses)
        known = [item for item in given.item_ids if item in set(items.item_ids)]
        left_out = sorted(set(given.item_ids) - set(known))
        if not known:
            raise InputError(f"{how.bank}: none of its items is among the responses; expected some")
        data = given.select_items(known)
        if data.trials is not None:
            raise InputError(
                "--bank: several trials of an item; expected one response of each system (--trials first or majority)"
            )
        family_of = None if how.families is None else read_groups(how.families)
        families = None if family_of is None else [family_of.get(system, system) for system in data.respondent_ids]
        progress(f"{data.n_respondents} systems, {data.n_items} items of {how.bank.name}")
        if items.covariance is None:
            progress(f"{how.bank.name} has no covariance of its items: their error counts as shift (bank.json has it)")
        found = item_shifts(data, items, families=families, adjustment=how.adjustment, rng=rng)
        control = None
        if how.control is not None:
            people = reading.matrix(how.control)
            shared = [item for item in people.item_ids if item in set(found.item_ids)]
            if not shared:
                raise InputError(f"{how.control}: none of the items that the systems answered; expected them")
            control = shift_control(
                people.select_items(shared), items, found, n_groups=how.permutations, alpha=how.alpha, rng=rng,
                progress=progress,
            )  # fmt: skip
        table = found.table()
        flagged = list(table["item_id"][table["p_adjusted"] < how.alpha])
        about = about_shifts(found, control) | {"flagged": flagged, "items_left_out": left_out}
        write_table(table, folder / "bias.csv")
        write_table(found.systems_table(), folder / "systems.csv")
        if control is not None:
            write_table(control.table(), folder / "control.csv")
        write_json(about, folder / "bias.json")
        if draw is not None:
            from irtbench.report.check_figures import bias_figures

            draw(bias_figures(table, alpha=how.alpha))
        if show is not None:
            from irtbench.report.item_pages import bias_page

            show(bias_page(table, about, [], alpha=how.alpha))
    if json:
        print(to_json(about | {"items": table}))
    elif not quiet:
        worst = table.sort_values("p", kind="stable").head(MOST_SHOWN)
        title = f"systems against the people of {how.bank.name}: negative is harder for systems"
        show_table(worst, title=title, rest=output / "bias.csv")
        tell(found, control, flagged)
        if left_out:
            say(f"not in the bank and left out: {', '.join(left_out)}")


def about_shifts(found: ItemShifts, control: ShiftControl | None) -> dict[str, Any]:
    """What bias.json says of it."""
    about: dict[str, Any] = {
        "method": "random_effects",
        "n_systems": len(found.system_ids),
        "n_items": len(found.item_ids),
        "tau": found.tau,
        "tau_lower": found.tau_lower,
        "tau_upper": found.tau_upper,
        "x2_tau": found.x2,
        "p_tau": found.p_tau,
        "n_families": len(set(found.families)) if found.families else None,
        "family_sd": found.omega,
        "ability_mean": float(found.theta.mean()),
        "ability_sd": float(found.theta.std(ddof=1)),
    }
    if control is not None:
        about["control"] = {
            "n_groups": int(control.tau.size),
            "mean_tau": float(control.tau.mean()),
            "largest_tau": float(control.tau.max()),
            "groups_with_p_tau_below_05": int((control.p_tau < 0.05).sum()),
            "groups_with_an_item_flagged": int((control.n_flagged > 0).sum()),
            "p": control.p,
        }
    return about


def tell(found: ItemShifts, control: ShiftControl | None, flagged: list[str]) -> None:
    """Print the result in a few lines."""
    say(f"{len(flagged)} of {len(found.item_ids)} items differ")
    say(
        f"items shift for systems with standard deviation {found.tau:.2f} logits "
        f"({found.tau_lower:.2f} to {found.tau_upper:.2f}); no shifts at all: p {found.p_tau:.2g}"
    )
    if found.families:
        say(
            f"{len(set(found.families))} families: what a family's systems share beyond that has standard deviation "
            f"{found.omega:.2f}"
        )
    if control is not None:
        n = control.tau.size
        say(
            f"people in their place, {n} times: mean {control.tau.mean():.2f}, largest {control.tau.max():.2f}; "
            f"an item flagged in {int((control.n_flagged > 0).sum())}; no smaller than the systems': p {control.p:.2g}"
        )
