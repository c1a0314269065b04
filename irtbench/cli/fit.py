"""``irtbench fit``: graded responses to item parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import pandas as pd
import typer

import irtbench.report
from irtbench.cli.declared import Fields, Outcome, Run, command, options_given
from irtbench.cli.large import OnDisk, given_responses, hashed, large_table, ranks_of_run
from irtbench.cli.options import Levels, PriorItems, Reading, Responses, chosen_scale, item_priors, levels_of, refuse
from irtbench.cli.output import Shown, Words, carried_in_words, next_command
from irtbench.data.responses import name_first
from irtbench.data.shown import counted
from irtbench.estimation.settings import FitSettings, ModelKind
from irtbench.models.item_models.named import IN_CATEGORIES

if TYPE_CHECKING:
    from irtbench.study.fitted_scale import InCategories, RightOrWrong, SeveralAbilities, Testlets

RIGHT_OR_WRONG = get_args(ModelKind)
#: Fields of `FitSettings` that go with items in categories too.
OF_BOTH = ("population", "prior_slope", "prior_intercept", "prior_guessing", "device")
#: Those that go with several abilities too.
OF_SEVERAL = ("prior_guessing", "device")


def model_names() -> list[str]:
    """The models that have a name."""
    return [*RIGHT_OR_WRONG, *IN_CATEGORIES]


def known_model(model: str) -> str:
    """The model, if it is one of ours or a file."""
    names = model_names()
    if model not in names and not Path(model).is_file():
        raise typer.BadParameter(f"'{model}' is not one of {', '.join(map(repr, names))}, nor a table of models.")
    return model


@dataclass(frozen=True)
class ModelOfItems:
    """The model of the items, and their prior."""

    model: Annotated[
        str,
        typer.Option(
            "--model",
            callback=known_model,
            metavar="MODEL",
            autocompletion=model_names,
            help="Of right and wrong rasch, 1pl, 2pl, 3pl, 4pl; of grades and partial credit grm, gpcm, pcm, rsm; "
            "nominal; or a table with each item's: item_id, model.",
        ),
    ] = "2pl"
    levels: Levels = None
    prior: Annotated[
        Literal["auto", "none", "weak", "hierarchical"],
        typer.Option(
            "--prior", help="Prior of the items; auto takes one that suits how many answered, and says which."
        ),
    ] = "auto"
    constraints: Annotated[
        Path | None,
        typer.Option(
            "--constraints",
            metavar="FILE",
            help="Parameters that are the same, in sets, without a prior: item_id, parameter (a, d, c; d1, ...), set.",
        ),
    ] = None

    @property
    def in_categories(self) -> bool:
        """Whether items are fitted in their categories, two or more."""
        return self.model not in RIGHT_OR_WRONG or self.constraints is not None


@dataclass(frozen=True)
class SingleItems:
    """What single items have of their own."""

    by_item: Annotated[
        Path | None,
        typer.Option("--by-item", metavar="FILE", help="Models of single items: item_id, model, guessing."),
    ] = None
    prior_items: PriorItems = None


@dataclass(frozen=True)
class People:
    """Whose abilities are behind the responses, and the items that are known of old."""

    anchors: Annotated[
        Path | None,
        typer.Option(
            "--anchors",
            metavar="FILE",
            help="Items whose parameters are known and stay: bank.json, or items.csv; the rest joins them.",
        ),
    ] = None
    groups: Annotated[
        Path | None,
        typer.Option(
            "--groups", metavar="G", help="Table with respondent_id and group: a population of ability for each."
        ),
    ] = None
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="With --groups: that of mean 0 and standard deviation 1; else the largest."),
    ] = None
    ability_on: Annotated[
        Path | None,
        typer.Option(
            "--ability-on",
            metavar="FILE",
            help="Table with respondent_id and what is known of them: effects on ability (latent regression).",
        ),
    ] = None

    def scale(self, *, categories: bool) -> irtbench.Scale | None:
        """The scale of the anchors."""
        if self.anchors is None:
            return None
        return chosen_scale(irtbench.read_bank(self.anchors, categories=categories), None, self.anchors)


@dataclass(frozen=True)
class MoreThanOneAbility:
    """What is behind the responses in addition to one ability."""

    dispersion: Annotated[
        Literal["scale", "item"] | None,
        typer.Option(
            "--dispersion", help="Of trials more alike than independent ones: one dispersion, or one by item."
        ),
    ] = None
    factors: Annotated[int, typer.Option("--factors", min=1, help="Abilities; several with any model but nominal.")] = 1
    pattern: Annotated[
        Path | None,
        typer.Option(
            "--pattern",
            metavar="FILE",
            help="Which slopes on several abilities are estimated (1) and which zero (0): item_id, slope_1, ...",
        ),
    ] = None
    testlets: Annotated[
        str | None,
        typer.Option(
            "--testlets",
            metavar="COLUMN",
            help="Column of testlets: their items share an ability of their own in addition to the general one.",
        ),
    ] = None
    item_table: Annotated[
        Path | None,
        typer.Option("--item-table", metavar="ITEMS", help="Table with that column, if RESPONSES has it not."),
    ] = None
    specific_slopes: Annotated[
        Literal["free", "equal"],
        typer.Option("--specific-slopes", help="Of testlets: one for each item, or one for all items of a testlet."),
    ] = "free"

    @property
    def several(self) -> bool:
        """Whether items have slopes on several abilities, other than those of testlets."""
        return self.factors > 1 or self.pattern is not None

    def abilities(self, responses: Path, reading: Reading) -> SeveralAbilities | Testlets | None:
        """What is to be fitted of several abilities; None of one."""
        if self.testlets is not None:
            return irtbench.study.fitted_scale.Testlets(self.testlet_of(responses, reading), self.specific_slopes)
        return irtbench.study.fitted_scale.SeveralAbilities(self.factors, self.pattern) if self.several else None

    def testlet_of(self, responses: Path, reading: Reading) -> dict[str, str]:
        """The testlets by the table of items, or by the responses."""
        column = self.testlets or ""
        if self.item_table is not None:
            return irtbench.read_testlets(self.item_table, column)
        if responses.is_dir():
            raise irtbench.InputError(
                f"--testlets: {responses} is a folder; expected the table of items in --item-table"
            )
        try:
            return irtbench.read_testlets(responses, column, item=reading.columns.get("item_id"))
        except irtbench.InputError as error:
            raise irtbench.InputError(f"{error}; a table of items is named by --item-table") from None


def covariates_of(file: Path, data: Any) -> pd.DataFrame:
    """What a file says of the respondents; what says nothing of them is refused before they are fitted."""
    if not isinstance(data, irtbench.ResponseMatrix | irtbench.models.coded_scores.CodedScores):
        raise irtbench.InputError(irtbench.study.fitted_scale.ONE_IN_MEMORY)
    covariates = irtbench.analysis.latent_regression.read_covariates(file)
    irtbench.analysis.latent_regression.design_of(covariates, data.respondent_ids)
    return covariates


@command(
    "items.csv", "fit.json", "scores.csv", "scores.parquet", "bank.json", "ability_on.csv", trials="count", fits=True
)
def fit(
    *,
    responses: Responses,
    which: ModelOfItems,
    settings: Annotated[
        partial[FitSettings],
        Fields(
            {"n_options": "--options"},
            without=(
                "kind", "by_item", "prior", "prior_items", "optimiser", "tolerance", "max_steps", "n_nodes",
                "standard_errors", "dtype",
            ),
        ),
    ],
    single: SingleItems,
    people: People,
    more: MoreThanOneAbility,
    card_file: Annotated[
        Path | None,
        typer.Option(
            "--card",
            metavar="FILE",
            help="TOML with what the bank says of itself: title, description, license, population, collection, "
            "citation.",
        ),
    ] = None,
    scores_as: Annotated[
        Literal["csv", "parquet", "none"],
        typer.Option("--scores", help="Abilities of the respondents as scores.csv, as scores.parquet, or not at all."),
    ] = "csv",
    disk: OnDisk,
    reading: Reading,
    run: Run,
) -> Outcome:  # fmt: skip
    """Estimate item parameters and the respondents' abilities.

    Writes items.csv, fit.json, scores.csv and bank.json, on which `score` scores others: the items, with these
    respondents as the norm sample. Items that all got right or all got wrong cannot be estimated without a prior, nor
    respondents without any response: they are left out and named in fit.json. A learnt prior (hierarchical) keeps such
    items, which belong to those it is learnt from. Several trials of an item are k right of n, independent of each
    other given ability.

    With --groups all are fitted at once on one scale (concurrent calibration): ability is N(0, 1) in the reference
    group and has a mean and standard deviation in each other one, which fit.json has with their standard errors. Norms
    are the reference group's.

    With rasch, whose slopes are 1, and with --anchors ability is not N(0, 1): items.csv and fit.json have its mean and
    standard deviation. With several abilities items.csv has their slopes and loadings on principal axes, or as the
    pattern has them, scores.csv an ability on each axis, and there is no bank; with testlets general and specific
    slopes, and the general ability with and without regard to them. With --posterior difficulty is the
    posterior median of b, with half the distance of its 15.9 and 84.1% quantiles as standard error, and items.csv ends
    with the 2.5, 50 and 97.5% quantiles of discrimination, difficulty and guessing (discrimination_lower,
    discrimination_median, discrimination_upper, ...). Where guessing is estimated it ends with likelihood-ratio
    intervals, which leave its prior out, unless that is one of your own (--prior-guessing).

    Grades, ratings and partial credit are fitted in their categories with grm (graded response), gpcm, pcm (partial
    credit), rsm (rating scale) and nominal; slopes are 1 with pcm and rsm. Scores are numbers, or labels in the order
    of --levels; items have the categories that were given. A table item_id, model mixes models in a scale.

    A Parquet file, or a folder of them, of more than ten million fields, and any at an address (s3://...), is encoded
    on disk at a byte a response and read from there in every pass; memory does not grow with it.
    """
    from irtbench.config import read_card

    ranks, table = ranks_of_run.get(), None
    kind: Any = Asked(which, settings, single, people, more, card_file).kind(responses, reading, run.seed)
    card = None if card_file is None else read_card(card_file)
    if ranks is None or isinstance(kind, irtbench.study.fitted_scale.RightOrWrong):
        table = large_table(
            responses, reading, in_memory=kind.needs_memory, whatever_size=ranks is not None,
            allow_address=disk.allow_address,
        )  # fmt: skip
    levels = None if isinstance(kind, irtbench.study.fitted_scale.RightOrWrong) else kind.levels
    file = None if scores_as == "none" or run.place is None else run.place / f"scores.{scores_as}"
    with given_responses(responses, table, reading, disk, run.progress, levels=levels) as given:
        item_ids = [*(given.item_ids if levels is None or table is not None else given.columns)]
        if unknown := sorted(set(kind.items_named) - set(item_ids)):
            raise irtbench.InputError(f"{single.by_item or which.model}: no responses to item {name_first(unknown)}")
        if isinstance(kind, irtbench.study.fitted_scale.RightOrWrong) and single.prior_items is not None:
            own = replace(kind.settings, prior_items=item_priors(single.prior_items, item_ids))
            kind = replace(kind, settings=own)
        data, left_out, idle = kind.estimable(given, responses)
        covariates = None if people.ability_on is None else covariates_of(people.ability_on, data)
        kind, why = kind.with_prior_for(data)
        run.progress(f"fitting {kind.in_words(data)}")
        results = kind.fit(data, file=file, progress=run.progress, ranks=ranks)
        trials = 1 if data.trials is None else int(data.trials.max())
        if people.ability_on is not None and covariates is not None:
            results = results.on(covariates, people.ability_on)
    results = results.of_data(hashed(responses, table), left_out)
    if table is None and reading.holds_models(responses):
        card = (card or irtbench.DataCard()).of_models()
    found = results.found | {"items_left_out": left_out, "respondents_left_out": idle}
    return Outcome(
        json=found,
        files={
            "bank.json": results.scale and partial(irtbench.save_bank, irtbench.ItemBank((results.scale,), card)),
            f"scores.{scores_as}": None if file is None else results.scores,
            "ability_on.csv": results.ability_on, "items.csv": results.items, "fit.json": found,
        },
        figures=lambda: irtbench.report.fit_figures(results.scale, results.items),
        words=fit_in_words(replace(results, found=found), trials, run, why),
        doubts=[*found.get("doubts", []), *shape_in_words(found)],
        unconverged=[] if found["converged"] else [str(found["stopped_because"])],
    )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """The options of a fit, and which of them go with each other."""

    which: ModelOfItems
    settings: partial[FitSettings]
    single: SingleItems
    people: People
    more: MoreThanOneAbility
    card: Path | None

    def kind(self, responses: Path, reading: Reading, seed: int) -> RightOrWrong | InCategories:
        """What is to be fitted.

        Raises
        ------
        InputError
            Naming the first option that does not go with another, or as the readers of these files.
        """
        which, people = self.which, self.people
        refuse(
            {
                "--reference: expected --groups with it": people.reference is not None and people.groups is None,
                f"--constraints: go with 2pl, 3pl, grm, gpcm and nominal but not with {which.model}":
                which.constraints is not None and which.model not in ("2pl", "3pl", *IN_CATEGORIES),
                "--levels: go with grades: --model grm, gpcm, pcm, rsm or nominal":
                not which.in_categories and which.levels is not None,
            }
        )  # fmt: skip
        common = {"groups": people.groups, "reference": people.reference, "seed": seed}
        common |= {name: self.settings.keywords[name] for name in OF_SEVERAL}
        return (self.in_categories if which.in_categories else self.right_or_wrong)(responses, reading, common)

    def in_categories(self, responses: Path, reading: Reading, common: dict[str, Any]) -> InCategories:
        """The fit of items in their categories, two or more."""
        which, usual, table = self.which, FitSettings(), irtbench.models.parameter_table
        both = {name: self.settings.keywords[name] for name in OF_BOTH}
        wrong = [
            f"--{name.removeprefix('n_').replace('_', '-')}"
            for name, value in self.settings.keywords.items()
            if name not in both and value != getattr(usual, name)
        ]
        if wrong := [*wrong, *options_given(self.single), *(["--dispersion"] if self.more.dispersion else [])]:
            raise irtbench.InputError(f"{wrong[0]}: goes with models of right and wrong, without --constraints")
        plain = all(value == getattr(usual, name) for name, value in both.items() if name not in OF_SEVERAL)
        self.demand_one(changed=not plain or which.prior not in ("auto", "none") or which.constraints is not None)
        return irtbench.study.fitted_scale.InCategories(
            model=which.model, levels=levels_of(which.levels), prior=which.prior, settings=both,
            models=which.model if which.model in model_names() else table.read_model_names(which.model),
            equal=() if which.constraints is None else table.read_constraints(which.constraints),
            anchors=self.people.scale(categories=True), more=self.more.abilities(responses, reading), **common,
        )  # fmt: skip

    def right_or_wrong(self, responses: Path, reading: Reading, common: dict[str, Any]) -> RightOrWrong:
        """The fit of items that are right or wrong."""
        chosen, by_item = None if self.which.prior == "auto" else self.which.prior, self.single.by_item
        models = {} if by_item is None else irtbench.models.parameter_table.read_models(by_item)
        own = self.settings(kind=self.which.model, prior=chosen, by_item=models)
        kind = "2pl" if self.more.dispersion is not None else own.kind
        guessing = own.prior_guessing if kind == own.kind else None
        self.demand_one(changed=own != FitSettings(kind=kind, device=own.device, prior_guessing=guessing))
        common |= {"settings": own, "anchors": self.people.scale(categories=False)}
        if self.more.dispersion is not None:
            return irtbench.study.fitted_scale.ScatteredTrials(**common, dispersion=self.more.dispersion)
        if (abilities := self.more.abilities(responses, reading)) is not None:
            return irtbench.study.fitted_scale.RightOrWrong(**common, more=abilities)
        priors = own.prior_slope, own.prior_intercept, own.prior_guessing, self.single.prior_items
        plain = own.kind in ("2pl", "3pl") and own.population == "normal"
        unlinked = self.people.anchors is None and self.people.groups is None
        return irtbench.study.fitted_scale.RightOrWrong(
            **common, chooses_prior=chosen is None and plain and unlinked and not any(priors)
        )

    def demand_one(self, *, changed: bool) -> None:
        """Refuse two of several abilities, testlets, dispersion and groups, and options that these do not know.

        Raises
        ------
        InputError
            Naming the option and what it goes with.
        """
        more, several, testlets = self.more, self.more.several, self.more.testlets is not None
        groups, anchors = self.people.groups is not None, self.people.anchors is not None
        changed, card = changed or anchors, self.card is not None
        refuse(
            {
                "--item-table and --specific-slopes are of testlets: expected --testlets COLUMN":
                not testlets and (more.item_table is not None or more.specific_slopes != "free"),
                "--card: several abilities have no bank that it could go into": card and (several or testlets),
                "--factors: expected no fixed guessing, prior of slopes, anchors or other population with it":
                several and changed,
                "--prior-items: go with rasch, 1pl, 2pl or 3pl, without factors or testlets":
                self.single.prior_items is not None and (several or testlets),
                "--groups: expected neither several abilities, testlets nor anchors with it":
                groups and (several or testlets or anchors),
                "--dispersion: goes with the 2pl without factors, groups, testlets, prior, anchors or card":
                more.dispersion is not None and (several or changed or groups or testlets or card),
                "--testlets: expected no fixed guessing, factors, prior of slopes, anchors or other population with it":
                testlets and (several or changed),
            }
        )  # fmt: skip


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
    return shown.rename(columns={name: f"{name} (se)" for name in errors}).assign(**texts)


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
