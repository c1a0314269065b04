"""What ``irtbench fit`` says of what it has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from irtbench.cli.output import say, say_next, show_table
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.cli.declared import Run
    from irtbench.study.fitted_scale import FittedScale

MOMENTS = ("mean", "sd")
ANCHORS_IN_WORDS = {
    "joint": "the anchors' own error is in them, by their joint covariance",
    "by item": "the anchors' own error is in them as if each were from other people, which is too little (their bank "
    "has no joint covariance)",
    "taken as known": "the anchors are taken as known, for their covariance is not; a bank.json has it, items.csv has "
    "not",
}


def with_errors(shown: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """The table with the standard error of each parameter, if it has one, in brackets beside it."""
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


def say_fit(results: FittedScale, most_trials: int, run: Run, why_prior: str = "") -> None:
    """Print the items, how well the model fits, what is to be known of the estimates, and what comes next."""
    from irtbench.estimation.doubts import named_items

    found, items = results.found, results.items
    shown = items.drop(columns=[*items.filter(regex="^se_|^population_|^categories$|_(lower|median|upper)$"), "model"])
    show_table(with_errors(shown, items), rest=run.at("items.csv"))
    say(f"log-likelihood {found['log_likelihood']:.3f}, AIC {found['aic']:.1f}, BIC {found['bic']:.1f}")
    say(f"{'converged' if found['converged'] else 'NOT CONVERGED'}: {found['stopped_because']}")
    say(f"prior {found['prior']}{f' ({why_prior}; --prior says otherwise)' if why_prior else ''}")
    if results.ability_on is not None:
        show_table(results.ability_on, title="Effects on ability", rest=run.at("ability_on.csv"))
    for line in (*population_in_words(found), *results.words):
        say(line)
    if found.get("item_error") in ("integrate", "delta"):
        say(carried_in_words(found["item_error"], found["item_error_share"]))
    for words, concerned in named_items(found).items():
        say(f"{words}: {name_first(concerned)}")
    if most_trials > 1:
        say(
            f"up to {most_trials} trials of an item: k right of n, independent given ability; --trials "
            "takes one response each instead"
        )
    for item in found["items_left_out"]:
        say(f"left out: item {item['item_id']} ({item['reason']})")
    if idle := found["respondents_left_out"]:
        say(f"left out: {len(idle)} respondents without a response to these items")
    if results.scale is not None and found["converged"] and run.output is not None:
        say_next("irtbench", "score", run.output / "bank.json", "NEW.csv")


def population_in_words(found: dict[str, Any]) -> list[str]:
    """Where the respondents are on a scale that is not their own, and where each group is."""
    lines = []
    if "population_sd" in found:
        mean, sd = (f"{found[f'population_{name}']:.3f} ({found[f'population_se_{name}']:.3f})" for name in MOMENTS)
        lines.append(f"ability of these respondents: mean {mean}, standard deviation {sd}")
    if "anchor_error" in found:
        lines.append(f"standard errors beside anchors: {ANCHORS_IN_WORDS[found['anchor_error']]}")
    for group in found.get("groups", []):
        lines.append(
            f"{group['group']}: {group['n_respondents']} respondents, mean {group['mean']:.3f} "
            f"({group['se_mean']:.3f}), standard deviation {group['sd']:.3f} ({group['se_sd']:.3f})"
        )
    return lines


def carried_in_words(how: str, share: float, scale: str = "") -> str:
    """How the items' error is carried, and what it adds."""
    items = f"the items of {scale}" if scale else "the items"
    return (
        f"few people answered {items}: the error of their parameters adds {100 * share:.1f}% to the variance of "
        f"ability, and is in its intervals (item error {how})"
    )
