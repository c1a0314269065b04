"""``irtbench link --extend``: new items put on an old bank's scale by people who answered some of its items too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from irtbench.cli.estimable import estimable
from irtbench.cli.fit import fit_one_ability
from irtbench.cli.fit_in_categories import CategoriesFit
from irtbench.cli.fit_results import ANCHORS_IN_WORDS, provenance_of
from irtbench.cli.link_options import (
    DriftOption,
    ModelOfNew,
    OldBank,
    PriorOfNew,
    ScaleName,
    ancestry,
    chosen_scale,
    parted,
)
from irtbench.cli.options import (
    AllowUnconverged,
    Figures,
    Folder,
    Json,
    PriorItems,
    Quiet,
    Responses,
    Seed,
    item_priors,
)
from irtbench.cli.output import output_folder, say, say_next, show_table, to_json, write_json, write_table
from irtbench.cli.presenting import figures_in
from irtbench.cli.progress import demand_converged, reporting, say_doubts
from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from irtbench.bank.scale import Scale
    from irtbench.building.drift import Drift
    from irtbench.cli.fit_results import FitResults
    from irtbench.data.responses import ResponseMatrix
    from irtbench.data.sparse_responses import SparseResponses
    from irtbench.estimation.settings import FitSettings
    from irtbench.models.item_parameters import ItemParameters

FILES = ("bank.json", "extend.json", "drift.csv")
LEAST_SD_OF_SLOPES = 0.1  # of the prior of new items' slopes, where the bank's are alike


PriorSlopeOfNew = Annotated[
    str | None,
    typer.Option(
        "--prior-slope",
        metavar="normal:MEAN,SD",
        help="Prior of the slopes of new items; with --prior-items that of the bank's slopes if not said.",
    ),
]


def extend(
    bank: OldBank,
    responses: Responses,
    output: Folder,
    drift: DriftOption = "release",
    scale: ScaleName = None,
    model: ModelOfNew = None,
    prior: PriorOfNew = None,
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
    """Add new items to a bank: its own items are held (anchors), the new ones estimated on their scale.

    The old items are first estimated anew by these people, and those that drifted are no anchors. In the bank they stay
    as they were. Writes bank.json; extend.json, these people's mean and standard deviation on the old scale, and the
    items added; and drift.csv, a common item a row. Standard errors carry the anchors' own where the bank has their
    covariance.

    With --prior-items what is expected of new items, on the bank's scale (`difficulty` writes it), counts beside their
    answers, so that they need fewer: a new item needs no answers both right and wrong then.
    """
    from irtbench.bank.bank import ItemBank, save_bank
    from irtbench.bank.known_items import read_bank
    from irtbench.building.extending import extended_scale
    from irtbench.estimation.settings import FitSettings

    with reporting(quiet=quiet) as progress, output_folder(output, files=FILES) as folder, figures_in(figures) as draw:
        known = read_bank(bank, categories=True)
        old = chosen_scale(known, scale, bank)
        graded = old.items.categories is not None
        demand_model(model, graded=graded, priors=prior_items is not None or prior_slope is not None)
        if graded:
            tested, common, released, results = grades_beside(
                old, responses, reading, model or old.items.model[0], prior or "none", drift, seed=seed
            )
        else:
            plain = FitSettings(kind=cast(Any, model) or "2pl", prior=prior, prior_slope=prior_slope)
            tested, common, released, results = right_or_wrong_beside(
                old, responses, reading, plain, prior_items, drift, seed=seed, progress=progress
            )
        fit, fitted = results.found, results.scale
        assert fitted is not None
        extended = extended_scale(old, fitted)
        added = list(extended.items.item_ids[old.items.n_items :])
        came = provenance_of(fit, responses)
        came.pop("date")
        added_by = {"extended": {"items": added, "anchors": common, "released": released}}
        extended = replace(extended, provenance=added_by | ancestry(old, bank, came))
        report: dict[str, Any] = {
            "items": added,
            "anchors": common,
            "released": released,
            "group_mean": fit["population_mean"],
            "group_sd": fit["population_sd"],
            "group_se_mean": fit["population_se_mean"],
            "group_se_sd": fit["population_se_sd"],
            "anchor_error": fit["anchor_error"],
            "prior": fit["prior"],
            "converged": fit["converged"],
            "stopped_because": fit["stopped_because"],
        }
        table = tested.table().assign(released=[item in released for item in tested.item_ids])
        save_bank(ItemBank((extended,), known.card), folder / "bank.json")
        write_json(report, folder / "extend.json")
        write_table(table, folder / "drift.csv")
        if draw is not None:
            from irtbench.report.bank_figures import drift_figures

            draw(drift_figures(table))
    if json:
        print(to_json(report | {"drift": table}))
    elif not quiet:
        shown = extended.items.select(added).table()
        shown = shown.drop(columns=["model", "se_guessing", "se_intercept", "categories"], errors="ignore")
        show_table(shown, rest=output / "bank.json")
        say(f"{len(added)} items added by {len(common)} anchors; these people on the old scale: mean "
            f"{report['group_mean']:.3f}, sd {report['group_sd']:.3f}")  # fmt: skip
        say(f"standard errors: {ANCHORS_IN_WORDS[str(fit['anchor_error'])]}")
        if released:
            say(f"drifted and no anchors: {name_first(released)}")
        say_next("irtbench", "score", output / "bank.json", "NEW.csv")
    say_doubts(fit.get("doubts", []))
    unconverged = [] if fit["converged"] else [str(fit["stopped_because"])]
    demand_converged(unconverged, allow_unconverged=allow_unconverged, quiet=quiet)


#: What drifted, the anchors, those released, and the fit beside the anchors.
Beside = tuple["Drift", list[str], list[str], "FitResults"]


def demand_model(model: str | None, *, graded: bool, priors: bool) -> None:
    """Refuse a model of new items that is not of the bank's kind, and priors of graded ones."""
    if graded and model in ("2pl", "3pl", "pcm"):
        raise InputError(f"--model {model}: the bank has items in categories; expected grm, gpcm or nominal")
    if not graded and model not in (None, "2pl", "3pl"):
        raise InputError(f"--model {model}: items are added to a scale of right and wrong ones; expected 2pl or 3pl")
    if graded and priors:
        raise InputError("--prior-items, --prior-slope: of right and wrong; expected none with items in categories")


def right_or_wrong_beside(
    old: Scale, responses: Path, reading: Reading, plain: FitSettings, prior_items: Path | None, drift: Any, *,
    seed: int, progress: Callable[[str], None],
) -> Beside:  # fmt: skip
    """Responses right and wrong: old items estimated anew, and new ones beside those that have not drifted."""
    from irtbench.building.drift import find_drift
    from irtbench.estimation.fit import fit_model

    given, settings = reading.response_matrix(responses), plain
    if prior_items is not None:
        new = [item for item in given.item_ids if item not in set(old.items.item_ids)]
        slopes = slopes_of(old.items) if plain.prior is None and plain.prior_slope is None else plain.prior_slope
        settings = replace(plain, prior_items=item_priors(prior_items, new), prior_slope=slopes)
    data, left_out, _ = estimable(given, settings, responses)
    if left_out:
        progress(f"left out: {name_first([removal.item_id for removal in left_out])}: all right, or all wrong")
    progress(f"fitting {data.n_respondents} respondents x {data.n_items} items, on their own and beside anchors")
    own = data if prior_items is None else estimable(present(given, old.items), plain, responses)[0]
    tested = find_drift(old.items, fit_model(own, plain, seed=seed).items)
    common, released = parted(tested, drift)
    anchors = old.select(common)
    results = fit_one_ability(data, settings, seed, anchors)
    return tested, common, released, results


def grades_beside(
    old: Scale, responses: Path, reading: Reading, model: str, prior: str, drift: Any, *, seed: int
) -> Beside:
    """The same of scores in categories."""
    from irtbench.building.drift import find_drift

    fit = CategoriesFit(file=responses, reading=reading, levels=(), model=model, prior=prior, seed=seed)
    alone, _ = fit.fit()
    assert alone.scale is not None
    tested = find_drift(old.items, alone.scale.items)
    common, released = parted(tested, drift)
    results, _ = replace(fit, anchors=old.select(common)).fit()
    return tested, common, released, results


def present(given: ResponseMatrix | SparseResponses, items: ItemParameters) -> ResponseMatrix | SparseResponses:
    """The responses to these items alone."""
    return given.select_items([item for item in given.item_ids if item in set(items.item_ids)])


def slopes_of(items: ItemParameters) -> str:
    """The prior that slopes are like those of these items."""
    mean, sd = float(items.discrimination.mean()), float(items.discrimination.std())
    return f"normal:{mean:.4g},{max(sd, LEAST_SD_OF_SLOPES):.4g}"
