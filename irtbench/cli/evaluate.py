"""``irtbench evaluate``: what outcomes say without a model of the items: by type, by twin, by stated probability."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.options import Level, MaybeFolder, Reading, Responses, Where, named, refuse
from irtbench.cli.output import Shown, Words
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.models.curves import share_moments

MOST_SYSTEMS = 6  # of which all pairs are compared without being asked, and that one figure holds
MOST_PAIRS = MOST_SYSTEMS * (MOST_SYSTEMS - 1) // 2
#: Columns shown on the terminal.
SHOWN_OF_PAIRS = ["measure", "first", "second", "difference", "lower", "upper", "p", "p_adjusted", "mcnemar_p"]
SHOWN_OF_CALIBRATION = [
    "system", "n_pairs", "n_bins", "error", "lower", "upper", "debiased_error", "debiased_lower", "debiased_upper",
    "brier", "refinement", "overconfident", "underconfident",
]  # fmt: skip
SHOWN_OF_DIFFERENCES = ["error_1", "error_2", "difference", "lower", "upper", "p"]
SHOWN_OF_PEOPLE = [
    "n_items", "n_votes", "accuracy", "hoeffding_lower", "confidence", "wilson_lower", "wilson_upper",
    "bootstrap_lower", "bootstrap_upper",
]  # fmt: skip

ItemColumn = Annotated[str, typer.Option("--item", metavar="COLUMN", help="Column of item names.")]


@dataclass(frozen=True)
class Comparison:
    """How systems are compared."""

    against: Annotated[
        str | None, typer.Option("--against", metavar="NAME", help="Compare each other system with this one.")
    ] = None
    adjustment: Annotated[
        Literal["holm", "fdr_bh"], typer.Option("--adjust", help="p for many tests: Holm or Benjamini-Hochberg.")
    ] = "holm"
    level: Level = 0.95


@dataclass(frozen=True)
class ChosenSystems(Comparison):
    """Which systems are compared, and how."""

    system: Annotated[
        list[str], typer.Option("--system", metavar="NAME", help="Only this system; repeat. Default: all.")
    ] = field(default_factory=list)

    def of(self, given: ResponseMatrix) -> ResponseMatrix:
        """Their responses; all, if none is named."""
        wanted = [*self.system, self.against] if self.system and self.against is not None else self.system
        if unknown := [name for name in wanted if name not in given.respondent_ids]:
            raise irtbench.InputError(
                f"--system {name_first(unknown)}: no response of this system in the table; expected some of "
                f"{name_first(given.respondent_ids)}"
            )
        return given.select_respondents(np.isin(given.respondent_ids, wanted)) if wanted else given

    def pairs(self, systems: tuple[str, ...]) -> list[tuple[str, str]]:
        """The pairs to compare."""
        if self.against is None:
            return list(combinations(systems, 2)) if len(systems) <= MOST_SYSTEMS else []
        if self.against not in systems:
            raise irtbench.InputError(
                f"--against {self.against}: no response of this system in the table; expected one of "
                f"{name_first(systems)}"
            )
        return [(name, self.against) for name in systems if name != self.against]


@dataclass(frozen=True, kw_only=True)
class ItemTypes:
    """The table that says of which types items are."""

    items: Annotated[Path, typer.Option("--items", metavar="ITEMS", help="Table of items with their types.")]
    types: Annotated[
        list[str],
        typer.Option("--type", metavar="COLUMN", help="Column of types, or a 1 / 0 column that is a type; repeat."),
    ]
    separator: Annotated[
        str | None, typer.Option("--separator", help="What is between the types of one item, such as ';'.")
    ] = None
    item: ItemColumn = "item_id"
    where: Where = field(default_factory=list)

    def tags(self) -> irtbench.data.ItemTags:
        """The types of the items that `--where` keeps."""
        return irtbench.data.read_tags(
            self.items, self.types, item=self.item, separator=self.separator, where=named("--where", self.where)
        )

    def of(self, given: ResponseMatrix, tags: irtbench.data.ItemTags) -> ResponseMatrix:
        """The responses, to the tagged items alone if some were asked for."""
        wanted = [name for name in given.item_ids if not self.where or name in set(tags.item_ids)]
        if not wanted:
            raise irtbench.InputError("--where: no response to any of the items left; expected at least one")
        return given.select_items(wanted)


@command(
    "types.csv", "breakdown.csv", "advantage.csv", "parameters.csv", "breakdown.json", "breakdown.svg",
    *(f"advantage_{number}.svg" for number in range(1, 1 + MOST_PAIRS)), output=MaybeFolder, draws="svg",
)  # fmt: skip
def breakdown(
    responses: Responses,
    typed: ItemTypes,
    systems: ChosenSystems,
    reading: Reading,
    run: Run,
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="Difficulty and discrimination by type as well.")
    ] = None,
) -> Outcome:
    """Counts of item types, accuracy of each system by type, and the advantage of one system over another.

    Writes types.csv, breakdown.csv (accuracy), advantage.csv, breakdown.json and figures. Without --against all pairs
    of up to six systems are compared; of more, none.
    """
    tags = typed.tags()
    data = typed.of(systems.of(reading.matrix(responses)), tags)
    tags = tags.select(data.item_ids)
    counts = irtbench.evaluation.type_counts(tags)
    accuracy = irtbench.accuracy_by_type(data, tags, level=systems.level)
    run.progress("advantages")
    pairs, advantage = systems.pairs(data.respondent_ids), None
    if pairs:
        advantage = irtbench.advantage_by_type(
            data, tags, pairs, level=systems.level, rng=run.rng, adjustment=systems.adjustment
        )
    parameters = None if bank is None else irtbench.evaluation.values_by_type(*parameters_of(bank, tags))
    found = {
        "types": counts.table(),
        "n_items": counts.n_all,
        "n_untyped": counts.n_untyped,
        "overlaps": counts.overlap_table(),
        "accuracy": accuracy,
        "advantage": advantage,
        "parameters": parameters,
        "seed": run.seed,
    }
    shown = accuracy[accuracy["respondent_id"].isin(data.respondent_ids[:MOST_SYSTEMS])]
    by_type = shown.pivot(index="type", columns="respondent_id", values="accuracy")
    return Outcome(
        json=found, words=[
            Shown(
                counts.table(), f"Types of {counts.n_all} items, {counts.n_untyped} of them without", "types.csv"
            ),
            bool(counts.overlap)
            and "Items with several types count in each: the rows share items and are not independent.",
            len(data.respondent_ids) <= MOST_SYSTEMS
            and Shown(by_type.reindex(pd.unique(accuracy["type"])).reset_index(), "Accuracy", "breakdown.csv"),
            advantage is not None
            and Shown(
                advantage.drop(columns=["accuracy_first", "accuracy_second"]), "Advantage of the first over the second",
                "advantage.csv",
            ),
            parameters is not None and Shown(parameters, "Item parameters", "parameters.csv"),
        ], figures=lambda: irtbench.report.breakdown_figures(shown, advantage),
        files={
            "types.csv": counts.table(), "breakdown.csv": accuracy, "advantage.csv": advantage,
            "parameters.csv": parameters, "breakdown.json": found,
        },
    )  # fmt: skip


def parameters_of(
    path: Path, tags: irtbench.data.ItemTags
) -> tuple[dict[str, NDArray[np.float64]], irtbench.data.ItemTags]:
    """Difficulty and discrimination of the bank's items that have a row in the tags, and the tags of these."""
    scales = [scale.items for scale in irtbench.load_bank(path).scales]
    item_ids = np.concatenate([scale.item_ids for scale in scales])
    known = np.isin(item_ids, tags.item_ids)
    if not known.any():
        raise irtbench.InputError(
            f"bank {path}: has none of the items with types; expected the bank that they belong to"
        )
    return {
        name: np.concatenate([getattr(scale, name) for scale in scales])[known]
        for name in ("difficulty", "discrimination")
    }, tags.select(item_ids[known].tolist())


@dataclass(frozen=True, kw_only=True)
class TwinTable:
    """The table that says which items are switched twins, and how they are tagged."""

    items: Annotated[
        Path, typer.Option("--items", metavar="ITEMS", help="Table of items, original and switched, a row each.")
    ]
    twin_of: Annotated[
        str, typer.Option("--twin-of", metavar="COLUMN", help="Column with a switched item's original.")
    ] = "twin_of"
    tag: Annotated[
        list[str],
        typer.Option("--tag", metavar="COLUMN", help="Column of tags, or a 1 / 0 column that is a tag; repeat."),
    ] = field(default_factory=list)
    item: ItemColumn = "item_id"


@command(
    "consistency.csv", "contrasts.csv", "systems.csv", "consistency.json", "consistency.svg", output=MaybeFolder,
    draws="svg",
)  # fmt: skip
def consistency(
    responses: Responses,
    twins: TwinTable,
    compared: Comparison,
    reading: Reading,
    run: Run,
    annotations: Annotated[
        Path | None,
        typer.Option("--annotations", metavar="ANSWERS", help="Annotators' labels of the items, for Fleiss' kappa."),
    ] = None,
) -> Outcome:
    """Accuracy before and after switching, consistency, and accuracy on tagged items against the others.

    Writes consistency.csv, contrasts.csv, systems.csv (two systems or more), consistency.json and consistency.svg.
    """
    labels = None if annotations is None else irtbench.read_answers(annotations).frame
    agreed = None if labels is None else asdict(irtbench.agreement(labels))
    tags = irtbench.data.read_tags(twins.items, twins.tag, item=twins.item) if twins.tag else None
    switched = irtbench.data.read_twins(twins.items, item=twins.item, twin_of=twins.twin_of)
    given = reading.matrix(responses)
    protocol = irtbench.switch_protocol(given, switched, tags=tags)
    measures = protocol.table(level=compared.level)
    contrasts = irtbench.evaluation.contrast_measures(protocol, level=compared.level)
    run.progress("comparing systems")
    several = compared.against is not None or 2 <= given.n_respondents <= MOST_SYSTEMS
    systems = irtbench.evaluation.compare_measures(protocol, **vars(compared)) if several else None
    found = {"measures": measures, "contrasts": contrasts, "systems": systems, "annotations": agreed}

    shown = measures[measures["respondent_id"].isin(protocol.system_ids[:MOST_SYSTEMS])]
    return Outcome(
        json=found, words=[
            Shown(measures, rest="consistency.csv"),
            Shown(contrasts, "Within each system", "consistency.json"),
            systems is not None and Shown(systems[SHOWN_OF_PAIRS], "Between systems", "systems.csv"),
            agreed is not None and f"Fleiss' kappa of the annotations: {agreed['fleiss_kappa']:.3f}",
        ], figures=lambda: irtbench.report.consistency_figures(shown, n_measures=len(protocol.measures)),
        files={
            "consistency.csv": measures, "contrasts.csv": contrasts, "systems.csv": systems, "consistency.json": found,
        },
    )  # fmt: skip


@dataclass(frozen=True)
class PredictionColumns:
    """The columns of a table of predictions."""

    probability: Annotated[
        str, typer.Option("--probability", metavar="COLUMN", help="Probability that the label is 1.")
    ] = "probability"
    label: Annotated[str, typer.Option("--label", metavar="COLUMN", help="What happened: 1 or 0, or a class.")] = (
        "label"
    )
    item: Annotated[str | None, typer.Option("--item", metavar="COLUMN", help="Names of what was predicted.")] = None
    classes: Annotated[
        list[str], typer.Option("--class", metavar="CLASS=COLUMN", help="Probability of each class of a label.")
    ] = field(default_factory=list)
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="The system, or the set of items, of each row.")
    ] = None


@dataclass(frozen=True)
class Bins:
    """The bins of a reliability curve, and its intervals."""

    bin_size: Annotated[
        int | None,
        typer.Option("--bin-size", help="Pairs a bin; 5000, or a tenth of the pairs if that is less.", min=1),
    ] = None
    n_width_bins: Annotated[
        int, typer.Option("--width-bins", help="Bins of equal width, for comparison.", min=1, max=10_000)
    ] = 10
    n_samples: Annotated[int, typer.Option("--samples", help="Samples behind each interval.", min=2, max=1_000_000)] = (
        10_000
    )
    level: Level = 0.95


@command("reliability.csv", "calibration.json", "reliability.svg", output=MaybeFolder, draws="svg")
def calibration(
    predictions: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="A row a prediction: its probability and what happened.")
    ],
    columns: PredictionColumns,
    bins: Bins,
    run: Run,
    paired: Annotated[
        bool, typer.Option("--paired", help="With --by and --item: the difference of any two, on the same items.")
    ] = False,
) -> Outcome:
    """Calibration error with its interval, parts of the Brier score, and the reliability curve.

    Writes reliability.csv (a row a bin), calibration.json and reliability.svg.
    """
    if paired and (columns.by is None or columns.item is None):
        raise irtbench.InputError(
            "--paired: expected --by, the system of each row, and --item, by which rows are paired"
        )
    given = irtbench.read_predictions(predictions, **vars(columns) | {"classes": named("--class", columns.classes)})
    found, differences = {}, []
    for name, system in given.items():
        run.progress(f"calibration of {name}")
        found[name] = irtbench.calibration(
            system.predicted, system.labels, clusters=system.item, rng=run.rng, **vars(bins)
        )
    for first, second in combinations(given, 2) if paired else ():
        run.progress(f"{first} against {second}")
        other = given[second].in_order_of(given[first])
        difference = irtbench.calibration_difference(
            given[first].predicted, other.predicted, other.labels, bin_size=bins.bin_size, clusters=other.item,
            level=bins.level,
        )  # fmt: skip
        differences.append({"system_1": first, "system_2": second} | asdict(difference))
    summaries = [{"system": name} | result.summary() for name, result in found.items()]
    whole = {"systems": summaries, "differences": differences, "seed": run.seed}
    table = pd.concat([result.table().assign(system=name) for name, result in found.items()], ignore_index=True)

    return Outcome(
        json=whole,
        files={
            "reliability.csv": table[["system", *table.columns.drop("system")]], "calibration.json": whole,
        },
        figures=lambda: irtbench.report.calibration_figures({name: result.curve for name, result in found.items()}),
        words=[
            Shown(pd.DataFrame(summaries)[SHOWN_OF_CALIBRATION], rest="calibration.json"),
            bool(differences)
            and Shown(
                pd.DataFrame(differences)[["system_1", "system_2", *SHOWN_OF_DIFFERENCES]],
                "Paired differences of the squared errors, debiased",
                "calibration.json",
            ),
        ],
    )  # fmt: skip


@dataclass(frozen=True)
class CrowdVotes:
    """Which items pass the crowd filter."""

    k: Annotated[int, typer.Option("--right", "-k", help="An item passes with this many right votes ...", min=1)] = 4
    n: Annotated[int, typer.Option("--votes", "-n", help="... of this many.", min=1)] = 5
    other_counts: Annotated[
        Literal["error", "exclude", "share"],
        typer.Option("--other-counts", help="Items with another number of votes: stop, let them fail, or go by share."),
    ] = "error"


@command("crowd_filter.csv", "human_bound.json", "crowd_filter.svg", "human_bound.svg", output=MaybeFolder, draws="svg")
def human_bound(
    responses: Responses,
    votes: CrowdVotes,
    reading: Reading,
    run: Run,
    margin: Annotated[float, typer.Option("--margin", help="Hoeffding's bound lies this far below.")] = 0.03,
    level: Level = 0.95,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", metavar="RUNS", help="Scores of systems by seed: columns system, seed, accuracy."),
    ] = None,
) -> Outcome:
    """Filter items by the crowd's votes and bound human accuracy on those that pass.

    Writes crowd_filter.csv (a row an item), human_bound.json, crowd_filter.svg and human_bound.svg.
    """
    given = reading.matrix(responses)
    result = irtbench.crowd_filter(given, **vars(votes))
    people = {
        name: irtbench.human_accuracy(
            result.n_correct[chosen], result.n_votes[chosen], margin=margin, level=level, rng=run.rng
        )
        for name, chosen in {"all items": np.ones(given.n_items, dtype=np.bool_), "items kept": result.kept}.items()
    }
    rows = [{"items": name} | asdict(human) for name, human in people.items()]
    lower, upper = irtbench.evaluation.fresh_accuracy(result)
    found: dict[str, Any] = {
        "k": votes.k,
        "n": votes.n,
        "n_items": given.n_items,
        "n_kept": int(result.kept.sum()),
        "human_accuracy": {name: asdict(human) for name, human in people.items()},
        "new_vote_lower": lower,
        "new_vote_upper": upper,
        "runs": [] if runs is None else runs_over_seeds(runs),
        "seed": run.seed,
    }

    return Outcome(
        json=found, words=[
            Shown(pd.DataFrame(rows)[["items", *SHOWN_OF_PEOPLE]], rest="human_bound.json"),
            f"{found['n_kept']} of {given.n_items} items have at least {votes.k} of {votes.n} votes right",
            bool(np.isfinite([lower, upper]).all())
            and f"a new person would get between {lower:.1%} and {upper:.1%} of the kept items right",
            bool(found["runs"]) and Shown(pd.DataFrame(found["runs"]), "Systems over seeds", "human_bound.json"),
        ], figures=lambda: irtbench.report.bound_figures(result, people),
        files={"crowd_filter.csv": result.table().astype({"kept": int}), "human_bound.json": found},
    )  # fmt: skip


def runs_over_seeds(path: Path) -> list[dict[str, object]]:
    """Mean and standard deviation of each system's accuracy over its runs."""
    from irtbench.data.input_error import refuse_first
    from irtbench.data.readers.table import demand_filled, field_places, read_table, to_numbers

    frame = read_table(path, ["system", "seed", "accuracy"])
    demand_filled(frame, path, "system")
    place, of_seed = field_places(path, "accuracy"), field_places(path, "seed")
    accuracy = to_numbers(frame["accuracy"], place=place)
    refuse_first(np.isnan(accuracy), lambda row: f"{place(row)}: expected a number but it is missing")
    repeated = frame.duplicated(["system", "seed"]).to_numpy()
    refuse_first(repeated, lambda row: f"{of_seed(row)}: this system has two runs with this seed; expected one")
    groups = pd.Series(accuracy).groupby(frame["system"], sort=False)
    return [{"system": name} | asdict(irtbench.evaluation.over_seeds(scores.tolist())) for name, scores in groups]


@dataclass(frozen=True)
class ChoiceColumns:
    """The columns of a table of items with options to choose from."""

    item: Annotated[str, typer.Option("--item", metavar="COLUMN", help="Names of the items.")] = "item_id"
    key: Annotated[
        str, typer.Option("--key", metavar="COLUMN", help="The right option: its text, its column or its letter.")
    ] = "gold"
    options: Annotated[
        list[str], typer.Option("--option", metavar="COLUMN", help="A column of options; else option_A, answer0, ...")
    ] = field(default_factory=list)
    group: Annotated[
        str | None, typer.Option("--group", metavar="COLUMN", help="Items that belong together, never parted.")
    ] = None


@command("artifacts.csv", "artifacts.json", "artifacts.svg", output=MaybeFolder, draws="svg")
def artifacts(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help="A row an item: its options and which is right.")],
    columns: ChoiceColumns,
    run: Run,
    folds: Annotated[int, typer.Option("--folds", help="Parts of the cross-validation.", min=2, max=1_000)] = 10,
    repeats: Annotated[int, typer.Option("--repeats", help="Cross-validations.", min=1, max=1_000)] = 5,
    alpha: Annotated[float, typer.Option("--alpha", help="A baseline with a lower adjusted p beats chance.")] = 0.05,
) -> Outcome:
    """Try to answer items from their options alone, and flag those that are given away.

    Writes artifacts.csv (the table of items with a column `suspect`, 1 or 0), artifacts.json and artifacts.svg. A study
    file leaves the flagged items out with `items = "artifacts.csv"` and `where = {suspect = "0"}`.
    """
    choices, frame = irtbench.data.read_choices(items, **vars(columns))
    run.progress(f"{choices.n_items} items, {repeats} cross-validations")
    result = irtbench.artifacts(choices, n_folds=folds, n_repeats=repeats, alpha=alpha, rng=run.rng)
    per_item, summary = result.table().drop(columns="item_id"), result.summary()
    flagged = [name for name, suspect in zip(result.item_ids, result.suspect, strict=True) if suspect]
    found = {
        "n_items": choices.n_items,
        "alpha": alpha,
        "baselines": summary,
        "n_suspect": len(flagged),
        "suspect": flagged,
        "seed": run.seed,
    }

    return Outcome(
        json=found, words=[
            Shown(summary, rest="artifacts.json"),
            f"{len(flagged)} of {choices.n_items} items are given away{': ' if flagged else ''}{name_first(flagged)}",
        ], figures=lambda: irtbench.report.artifact_figures(result),
        files={
            "artifacts.csv": frame.drop(columns=per_item.columns, errors="ignore").join(per_item),
            "artifacts.json": found,
        },
    )  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """The sets, and the difference that is to be shown."""

    sizes: Annotated[
        list[int], typer.Option("--items", "-n", metavar="N", help="Items in the set; repeat for several.")
    ] = field(default_factory=lambda: [100, 500, 2_000, 10_000])
    hurt: Annotated[
        list[float],
        typer.Option("--hurt", metavar="SHARE", help="Share of items that the better system gets worse; repeat."),
    ] = field(default_factory=lambda: [0.0, 0.01, 0.02, 0.05, 0.1])
    effect: Annotated[
        float | None, typer.Option("--effect", help="Difference in accuracy to be shown: power and size needed.")
    ] = None
    alpha: Annotated[float, typer.Option("--alpha", help="Level of the one-sided test.")] = 0.05
    wanted: Annotated[float, typer.Option("--power", help="Power that the size needed is to have.")] = 0.8

    def shown(self, run: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The power of each set, and the size needed, by share hurt; none without an effect."""
        if self.effect is None:
            return [], []
        reached: list[dict[str, Any]] = []
        needed = []
        for share in self.hurt:
            run.progress(f"size needed with {share:g} hurt")
            about = {"effect": self.effect, "hurt": share, "alpha": self.alpha}
            reached += [
                {"n_items": n, **about, "power": irtbench.power(n, self.effect, share, alpha=self.alpha)}
                for n in self.sizes
            ]
            needed.append(
                asdict(irtbench.evaluation.size_needed(self.effect, share, alpha=self.alpha, wanted_power=self.wanted))
            )
        return reached, needed


@dataclass(frozen=True)
class MoreTrials:
    """A system whose trials of the items differ: what another trial of each buys."""

    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="A system's accuracy: what another trial of each item buys it.")
    ] = None
    agreement: Annotated[
        float | None,
        typer.Option("--agreement", help="Share of items on which two of its trials agree; goes with --accuracy."),
    ] = None
    responses: Annotated[
        Path | None,
        typer.Option("--responses", metavar="FILE", help="Responses with trials to estimate both from, instead."),
    ] = None
    bank: Annotated[
        Path | None, typer.Option("--bank", metavar="BANK", help="Both from the items of a bank of one scale, instead.")
    ] = None
    theta: Annotated[float, typer.Option("--theta", help="The system's ability, for --bank.")] = 0.0
    against: Annotated[
        float | None, typer.Option("--against", metavar="THETA", help="With --bank: a less able one to compare with.")
    ] = None
    trials: Annotated[
        list[int], typer.Option("--trials", metavar="N", help="Trials of each item; repeat for several.")
    ] = field(default_factory=lambda: [1, 2, 5, 10])

    def components(self) -> tuple[irtbench.evaluation.TrialVariance, float | None] | None:
        """Variance over items and trials, and with a bank the mean information of an item; None if not asked for."""
        variance = irtbench.evaluation.TrialVariance
        ways = [
            self.accuracy is not None or self.agreement is not None,
            self.responses is not None,
            self.bank is not None,
        ]
        if sum(ways) > 1 or (self.accuracy is None) != (self.agreement is None):
            raise irtbench.InputError("expected one of --accuracy with --agreement, --responses, and --bank")
        if self.accuracy is not None and self.agreement is not None:
            return variance.of_agreement(self.accuracy, self.agreement), None
        if self.responses is not None:
            given = irtbench.read_responses(self.responses, trials="count")
            return variance.of_responses(ResponseMatrix.from_long(given.frame)), None
        if self.items is None:
            return None
        mean, within = share_moments(self.theta, self.items)
        return variance.of_shares(mean[0], within[0]), float(irtbench.information(self.theta, self.items).mean())

    @cached_property
    def items(self) -> irtbench.ItemParameters | None:
        """The items of the bank, which has one scale; None without one."""
        if self.bank is None:
            return None
        scales = irtbench.load_bank(self.bank, categories=True).scales
        if len(scales) > 1:
            raise irtbench.InputError(f"--bank {self.bank}: {len(scales)} scales; expected a bank of one")
        return scales[0].items

    def apart(self, wanted: Difference) -> pd.DataFrame | None:
        """What sets of items like the bank's show of the difference of two systems, a row a size; None if not asked."""
        if self.against is None:
            return None
        if self.items is None:
            raise irtbench.InputError("--against: goes with --bank")
        if not self.theta > self.against:
            raise irtbench.InputError(f"--against {self.against:g}: expected an ability below --theta {self.theta:g}")
        mean, within = share_moments([self.theta, self.against], self.items)
        between = mean[0] - mean[1]
        deviation = float((between.var() + within.sum(axis=0).mean()) ** 0.5)
        how = {"alpha": wanted.alpha, "wanted_power": wanted.wanted}
        score_power = irtbench.evaluation.score_power
        return pd.DataFrame([vars(score_power(n, float(between.mean()), deviation, **how)) for n in wanted.sizes])


@command("power.csv", "power.json", "trials.csv", output=MaybeFolder, draws="svg")
def power(
    *,
    wanted: Difference,
    guessers: Annotated[int, typer.Option("--guessers", help="Systems of which the best is reported.")] = 10,
    guess: Annotated[float, typer.Option("--guess", help="Chance of a right guess.")] = 0.5,
    threshold: Annotated[float, typer.Option("--threshold", help="Accuracy that a guesser exceeds.")] = 0.55,
    more: MoreTrials,
    run: Run,
) -> Outcome:
    """Expected p of a difference by its size, the items hurt and the set; power; size needed; the luck of guessers.

    Writes power.csv (expected p), power.json and a figure power_N.svg for each set size N. With --accuracy and
    --agreement, --responses or --bank also trials.csv: standard errors of a system's accuracy (with a bank of theta
    too) by items and trials, and what one more of either buys; with --against what sets of such items, right and wrong
    or graded, show of the difference of two systems in the share of the points.
    """
    largest, most = max(wanted.sizes), irtbench.evaluation.power.LARGEST_SIZE
    refuse(
        {
            f"--alpha {wanted.alpha:g}: expected a level between 0 and 1": not 0 < wanted.alpha < 1,
            f"--items {largest}: expected at most {most}": largest > most,
        }
    )
    effects = {*irtbench.evaluation.power.EFFECTS, *([] if wanted.effect is None else [wanted.effect])}
    table = irtbench.evaluation.expected_p_table(effects=sorted(effects), hurt=wanted.hurt, sizes=wanted.sizes)
    reached, needed = wanted.shown(run)
    lucky, apart = irtbench.evaluation.guessers_luck, more.apart(wanted)
    luck = [asdict(lucky(n, threshold, guess=guess, n_guessers=guessers)) for n in wanted.sizes]
    given, buys = more.components(), None
    found = {"expected_p": table, "power": reached, "size_needed": needed, "guessers": luck}
    found |= {} if apart is None else {"systems_apart": apart}
    if given is not None:
        variance, information = given
        buys = irtbench.evaluation.trial_table(
            variance, sizes=wanted.sizes, trials=more.trials, information=information
        )
        found |= {"trials": buys, "trial_variance": asdict(variance) | {"agreement": variance.agreement}}
    return Outcome(
        json=found, words=power_in_words(found, table, wanted, more),
        figures=lambda: irtbench.report.power_figures(table, sizes=wanted.sizes, alpha=wanted.alpha),
        files={"power.csv": table, "power.json": found, "trials.csv": buys},
    )  # fmt: skip


def power_in_words(found: dict[str, Any], table: pd.DataFrame, wanted: Difference, more: MoreTrials) -> Words:
    """Expected p, what trials buy, systems apart, power and the luck of guessers."""
    wide = table.pivot(index=["n_items", "hurt"], columns="effect", values="p").reset_index()
    wide.columns = [name if isinstance(name, str) else f"+{100 * name:g}%" for name in wide.columns]
    yield Shown(wide, "Expected p by the difference in accuracy", "power.csv")
    if "trials" in found:
        yield Shown(found["trials"], "Standard errors, and what a trial or an item more buys", "trials.csv")
        variance, graded = found["trial_variance"], more.items is not None and more.items.categories is not None
        agree = "" if graded else f"two trials of an item agree with probability {variance['agreement']:.3f}; "
        yield (
            f"accuracy {variance['accuracy']:.3f}, {agree}response_worth: responses to new items that one to another "
            "trial is worth"
        )
    if more.against is not None:
        title = f"Ability {more.theta:g} against {more.against:g}, share of the points"
        yield Shown(found["systems_apart"], title, "power.json")
    if wanted.effect is not None:
        yield Shown(pd.DataFrame(found["power"]), "Power", "power.json")
        yield Shown(pd.DataFrame(found["size_needed"]), "Items needed", "power.json")
    yield Shown(
        pd.DataFrame(found["guessers"]), "Chance that guessers exceed the threshold: one, and the best of all",
        "power.json",
    )  # fmt: skip
