"""``irtbench crowd``: before anybody is paid, how many people; after, whose answers count, and how far they agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import typer

import irtbench.report
from irtbench.cli.declared import Fields, Outcome, Run, command
from irtbench.cli.options import (
    Answers,
    Columns,
    FiguresOrAmong,
    ItemsFile,
    KnownItems,
    Level,
    Levels,
    Map,
    MaybeFolder,
    Reading,
    Where,
    levels_of,
    mapped,
    named,
    refuse,
)
from irtbench.cli.output import Shown, Words, next_command
from irtbench.data.responses import name_first
from irtbench.data.shown import counted
from irtbench.evaluation.gold_labels import GoldMethod

PLANNED = {
    "n_respondents": "respondents whose answers count",
    "n_recruited": "people to recruit",
    "n_each": "items each answers",
    "n_checks": "attention checks each answers",
    "checks_right": "of which must be right",
    "n_answers": "answers to pay for",
    "n_by_item": "answers that count for an item",
    "se_difficulty": "standard error of b, reached by the share of the items",
    "se_difficulty_median": "standard error of b, median item",
    "se_discrimination_median": "standard error of a, median item",
    "se_theta": "standard error of theta",
    "percentile_width": "width of a percentile's interval",
}
SUSPICIOUS = 0.5  # probability from which on an item is put forward
SHOWN_OF_AGREEMENT = "n_items", "n_answers", "majority", "supermajority", "fleiss_kappa", "krippendorff_alpha"
TIMES = (0.5, 1, 2, 4)  # as many ratings as a respondent has on average


@dataclass(frozen=True)
class TypicalItems:
    """The items that a plan is for: known ones, or so many typical ones."""

    items: Annotated[
        int | None, typer.Option("--items", "-n", metavar="N", help="How many items there are, of typical parameters.")
    ] = None
    pilot: Annotated[
        Path | None, typer.Option("--pilot", metavar="ITEMS.csv", help="Parameters of items like them, as fit writes.")
    ] = None
    mean_log_a: Annotated[float, typer.Option("--mean-log-a", help="Mean of log a of typical items.")] = 0.2
    sd_log_a: Annotated[float, typer.Option("--sd-log-a", help="Standard deviation of log a.")] = 0.3
    mean_b: Annotated[float, typer.Option("--mean-b", help="Mean of b of typical items.")] = 0.0
    sd_b: Annotated[float, typer.Option("--sd-b", help="Standard deviation of b.")] = 1.0

    def read(self) -> irtbench.ItemParameters:
        """Their parameters."""
        if (self.items is None) == (self.pilot is None):
            raise irtbench.InputError(
                "expected either --items N, for typical items, or --pilot ITEMS.csv, for known ones"
            )
        if self.pilot is not None:
            return irtbench.read_parameters(self.pilot)
        slopes, places = (self.mean_log_a, self.sd_log_a), (self.mean_b, self.sd_b)
        return irtbench.analysis.typical_items(self.items or 0, discrimination=slopes, difficulty=places)


@command("plan.json", "items.csv", output=MaybeFolder)
def plan(
    items: TypicalItems,
    wanted: Annotated[irtbench.analysis.PlanSettings, Fields({"n_each": "--each", "n_respondents": "--respondents"})],
    run: Run,
) -> Outcome:
    """Plan a crowd: respondents, items each and attention checks for a wanted standard error of b or theta.

    Writes plan.json and items.csv (the standard errors to expect of each item).
    """
    found = irtbench.plan_crowd(items.read(), wanted, rng=run.rng, progress=run.progress)
    summary = found.summary()
    values = [summary[name] for name in PLANNED]
    texts = [f"{one:,.3f}" if isinstance(one, float) and one < 10 else f"{one:,.0f}" for one in values]
    return Outcome(
        json=summary, words=[
            Shown(
                pd.DataFrame({"what": PLANNED.values(), "value": texts}), f"Plan for {counted(found.n_items, 'item')}",
                "plan.json",
            ),
            bool(found.not_converged)
            and f"{found.not_converged:.0%} of the samples fitted without a prior did not converge: with so few "
            "answers an item take prior weak",
        ], figures=lambda: irtbench.report.plan_figures(found),
        files={"plan.json": summary, "items.csv": found.item_table()},
    )  # fmt: skip


@dataclass(frozen=True)
class Sheets:
    """Sheets to upload, with booklets and attention checks mixed in."""

    sheets: Annotated[
        Literal["prolific", "label-studio", "potato", "mturk"] | None,
        typer.Option("--sheets", help="Write sheets to upload, with booklets and attention checks mixed in."),
    ] = None
    booklets: Annotated[int, typer.Option("--booklets", help="Booklets, one a respondent.", min=1)] = 1
    each: Annotated[int | None, typer.Option("--each", help="Items of a booklet; unless given: all.")] = None
    checks_each: Annotated[
        int | None, typer.Option("--checks-each", help="Checks of a booklet; unless given: all.")
    ] = None
    option: Annotated[
        list[str],
        typer.Option(
            "--option", metavar="ANSWER", help="An answer to choose from; the keys, if none is given; repeat."
        ),
    ] = field(default_factory=list)
    question: Annotated[str, typer.Option("--question", help="Asked of every item.")] = "Which answer is right?"

    def made_of(self, chosen: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, str]]:
        """The places of items in booklets, and the files to upload."""
        assert self.sheets is not None
        is_check = chosen["attention"] == 1
        placed = irtbench.data.make_booklets(
            list(chosen.loc[~is_check, "item_id"]), n_booklets=self.booklets, n_each=self.each,
            checks=list(chosen.loc[is_check, "item_id"]), n_checks=self.checks_each, rng=rng,
        )  # fmt: skip
        options = self.option or sorted(chosen["key"].dropna().unique())
        texts = dict(zip(chosen["item_id"], chosen["text"].fillna(""), strict=True))
        files = irtbench.data.crowd_sheets(placed, texts, format=self.sheets, options=options, question=self.question)
        return placed, files


@dataclass(frozen=True)
class CorpusItems:
    """Which items of a corpus are taken, and what people read."""

    annotations: Annotated[
        list[str],
        typer.Option("--annotations", metavar="PATTERN", help="Columns with an annotator's label each: 'label*'."),
    ] = field(default_factory=list)
    agreement: Annotated[
        list[str], typer.Option("--agreement", metavar="K/N", help="How many of how many agree: 4/5; repeat.")
    ] = field(default_factory=lambda: ["5/5"])
    per_label: Annotated[int, typer.Option("--per-label", help="Items for each label at each agreement.")] = 30
    label: Annotated[
        list[str], typer.Option("--label", metavar="LABEL", help="The labels; all that occur; repeat.")
    ] = field(default_factory=list)
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="TEMPLATE", help="What people read, columns in braces: '{premise} {claim}'."),
    ] = None
    checks: Annotated[
        Path | None, typer.Option("--checks", metavar="FILE", help="Attention checks: item_id, key, text.")
    ] = None
    item_column: Annotated[
        list[str],
        typer.Option(
            "--item-column", metavar="NAME=COLUMN", help="The table's column for one of our names: label=gold."
        ),
    ] = field(default_factory=list)
    where: Where = field(default_factory=list)


@command("items.csv", "sample.json", "booklets.csv", figures=None)
def sample(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help="A table of items, with annotators' labels.")],
    which: CorpusItems,
    sheets: Sheets,
    run: Run,
) -> Outcome:
    """Choose items by label and by the agreement of a corpus's annotators, and write the sheets that ask a crowd.

    Without --annotations all items are taken. Writes items.csv (for build, screen and agree), sample.json; with
    --sheets booklets.csv and the files to upload.
    """
    chosen, table = irtbench.data.item_sampling.corpus_sample(
        items, columns=named("--item-column", which.item_column), where=named("--where", which.where),
        annotations=which.annotations, agreement=which.agreement, per_label=which.per_label, labels=which.label,
        text=which.text, checks=which.checks, rng=run.rng,
    )  # fmt: skip
    is_check, sets = chosen["attention"] == 1, None
    if which.annotations:
        sets = chosen[~is_check].value_counts(["set", "label"], sort=False).reset_index(name="n_items")
    found: dict[str, Any] = {
        "n_items": int((~is_check).sum()),
        "n_attention": int(is_check.sum()),
        "seed": run.seed,
        "sets": [] if sets is None else sets,
    }
    placed, uploaded = (None, {}) if sheets.sheets is None else sheets.made_of(chosen, run.rng)
    if placed is not None:
        found |= {
            "n_booklets": sheets.booklets, "n_places": int(placed["position"].max()), "sheets": sorted(uploaded),
        }  # fmt: skip
        placed = placed.assign(attention=placed["attention"].astype(int))

    return Outcome(
        json=found, files={"items.csv": table, "sample.json": found, "booklets.csv": placed, **uploaded}, words=[
            f"{counted(found['n_items'], 'item')} and {counted(found['n_attention'], 'attention check')} in items.csv "
            f"of {run.output}",
            sets is not None and Shown(sets, rest="sample.json"),
            placed is not None
            and f"{counted(sheets.booklets, 'booklet')} of {counted(found['n_places'], 'place')}; to upload: "
            f"{name_first(sorted(uploaded))}",
            next_command(
                "crowd", "screen", "ANSWERS.csv", "--items", run.folder / "items.csv", "-o", run.folder / "screened"
            ),
        ],
    )  # fmt: skip


@dataclass(frozen=True)
class CrowdChecks:
    """What is asked of a crowd in addition to the rules."""

    respondents: Annotated[
        Path | None,
        typer.Option("--respondents", metavar="FILE", help="Table with respondent_id and approval_rate."),
    ] = None
    rapid: Annotated[
        Literal["keep", "missing"],
        typer.Option("--rapid", help="Whether rapid guesses stay among the screened answers."),
    ] = "keep"
    similar: Annotated[
        float | None,
        typer.Option("--similar", help="Name pairs too alike, at this adjusted p such as .05; nobody is removed."),
    ] = None
    effect: Annotated[
        bool, typer.Option("--effect", help="Agreement, reliability and item parameters before and after.")
    ] = False
    model: Annotated[
        Literal["grm", "gpcm", "pcm", "rsm"] | None,
        typer.Option("--model", help="Answers are grades, without keys, and person fit is by this model of them."),
    ] = None
    levels: Levels = None
    answers_map: Map = field(default_factory=list)

    @property
    def asked(self) -> irtbench.study.screening_effect.AfterTheRules:
        """What is asked for besides the rules."""
        return irtbench.study.screening_effect.AfterTheRules(self.rapid, self.similar, self.effect)

    def demand_seconds(self, given: pd.DataFrame, answers: Path) -> None:
        """Refuse to leave rapid guesses out where no times are known."""
        if self.rapid == "missing" and "seconds" not in given:
            raise irtbench.InputError(f"--rapid missing: file {answers} has no seconds")

    def next_one(self, folder: Path, items: ItemsFile) -> str:
        """The command that goes on with what is kept."""
        if self.model is not None:
            levels = [] if self.levels is None else ["--levels", self.levels]
            return next_command("fit", folder / "answers.csv", "--model", self.model, *levels, "-o", folder / "fit")
        again = [word for column in items.item_column for word in ("--item-column", column)]
        again += [word for condition in items.where for word in ("--where", condition)]
        return next_command("crowd", "agree", folder / "answers.csv", "--items", items.items, *again)


@command(
    "respondents.csv", "answers.csv", "screening.json", "item_times.csv", "screening_effect.csv", "items_effect.csv",
    "similar_pairs.csv",
)  # fmt: skip
def screen(
    answers: Answers,
    items: ItemsFile,
    rules: irtbench.ScreeningSettings,
    also: CrowdChecks,
    reading: Reading,
    run: Run,
) -> Outcome:
    """Screen a crowd: each rule given is applied, in the order of the help, and the first that applies is the reason.

    Writes respondents.csv (kept, reason, what was measured), answers.csv (of those kept), screening.json; with times
    item_times.csv; with --similar similar_pairs.csv; with --effect screening_effect.csv and items_effect.csv. Grades
    (--model grm) need no --items; in answers.csv they are a row each, in the column score.
    """
    refuse(
        {
            "--levels: of grades; expected --model grm, gpcm, pcm or rsm with them":
            also.levels is not None and also.model is None,
            "--map: of answers with keys; expected none with --model":
            bool(also.answers_map) and also.model is not None,
            f"--similar {also.similar or 0:g}: expected a level between 0 and 1":
            also.similar is not None and not 0 < also.similar < 1,
        }
    )  # fmt: skip
    screened, given = (screened_answers if also.model is None else screened_grades)(
        answers, rules, also, items, reading, run
    )
    found, pairs, changed = screened.summary(), screened.pairs, screened.changed
    removed = [f"{n} {name}" for name, n in found["reasons"].items() if name != "kept"]
    alike = [] if pairs is None else list(pairs["respondent_1"] + " and " + pairs["respondent_2"])

    return Outcome(
        json=found, words=[
            f"{found['n_kept']} of {found['n_respondents']} respondents kept"
            + (f": removed {', '.join(removed)}" if removed else ""),
            changed is not None and Shown(changed.scales, "Before and after", "screening_effect.csv"),
            bool(alike) and f"too alike: {name_first(alike)}",
            also.next_one(run.folder, items),
        ], figures=lambda: irtbench.report.screening_figures(found["reasons"]),
        files={
            "respondents.csv": screened.people, "answers.csv": given[screened.stays], "screening.json": found,
            "item_times.csv": None if screened.times is None else screened.times.by_item(given),
            "similar_pairs.csv": pairs, "screening_effect.csv": None if changed is None else changed.scales,
            "items_effect.csv": None if changed is None else changed.items,
        },
    )  # fmt: skip


def screened_answers(
    answers: Path, rules: irtbench.ScreeningSettings, also: CrowdChecks, items: ItemsFile, reading: Reading, run: Run
) -> tuple[irtbench.study.screening_effect.ScreenedCrowd, pd.DataFrame]:
    """Who of those who gave answers with keys is kept, and the answers."""
    known = items.read()
    if known is None:
        raise irtbench.InputError("--items: missing; expected the items with their keys, or of grades --model grm")
    given = items.kept(reading.answers(answers).frame, known)
    also.demand_seconds(given, answers)
    approval = None
    if rules.min_approval is not None:
        approval = irtbench.data.readers.respondents.read_approval(
            given, answers, also.respondents, wanted="--min-approval", lacks=": expected columns respondent_id and"
        )
    meant = given.assign(answer=in_one_vocabulary(given, known, mapped(also.answers_map)))
    return irtbench.study.screening_effect.screen_crowd(
        meant, known, rules, also.asked, approval, seed=run.seed, progress=run.progress
    ), given


def screened_grades(
    answers: Path, rules: irtbench.ScreeningSettings, also: CrowdChecks, items: ItemsFile, reading: Reading, run: Run
) -> tuple[irtbench.study.screening_effect.ScreenedCrowd, pd.DataFrame]:
    """Who of those who gave or got grades is kept, by the rules and fits that `build` has, and the grades."""
    from irtbench.cli.build import settings_of
    from irtbench.cli.data_files import data_keys

    keys = data_keys(reading, named("--item-column", items.item_column), answers.parent)
    keys |= {"items": items.items and str(items.items.resolve()), "where": named("--where", items.where)}
    keys |= {} if also.respondents is None else {"respondents": str(also.respondents.resolve())}
    settings = replace(settings_of(answers, also.model, also.levels, keys), screening=rules)
    settings = replace(settings, study=replace(settings.study, seed=run.seed))
    data = irtbench.study.study_data.read_data(settings)
    assert data.given is not None
    given = data.given[~data.given["item_id"].isin(data.items.attention_items)]
    also.demand_seconds(given, answers)
    names = ["respondent_id", "item_id", "answer", *(["seconds"] if "seconds" in given else [])]
    found = irtbench.study.screening_effect.screen_grades(settings, replace(data, rows=given), also.asked, run.progress)
    return found, given[names].rename(columns={"answer": "score"})


@command("keys.csv", "distractors.csv", html=True)
def keys(
    answers: Answers,
    items: KnownItems,
    reading: Reading,
    run: Run,
    prior: Annotated[
        Literal["weak", "hierarchical"] | None,
        typer.Option("--prior", help="Of the items; weak, or hierarchical with more items than respondents."),
    ] = None,
) -> Outcome:
    """Rank items by the probability that their key is wrong, and propose the option that the able choose.

    Writes keys.csv, the most suspicious item first, and distractors.csv, an option a row.
    """
    known = items.known()
    found, options, fitted = irtbench.study.item_analysis.suspected_keys(
        items.kept(reading.answers(answers).frame, known), known, items.items, prior, seed=run.seed,
        progress=run.progress,
    )  # fmt: skip
    ranked = found.table()

    return Outcome(
        json={"keys": ranked, "distractors": options, "share_wrong": found.share_wrong, "too_few": found.too_few},
        files={"keys.csv": ranked, "distractors.csv": options},
        figures=lambda: irtbench.report.key_figures(ranked, options),
        page=lambda: irtbench.report.keys_page(
            ranked, options, share_wrong=found.share_wrong, suspicious=SUSPICIOUS, too_few=found.too_few
        ),
        words=keys_in_words(found, ranked, fitted),
    )


def keys_in_words(found: irtbench.analysis.WrongKeys, ranked: pd.DataFrame, fitted: irtbench.FittedModel) -> Words:
    """The most suspicious keys, and how many of the first ones are expected to be wrong."""
    suspicious = len(found.suspicious)
    yield Shown(ranked.head(max(10, min(30, suspicious))), "The most suspicious keys", "keys.csv")
    yield found.too_few or (
        f"{suspicious} of {len(ranked)} keys look wrong (p > {SUSPICIOUS:g}): the able choose another option. "
        "An item that leads the able astray looks the same, so read it before changing its key"
    )
    for first in sorted({suspicious, 10, 100}):
        if 0 < first <= len(ranked) and not found.too_few:
            share = found.expected_precision(first)
            yield f"of the first {first} to check, {share * first:.1f} are expected to be such ({share:.0%})"
    yield (
        not fitted.converged
        and f"the fit of ability did not converge ({fitted.stopped_because}): the figures are rough"
    )


@dataclass(frozen=True)
class FacetModel:
    """The many-facet model that is fitted."""

    model: Annotated[Literal["gpcm", "grm"], typer.Option("--model", help="Partial credit, or graded response.")] = (
        "gpcm"
    )
    item_slopes: Annotated[bool, typer.Option("--item-slopes", help="Slopes by item; otherwise all are 1.")] = False
    consistency: Annotated[
        bool, typer.Option("--consistency", help="Slopes by rater: who distinguishes respondents less well.")
    ] = False
    rater_steps: Annotated[
        bool, typer.Option("--rater-steps", help="Each rater uses the categories in its own way.")
    ] = False
    answer_effect: Annotated[
        bool, typer.Option("--answer-effect", help="Ratings of one answer share more than ability; slower.")
    ] = False
    severities: Annotated[
        Literal["auto", "fixed", "learnt"],
        typer.Option("--severities", help="Parameters, or drawn from a normal learnt; auto: learnt from 31 raters on."),
    ] = "auto"
    interaction: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="Groups of ratings for which a rater may be more severe."),
    ] = None


@command(
    "raters.csv", "items.csv", "scores.csv", "precision.csv", "interactions.csv", "raters.json", "severities.svg",
    "fair_scores.svg", figures=FiguresOrAmong, html=True, fits=True,
)  # fmt: skip
def raters(
    ratings: Annotated[
        Path,
        typer.Argument(metavar="RATINGS", help="Table of respondent_id, item_id, rater_id, score; a row a rating."),
    ],
    how: FacetModel,
    run: Run,
    levels: Annotated[
        str | None, typer.Option("--levels", metavar="A,B,C", help="Scores that are words, the lowest first.")
    ] = None,
    column: Columns = [],  # noqa: B006 - typer copies it
) -> Outcome:
    """Severity of raters with standard errors, fair scores, and what more ratings would buy (many-facet model).

    Writes raters.csv, items.csv, scores.csv (theta and fair scores with intervals), precision.csv, raters.json and with
    --by interactions.csv. Nothing is random: --seed is taken as by other commands, and changes nothing.
    """
    words = [] if levels is None else [word.strip() for word in levels.split(",")]
    table = irtbench.data.read_ratings(
        ratings, columns=named("--column", column), levels=words, interaction=how.interaction
    )
    run.progress(f"fitting {len(table):,} ratings")
    model = {"raters" if name == "severities" else name: value for name, value in vars(how).items()}
    found = irtbench.estimation.fit_raters(table, **model)
    mean = found.n_ratings / found.n_respondents
    precision = found.precision(sorted({max(1, round(mean * times)) for times in TIMES}))
    shown = found.table().sort_values("severity", ascending=False, kind="stable")

    return Outcome(
        json=found.summary() | {"raters": found.table(), "precision": precision},
        files={
            "raters.csv": found.table(), "items.csv": found.item_rows(), "scores.csv": found.scores(),
            "precision.csv": precision, "interactions.csv": found.interactions, "raters.json": found.summary(),
        },
        figures=lambda: irtbench.report.facet_figures(found),
        page=lambda: irtbench.report.rater_page(found, precision),
        words=[
            Shown(shown.drop(columns=["part"] if found.n_parts == 1 else []), "Raters, the most severe first",
                  "raters.csv"),
            Shown(precision, "What ratings of a respondent buy", "precision.csv"),
            f"severities: standard deviation {found.rater_sd:.2f} logits, {found.separation:.0%} of their variance is "
            f"no error; ability: standard deviation {found.ability_sd:.2f}; fair scores are in "
            f"{run.folder / 'scores.csv'}",
        ],
        doubts=found.doubts,
        unconverged=[] if found.converged else [found.stopped_because],
    )  # fmt: skip


@command("agreement.json", "item_agreement.csv", "respondent_agreement.csv", output=MaybeFolder)
def agree(
    answers: Answers,
    items: ItemsFile,
    reading: Reading,
    run: Run,
    gold: Annotated[
        GoldMethod,
        typer.Option(
            "--gold",
            help="How an item's label is formed: by majority, or by the respondents' reliability, latent-class with "
            "the items' difficulty; dawid-skene needs crowd-kit.",
        ),
    ] = "majority",
    levels: Annotated[
        str | None,
        typer.Option("--levels", metavar="A,B,...", help="Answers are grades: all in order, the lowest first."),
    ] = None,
    level: Level = 0.95,
    answers_map: Map = [],  # noqa: B006 - typer copies it
) -> Outcome:
    """Agreement: majorities, Fleiss' kappa, Krippendorff's alpha, Gwet's AC1, overall, by label, item and respondent.

    With --map answers get the names of one vocabulary, and those that have none in it are refused. Where items have
    keys, labels that differ from them in capitals or spaces alone count as one.

    Writes agreement.json, item_agreement.csv (with gold labels, and items whose majority contradicts the key) and
    respondent_agreement.csv. With --levels also how near to each other grades are: weighted kappa, ordinal alpha,
    Gwet's AC2, intraclass correlations.
    """
    known = items.read()
    given = items.kept(reading.answers(answers, levels_of(levels)).frame, known)
    given = given.assign(answer=in_one_vocabulary(given, known, mapped(answers_map)))
    run.progress("agreement")
    overall, near = irtbench.agreement(given, items=known, level=level), None
    if levels is not None:
        near = irtbench.evaluation.ordered_agreement(given, levels_of(levels), items=known, level=level)
    by_label = {} if known is None else irtbench.agreement_by_label(given, known, level=level)
    formed = {
        "majority": irtbench.majority_labels,
        "dawid-skene": irtbench.dawid_skene_labels,
        "latent-class": irtbench.evaluation.latent_class_labels,
    }
    labels = formed[gold](given, items=known)
    by_item = irtbench.evaluation.item_agreement(given, items=known).table()
    by_item = by_item.merge(labels.table(), on="item_id", how="left")
    contradicted = by_item.loc[by_item["contradicts_key"], "item_id"].tolist()
    found = {"overall": asdict(overall), "by_label": {label: asdict(result) for label, result in by_label.items()}}
    found |= {"contradicts_key": contradicted} | ({} if near is None else {"ordered": asdict(near)})
    return Outcome(
        json=found, words=[
            Shown(shown_agreement({"all": overall, **by_label}), rest="agreement.json"),
            near is not None and Shown(shown_ordered(near)),
            bool(contradicted) and f"the majority contradicts the key of item {name_first(contradicted)}",
        ], figures=lambda: irtbench.report.agreement_figures(overall, by_label, by_item),
        files={
            "agreement.json": found, "item_agreement.csv": by_item,
            "respondent_agreement.csv": None if run.output is None else agreement_of_people(given, known, labels),
        },
    )  # fmt: skip


def agreement_of_people(
    given: pd.DataFrame, known: irtbench.ItemTable | None, labels: irtbench.evaluation.GoldLabels
) -> pd.DataFrame:
    """Agreement of each respondent with the others and the labels, and accuracy where the labels are by a model."""
    people = irtbench.evaluation.respondent_agreement(given, items=known, gold=labels).table()
    if isinstance(labels, irtbench.evaluation.LatentLabels):
        accuracy = labels.respondents.rename(columns={"accuracy": "accuracy_by_model"}).drop(columns="n_answers")
        people = people.merge(accuracy, on="respondent_id", how="left")
    return people


def shown_agreement(found: Mapping[str, irtbench.evaluation.Agreement]) -> pd.DataFrame:
    """A row for all items and for each label, with the coefficients and their intervals."""
    return pd.DataFrame(
        {
            "items": name,
            **{column: getattr(result, column) for column in SHOWN_OF_AGREEMENT},
            "interval": f"{result.krippendorff_lower:.3f} to {result.krippendorff_upper:.3f}",
            "gwet_ac1": result.gwet_ac1,
            "interval ": f"{result.gwet_lower:.3f} to {result.gwet_upper:.3f}",
        }
        for name, result in found.items()
    ).replace("nan to nan", "")


def shown_ordered(near: irtbench.evaluation.OrderedAgreement) -> pd.DataFrame:
    """A row a coefficient of grades, with its interval."""
    found = asdict(near)
    names = ["weighted_kappa", "krippendorff_ordinal", "krippendorff_interval", "gwet_ac2", "icc"]
    rows = [{"of grades": name, "value": found[name], "lower": found[f"{name}_lower"], "upper": found[f"{name}_upper"]}
            for name in names]  # fmt: skip
    rows += [{"of grades": name, "value": found[name]} for name in ("icc_mean", "icc_absolute", "icc_consistency")]
    return pd.DataFrame(rows).dropna(subset="value")


def in_one_vocabulary(given: pd.DataFrame, known: irtbench.ItemTable | None, meant: dict[str, str]) -> pd.Series[str]:
    """The answers by the names that are mapped to and the keys; refused where they cannot be meant for the keys."""
    settings = irtbench.GradingSettings(map=meant, unknown="stray")
    keys = {} if known is None else irtbench.data.grading.normalised_keys(known, settings)
    own = (
        irtbench.data.grading.to_vocabulary(given["answer"], settings, keys.values())
        if meant
        else irtbench.data.grading.as_compared(given["answer"], settings)
    )
    return irtbench.data.grading.as_meant(own, keys, settings, given["respondent_id"]) if keys else own
