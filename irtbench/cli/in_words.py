"""What `fit` and `score` say of their figures: what these rest on, and where they say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import irtbench
from irtbench.cli.declared import Run
from irtbench.cli.output import Shown, Words, next_command
from irtbench.data.responses import name_first
from irtbench.data.shown import counted

MOMENTS = ("mean", "sd")
ANCHORS_IN_WORDS = {
    "joint": "the anchors' own error is in them, by their joint covariance",
    "by item": "the anchors' own error is in them as if each were from other people, which is too little (their bank "
    "has no joint covariance)",
    "taken as known": "the anchors are taken as known, for their covariance is not; a bank.json has it, items.csv has "
    "not",
}


def with_errors(shown: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """The table with the standard error of each parameter, if it has one, in brackets after it."""
    errors = {name: items[f"se_{name}"] for name in shown.columns if f"se_{name}" in items}
    texts = {
        f"{name} (se)": [
            f"{value:.3f}" + ("" if pd.isna(error) else f" ({error:.3f})")
            for value, error in zip(shown[name], error_of, strict=True)
        ]
        for name, error_of in errors.items()
    }
    named = shown.rename(columns={name: f"{name} (se)" for name in errors})
    return named.assign(**texts)


def fit_in_words(
    results: irtbench.study.fitted_scale.FittedScale, most_trials: int, run: Run, why_prior: str = ""
) -> Words:
    """The items, how well the model fits, what is to be known of the estimates, and what comes next."""
    found, items, idle = results.found, results.items, results.found["respondents_left_out"]
    own = items.drop(columns=[*items.filter(regex="^se_|^population_|^categories$|_(lower|median|upper)$"), "model"])
    carried = found.get("item_error") in ("integrate", "delta")
    gone = [f"{item['item_id']} ({item['reason']})" for item in found["items_left_out"]]
    return [
        Shown(with_errors(own, items), rest="items.csv"),
        f"log-likelihood {found['log_likelihood']:.3f}, AIC {found['aic']:.1f}, BIC {found['bic']:.1f}",
        f"{'converged' if found['converged'] else 'NOT CONVERGED'}: {found['stopped_because']}",
        f"prior {found['prior']}{f' ({why_prior}; --prior says otherwise)' if why_prior else ''}",
        results.ability_on is not None and Shown(results.ability_on, "Effects on ability", "ability_on.csv"),
        *population_in_words(found),
        *results.words,
        carried and carried_in_words(found["item_error"], found["item_error_share"]),
        *(
            f"{words}: {name_first(concerned)}"
            for words, concerned in irtbench.estimation.doubts.named_items(found).items()
        ),
        most_trials > 1
        and f"up to {most_trials} trials of an item: k right of n, independent given ability; --trials "
        "takes one response each instead",
        bool(gone) and f"left out: {name_first(gone)}",
        bool(idle) and f"left out: {counted(len(idle), 'respondent')} without a response to these items",
        results.scale is not None and found["converged"] and next_command("score", run.folder / "bank.json", "NEW.csv"),
    ]


def population_in_words(found: dict[str, Any]) -> Words:
    """Where the respondents are on a scale that is not their own, and where each group is."""
    if "population_sd" in found:
        mean, sd = (f"{found[f'population_{name}']:.3f} ({found[f'population_se_{name}']:.3f})" for name in MOMENTS)
        yield f"ability of these respondents: mean {mean}, standard deviation {sd}"
    yield "anchor_error" in found and f"standard errors with anchors: {ANCHORS_IN_WORDS[found['anchor_error']]}"
    for group in found.get("groups", []):
        yield (
            f"{group['group']}: {group['n_respondents']} respondents, mean {group['mean']:.3f} "
            f"({group['se_mean']:.3f}), standard deviation {group['sd']:.3f} ({group['se_sd']:.3f})"
        )


def shape_in_words(found: dict[str, Any]) -> list[str]:
    """That ability does not look normal, where it does not."""
    shape = found.get("ability_shape") and irtbench.estimation.doubts.AbilityShape(**found["ability_shape"]).in_words
    return [shape] if shape else []


def carried_in_words(how: str, share: float, scale: str = "") -> str:
    """How the items' error is carried, and what it adds."""
    items = f"the items of {scale}" if scale else "the items"
    return (
        f"few people answered {items}: the error of their parameters adds {100 * share:.1f}% to the variance of "
        f"ability, and is in its intervals (item error {how})"
    )


ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def link_in_words(scale: irtbench.Scale) -> str | None:
    """What a link adds to the errors of scores on this scale; None where it was not linked."""
    if scale.line is None:
        if "link" not in scale.provenance:
            return None
        return f"{scale.name} was linked by items of unknown covariance: the link's error is not in these intervals"
    at = np.sqrt(scale.line.variance(np.array([scale.line.intercept])))[0]
    links = "a link" if scale.line.generation == 1 else f"{scale.line.generation} links"
    return (
        f"{scale.name} lies on its base scale by {links}, whose error is in these intervals: standard error {at:.3f} "
        f"at ability {scale.line.intercept:.2f}"
    )


def item_error_in_words(scale: irtbench.Scale, settings: irtbench.ScoringSettings) -> str | None:
    """That the items' own error is in the scores unasked, since few respondents answered them; None where not."""
    how = irtbench.scoring.scores.item_error_on(scale, settings)
    if settings.item_error != "auto" or how == "none":
        return None
    return carried_in_words(how, irtbench.scoring.item_error_share(scale.items, scale.population), scale.name)


def scale_in_words(bank: irtbench.ItemBank) -> str:
    """Where the crowd is on the scale of ability; a Rasch model's and an anchored one's is not the crowd's own."""
    stated = {scale.name: scale.population for scale in bank.scales if scale.population is not None}
    other = {
        name: density
        for name, density in stated.items()
        if abs(density.mean) > ROUNDING or abs(density.deviation - 1) > ROUNDING
    }
    if not other:
        return f"0 is the mean of the {bank.respondents or 'crowd'} and 1 the standard deviation"
    places = [f"{density.mean:z.2f} and {density.deviation:.2f} on {name}" for name, density in other.items()]
    return f"mean and standard deviation of the {bank.respondents or 'crowd'} are {name_first(places)}"


def weights_in_words(scale: irtbench.Scale, margins: Path) -> str:
    """What the weights of a norm sample cost."""
    norms = scale.norms
    assert norms is not None
    return (
        f"{scale.name}: {norms.n} people of the norm sample weighted to {margins.name}, who are worth "
        f"{norms.effective_n:.0f} of equal weight"
    )


def whole_in_words(bank: irtbench.ItemBank, responses: irtbench.ResponseMatrix, level: float) -> list[str]:
    """What accuracy on all items of the bank is expected of those who answered a part of them, a line each."""
    ids = [item for scale in bank.scales for item in scale.items.item_ids]
    if any(scale.items.upper_asymptote is not None for scale in bank.scales) or not set(responses.item_ids) & set(ids):
        return []
    found = irtbench.predict_accuracy(
        bank.scales, responses.select_items([item for item in responses.item_ids if item in set(ids)]), level=level
    )
    shares = zip(found.respondent_ids, found.n_seen, found.accuracy, found.lower, found.upper, strict=True)
    return [
        f"{who}: {100 * middle:.1f}% right of all {found.n_items} items of the bank is expected "
        f"[{100 * low:.1f}, {100 * high:.1f}] (irtbench predict)"
        for who, n_seen, middle, low, high in shares
        if irtbench.scoring.percentiles.FEW_ITEMS <= n_seen < found.n_items
    ]


def interval_texts(table: pd.DataFrame, middle: str, lower: str, upper: str, digits: str) -> list[str]:
    """``1.42 [0.88, 2.01]`` for each row; nothing where the value is not known, nor where its interval is not."""
    of_ends = digits.removeprefix("+")
    return [
        "" if pd.isna(m) else f"{m:{digits}}" + ("" if pd.isna(low) else f" [{low:{of_ends}}, {high:{of_ends}}]")
        for m, low, high in zip(table[middle], table[lower], table[upper], strict=True)
    ]
