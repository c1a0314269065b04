"""What ``irtbench fit`` leaves behind: its files, and what it says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from irtbench.cli.large import hash_of
from irtbench.cli.output import say, say_next, show_table, write_json, write_table
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

if TYPE_CHECKING:
    from irtbench.bank.data_card import DataCard
    from irtbench.bank.scale import Scale
    from irtbench.building.removals import Removal
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.stored_responses import AnyResponses
    from irtbench.models.item_parameters import ItemParameters
    from irtbench.models.joint_error import JointError
    from irtbench.models.quadrature import Quadrature
    from irtbench.scoring.ability import Abilities

FILES = ("items.csv", "fit.json", "scores.csv", "scores.parquet", "bank.json", "ability_on.csv")
MOMENTS = ("mean", "sd")
ANCHORS_IN_WORDS = {
    "joint": "the anchors' own error is in them, by their joint covariance",
    "by item": "the anchors' own error is in them as if each were from other people, which is too little (their bank "
    "has no joint covariance)",
    "taken as known": "the anchors are taken as known, for their covariance is not; a bank.json has it, items.csv has "
    "not",
}


@dataclass(frozen=True)
class FitResults:
    """What a fit has found.

    Parameters
    ----------
    found
        Contents of fit.json.
    items
        Contents of items.csv.
    scores
        Abilities of the respondents; None where they are in their file already.
    scale
        The scale that others are scored on; None where there is no bank of such.
    words
        Lines to be printed.
    ability_on
        Contents of ability_on.csv; None where ability was not regressed on anything.
    """

    found: dict[str, Any]
    items: pd.DataFrame
    scores: pd.DataFrame | None = None
    scale: Scale | None = None
    words: Sequence[str] = ()
    ability_on: pd.DataFrame | None = None

    def on(self, file: Path | None, data: AnyResponses) -> Self:
        """The same with the regression of ability on what a file says of the respondents, where there is a file."""
        from irtbench.analysis.latent_regression import ability_regression, read_covariates
        from irtbench.data.responses import ResponseMatrix

        if file is None:
            return self
        if self.scale is None or not isinstance(data, ResponseMatrix):
            raise InputError("--ability-on: goes with one ability of responses in memory, without --dispersion")
        found = ability_regression(data, self.scale.items, read_covariates(file))
        said = {
            "file": file.name, "residual_sd": found.residual_sd, "se_residual_sd": found.se_residual_sd,
            "explained": found.explained, "log_likelihood": found.log_likelihood,
        }  # fmt: skip
        words = [
            f"ability on {file.name}: {100 * found.explained:.0f}% of its variance; standard deviation of the rest "
            f"{found.residual_sd:.3f} ({found.se_residual_sd:.3f}); the items count as known",
        ]
        return replace(
            self, found=self.found | {"ability_on": said}, words=[*self.words, *words], ability_on=found.table()
        )

    def with_left_out(self, items: Sequence[Removal], respondents: list[str]) -> Self:
        """The same with the items that were left out, and the respondents without a response to the others."""
        reasons = [{"item_id": removal.item_id, "reason": removal.reason} for removal in items]
        return replace(self, found=self.found | {"items_left_out": reasons, "respondents_left_out": respondents})

    def of_data(self, responses: Path, table: LargeTable | None) -> Self:
        """The same with a scale that says of which data it is; with none where `score` would refuse its items."""
        from irtbench.models.item_parameters import sensible_items

        if self.scale is None:
            return self
        try:
            sensible_items(self.scale.items)
        except InputError as error:  # of a fit that did not converge
            return replace(self, scale=None, words=[*self.words, f"no bank.json is written: {error}"])
        return replace(self, scale=replace(self.scale, provenance=provenance_of(self.found, responses, table)))

    def write(self, folder: Path, scores_file: Path | None, card: DataCard | None) -> None:
        """Write bank, scores, items and fit.json."""
        from irtbench.bank.bank import ItemBank, save_bank

        if self.scale is not None:
            save_bank(ItemBank((self.scale,), card), folder / "bank.json")
        if self.scores is not None and scores_file is not None:
            write_table(self.scores, scores_file)
        if self.ability_on is not None:
            write_table(self.ability_on, folder / "ability_on.csv")
        write_table(self.items, folder / "items.csv")
        write_json(self.found, folder / "fit.json")


def scale_of_items(
    items: ItemParameters, population: Quadrature | None, joint_error: JointError | None = None
) -> Scale:
    """The scale of fitted items, without norms."""
    from irtbench.bank.scale import Scale
    from irtbench.data.items import ItemTable

    return Scale("all", items, ItemTable.plain(items.item_ids), population=population, joint_error=joint_error)


def provenance_of(found: dict[str, Any], responses: Path, table: LargeTable | None = None) -> dict[str, Any]:
    """Where a bank that a fit leaves behind comes from: what fit.json has of it, and the data's hash.

    Of a table at an address it is that of the names, sizes and times of its files.
    """
    from datetime import UTC, datetime

    from irtbench.data.file_hash import file_hash

    kept = ("settings", "prior", "converged", "stopped_because", "n_respondents", "doubts", "seed", "versions")
    date = datetime.now(UTC).date().isoformat()
    if responses.exists() or table is None:
        data = {responses.name: file_hash(responses)}
    else:
        data = {table.place: hash_of(table)}
    return {"data": data, **{name: found[name] for name in kept}, "date": date}


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


def say_results(results: FitResults, most_trials: int, output: Path, why_prior: str = "") -> None:
    """Print the items, how well the model fits, what is to be known of the estimates, and what comes next."""
    from irtbench.estimation.doubts import named_items

    found, items = results.found, results.items
    shown = items.drop(columns=[*items.filter(regex="^se_|^population_|^categories$|_(lower|median|upper)$"), "model"])
    show_table(with_errors(shown, items), rest=output / "items.csv")
    say(f"log-likelihood {found['log_likelihood']:.3f}, AIC {found['aic']:.1f}, BIC {found['bic']:.1f}")
    say(f"{'converged' if found['converged'] else 'NOT CONVERGED'}: {found['stopped_because']}")
    say(f"prior {found['prior']}{f' ({why_prior}; --prior says otherwise)' if why_prior else ''}")
    if results.ability_on is not None:
        show_table(results.ability_on, title="Effects on ability", rest=output / "ability_on.csv")
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
    if results.scale is not None and found["converged"]:
        say_next("irtbench", "score", output / "bank.json", "NEW.csv")


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


def item_error_of(scale: Scale, abilities: Abilities, *, several_trials: bool) -> dict[str, str | float]:
    """What fit.json says of the items' error in the abilities: how it is carried, what it adds to their variance."""
    from irtbench.scoring.item_error import automatic_item_error, item_error_share

    if abilities.method == "joint":
        return {"item_error": "joint"}
    if scale.items.upper_asymptote is not None:
        return {"item_error": "none"}
    how = automatic_item_error(scale.items, "eap", scale.population, several_trials=several_trials)
    return {"item_error": how, "item_error_share": item_error_share(scale.items, scale.population)}


def carried_in_words(how: str, share: float, scale: str = "") -> str:
    """How the items' error is carried, and what it adds."""
    items = f"the items of {scale}" if scale else "the items"
    return (
        f"few people answered {items}: the error of their parameters adds {100 * share:.1f}% to the variance of "
        f"ability, and is in its intervals (item error {how})"
    )
