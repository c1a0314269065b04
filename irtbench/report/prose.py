"""What a study found and did, in sentences of templates/prose.toml: summary, method and cautions of the page."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from irtbench.analysis.dependence_bootstrap import USUAL_SAMPLES
from irtbench.analysis.dimensions import Dimensions
from irtbench.building.prune_rules import ITEMS_FOR_ONE, NORMAL_OGIVE, PruneRules
from irtbench.config import StudyFile
from irtbench.data.response_blocks import Sampled
from irtbench.data.screening import ScreeningOutcomes, ScreeningSettings
from irtbench.evaluation.agreement import Agreement
from irtbench.report.formatting import NORMALISATIONS, decimal, listing
from irtbench.report.wording import lines, words
from irtbench.study.results import ScaleStudy

POPULATION = "standard deviations of the population"
LOGITS = "logits"
ANCHORS = "the unit of the anchors’ scale"
ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def screened(screening: ScreeningOutcomes) -> str:
    """How many respondents were kept, and why the others were not."""
    n = screening.table().set_index("outcome")["n_respondents"]
    removed = [f"{count:,} {reason}" for reason, count in n.drop("kept").items()]
    asked = screening.settings != ScreeningSettings()
    return words("screened", n=int(n.sum()), kept=int(n["kept"]), removed=removed, asked=asked)


def agreed(found: Agreement | None) -> str:
    """Share of correct answers, and agreement beyond chance; empty without answers."""
    return "" if found is None else words("agreed", found=found)


def items_kept(scales: Sequence[ScaleStudy]) -> str:
    """How many items each scale kept."""
    n = {scale.name: (len(scale.pruning.kept), scale.responses.n_items) for scale in scales}
    retained = [scale.name for scale in scales if scale.pruning.rejected is None]
    each = [f"{name} {n[name][0]} of {n[name][1]}" for name in retained]
    kept, given = (sum(counts) for counts in zip(*n.values(), strict=True))
    return words("items_kept", given=given, kept=kept, each=each, n_scales=len(scales))


def converged(scales: Sequence[ScaleStudy]) -> str:
    """Which fits did not converge, or that all did."""
    fits = {f"{scale.name}, {name}": fitted for scale in scales for name, fitted in scale.fits.items()}
    return words("converged", n=len(fits), failed=[name for name, fitted in fits.items() if not fitted.converged])


def scored(scores: pd.DataFrame | None) -> str:
    """How many systems are scored, and which do not answer as people do; empty without systems."""
    if scores is None or scores.empty:
        return ""
    unlike = scores[scores["flags"].str.contains("unlikely_pattern", regex=False)]["respondent_id"].unique()
    return words("scored", n=scores["respondent_id"].nunique(), unlike=list(unlike))


def on_sample(drawn: Sampled) -> str:
    """Say what is of a sample and what of all, where items left by what a sample shows."""
    return words("on_sample", drawn=drawn)


def cautions(scales: Sequence[ScaleStudy]) -> list[str]:
    """What a reader must know before using the numbers: rejected scales, fits without convergence, poor global fit."""
    return [line for scale in scales for line in lines("cautions", scale=scale)]


def method(settings: StudyFile) -> list[str]:
    """How the study was done, a paragraph each: grading, screening, model, pruning, scores."""
    grading, score, scoring = settings.grading, settings.score, settings.score.scoring(seed=settings.study.seed)
    normal_forms = [NORMALISATIONS[rule] for rule in grading.normalise]
    weighted_by = [score.norm_weight] if score.norm_weight else []
    if score.norm_margins:
        weighted_by.append(f"the population’s shares of {listing(list(score.norm_margins))}")
    return [
        words("grading", content=settings.data.content, rules=normal_forms, empty=grading.empty),
        words("rules_of_screening", asked=lines("asked_of_respondents", rules=settings.screening)),
        words("model", model=settings.model, grades=settings.grades),
        rules(settings.pruning, settings.grades),
        words(
            "scores", scoring=scoring, weighted_by=[] if scoring.norm == "normal" else weighted_by,
            estimated=settings.model.population == "estimated" or settings.model.kind == "rasch",
            group="" if scoring.norm_group is None else " with {} {}".format(*scoring.norm_group),
        ),
    ]  # fmt: skip


def abilities(found: Dimensions | None, not_counted: str) -> list[str]:
    """How many abilities the items measure, or why it was not counted, a paragraph each; nothing if not asked."""
    if not_counted:
        return [f"The number of abilities was not counted, since {not_counted}."]
    if found is None:
        return []
    if found.rotated is None:
        return [words("number_of_abilities", found=found)]
    own = zip(found.rotated.item_ids, found.rotated.follows, strict=True)
    turned = words("turned_to_scales", rotated=found.rotated, stray=[item for item, follows in own if not follows])
    return [words("number_of_abilities", found=found), turned]


def guessing(scales: Sequence[ScaleStudy]) -> str:
    """Whether guessing is needed, and on which items; empty where it was not asked."""
    tested = [(scale.name, scale.pruning.checks.guessing) for scale in scales if scale.pruning.checks is not None]
    guessed = [
        f"{item} ({name}, c = {decimal(c)})"
        for name, test in tested
        for item, c, p in zip(test.item_ids, test.guessing, test.p_adjusted, strict=True)
        if p < 0.05
    ]
    n_items = sum(len(test.item_ids) for _, test in tested)
    return words("guessing", n_items=n_items, guessed=guessed) if tested else ""


def rules(chosen: PruneRules, grades: str | None = None) -> str:
    """What the rules of pruning are."""
    h2 = chosen.min_communality or 0.0
    in_words = {
        "slope": words("slope", rules=chosen, grades=grades, least_slope=NORMAL_OGIVE * (h2 / (1 - h2)) ** 0.5),
        "item_fit": words("item_fit_rule", rules=chosen),
        "local_dependence": words(
            "local_dependence_rule", rules=chosen, samples=chosen.bootstrap_samples or USUAL_SAMPLES
        ),
    }
    return words(
        "rules", rules=chosen, steps=[in_words[rule] for rule in chosen.order if in_words[rule]],
        items_for_one=ITEMS_FOR_ONE, limits=lines("limits", rules=chosen), whole=lines("whole_scale", rules=chosen),
    )  # fmt: skip


def adjustment(chosen: PruneRules) -> str:
    """How p of items and of pairs is adjusted for their number."""
    return words("adjustment", rules=chosen)


def unit_of_ability(scales: Sequence[ScaleStudy]) -> str:
    """The unit of the scales' abilities and difficulties, which one study fits all alike.

    A Rasch model has slopes of 1 and estimates the population's standard deviation: its unit is the logit. Anchors
    bring a unit of their own.
    """
    fits = [scale.fitted for scale in scales if scale.fitted is not None]
    if any(fitted.settings.kind == "rasch" for fitted in fits):
        return LOGITS
    moments = [fitted.population for fitted in fits]
    own = all(abs(m["mean"]) <= ROUNDING and abs(m["sd"] - 1) <= ROUNDING for m in moments)
    return POPULATION if own else ANCHORS


def where_people_are(scales: Sequence[ScaleStudy]) -> str:
    """One sentence on unit and zero of the scales, with the population's place where it is not 0 and 1."""
    unit = unit_of_ability(scales)
    moments = {scale.name: scale.fitted.population for scale in scales if scale.fitted and scale.fitted.population}
    places = [f"{decimal(each['mean'])} and {decimal(each['sd'])} on {name}" for name, each in moments.items()]
    return words("place_of_people", unit=unit, places=[] if unit == POPULATION else places)
