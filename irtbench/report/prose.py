"""What a study found and did, in sentences of templates/prose.toml: summary, method, cautions; a methods section."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from irtbench.analysis.dimensions import Dimensions
from irtbench.building.prune_rules import ITEMS_FOR_ONE, NORMAL_OGIVE, PruneRules
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.data.screening import ScreeningOutcomes, ScreeningSettings
from irtbench.diagnostics.local_dependence import USUAL_SAMPLES
from irtbench.report.formatting import NORMALISATIONS, REASONS, decimal, interval, lines, listing, plural, words
from irtbench.scoring.optional_columns import Explanation
from irtbench.scoring.percentiles import UNLIKELY_PATTERN
from irtbench.study.results import ScaleStudy, Study

POPULATION = "standard deviations of the population"
LOGITS = "logits"
ANCHORS = "the unit of the anchors’ scale"
ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def screened(screening: ScreeningOutcomes) -> str:
    """How many respondents were kept, and why the others were not."""
    n = screening.table().set_index("outcome")["n_respondents"]
    removed = [f"{count:,} {reason}" for reason, count in n.drop("kept").items()]
    return words(
        "screened", n=int(n.sum()), kept=int(n["kept"]), removed=removed,
        asked=screening.settings != ScreeningSettings(),
    )  # fmt: skip


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


def cautions(scales: Sequence[ScaleStudy]) -> list[str]:
    """What a reader must know before using the numbers: rejected scales, fits without convergence, poor global fit."""
    return [line for scale in scales for line in lines("cautions", scale=scale)]


def method(settings: StudyFile) -> list[str]:
    """How the study was done, a paragraph each: grading, screening, model, pruning, scores."""
    grading, score, scoring = settings.grading, settings.score, settings.scoring
    normal_forms = [NORMALISATIONS[rule] for rule in grading.normalise]
    margins = f"the population’s shares of {listing(list(score.norm_margins))}" if score.norm_margins else ""
    weighted_by = [*filter(None, [score.norm_weight, margins])]
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


MOST_SYSTEMS = 12  # with a part of their own
MOST_SURPRISES = 5  # of each kind, of a system on a scale
UNUSUAL_Z = 1.96  # beyond it, accuracy on a part of the items is seen in one of twenty people


def explained_systems(scores: pd.DataFrame | None) -> list[str]:
    """The systems with a part of their own: all, or the ``MOST_SYSTEMS`` whose answers are least like a person's."""
    if scores is None:
        return []
    answered = scores[scores["n_items"] > 0]
    systems = list(answered["respondent_id"].unique())
    if len(systems) <= MOST_SYSTEMS:
        return systems
    least = answered.groupby("respondent_id")["person_fit"].min().sort_values(kind="stable").index[:MOST_SYSTEMS]
    return [system for system in systems if system in set(least)]


def likeness(scores: pd.DataFrame, explained: Explanation, system: str) -> str:
    """Say whether the system's answers look like a person's, scale by scale, and where its accuracy does not."""
    rows = scores[(scores["respondent_id"] == system) & (scores["n_items"] > 0)].to_dict("records")
    fits = {f"{row['scale']} (lz* {decimal(row['person_fit'])})": row["person_fit"] for row in rows}
    levels = explained.difficulty
    odd = levels[(levels["respondent_id"] == system) & (levels["z"].abs() > UNUSUAL_Z)].to_dict("records")
    return words(
        "likeness", odd=[too_many_or_few(row) for row in odd],
        like=[text for text, fit in fits.items() if fit >= UNLIKELY_PATTERN],
        unlike=[text for text, fit in fits.items() if fit < UNLIKELY_PATTERN],
        unknown=[str(row["scale"]) for row in rows if math.isnan(row["person_fit"])],
    ).rstrip()  # fmt: skip


def difficulty_table(explained: Explanation, system: str) -> pd.DataFrame:
    """Accuracy of a system on easy to hard items, and that of people of its ability."""
    columns = ["scale", "difficulty_range", "n_items", "observed", "expected", "expected_lower", "expected_upper", "z"]
    own = explained.difficulty[explained.difficulty["respondent_id"] == system]
    spans = [interval(low, high) for low, high in zip(own["difficulty_from"], own["difficulty_to"], strict=True)]
    return own.assign(difficulty_range=spans)[columns].reset_index(drop=True)


def surprises_table(explained: Explanation, items: ItemTable, system: str) -> pd.DataFrame:
    """Items that a system misses and people of its ability do not, and the reverse, the least likely first.

    At most ``MOST_SURPRISES`` of each kind on each scale.
    """
    columns = ["scale", "surprise", "item_id", "text", "difficulty", "expected"]
    surprises = explained.surprises()
    own = surprises[surprises["respondent_id"] == system].groupby(["scale", "surprise"], sort=False)
    ordered = own.head(MOST_SURPRISES).sort_values(["scale", "surprise", "chance"], kind="stable")
    text = dict(zip(items.item_ids, items.text, strict=True))
    return ordered.assign(text=[text.get(item) or "" for item in ordered["item_id"]])[columns].reset_index(drop=True)


def too_many_or_few(row: Mapping[Any, Any]) -> str:
    """Right on items of one part: ``9 of 10 right, where 5.1 are expected, on items ...``."""
    n = int(row["n_items"])
    return words("oddity", row=row, n=n, right=round(row["observed"] * n), expected=row["expected"] * n)


#: A reference is given where its word is in the text.
REFERENCES = {
    "logistic model": "Birnbaum, A. (1968). Some latent trait models and their use in inferring an examinee's ability. "
    "In F. M. Lord & M. R. Novick, *Statistical Theories of Mental Test Scores*. Addison-Wesley.",
    "integrated out": "Bock, R. D., & Aitkin, M. (1981). Marginal maximum likelihood estimation of item parameters: "
    "Application of an EM algorithm. *Psychometrika*, 46, 443-459.",
    "LD-X²": "Chen, W.-H., & Thissen, D. (1997). Local dependence indexes for item pairs using item response theory. "
    "*Journal of Educational and Behavioral Statistics*, 22, 265-289.",
    "Fleiss": "Fleiss, J. L. (1971). Measuring nominal scale agreement among many raters. *Psychological Bulletin*, "
    "76, 378-382.",
    "Holm": "Holm, S. (1979). A simple sequentially rejective multiple test procedure. *Scandinavian Journal of "
    "Statistics*, 6, 65-70.",
    "M₂": "Maydeu-Olivares, A., & Joe, H. (2006). Limited information goodness-of-fit testing in multidimensional "
    "contingency tables. *Psychometrika*, 71, 713-732.",
    "S-X²": "Orlando, M., & Thissen, D. (2000). Likelihood-based item-fit indices for dichotomous item response theory "
    "models. *Applied Psychological Measurement*, 24, 50-64.",
    "lz*": "Snijders, T. A. B. (2001). Asymptotic null distribution of person fit statistics with estimated person "
    "parameter. *Psychometrika*, 66, 331-342.",
}
PROCEDURE = (
    "Lalor, J. P., Wu, H., & Yu, H. (2016). Building an evaluation scale using item response theory. *EMNLP 2016*."
)


def methods_text(study: Study) -> str:
    """What was done and what came of it, as paragraphs to be edited, and the references of the methods named."""
    rejected = [scale for scale in study.scales if scale.pruning.rejected is not None]
    found = [
        screened(study.outcomes),
        "" if study.agreement is None else words("agreed", found=study.agreement),
        items_kept(study.scales),
        *(f"The scale {scale.name} is rejected as a whole: {scale.pruning.rejected}." for scale in rejected),
        converged(study.scales),
        scored(study.system_scores),
        removed_by_rule(study),
    ]
    versions = [f"{name} {version}" for name, version in study.provenance.get("versions", {}).items()]
    scales = [
        words(
            "scale_for_paper", name=scale.name, items=scale.scale.items, n=scale.n_respondents,
            fit=scale.pruning.fit_after, analysis=scale.analysis,
        )
        for scale in study.scales
        if scale.scale is not None
    ]  # fmt: skip
    text = "\n\n".join(
        [
            "# Method",
            "The items were calibrated by the procedure of Lalor, Wu and Yu (2016).",
            *method(study.settings),
            f"The analysis was done with {listing(versions)}; random numbers began from the seed "
            f"{study.provenance.get('seed')}.",
            "# Results",
            " ".join(filter(None, found)),
            *scales,
            *(f"{words[0].upper()}{words[1:]}." for words in study.exclusions_by_ability),
        ]
    )
    cited = sorted([PROCEDURE, *(reference for word, reference in REFERENCES.items() if word in text)])
    return "\n\n".join([text, "# References", *cited]) + "\n"


def removed_by_rule(study: Study) -> str:
    """How many items each rule removed."""
    removals = [removal for scale in study.scales for removal in scale.pruning.removals]
    if not removals:
        return "No item was removed."
    n = Counter(REASONS.get(removal.reason, "depends on another item") for removal in removals)
    each = "; ".join(f"{reason}: {k}" for reason, k in n.items())
    return f"{plural(len(removals), 'item')} removed ({each})."
