"""Items looked at: a bank to read, whether items fit, and how many abilities they measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

import irtbench.report
from irtbench.cli.declared import Outcome, Run, command
from irtbench.cli.large import encoded, large_table, say_cache_unused
from irtbench.cli.options import (
    AllowAddress,
    Cache,
    FiguresOrAmong,
    ItemColumns,
    ItemsFile,
    Levels,
    MaybeFolder,
    Reading,
    Responses,
    chosen_scale,
    labels_of,
    levels_of,
    named,
)
from irtbench.cli.output import Shown, Words, next_command, shortened
from irtbench.data.response_blocks import MOST_RESPONDENTS, some_respondents
from irtbench.data.responses import name_first
from irtbench.data.shown import counted, stacked
from irtbench.models.theta_posterior import STANDARD_NORMAL

MOST_ROWS, MOST_LETTERS = 31, 60  # of a score table, and of a text, on the screen
MOST_SCALES = 30  # whose maps an earlier run may have left
DISORDER = {
    "step_reversed": "steps in reversed order, below the one before",
    "never_most_likely": "categories that are nowhere the most likely",
}
ENDS = {
    ("difficulty", "highest"): "hardest",
    ("difficulty", "lowest"): "easiest",
    ("discrimination", "highest"): "most discriminating",
    ("discrimination", "lowest"): "least discriminating",
    ("information", "highest"): "most informative",
    ("information", "lowest"): "least informative",
}


@command(
    "items.csv", "score_table.csv", "categories.csv", "test_information.csv", "items_mirt.csv", "items_catr.csv",
    "test_information.svg", "wright_map.svg", "categories.svg",
    *(f"{name}_{k}.svg" for name in ("wright_map", "categories") for k in range(1, 1 + MOST_SCALES)),
    output=MaybeFolder, figures=FiguresOrAmong,
)  # fmt: skip
def show(
    bank: Annotated[
        Path, typer.Argument(metavar="BANK", help="bank.json as `build` and `fit` write it, or items.csv.")
    ],
    run: Run,
    texts: Annotated[
        Path | None,
        typer.Option("--items", metavar="ITEMS", help="Table of items with texts, keys, labels for the bank's."),
    ] = None,
    item_column: ItemColumns = [],  # noqa: B006 - typer copies it
    export: Annotated[
        Literal["mirt", "catr"] | None,
        typer.Option(
            "--export",
            help="Write the items into DIR in the columns of R's mirt (a1, d, g, u: items_mirt.csv) or catR (a, b, c, "
            "d: items_catr.csv).",
        ),
    ] = None,
    norm: Annotated[
        Literal["normal", "empirical", "smoothed"], typer.Option("--norm", help="What percentiles compare with.")
    ] = "normal",
    most: Annotated[int, typer.Option("--most", min=1, help="Items shown at either end.")] = 3,
) -> Outcome:
    """Show the data card, the items at either end by difficulty, discrimination and information, ability by raw score.

    Writes items.csv, the most difficult first, with what is expected of the population on each and its information;
    categories.csv of items in categories, where each is the most likely and whether its step is in order;
    score_table.csv, for every raw score on all items the ability (EAP of the sum score), its standard error and
    percentile, a table to print; and test_information.csv.
    """
    if export is not None and run.output is None:
        raise irtbench.InputError("--export: expected a folder for them, -o DIR")
    known = with_texts(irtbench.read_bank(bank, categories=True), texts, named("--item-column", item_column))
    if norm != "normal" and (without := [scale.name for scale in known.scales if scale.norms is None]):
        raise irtbench.InputError(f"--norm {norm}: scale {without[0]} has no norm sample; expected --norm normal")
    scales = {scale.name: scale for scale in known.scales}
    maps = {name: irtbench.item_map(scale) for name, scale in scales.items()}
    sums = {
        name: irtbench.sum_score_table(scale, norm=norm)
        for name, scale in scales.items()
        if scale.items.n_items <= irtbench.scoring.percentiles.MOST_ITEMS
    }
    about = {name: scale.population or STANDARD_NORMAL for name, scale in scales.items()}
    precision = {name: irtbench.measurement_precision(scales[name].items, population=about[name]) for name in scales}
    by_item, by_score, by_theta = (
        stacked({name: found.table() for name, found in each.items()}) for each in (maps, sums, precision)
    )
    graded = {name: scale.items.categories for name, scale in scales.items()}
    categories = stacked({name: of.category_table(about[name]) for name, of in graded.items() if of is not None})
    files = {"items.csv": by_item, "score_table.csv": by_score if sums else None, "test_information.csv": by_theta,
             "categories.csv": None if categories.empty else categories}  # fmt: skip
    if export is not None:
        columns = {name: irtbench.models.parameter_columns(scale.items, export) for name, scale in scales.items()}
        files[f"items_{export}.csv"] = stacked(columns)
    words = [*bank_in_words(known, maps, sums, most), *disorder_in_words(categories)]
    card = known.card.stated() if known.card else {}
    return Outcome(
        json={"card": card, "items": by_item, "score_table": by_score}, files=files,
        words=[*words, what_follows(known, bank, run.output)], figures=lambda: irtbench.report.wright_figures(maps),
    )  # fmt: skip


def what_follows(known: irtbench.ItemBank, bank: Path, output: Path | None) -> str | None:
    """The command that assembles a form of half of the items."""
    if output is None or any(scale.items.categories for scale in known.scales):
        return None
    half = max(1, min(scale.items.n_items for scale in known.scales) // 2)
    return next_command("form", "assemble", bank, "--length", half, "-o", output / "form")


def with_texts(bank: irtbench.ItemBank, file: Path | None, columns: dict[str, str]) -> irtbench.ItemBank:
    """The bank with what a table of items, if there is one, says of its items in place of what it says itself."""
    if file is None:
        if columns:
            raise irtbench.InputError("--item-column says something of the items: expected --items ITEMS with it")
        return bank
    details = irtbench.read_items(file, columns=columns)
    if missing := sorted(set(irtbench.bank.bank.item_ids_of(bank)) - set(details.scale_items)):
        raise irtbench.InputError(f"{file}: no row for item {name_first(missing)} of the bank")
    scales = (replace(scale, details=details.select(scale.items.item_ids)) for scale in bank.scales)
    return replace(bank, scales=tuple(scales))


def bank_in_words(
    bank: irtbench.ItemBank,
    maps: Mapping[str, irtbench.bank.ItemMap],
    sums: Mapping[str, irtbench.scoring.SumScoreTable],
    most: int,
) -> Words:
    """The card, and of each scale the items at either end and ability by raw score."""
    for name, words in {} if bank.card is None else bank.card.stated().items():
        yield f"{name}: {words}"
    for scale in bank.scales:
        n, view = scale.items.n_items, maps[scale.name].extremes(most)
        ends = {
            "": [ENDS[pair] for pair in zip(view["measure"], view["end"], strict=True)],
            "item": view["item_id"],
            "difficulty": view["difficulty"],
            "discrimination": view["discrimination"],
            "% right": [f"{100 * share:.0f}" for share in view["expected_correct"]],
            "% of information": [f"{100 * share:.1f}" for share in view["share_of_information"]],
        }
        if "text" in view:
            given = ("" if pd.isna(text) else " ".join(str(text).split()) for text in view["text"])
            ends["text"] = [shortened(text, MOST_LETTERS) for text in given]
        yield Shown(pd.DataFrame(ends), f"{scale.name}: {counted(n, 'item')}", "items.csv")
        if scale.name not in sums:
            yield f"no score table: {n} items; irtbench score gives ability by the responses themselves"
            continue
        table = sums[scale.name].table()
        step = -(-(len(table) - 1) // (MOST_ROWS - 1))
        rows = table.iloc[::step].assign(percentile=[f"{value:.1f}" for value in table["percentile"].iloc[::step]])
        rows = rows.rename(columns={"score": "raw score", "theta": "ability", "se": "standard error"})
        title = (
            f"Ability by the {'points on' if scale.items.categories else 'number of right responses to'} all {n} items"
            + (f" (one score in {step})" if step > 1 else "")
        )
        yield Shown(rows[["raw score", "ability", "standard error", "percentile"]], title, "score_table.csv")


def disorder_in_words(categories: pd.DataFrame) -> Words:
    """Items in whose categories something is wrong, as categories.csv has them."""
    if categories.empty:
        return
    for column, words in DISORDER.items():
        found = categories[categories[column] == 1]
        names = [f"{item} ({category})" for item, category in zip(found["item_id"], found["category"], strict=True)]
        yield bool(names) and f"{words}: {name_first(names)}"


FILES = (
    "item_fit.csv", "local_dependence.csv", "global_fit.json", "person_fit.csv", "classical.csv", "reliability.json",
    "test_information.csv", "infit_outfit.csv", "not_available.json",
)  # fmt: skip
MOST_ITEMS_SHOWN, WORST_SHOWN = 40, 10  # on the terminal


@dataclass(frozen=True)
class FromDisk:
    """How a table is read that is too large for memory."""

    sample: Annotated[
        int,
        typer.Option(
            "--sample", metavar="N", help="Respondents of a table too large for memory, drawn at random.", min=1_000
        ),
    ] = MOST_RESPONDENTS
    cache: Cache = None
    allow_address: AllowAddress = field(default_factory=list)

    def read(
        self, file: Path, items: irtbench.ItemParameters, reading: Reading, run: Run
    ) -> tuple[irtbench.ResponseMatrix, irtbench.data.response_blocks.Sampled | None]:
        """All responses of a file or, of a table that is encoded on disk, those of some respondents drawn at random."""
        if items.categories is not None:
            say_cache_unused(file, self.cache)
            return items.categories.matrix(reading.scores(file, labels_of([items.categories]))), None
        table = large_table(file, reading, allow_address=self.allow_address)
        if table is None:
            say_cache_unused(file, self.cache)
            return reading.matrix(file), None
        with encoded(table, reading, self.cache, run.progress) as stored:
            drawn, some = some_respondents(stored, self.sample, run.seed)
            return some, None if drawn.is_all else drawn


@command(*FILES, trials="count")
def diagnose(
    responses: Responses,
    items: Annotated[Path, typer.Option("--items", metavar="items.csv", help="Items as `fit` writes them, or a bank.")],
    from_disk: FromDisk,
    reading: Reading,
    run: Run,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            "--bootstrap",
            metavar="N",
            help="Most samples for the p of local dependence, 0 for none; 99, or fewer of over 500,000 responses.",
            min=0,
            max=100_000,
        ),
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", metavar="NAME", help="Of a bank of several.")] = None,
) -> Outcome:
    """Analyse the items, and test the fit of items, of pairs of items, of the whole, and of each respondent.

    Writes item_fit.csv, local_dependence.csv, global_fit.json, person_fit.csv, classical.csv, reliability.json,
    test_information.csv and infit_outfit.csv (at Warm's estimates of ability, with the range if the item fits).

    Of items in categories (items.csv of `fit --model grm`, ...) the same is tested, the whole by C2, pairs by the
    bootstrap only where --bootstrap asks for it.

    Of several trials of an item, k right of n, items and respondents are tested, and pairs by the bootstrap alone; the
    whole is not, and there is no infit_outfit.csv.

    The bootstrap refits the model of the items, 2PL or 3PL, to simulated responses, with the prior that `fit` takes for
    it when none is named. It ends early where ten samples show that no pair is dependent; the number of samples is
    in local_dependence.csv (bootstrap_samples).

    Of a table that `fit` reads from disk, Parquet of more than ten million fields, a random sample of the respondents
    is analysed (--sample, --seed); the output says so, and global_fit.json has sampled_from and sample_seed.

    A statistic that cannot be computed is named, with the reason, also in not_available.json; the others are computed.
    """
    known = chosen_scale(irtbench.read_bank(items, upper_asymptotes=True, categories=True), scale, items)
    parameters = known.items
    given, drawn = from_disk.read(responses, parameters, reading, run)
    data = given.select_items(parameters.item_ids).answered()
    if not data.n_respondents:
        raise irtbench.InputError(f"file {responses}: no response to these items; expected some")
    found = irtbench.study.item_analysis.diagnose(
        data,
        parameters,
        known.population,
        n_samples=bootstrap,
        seed=run.seed,
        progress=run.progress,
    )
    whole = found.figures["global_fit.json"] | ({} if drawn is None else drawn.stated)
    single = found.figures | {"global_fit.json": whole, "not_available.json": found.reasons}
    shown = {name: found.tables[name] for name in ("item_fit.csv", "local_dependence.csv")} | single
    files: dict[str, Any] = {name: table for name, table in found.tables.items() if name not in found.reasons}
    lz_star = found.tables["person_fit.csv"].get("lz_star")
    return Outcome(
        json={Path(name).stem: values for name, values in shown.items()},
        files=files | {name: values or None for name, values in single.items()},
        figures=lambda: irtbench.report.diagnosis_figures(
            data, parameters, found.abilities.theta, precision=found.precision, item_fit=found.tables["item_fit.csv"],
            pairs=found.tables["local_dependence.csv"], lz_star=None if lz_star is None else lz_star.to_numpy(),
        ),
        words=diagnosis_in_words(found, whole, drawn, run),
    )  # fmt: skip


def diagnosis_in_words(
    found: irtbench.study.item_analysis.Diagnosis,
    whole: Mapping[str, Any],
    drawn: irtbench.data.response_blocks.Sampled | None,
    run: Run,
) -> Words:
    """The statistics of items, pairs and the whole, and which are not available."""
    yield drawn is not None and f"analysed: {drawn}"
    yield from worst_items(found.tables["classical.csv"], "item_rest", "Items as answered", run.folder)
    title = "Item fit; s_x2 holds the score statistic" if found.by_scores else "Item fit"
    yield from worst_items(found.tables["item_fit.csv"], "p", title, run.folder)
    samples = found.pairs.bootstrap_samples
    caution = (
        not found.data.is_complete
        and bool(np.isfinite(found.pairs.p).any())
        and "p of pairs is by chi-square, often too small where responses are missing: see --bootstrap"
    )
    yield f"p_bootstrap of local dependence rests on {samples} samples" if samples else caution
    pairs = found.tables["local_dependence.csv"].sort_values("x2", ascending=False).head(10)
    yield Shown(pairs, "Local dependence: the ten largest X2", "local_dependence.csv")
    for what, reason in found.reasons.items():
        yield f"{what.removesuffix(' in global_fit.json')} is not available: {reason}"
    if "srmsr" in whole and not np.isnan(whole["srmsr"]):
        tests = (
            f"M2 {whole['m2']:.2f}, df {whole['df']}, p {whole['p']:.4f}, RMSEA {whole['rmsea']:.4f} "
            f"[{whole['rmsea_lower']:.4f}, {whole['rmsea_upper']:.4f}], SRMSR {whole['srmsr']:.4f}, "
            f"TLI {whole['tli']:.4f}, CFI {whole['cfi']:.4f}"
        )
        yield f"SRMSR {whole['srmsr']:.4f}" if "M2 in global_fit.json" in found.reasons else tests
    reliability = found.figures["reliability.json"]
    yield bool(reliability) and in_words(reliability)


def worst_items(table: pd.DataFrame, by: str, title: str, folder: Path) -> Words:
    """A row for each item; of many the least by one column."""
    file = "classical.csv" if by == "item_rest" else "item_fit.csv"
    if len(table) <= MOST_ITEMS_SHOWN:
        return [Shown(table, title, file)] if len(table) else []
    worst = table.sort_values(by, kind="stable").head(WORST_SHOWN)
    return [
        Shown(worst, f"{title}: the {WORST_SHOWN} least {by}", file),
        f"all {len(table):,} items are in {folder / file}",
    ]


def in_words(reliability: dict[str, Any]) -> str:
    """Return reliability and the length for a good one, in a line."""
    omega = f"{reliability['omega']:.3f}" if np.isfinite(reliability["omega"]) else "not available"
    wanted = [
        f"{number:.0f} by {source}"
        for source, number in (
            ("Spearman and Brown", reliability["n_items_spearman_brown"]),
            ("the information", reliability["n_items_information"]),
        )
        if np.isfinite(number)
    ]
    return "".join(
        [
            f"Reliability: alpha {reliability['alpha']:.3f} [{reliability['alpha_lower']:.3f}, "
            f"{reliability['alpha_upper']:.3f}], omega {omega}, marginal {reliability['marginal']:.3f}, "
            f"empirical {reliability['empirical']:.3f}",
            f"; items like these for {reliability['wanted']:g}: {', '.join(wanted)}" if wanted else "",
            f" ({reliability['reason']})" if reliability["reason"] else "",
        ]
    )


EIGENVALUES_SHOWN = 10


@command("eigenvalues.csv", "dimensions.json", "scree.png", "loadings.csv", draws="png")
def dimensions(
    responses: Responses,
    items: ItemsFile,
    reading: Reading,
    run: Run,
    factors: Annotated[
        int,
        typer.Option(
            "--factors", min=0, max=3, help="Compare models of 1 up to this many factors, which takes much longer."
        ),
    ] = 0,
    samples: Annotated[int, typer.Option("--samples", help="Samples of independent items.", min=1, max=10_000)] = 20,
    test_samples: Annotated[
        int, typer.Option("--test-samples", min=0, max=10_000, help="Samples for the p of one more factor; 0 for none.")
    ] = 19,
    model: Annotated[
        Literal["2pl", "grm", "gpcm"], typer.Option("--model", help="Of right and wrong 2pl; of grades grm or gpcm.")
    ] = "2pl",
    levels: Levels = None,
) -> Outcome:
    """Count abilities: eigenvalues against chance, models of several factors, loadings turned to the items' labels.

    Writes eigenvalues.csv, dimensions.json, scree.png and, with --items, loadings.csv. Correlations are tetrachoric, of
    grades (--model grm or gpcm) polychoric. Items that all got right or all got wrong, or of one grade alone, say
    nothing here: they are left out and named.
    """
    known = items.read()
    data, left_out = varied(responses, reading, None if known is None else known.scale_items, model, levels)
    labels = None if known is None else [label or "" for label in known.select(data.item_ids).label]
    result = irtbench.find_dimensions(
        data, labels, models=model, max_factors=factors, n_samples=samples, n_test_samples=test_samples, seed=run.seed,
        progress=run.progress,
    )  # fmt: skip
    found = result.summary() | {"items_left_out": left_out, "seed": run.seed}

    several = ["--factors", result.analysis.n_abilities] if result.analysis.n_abilities > 1 else []
    graded = [] if model == "2pl" else ["--model", model, *([] if levels is None else ["--levels", levels])]
    next_one = next_command("fit", responses, *graded, *several, "-o", run.folder / "fit")
    return Outcome(
        json=found, words=dimensions_in_words(result, left_out, next_one if reading == Reading() else None),
        figures=lambda: irtbench.report.scree_figures(result.analysis),
        files={
            "eigenvalues.csv": result.analysis.table(), "dimensions.json": found,
            "loadings.csv": None if result.rotated is None else result.rotated.table(),
        },
    )  # fmt: skip


def varied(
    file: Path, reading: Reading, item_ids: Sequence[str] | None, model: str, levels: str | None
) -> tuple[irtbench.ResponseMatrix | irtbench.models.coded_scores.CodedScores, dict[str, str]]:
    """Responses or grades of a file to these items that differ between people, and why others are left out."""
    data: Any
    if model == "2pl":
        if levels is not None:
            raise irtbench.InputError("--levels: of grades; expected --model grm or gpcm with them")
        given, kind = reading.matrix(file), irtbench.study.fitted_scale.RightOrWrong(settings=irtbench.FitSettings())
        data, left_out, _ = kind.estimable(given if item_ids is None else given.select_items(item_ids), file)
    else:
        graded = irtbench.study.fitted_scale.InCategories(model=model, models="grm", levels=levels_of(levels))
        scores = reading.scores(file, graded.levels)
        if lacking := sorted(set(item_ids or ()) - set(scores.columns)):
            raise irtbench.InputError(f"{file}: no responses to item {name_first(lacking)}")
        data, left_out, _ = graded.estimable(scores if item_ids is None else scores[list(item_ids)], file)
    return data, {one["item_id"]: one["reason"] for one in left_out}


def dimensions_in_words(
    result: irtbench.analysis.Dimensions, left_out: Mapping[str, str], next_one: str | None
) -> Words:
    """How many abilities there are, by what, and what comes next."""
    yield Shown(result.analysis.table().head(EIGENVALUES_SHOWN), "Eigenvalues", "eigenvalues.csv")
    yield f"{counted(result.analysis.n_abilities, 'ability')} by parallel analysis"
    yield bool(result.analysis.tetrachoric.note) and f"note: {result.analysis.tetrachoric.note}"
    yield result.models is not None and Shown(result.models, "Models", "dimensions.json")
    if result.tests is not None:
        tests = result.tests if result.tests["note"].any() else result.tests.drop(columns="note")
        yield Shown(tests, "Likelihood-ratio tests, p by samples of the smaller model", "dimensions.json")
    if result.rotated is not None:
        yield Shown(result.rotated.by_label(), "Mean loadings, turned to the labels", "loadings.csv")
        yield f"{result.rotated.follows.mean():.0%} of the items load most on the factor of their label"
    yield bool(left_out) and f"left out: {name_first([f'{item} ({reason})' for item, reason in left_out.items()])}"
    yield next_one
