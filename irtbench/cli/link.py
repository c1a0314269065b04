"""``irtbench link``: new people, or new items, on the scale of an old bank, by the items they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import typer

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command, options_given
from irtbench.cli.fit import ANCHORS_IN_WORDS
from irtbench.cli.options import PriorItems, Reading, chosen_scale, item_priors, labels_of, refuse
from irtbench.cli.output import Shown, Words, next_command
from irtbench.data.place import file_hash
from irtbench.data.responses import name_first
from irtbench.data.shown import counted

Method = Literal["mean-mean", "mean-sigma", "haebara", "stocking-lord"]
ModelOfNew = Literal["2pl", "3pl", "grm", "gpcm", "pcm", "nominal"]
METHOD: Method = "stocking-lord"  # unless given
WITHOUT = ", without those that the items of a calibration share (a bank.json of fit or build has them)"
LEAST_SD_OF_SLOPES = 0.1  # of the prior of new items' slopes, where the bank's are alike


@dataclass(frozen=True)
class CommonItems:
    """The old scale, and how items in common are gone by."""

    drift: Annotated[
        Literal["release", "keep"],
        typer.Option(
            "--drift", help="Whether common items that no longer fit are left out, of the link or the anchors."
        ),
    ] = "release"
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="The scale, where a bank has several.")
    ] = None

    def parted(self, drift: irtbench.building.Drift) -> tuple[list[str], list[str]]:
        """The common items to go by, and those released for their drift."""
        released = [] if self.drift == "keep" else sorted(set(drift.item_ids) - set(drift.kept))
        return [item for item in drift.item_ids if item not in released], released


@dataclass(frozen=True)
class NewItems:
    """How new responses are fitted."""

    model: Annotated[
        ModelOfNew | None,
        typer.Option("--model", help="Of the new items, from responses; the bank's of grades, else 2pl, unless given."),
    ] = None
    prior: Annotated[
        Literal["none", "weak"] | None,
        typer.Option("--prior", help="Of the new items; none for 2pl and weak for 3pl unless given."),
    ] = None

    def fit_of(self, old: irtbench.Scale, prior: str, seed: int, slope: str | None = None) -> Any:
        """The fit of new responses: in the categories of the old items where they have such, or of right and wrong.

        Raises
        ------
        InputError
            If the bank has items of several models and none is given.
        """
        known = old.items.categories
        models = dict.fromkeys([self.model] if self.model else old.items.model if known else ["2pl"])
        if len(models) > 1:
            raise irtbench.InputError(
                f"--model: the bank's items are {', '.join(models)}; expected the new items' model"
            )
        (model,) = models
        if known is None and model in ("2pl", "3pl"):
            kind: Any = model
            return irtbench.study.fitted_scale.RightOrWrong(
                settings=irtbench.FitSettings(kind=kind, prior=self.prior, prior_slope=slope), seed=seed
            )
        levels = () if known is None else tuple(labels_of([known]))
        return irtbench.study.fitted_scale.InCategories(
            model=model, models=model, levels=levels, prior=self.prior or prior, seed=seed
        )


@dataclass(frozen=True)
class AddedItems:
    """What is expected of items that are added."""

    prior_items: PriorItems = None
    prior_slope: Annotated[
        str | None,
        typer.Option(
            "--prior-slope",
            metavar="normal:MEAN,SD",
            help="Prior of the slopes of new items; with --prior-items that of the bank's slopes if not given.",
        ),
    ] = None


@command("bank.json", "link.json", "extend.json", "drift.csv", trials="count", fits=True)
def link(
    bank: Annotated[Path, typer.Argument(metavar="BANK", help="The old scale: bank.json, or items.csv.")],
    common: CommonItems,
    new: NewItems,
    added: AddedItems,
    reading: Reading,
    run: Run,
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
    add: Annotated[
        bool, typer.Option("--extend", help="Keep the old bank's items as anchors, and add the new ones to it.")
    ] = False,
) -> Outcome:
    """Put a new calibration on an old bank's scale by common items: theta_old = A theta_new + B; or add items to it.

    Takes responses, which are fitted first, or items already fitted. Writes bank.json, the new items on the old scale
    with the old norms and the link's error, which later scores carry; link.json, A and B, the new people's mean and
    standard deviation on the old scale, and all links before this one; and drift.csv, a common item a row. Standard
    errors are those of the line between the two populations, of links before this one too.

    With --extend the bank's own items stay as they are (anchors), and the new ones are estimated on their scale. The
    old items are first estimated anew by these people: those that drifted are no anchors. Writes bank.json;
    extend.json, these people's mean and standard deviation on the old scale, and the items added; and drift.csv.
    Standard errors carry the anchors' own where the bank has their covariance. With --prior-items what is expected of
    new items (`items difficulty` writes it) counts in addition to their answers, so that they need fewer.
    """
    refuse(
        {
            "--extend: expected RESPONSES, and neither --items nor --method":
            add and (responses is None or items is not None or method != METHOD),
            "--prior-items and --prior-slope are of new items in a bank: expected --extend":
            not add and bool(options_given(added)),
            "link: expected either RESPONSES or --items NEW": (responses is None) == (items is None),
        }
    )  # fmt: skip
    known = irtbench.read_bank(bank, categories=True)
    old = OldScale(bank, known, chosen_scale(known, common.scale, bank))
    if add and responses is not None:
        return extended(old, responses, common, new, added, reading, run)
    return linked(old, items or responses, common, new, method, reading if items is None else None, run)


@dataclass(frozen=True, eq=False)
class OldScale:
    """The scale that others are put on, and the bank that it is from."""

    file: Path
    bank: irtbench.ItemBank
    scale: irtbench.Scale

    def ancestry(self, came: Mapping[str, Any]) -> dict[str, Any]:
        """Provenance of what is made of it and of what came to it: the file and what it says of itself; the date."""
        return {
            "old": {"bank": {self.file.name: file_hash(self.file)}, **self.scale.provenance},
            "new": came,
            "date": datetime.now(UTC).date().isoformat(),
        }

    def outcome(
        self, made: irtbench.Scale, drift: irtbench.building.Drift, about: Mapping[str, Any], name: str,
        fit: Mapping[str, Any], words: Words, run: Run,
    ) -> Outcome:  # fmt: skip
        """What was made of it, the common items, and what is to be known of the fit."""
        table = drift.table().assign(released=[item in about["released"] for item in drift.item_ids])
        bank = partial(irtbench.save_bank, irtbench.ItemBank((made,), self.bank.card))
        common = Shown(table.drop(columns=["difficulty_old", "difficulty_new"]), rest="drift.csv")
        return Outcome(
            json={**about, "drift": table}, files={"bank.json": bank, name: about, "drift.csv": table},
            figures=lambda: irtbench.report.drift_figures(table), doubts=fit.get("doubts", []),
            words=[name == "link.json" and common, *words, next_command("score", run.folder / "bank.json", "NEW.csv")],
            unconverged=[] if fit["converged"] else [str(fit["stopped_because"])],
        )  # fmt: skip


def linked(
    old: OldScale, source: Any, common: CommonItems, new: NewItems, method: Method, reading: Reading | None, run: Run
) -> Outcome:
    """The new calibration, of responses read or of items already fitted, on the old scale."""
    fitted: Mapping[str, Any] = {"converged": True}
    if reading is None:
        own = chosen_scale(irtbench.read_bank(source, categories=True), common.scale, source)
        came = {"bank": {source.name: file_hash(source)}, **own.provenance}
    else:
        kind = new.fit_of(old.scale, "auto", run.seed)
        kind, data = fittable(kind, given(kind, source, reading), source, run)
        results = kind.fit(data).of_data({source.name: file_hash(source)})
        own, fitted = results.scale, results.found
        came = {name: value for name, value in own.provenance.items() if name != "date"}
    drift = irtbench.find_drift(old.scale.items, own.items)
    kept, released = common.parted(drift)
    found = irtbench.link_scales(old.scale, own, method=method, common=kept)
    people = (0.0, 1.0) if own.population is None else (own.population.mean, own.population.deviation)
    made = irtbench.building.linked_scale(old.scale, own, found)
    made = replace(made, provenance={**made.provenance, **old.ancestry(came)})
    other_categories = sorted((set(old.scale.items.item_ids) & set(own.items.item_ids)) - set(drift.item_ids))
    about: dict[str, Any] = {
        **{str(name): value for name, value in found.table().iloc[0].items()},
        "items": list(found.item_ids),
        "released": released,
        "in_other_categories": other_categories,
        **{f"group_{name}": value for name, value in found.population(*people).items()},
        "errors": "joint" if found.joint else "independent",
        "covariance_of_scores": None if made.line is None else made.line.upper(),
        "ancestry": irtbench.building.extending.ancestry_of(made.provenance),
    }

    alone = "standard errors unknown, for those of the items are: items.csv has none, nor a fit that did not converge"
    known_errors = f"standard errors: slope {found.se_slope:.4f}, intercept {found.se_intercept:.4f}"
    words: Words = [
        f"theta_old = {found.slope:.4f} theta_new + {found.intercept:.4f}: {method}, {len(kept)} common items",
        alone if np.isnan(found.se_slope) else known_errors + ("" if found.joint else WITHOUT),
        len(about["ancestry"]) > 1
        and f"{len(about['ancestry'])} links back to the first scale, whose errors are in these",
        f"the new people on the old scale: mean {about['group_mean']:.3f}, sd {about['group_sd']:.3f}",
        bool(other_categories)
        and f"in other categories, or of another model, and no part of the link: {name_first(other_categories)}",
        drift.untested,
        bool(released) and f"drifted and left out of the link: {name_first(released)}",
        bool(released) and "the standard errors take that for certain: see what the link is with them (--drift keep)",
    ]
    return old.outcome(made, drift, about, "link.json", fitted, words, run)


def extended(
    old: OldScale, responses: Path, common: CommonItems, new: NewItems, added: AddedItems, reading: Reading, run: Run
) -> Outcome:
    """The bank with new items, estimated on its scale together with those of its own that have not drifted.

    Old items are first estimated anew by these people.
    """
    known = old.scale.items
    graded = known.categories is not None
    refuse(
        {
            f"--model {new.model}: the bank has items in categories; expected grm, gpcm or nominal":
            graded and new.model in ("2pl", "3pl", "pcm"),
            f"--model {new.model}: items are added to a scale of right and wrong ones; expected 2pl or 3pl":
            not graded and new.model not in (None, "2pl", "3pl"),
            "--prior-items, --prior-slope: of right and wrong; expected none with items in categories":
            graded and bool(options_given(added)),
        }
    )  # fmt: skip
    new = replace(new, model=new.model or cast("ModelOfNew", known.model[0])) if graded else new
    kind = plain = new.fit_of(old.scale, "none", run.seed, added.prior_slope)
    everything = own = given(kind, responses, reading)
    if added.prior_items is not None:
        members = set(known.item_ids)
        slopes = slopes_of(known) if new.prior is None and added.prior_slope is None else added.prior_slope
        priors = item_priors(added.prior_items, [item for item in everything.item_ids if item not in members])
        kind = replace(kind, settings=replace(kind.settings, prior_items=priors, prior_slope=slopes))
        own = everything.select_items([item for item in everything.item_ids if item in members])
    drift = irtbench.find_drift(known, plain.items(fittable(plain, own, responses, run)[1]))
    anchors, released = common.parted(drift)
    anchored, data = fittable(replace(kind, anchors=old.scale.select(anchors)), everything, responses, run)
    results = anchored.fit(data).of_data({responses.name: file_hash(responses)})
    fit = results.found
    made = irtbench.building.extended_scale(old.scale, results.scale)
    items = list(made.items.item_ids[known.n_items :])
    extension = {"items": items, "anchors": anchors, "released": released}
    made = replace(made, provenance={"extended": extension} | old.ancestry(results.scale.provenance))
    about: dict[str, Any] = {
        **extension,
        **{f"group_{name}": fit[f"population_{name}"] for name in ("mean", "sd", "se_mean", "se_sd")},
        **{name: fit[name] for name in ("anchor_error", "prior", "converged", "stopped_because")},
    }

    hidden = ["model", "se_guessing", "se_intercept", "categories"]
    words: Words = [
        Shown(made.items.select(items).table().drop(columns=hidden, errors="ignore"), rest="bank.json"),
        f"{counted(len(items), 'item')} added by {counted(len(anchors), 'anchor')}; these people on the old scale: "
        f"mean {about['group_mean']:.3f}, sd {about['group_sd']:.3f}",
        f"standard errors: {ANCHORS_IN_WORDS[str(fit['anchor_error'])]}",
        drift.untested,
        bool(released) and f"drifted and no anchors: {name_first(released)}",
    ]
    return old.outcome(made, drift, about, "extend.json", fit, words, run)


def given(kind: Any, responses: Path, reading: Reading) -> Any:
    """The responses of a file: right and wrong, or scores in categories."""
    if isinstance(kind, irtbench.study.fitted_scale.RightOrWrong):
        return reading.response_matrix(responses)
    return reading.scores(responses, kind.levels)


def fittable(kind: Any, responses: Any, file: Path, run: Run) -> tuple[Any, Any]:
    """The fit with its prior, and the responses that can be fitted."""
    data, left_out, _ = kind.estimable(responses, file)
    if left_out:
        run.progress(f"left out: {name_first([one['item_id'] for one in left_out])}: all right, or all wrong")
    run.progress(f"fitting {kind.in_words(data)}")
    return kind.with_prior_for(data)[0], data


def slopes_of(items: irtbench.ItemParameters) -> str:
    """The prior that slopes are like those of these items."""
    mean, sd = float(items.discrimination.mean()), float(items.discrimination.std())
    return f"normal:{mean:.4g},{max(sd, LEAST_SD_OF_SLOPES):.4g}"
