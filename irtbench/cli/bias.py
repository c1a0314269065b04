"""``irtbench items bias``: items that are harder for one group than for another at the same ability."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command, options_given
from irtbench.cli.options import (
    FiguresOrAmong,
    Levels,
    Reading,
    Responses,
    chosen_scale,
    levels_of,
    refuse,
)
from irtbench.cli.output import Shown, Words
from irtbench.data.responses import name_first
from irtbench.models.item_models.named import IN_CATEGORIES

if TYPE_CHECKING:
    import irtbench.study.biased_items

SHOWN = (
    *("item_id", "delta", "size", "odds_ratio", "ets_class", "rms_difference", "r2_change", "r2_class", "chi2", "x2"),
    *("p", "p_adjusted", "p_uniform", "p_crossing"),
)
DIRECTION = ": negative delta is harder for the focal group"
MOST_SHOWN = 20
OF_SYSTEMS_TOO = ("--alpha", "--adjust", "--options", "--device")


@dataclass(frozen=True)
class Groups:
    """The groups that are compared."""

    groups: Annotated[
        Path | None, typer.Option("--groups", metavar="G", help="Table with respondent_id and group.")
    ] = None
    focal: Annotated[
        str | None, typer.Option("--focal", help="The group compared with the other; else the smaller one.")
    ] = None
    reference: Annotated[
        str | None, typer.Option("--reference", help="The group it is compared with, where there are more than two.")
    ] = None


@dataclass(frozen=True)
class Systems:
    """A few systems in place of groups, against the people of a bank."""

    bank: Annotated[
        Path | None,
        typer.Option("--bank", metavar="BANK", help="In place of --groups: a few systems against a bank's people."),
    ] = None
    families: Annotated[
        Path | None,
        typer.Option(
            "--families", metavar="F", help="With --bank: respondent_id and group; systems of one are not independent."
        ),
    ] = None
    control: Annotated[
        Path | None,
        typer.Option("--control", metavar="PEOPLE", help="With --bank: responses of people to put in their place."),
    ] = None
    permutations: Annotated[
        int, typer.Option("--permutations", min=1, max=10_000, help="With --control: how many groups of people.")
    ] = 20
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="NAME", help="With --bank: the scale, where it has several.")
    ] = None


@dataclass(frozen=True)
class ItemTest:
    """How each item is tested."""

    method: Annotated[
        Literal["likelihood", "likelihood_ratio", "logistic", "mantel-haenszel"],
        typer.Option("--method", help="How each item is tested; likelihood and likelihood_ratio are the same."),
    ] = "likelihood"
    match: Annotated[
        Literal["ability", "score"] | None,
        typer.Option("--match", help="Who counts as equally able; score goes with logistic and mantel-haenszel."),
    ] = None
    purify: Annotated[
        bool, typer.Option("--purify/--no-purify", help="Whether items that differ leave anchors and score.")
    ] = True
    continuity: Annotated[
        bool, typer.Option("--continuity/--no-continuity", help="Continuity correction of mantel-haenszel.")
    ] = True
    alpha: Annotated[float, typer.Option("--alpha", help="p, not adjusted, below which an item is no anchor.")] = 0.05
    adjustment: Annotated[
        Literal["fdr_bh", "holm"], typer.Option("--adjust", help="How p is adjusted for the number of items.")
    ] = "fdr_bh"


@dataclass(frozen=True)
class GroupModel:
    """The model of the items."""

    model: Annotated[
        Literal["2pl", "3pl", "grm", "gpcm"],
        typer.Option("--model", help="2pl, 3pl where items are guessed; grm, gpcm: responses are grades."),
    ] = "2pl"
    levels: Levels = None
    prior: Annotated[
        Literal["none", "weak"] | None,
        typer.Option("--prior", help="Prior of the items; none for 2pl and weak for 3pl unless given."),
    ] = None
    guessing: Annotated[float, typer.Option("--guessing", help="With 2pl: lower asymptote, fixed at this value.")] = 0.0
    options: Annotated[int, typer.Option("--options", help="Answers to choose from, for the prior of guessing.")] = 4
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option("--device", help="Where to compute; auto takes a GPU if there is one."),
    ] = "auto"

    @property
    def of_grades(self) -> bool:
        """Whether responses are grades."""
        return self.model in IN_CATEGORIES


@command(
    "bias.csv", "bias.json", "test_bias.csv", "test_curves.csv", "ability_change.csv", "item_curves.svg",
    "test_curves.svg", "item_differences.svg", "systems.csv", "control.csv",
    figures=FiguresOrAmong, html=True, trials="count",
)  # fmt: skip
def bias(
    responses: Responses,
    between: Groups,
    systems: Systems,
    test: ItemTest,
    model: GroupModel,
    reading: Reading,
    run: Run,
) -> Outcome:
    """Compare items between groups: people of two kinds, or people and machines.

    Writes bias.csv and bias.json. Two groups are compared at the same ability; with mantel-haenszel, and with logistic
    and --match score, two groups or more at the same sum score. Items that all got right or all got wrong, and those
    that one group was not asked, cannot be compared: they are left out and named.

    Where items differ, writes what they do to the test: test_bias.csv, the difference in expected score between equally
    able members of the groups; test_curves.csv, the same along ability; and ability_change.csv, everyone's ability and
    percentile with all items and without those that differ.

    Grades (--model grm, gpcm) are compared in their categories, by the likelihood or by ordinal logistic regression.

    With --bank the responses are those of a few systems (5 to 30), and the bank's items are fixed as people calibrated
    them: each item's shift for the systems is a random effect. Writes bias.csv, bias.json, systems.csv and control.csv.
    """
    if systems.bank is not None:
        if others := [name for name in options_given(between, test, model) if name not in OF_SYSTEMS_TOO]:
            raise irtbench.InputError(f"--bank: {others[0]} does not go with it; expected one or the other")
        return of_systems(responses, systems, test, reading, run)
    if of_bank := options_given(systems):
        raise irtbench.InputError(f"{of_bank[0]}: goes with --bank alone")
    if between.groups is None:
        raise irtbench.InputError("bias: expected --groups G, or --bank BANK for a few systems against a bank's people")

    how = tests_of(test, model)
    given = reading.scores(responses, how.levels or ()) if model.of_grades else reading.matrix(responses)
    of = irtbench.study.biased_items.Compared.of(
        given, irtbench.read_groups(between.groups), (between.reference, between.focal), how
    )
    irtbench.study.fitted_scale.demand_varied_items(of.item_ids, responses)
    run.progress(f"{len(of.item_ids)} items, {of.names[0]} is the reference: {of.sizes()}")
    found = irtbench.study.biased_items.compare_items(of, how, seed=run.seed, progress=run.progress)

    def curves(*, apart: bool = False) -> list[irtbench.report.page.Block]:
        effect, drawn = found.effect, irtbench.report.effect_figures
        return [] if effect is None else drawn(effect.items, effect.grouped, effect.test, apart=apart)

    return Outcome(
        json=found.about | {"items": found.items},
        files={"bias.csv": found.items, "bias.json": found.about}
        | ({} if found.effect is None else found.effect.tables()),
        figures=lambda: irtbench.report.bias_figures(found.items, alpha=test.alpha) + curves(),
        page=lambda: irtbench.report.bias_page(found.items, found.about, curves(apart=True), alpha=test.alpha),
        words=differences_in_words(found),
    )  # fmt: skip


def tests_of(test: ItemTest, model: GroupModel) -> irtbench.study.biased_items.HowTested:
    """How items are tested; refuses what does not go together."""
    by_score, grades = test.method == "mantel-haenszel" or test.match == "score", model.of_grades
    refuse(
        {
            "--levels: goes with grades: --model grm or gpcm": model.levels is not None and not grades,
            "--method mantel-haenszel: of right and wrong; expected likelihood or logistic of grades":
            grades and test.method == "mantel-haenszel",
            "--guessing: goes with right and wrong; expected none of grades": grades and model.guessing > 0,
            "--match ability: mantel-haenszel compares respondents of equal score; expected score":
            test.method == "mantel-haenszel" and test.match == "ability",
            "--match score: the likelihood ratio compares the equally able; expected ability":
            test.method.startswith("likelihood") and test.match == "score",
            "--model, --prior and --guessing: a sum score knows no model; leave them out with it":
            by_score and (model.model == "3pl" or model.guessing > 0 or model.prior is not None),
        }
    )  # fmt: skip
    return irtbench.study.biased_items.HowTested(
        test.method, by_score, test.purify, test.continuity, test.alpha, test.adjustment,
        irtbench.FitSettings(
            kind="3pl" if model.model == "3pl" else "2pl", prior=model.prior, guessing=model.guessing,
            n_options=model.options, device=model.device,
        ),
        model.model if model.of_grades else None, levels_of(model.levels) or None,
    )  # fmt: skip


def differences_in_words(found: irtbench.study.biased_items.ComparedItems) -> Words:
    """The items that differ most, what that does to the test, and what could not be compared."""
    (first, *others), about = found.names, found.about
    worst = found.items.sort_values("p", kind="stable").head(MOST_SHOWN)
    shown = [name for name in SHOWN if name in found.items and not found.items[name].isna().all()]
    return [
        Shown(worst[shown], f"{' and '.join(others)} against {first}{DIRECTION * (len(others) == 1)}", "bias.csv"),
        f"{len(about['flagged'])} of {len(found.items)} items differ",
        *([] if found.effect is None else effect_in_words(found.effect)),
        "test_not_available" in about and f"what this does to the test: {about['test_not_available']}",
        "focal_mean" in about
        and f"ability of {others[0]}: mean {about['focal_mean']:.2f}, "
        f"standard deviation {about['focal_sd']:.2f} where {first} have 0 and 1",
        about.get("caution"),
        bool(about.get("n_left_out"))
        and f"{about['n_left_out']} respondents did not answer all items and have no score: they are left out",
        bool(about.get("categories_merged"))
        and "given by one group alone, a category counts as the one next to it: "
        f"{name_first(about['categories_merged'])}",
        bool(about["items_left_out"]) and f"left out: {name_first(about['items_left_out'])}",
    ]


def effect_in_words(effect: irtbench.study.biased_items.BiasEffect) -> Words:
    """What the items that differ do to the test."""
    yield (
        not effect.grouped.converged
        and f"the fit with the items that differ free did not converge: {effect.grouped.status}"
    )
    test = effect.test.table()
    for row in test[test["over"] == "group"].to_dict("records"):
        yield (
            f"on the whole test, equally able {row['group']} score {row['signed']:+.2f} of {row['n_items']} points "
            f"({row['signed_lower']:+.2f} to {row['signed_upper']:+.2f}) against {effect.test.groups[0]}; "
            f"up or down {row['unsigned']:.2f} ({row['unsigned_lower']:.2f} to {row['unsigned_upper']:.2f})"
        )
    for row in effect.abilities.by_group().to_dict("records"):
        yield (
            f"without the items that differ, ability of {row['group']} changes by {row['mean_change']:+.2f} "
            f"(standard error {row['se_mean_change']:.2f}) and {row['mean_percentile_change']:+.1f} percentiles; "
            f"most by {row['largest_change']:+.2f} ({row['largest_of']})"
        )


def of_systems(responses: Path, systems: Systems, test: ItemTest, reading: Reading, run: Run) -> Outcome:
    """Systems against the people of a bank."""
    bank = systems.bank
    assert bank is not None
    items = chosen_scale(irtbench.read_bank(bank), systems.scale, bank).items
    people = None if systems.control is None else reading.matrix(systems.control)
    found = irtbench.study.biased_items.shifted_items(
        reading.matrix(responses), items,
        None if systems.families is None else irtbench.read_groups(systems.families),
        adjustment=test.adjustment, rng=run.rng, progress=run.progress,
    )  # fmt: skip
    if people is not None:
        how = {"n_groups": systems.permutations, "alpha": test.alpha}
        found = found.controlled(people, items, rng=run.rng, progress=run.progress, **how)
    shifts, control, table = found.shifts, found.control, found.shifts.table()
    flagged = list(table["item_id"][table["p_adjusted"] < test.alpha])
    about = found.about() | {"flagged": flagged, "items_left_out": found.left_out}

    return Outcome(
        json=about | {"items": table},
        files={
            "bias.csv": table, "systems.csv": shifts.systems_table(), "bias.json": about,
            "control.csv": None if control is None else control.table(),
        },
        figures=lambda: irtbench.report.bias_figures(table, alpha=test.alpha),
        page=lambda: irtbench.report.bias_page(table, about, [], alpha=test.alpha),
        words=[
            Shown(
                table.sort_values("p", kind="stable").head(MOST_SHOWN),
                f"systems against the people of {bank.name}: negative is harder for systems",
                "bias.csv",
            ),
            f"{len(flagged)} of {len(table)} items differ",
            f"items shift for systems with standard deviation {shifts.tau:.2f} logits "
            f"({shifts.tau_lower:.2f} to {shifts.tau_upper:.2f}); no shifts at all: p {shifts.p_tau:.2g}",
            bool(shifts.families)
            and f"{len(set(shifts.families))} families: what a family's systems share beyond that has standard "
            f"deviation {shifts.omega:.2f}",
            control is not None
            and f"people in their place, {control.tau.size} times: mean {control.tau.mean():.2f}, largest "
            f"{control.tau.max():.2f}; an item flagged in {int((control.n_flagged > 0).sum())}; no smaller than the "
            f"systems': p {control.p:.2g}",
            bool(found.left_out) and f"not in the bank and left out: {name_first(found.left_out)}",
        ],
    )  # fmt: skip
