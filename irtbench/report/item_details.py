"""All items of a study in one table, and what is drawn where a row is opened; results as tables and plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from irtbench.data.items import ItemTable
from irtbench.data.shown import stacked
from irtbench.diagnostics.empirical_curve import ObservedShares, observed_shares
from irtbench.evaluation.proportion import wilson_interval
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import POPULATION
from irtbench.report.formatting import decimal, percent, plural
from irtbench.report.page import drawn_options, item_anchor
from irtbench.report.paper_tables import explain, item_status_table, ranges_of
from irtbench.report.prose import unit_of_ability
from irtbench.scoring.item_error import abilities_of
from irtbench.study.results import ScaleStudy, Study

N_GROUPS, FEWEST_IN_GROUP = 10, 20  # of respondents, whose shares right are drawn next to a curve
MOST_ITEMS = 1_000  # on a page, which with 12,000 would have tens of megabytes
ASIDES = (
    "reason", "key", "n_responses", "biserial", "discrimination_index", "alpha_if_dropped", "s_x2", "df", "p",
    "p_adjusted", "observed_shares", "answers_by_third",
)  # fmt: skip
COLUMNS_OF_ITEMS = (
    "item_id", "scale", "outcome", "text", "key", "proportion_correct", "difficulty", "se_difficulty",
    "discrimination", "se_discrimination", "guessing", "se_guessing", "item_rest", "reason", "n_responses", "s_x2",
    "df", "p", "p_adjusted", "biserial", "discrimination_index", "alpha_if_dropped", "observed_shares",
    "answers_by_third",
)  # fmt: skip
DRAWN = (-4.0, 4.0)  # abilities, unless people are beyond


SHOWN = ("proportion_correct", "item_rest", "biserial", "discrimination_index", "alpha_if_dropped")
OF_RELIABILITY = (
    "n_items", "alpha", "alpha_lower", "alpha_upper", "omega", "marginal", "empirical", "n_items_spearman_brown",
    "n_items_information",
)  # fmt: skip
MOST_FLAGGED = 40  # rows of options in the page; the rest is in the tables of `irtbench crowd keys`


@dataclass(frozen=True, eq=False)
class LastFit:
    """Items with the parameters of the last fit they were in, and how that fit's respondents answered them."""

    items: ItemParameters
    observed: ObservedShares
    fit: pd.DataFrame


def last_fits(scale: ScaleStudy, shown: Set[str]) -> Iterator[LastFit]:
    """Each fit after which items left, with those, and the last fit with the items that no rule removed."""
    rounds = scale.pruning.rounds
    for r in rounds:
        gone = {removal.item_id for removal in r.removals}
        last = r is rounds[-1]
        ids = tuple(item for item in r.fitted.items.item_ids if item in shown and (last or item in gone))
        if not ids:
            continue
        data = scale.responses.select_items(r.fitted.items.item_ids).answered()
        theta = abilities_of(r.fitted, data, item_error="none").theta
        n_groups = max(2, min(N_GROUPS, data.n_respondents // FEWEST_IN_GROUP))
        observed = observed_shares(data.select_items(ids), theta, n_groups=n_groups)
        yield LastFit(r.fitted.items.select(ids), observed, r.item_fit.table().set_index("item_id").loc[list(ids)])


def doubtful_items(scales: Sequence[ScaleStudy], linked: Set[str]) -> Set[str]:
    """The items that a page shows: all, or of many the ``MOST_ITEMS`` that are linked, removed, or fit worst."""
    every = [item for scale in scales for item in scale.responses.item_ids]
    if len(every) <= MOST_ITEMS:
        return set(every)
    removed = [removal.item_id for scale in scales for removal in scale.pruning.removals]
    fits = [scale.pruning.rounds[-1].item_fit.table() for scale in scales if scale.pruning.rounds]
    worst = list(pd.concat(fits).sort_values("p", kind="stable")["item_id"]) if fits else []
    first = [item for item in every if item_anchor(item) in linked]
    return set(list(dict.fromkeys([*first, *removed, *worst, *every]))[:MOST_ITEMS])


def items_of_study(
    scales: Sequence[ScaleStudy], items: ItemTable, shown: Set[str]
) -> tuple[pd.DataFrame, dict[str, object]]:
    """The table of the items shown, and what the page's script draws of each: curve, observed shares, options.

    Returns
    -------
    table
        Of `item_status_table` in other columns, with key, item fit and classical statistics, observed shares and
        options as text.
    details
        Plain JSON values: ``low, high`` and ``unit`` of the axis of ability, and ``items`` by address: ``curve``
        (a, b, c), ``groups`` (100 theta, and in thousandths the share right with the ends of its interval), ``options``
        (option, whether it is the key, answers, percent of the lower, middle and upper third, flags), ``more`` options.
    """
    table = item_status_table(scales, items).set_index("item_id", drop=False)
    table = table[table["item_id"].isin(shown)]
    key = dict(zip(items.item_ids, items.key, strict=True))
    table["key"] = [key[item] or "" for item in table["item_id"]]
    classical = classical_table(scales)
    if not classical.empty:
        table = table.join(classical.set_index("item_id").drop(columns=["scale", "n_responses", "proportion_correct"]))
    drawn: dict[str, dict[str, Any]] = {item: {} for item in table["item_id"]}
    fits = [fit for scale in scales for fit in last_fits(scale, shown)]
    if fits:
        table = table.join(pd.concat([fit.fit for fit in fits])[["s_x2", "df", "p", "p_adjusted"]])
    for fit in fits:
        _add_curves(drawn, fit)
    for scale in scales:
        _add_options(drawn, scale)
    shares = [[decimal(group[1] / 10, 0) for group in found.get("groups", [])] for found in drawn.values()]
    table["observed_shares"] = [f"{', '.join(own)}%" if own else "" for own in shares]
    table["answers_by_third"] = [_options_in_words(found) for found in drawn.values()]
    reach = [group[0] / 100 for found in drawn.values() for group in found.get("groups", [])]
    details = {
        "low": min(DRAWN[0], float(np.floor(min(reach, default=0.0)))),
        "high": max(DRAWN[1], float(np.ceil(max(reach, default=0.0)))),
        "unit": unit_of_ability(scales),
        "items": {item_anchor(item): found for item, found in drawn.items() if found},
    }
    return table[[name for name in COLUMNS_OF_ITEMS if name in table]].reset_index(drop=True), details


def _add_curves(drawn: dict[str, dict[str, Any]], fit: LastFit) -> None:
    observed = fit.observed
    top = 1 if fit.items.categories is None else fit.items.categories.top  # of which each response is one
    lower, upper = wilson_interval(observed.n_correct / top, observed.n / top)
    theta = np.round(100 * observed.theta)
    shares = np.round(1000 * np.stack([observed.share, lower, upper]))
    curves = np.column_stack([fit.items.discrimination, fit.items.difficulty, fit.items.guessing])
    for j, item in enumerate(fit.items.item_ids):
        if fit.items.categories is None and np.isfinite(curves[j]).all():
            drawn[item]["curve"] = [float(f"{value:.4g}") for value in curves[j]]
        drawn[item]["groups"] = [
            [int(theta[g, j]), *(int(share) for share in shares[:, g, j])] for g in np.flatnonzero(observed.n[:, j])
        ]


def _add_options(drawn: dict[str, dict[str, Any]], scale: ScaleStudy) -> None:
    if scale.analysis is None or scale.analysis.options.empty:
        return
    every = pd.concat([scale.analysis.options, scale.analysis.removed_options])
    for item, options in every[every["item_id"].isin(drawn)].groupby("item_id", sort=False):
        drawn[str(item)] |= drawn_options(options)


def _options_in_words(found: dict[str, Any]) -> str:
    options = [
        f"{option}{' (key)' if is_key else ''} {', '.join(percent(None if s is None else s / 100, 0) for s in thirds)}"
        for option, is_key, _, *thirds, _ in found.get("options", [])
    ]
    return "; ".join([*options, *([f"and {found['more']} others"] if found.get("more") else [])])


def reliability_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """How reliable each scale is, and how many items like its own a reliability of .9 needs."""
    found = pd.DataFrame(
        {"scale": scale.name} | {name: getattr(scale.analysis.reliability, name) for name in OF_RELIABILITY}
        for scale in scales
        if scale.analysis is not None
    )
    lengths = [name for name in found if str(name).startswith("n_items_")]
    return found.assign(**{str(name): np.ceil(found[name]) for name in lengths})


def classical_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Classical statistics of the items kept, of each scale the least discriminating first."""
    columns = ["scale", "item_id", "n_responses", *SHOWN]
    ordered = {
        scale.name: scale.analysis.table().sort_values("item_rest", kind="stable")
        for scale in scales
        if scale.analysis is not None
    }
    return stacked(ordered, columns).rename(columns={"n": "n_responses"})[columns]


def options_of(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """The options of all items of which there are raw answers, with their scale."""
    return stacked(
        {
            scale.name: scale.analysis.options
            for scale in scales
            if scale.analysis is not None and not scale.analysis.options.empty
        }
    )


def options_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Options that are flagged, with the key of their item above them."""
    options = options_of(scales)
    if options.empty:
        return options
    out = options["flags"] != ""
    item = options[["scale", "item_id"]].agg(tuple, axis=1)
    shown = options[item.isin(set(item[out])) & (out | options["is_key"])]
    columns = ["scale", "item_id", "option", "is_key", "n", "share_low", "share_middle", "share_high", "flags"]
    found: pd.DataFrame = shown[columns].head(MOST_FLAGGED).reset_index(drop=True)
    return found.rename(columns={"n": "n_answers", "flags": "remark"})


def options_in_words(scales: Sequence[ScaleStudy]) -> str:
    """How many items have an option that is flagged; empty without raw answers."""
    options = options_of(scales)
    if options.empty:
        return ""
    flagged = options.loc[options["flags"] != "", "item_id"].nunique()
    none = "No option of any item is flagged: of none a wrong option draws the able, and each was chosen by somebody."
    some = f"On {plural(flagged, 'item')} of {options['item_id'].nunique()} an option is flagged."
    return some if flagged else none


SCORE_COLUMNS = [
    "respondent_id", "scale", "n_items", "n_correct", "accuracy", "theta", "se", "theta_lower", "theta_upper",
    "percentile", "percentile_lower", "percentile_upper", "percentile_empirical", "person_fit", "method", "flags",
    "percentile_flags",
]  # fmt: skip


def items_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Parameters of all kept items: the columns of items.csv, the population if it is not N(0, 1), and the scale."""
    retained = {scale.name: scale.parameters(scale.scale.items) for scale in scales if scale.scale is not None}
    for scale in scales:
        if scale.name in retained and scale.fitted is not None and (moments := scale.fitted.moments) is not None:
            retained[scale.name] = retained[scale.name].assign(
                **dict(zip(POPULATION, (moments.mean, moments.sd), strict=True))
            )
    return stacked(retained, ["item_id", "scale"])


def pruning_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Every removal: the columns of pruning.csv, a note, the scale, the items then in it, and the whole in words."""
    columns = ["round", "item_id", "reason", "statistic", "value", "p", "p_adjusted", "note", "scale", "n_items"]
    rows = [
        vars(removal) | {"scale": scale.name, "n_items": n_items[removal.round], "explanation": explain(removal)}
        for scale in scales
        for n_items in [[scale.responses.n_items, *(r.fitted.items.n_items for r in scale.pruning.rounds)]]
        for removal in scale.pruning.removals
    ]
    return pd.DataFrame(rows, columns=[*columns, "explanation"])


def summary(study: Study) -> dict[str, Any]:
    """What summary.json holds."""
    outcomes = study.outcomes
    return {
        "title": study.settings.study.title,
        "n_respondents": outcomes.n,
        "n_respondents_kept": outcomes.n_kept,
        **({} if study.sample is None else study.sample.drawn.stated),
        "agreement": None if study.agreement is None else asdict(study.agreement),
        "agreement_by_label": {label: asdict(result) for label, result in study.agreement_by_label.items()},
        "n_items": sum(scale.responses.n_items for scale in study.scales),
        "n_items_kept": sum(len(scale.pruning.kept) for scale in study.scales),
        "scales": [scale_summary(scale) for scale in study.scales],
        "converged": study.converged,
        "seconds": round(study.seconds, 3),
        "provenance": study.provenance,
    }


def scale_summary(scale: ScaleStudy) -> dict[str, Any]:
    """Counts, parameter ranges and fit of one scale."""
    pruning = scale.pruning
    result: dict[str, Any] = {
        "name": scale.name,
        "n_items": scale.responses.n_items,
        "n_items_kept": len(pruning.kept),
        "rounds": len(pruning.rounds),
        "rejected": pruning.rejected,
        "mended": pruning.mended,
        "not_available": pruning.not_available,
        "guessing": pruning.guessing_in_words,
        "global_fit_before": None if pruning.fit_before is None else asdict(pruning.fit_before),
        "global_fit_after": None if pruning.fit_after is None else asdict(pruning.fit_after),
        "globally_good": pruning.globally_good,
    }
    if scale.scale is not None and scale.fitted is not None:
        ends = list(ranges_of(scale.scale.items).values())
        result |= {"difficulty": ends[:2], "discrimination": ends[2:], "fit": scale.fitted.summary()}
    return result


def scores_table(systems: pd.DataFrame | None, respondents: pd.DataFrame | None) -> pd.DataFrame:
    """Scores of systems and of the screened respondents: the columns of scores.csv, and the role of each row."""
    tables = {"system": systems, "respondent": respondents}
    known = {role: table for role, table in tables.items() if table is not None}
    return stacked(known, [*SCORE_COLUMNS, "role"], by="role")
