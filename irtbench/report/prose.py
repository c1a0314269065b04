"""What a study found and did, in sentences: the summary of the page and its method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from irtbench.config import StudyFile
from irtbench.data.response_blocks import Sampled
from irtbench.data.screening import ScreeningOutcomes, ScreeningSettings
from irtbench.evaluation.agreement import Agreement
from irtbench.report import pruning_prose
from irtbench.report.formatting import NORMALISATIONS, decimal, listing, percent, plural
from irtbench.report.paper_tables import screening_table
from irtbench.study.results import ScaleStudy

POPULATION = "standard deviations of the population"
LOGITS = "logits"
ANCHORS = "the unit of the anchors’ scale"
ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def summarise(
    screening: ScreeningOutcomes,
    agreement: Agreement | None,
    scales: Sequence[ScaleStudy],
    system_scores: pd.DataFrame | None,
) -> list[str]:
    """The study in a few sentences: respondents, agreement, items, scales, convergence, systems."""
    rejected = [scale for scale in scales if scale.pruning.rejected is not None]
    sentences = [
        screened(screening),
        agreed(agreement),
        _kept(scales),
        *(f"The scale {scale.name} is rejected as a whole: {scale.pruning.rejected}." for scale in rejected),
        converged(scales),
        scored(system_scores),
    ]
    return [sentence for sentence in sentences if sentence]


def screened(screening: ScreeningOutcomes) -> str:
    """How many respondents were kept, and why the others were not."""
    table = screening_table(screening).set_index("outcome")["n_respondents"]
    kept = int(table["kept"])
    if screening.settings == ScreeningSettings() and kept == table.sum():
        return f"All {plural(kept, 'respondent')} are kept, for no screening was asked for."
    if kept == table.sum():
        return f"All {plural(kept, 'respondent')} passed screening."
    removed = listing([f"{n:,} {reason}" for reason, n in table.drop("kept").items()])
    return f"Of {plural(int(table.sum()), 'respondent')}, {kept:,} passed screening ({removed})."


def agreed(found: Agreement | None) -> str:
    """Share of correct answers, and agreement beyond chance; empty without answers."""
    if found is None:
        return ""
    key = found.proportion_correct
    correct = "" if key is None else f"{percent(key)} of their {found.n_answers:,} answers are correct, and "
    sentence = f"{correct}agreement beyond chance among them is {decimal(found.fleiss_kappa, 3)} (Fleiss’ kappa)."
    return sentence[0].upper() + sentence[1:]


def _kept(scales: Sequence[ScaleStudy]) -> str:
    given = sum(scale.responses.n_items for scale in scales)
    kept = sum(len(scale.pruning.kept) for scale in scales)
    each = [
        f"{scale.name} {len(scale.pruning.kept)} of {scale.responses.n_items}"
        for scale in scales
        if scale.pruning.rejected is None
    ]
    if not each:
        return f"Of {plural(given, 'item')}, none is kept: no scale is retained."
    shares = f": {listing(each)}" if len(scales) > 1 else ""
    return f"Of {plural(given, 'item')}, {kept:,} are kept{shares}."


def converged(scales: Sequence[ScaleStudy]) -> str:
    """Which fits did not converge, or that all did."""
    fits = [(f"{scale.name}, {name}", fitted) for scale in scales for name, fitted in scale.fits.items()]
    failed = [name for name, fitted in fits if not fitted.converged]
    if not fits:
        return "Nothing was fitted."
    if not failed:
        return "The fit converged." if len(fits) == 1 else f"All {len(fits)} fits converged."
    return f"Of {plural(len(fits), 'fit')}, {len(failed)} did not converge ({listing(failed)})."


def scored(scores: pd.DataFrame | None) -> str:
    """How many systems are scored, and which do not answer as people do; empty without systems."""
    if scores is None or scores.empty:
        return ""
    n_systems = scores["respondent_id"].nunique()
    sentence = f"{plural(n_systems, 'system')} {'is' if n_systems == 1 else 'are'} scored"
    unlike = scores[scores["flags"].str.contains("unlikely_pattern", regex=False)]["respondent_id"].unique()
    if len(unlike):
        sentence += f"; the answers of {listing(list(unlike))} do not look like a person’s on some scale"
    return sentence + "."


def on_sample(drawn: Sampled) -> str:
    """Say what is of a sample and what of all, where items left by what a sample shows."""
    return (
        f"Items were removed by what {plural(drawn.n, 'respondent')} show, drawn at random (seed {drawn.seed}) of the "
        f"{drawn.of:,} kept: fit of items and pairs, global fit, item analysis, observed curves and the rounds are of "
        "these. Parameters of the items kept, their standard errors, shares correct and scores are of all of them."
    )


def cautions(scales: Sequence[ScaleStudy]) -> list[str]:
    """What a reader must know before using the numbers: rejected scales, fits without convergence, poor global fit."""
    found = []
    for scale in scales:
        pruning, fitted = scale.pruning, scale.fitted
        if pruning.rejected is not None:
            found.append(f"Scale {scale.name} is rejected: {pruning.rejected}. Nothing is scored on it.")
        if fitted is not None and not fitted.converged:
            found.append(
                f"Scale {scale.name}: the last fit did not converge: {fitted.stopped_because}. "
                "Its parameters, and the scores made with them, must not be relied on."
            )
        if pruning.mended:
            found.append(f"Scale {scale.name}: {pruning.mended}.")
        if pruning.guessing:
            found.append(f"Scale {scale.name}: {pruning.guessing_in_words}.")
        if pruning.not_available:
            found.append(f"Scale {scale.name}: one rule was not asked of the items left: {pruning.not_available}.")
        after, rules = pruning.fit_after, pruning.rules
        if pruning.rejected is not None or after is None or pruning.globally_good:
            continue
        if math.isnan(after.m2):
            found.append(
                f"Scale {scale.name}: global fit is not known{f', for {after.reason}' if after.reason else ''} "
                f"(respondents: {after.respondents_used}). Whether one ability explains the items is left open."
            )
        else:
            found.append(
                f"Scale {scale.name}: the items kept do not meet the cut-offs for global fit: lower limit of RMSEA "
                f"{decimal(after.rmsea_lower, 3)} (below {rules.good_rmsea:g}), CFI {decimal(after.cfi, 3)} (above "
                f"{rules.good_cfi:g}), TLI {decimal(after.tli, 3)} (above {rules.good_tli:g})."
            )
    return found


def method(settings: StudyFile) -> list[str]:
    """How the study was done, a paragraph each: grading, screening, model, pruning, scores."""
    return [
        _grading(settings),
        _screening(settings.screening),
        _model(settings),
        pruning_prose.rules(settings.pruning),
        _scores(settings),
    ]


def _grading(settings: StudyFile) -> str:
    if settings.data.content == "responses":
        return "Responses were given as graded."
    rules = settings.grading.normalise
    after = f", both with {listing([NORMALISATIONS[rule] for rule in rules])}" if rules else ""
    return f"An answer is correct if it equals the item’s key{after}. An empty one counts as {settings.grading.empty}."


#: What each rule of screening asks of a respondent, given its value and all the rules.
ASKED: Mapping[str, Callable[[Any, ScreeningSettings], str]] = {
    "min_responses": lambda n, _: f"at least {plural(n, 'response')}",
    "min_approval": lambda share, _: f"an approval rate of at least {percent(share, 0)}",
    "attention_share": lambda share, _: (
        f"{'all' if share == 1 else f'at least {percent(share, 0)} of the'} attention checks right"
    ),
    "min_seconds": lambda seconds, _: f"a median of at least {seconds:g} seconds an item",
    "fast_quantile": lambda share, _: f"a median time above the crowd's robust {percent(share)} quantile",
    "min_effort": lambda share, rules: (
        f"at least {percent(share, 0)} of the answers not rapid guesses ({rules.rapid_method})"
    ),
    "max_straight_line": lambda n, _: f"no more than {n} equal answers in a row",
    "max_pattern": lambda n, _: f"no more than {n} answers in a row foretold by a repeated pattern",
    "chance_level": lambda share, rules: (
        f"significantly more right than guessing at {percent(share)} gives (binomial p at most {rules.chance_p:g})"
    ),
    "min_agreement": lambda share, _: f"answers that on average {percent(share, 0)} of the others give too",
    "person_fit_p": lambda p, _: (
        f"answers that some ability explains (lz* after a first fit, one-sided p at least {p:g})"
    ),
}


def _screening(rules: ScreeningSettings) -> str:
    asked = [say(value, rules) for name, say in ASKED.items() if (value := getattr(rules, name)) is not None]
    if not asked:
        return "No rule of screening was set: only respondents without any response were removed."
    return f"To be kept, a respondent needs {listing(asked)}."


def _model(settings: StudyFile) -> str:
    model = settings.model
    name, above, slope = "two-parameter logistic model", "1", "a"
    if model.kind == "3pl":
        name, above = "three-parameter logistic model", "c + (1 − c)"
    elif model.guessing > 0:
        above = f"{model.guessing:g} + {1 - model.guessing:g}"
    if model.kind == "rasch":
        name, slope = "Rasch model", ""
    elif model.kind == "1pl":
        name = "one-parameter logistic model, with one a for all items"
    among = "Ability θ is standard normal among the screened respondents"
    if model.kind == "rasch":
        among = "Ability θ is normal among the screened respondents, its standard deviation estimated,"
    elif model.population == "estimated":
        among = "Ability θ has mean 0 and standard deviation 1 among the screened respondents, its density estimated,"
    prior = model.priors
    how = {
        "none": "marginal maximum likelihood",
        "weak": f"the mode of the marginal posterior under the prior: {prior.describe()}",
        "hierarchical": "posterior means under a bivariate normal prior learnt from the items "
        "(where respondents are few, under a mixture of such priors, items and abilities being integrated out)",
    }["weak" if prior.name == "none" and not prior.is_flat else prior.name]
    return (
        f"The {name}, P(correct | θ) = {above} / (1 + exp(−{slope}(θ − b))), was fitted to the items of each scale "
        f"apart. {among} and is integrated out; parameters are estimated by {how}, standard errors come from the "
        "observed information."
    )


def _scores(settings: StudyFile) -> str:
    scoring = settings.score.scoring(seed=settings.study.seed)
    estimated = settings.model.population == "estimated" or settings.model.kind == "rasch"
    population = "population estimated with the items" if estimated else "standard normal population"
    prior = f" under the {population}"
    estimator = {
        "eap": f"expected a posteriori (EAP){prior}",
        "map": f"the modes of the posterior (MAP){prior}",
        "ml": "maximum likelihood estimates (ML)",
        "wle": "Warm’s weighted likelihood estimates (WLE)",
        "eap_sum": f"expected a posteriori from the number right{prior}",
    }[scoring.method]
    tail = (1 - scoring.level) / 2
    ends = {
        "eap": f"the {100 * tail:g}% and {100 * (1 - tail):g}% quantiles of the posterior as interval",
        "eap_sum": f"the {100 * tail:g}% and {100 * (1 - tail):g}% quantiles of the posterior as interval",
    }.get(scoring.method, f"{100 * scoring.level:g}% intervals from the information in the answers")
    group = "" if scoring.norm_group is None else f" with {scoring.norm_group[0]} {scoring.norm_group[1]}"
    below = {
        "normal": f"the share of the {population} below it",
        "empirical": f"its rank among the screened respondents{group}",
        "smoothed": f"the share below it of the population that the screened respondents{group} stand for",
    }[scoring.norm]
    items = {
        "auto": "their parameters count as known where many people answered them; where few did, curves are averaged "
        "over the parameters’ errors",
        "none": "their parameters count as known",
        "delta": "what their parameters’ errors add is in the intervals, by the delta method",
        "draw": "what their parameters’ errors add is in the intervals, by scoring again under drawn parameters",
        "integrate": "curves are averaged over the errors of their parameters",
    }[scoring.item_error]
    weights = ""
    if scoring.norm != "normal":
        by = [settings.score.norm_weight] if settings.score.norm_weight else []
        if settings.score.norm_margins:
            by.append(f"the population’s shares of {listing(list(settings.score.norm_margins))}")
        weights = f", weighted by {' and '.join(by)}" if by else ""
    return (
        f"Abilities are {estimator}, with {ends}. The percentile of an ability is {below}{weights}; the rank in the "
        f"sample is the share of the screened respondents{group} below. The interval of a percentile includes the "
        f"error of ability and that of the sample. As to the items, {items}. Person fit is lz* (Snijders, 2001): about "
        "standard normal for people of the population, and clearly negative where easy items are missed and hard ones "
        "solved."
    )


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
    if unit == POPULATION:
        return f"Abilities and difficulties are in {unit}, 0 at its mean."
    places = [
        f"{decimal(moments['mean'])} and {decimal(moments['sd'])} on {scale.name}"
        for scale in scales
        if (fitted := scale.fitted) is not None and (moments := fitted.population)
    ]
    return (
        f"Abilities and difficulties are in {unit}; mean and standard deviation of the population are "
        f"{listing(places)}."
    )
