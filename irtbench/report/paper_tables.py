"""The tables of the paper, and those beside them on the page: one row a thing, numbers as numbers.

`formatting.write_table` writes them for people; the columns' headings stand there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.building.pruned import Pruning, PruningRound
from irtbench.config import PublishedSettings
from irtbench.data.grading import NormalisationRule, normalise_text
from irtbench.data.items import ItemTable
from irtbench.data.screening import ScreeningOutcomes
from irtbench.evaluation.agreement import Agreement
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.formatting import COLUMNS, listing
from irtbench.report.pruning_tables import in_words
from irtbench.scoring.percentiles import as_given
from irtbench.study.results import ScaleStudy

MOST_CATEGORIES = 10  # of answers, for each to have a line of its own
FIGURES_OF_ITEMS = [
    "n_responses", "proportion_correct", "difficulty", "discrimination", "guessing", "se_difficulty",
    "se_discrimination", "se_guessing",
]  # fmt: skip
GLOBAL_FIT = ("n_respondents", "m2", "df", "p", "rmsea", "rmsea_lower", "rmsea_upper", "srmsr", "tli", "cfi")


def screening_table(outcomes: ScreeningOutcomes) -> pd.DataFrame:
    """Respondents by what screening made of them, the kept first, with their mean accuracy before it."""
    return outcomes.table()


def agreement_table(overall: Agreement | None, by_label: Mapping[str, Agreement]) -> pd.DataFrame:
    """Size and majorities over all items and those of each label: Table 2 of the paper. Empty for graded responses."""
    columns = [
        "n_respondents", "n_items", "n_answers", "majority", "supermajority", "key_majority", "key_supermajority",
        "proportion_correct",
    ]  # fmt: skip
    rows = [
        {"label": label} | {name: getattr(found, name) for name in columns}
        for label, found in _agreements(overall, by_label)
    ]
    return pd.DataFrame(rows, columns=["label", *columns])


def kappa_table(
    overall: Agreement | None, by_label: Mapping[str, Agreement], rules: Sequence[NormalisationRule]
) -> pd.DataFrame:
    """Agreement beyond chance: Table 3 of the paper. Empty for graded responses.

    ``fleiss_kappa`` and ``krippendorff_alpha`` are those of the label's items; ``category_kappa`` is that of the answer
    which is the label against all others, over all items. Answers that are no label have rows of their own unless they
    are more than ``MOST_CATEGORIES``: then answers are free text, and a single one says nothing. ``rules`` are those
    that answers were normalised by.
    """
    if overall is None:
        return pd.DataFrame(columns=["label", "fleiss_kappa", "krippendorff_alpha", "category_kappa"])
    of_category = dict(zip(overall.categories, overall.category_kappa, strict=True))
    rows: list[dict[str, Any]] = [
        {
            "label": label,
            "fleiss_kappa": found.fleiss_kappa,
            "krippendorff_alpha": found.krippendorff_alpha,
            "category_kappa": of_category.get(normalise_text(label, rules), np.nan),
        }
        for label, found in _agreements(overall, by_label)
    ]
    labels = {normalise_text(label, rules) for label in by_label}
    if len(of_category) <= MOST_CATEGORIES:
        rows += [
            {"label": f"answer: {category}", "category_kappa": kappa}
            for category, kappa in of_category.items()
            if category not in labels
        ]
    return pd.DataFrame(rows)


def _agreements(overall: Agreement | None, by_label: Mapping[str, Agreement]) -> list[tuple[str, Agreement]]:
    return ([] if overall is None else [("all", overall)]) + list(by_label.items())


def ranges_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Items given and kept by each scale, and the ranges of the parameters kept: Table 4 of the paper."""
    rows = []
    for scale in scales:
        row: dict[str, Any] = {
            "scale": scale.name,
            "n_respondents": scale.n_respondents,
            "n_given": scale.responses.n_items,
            "n_kept": len(scale.pruning.kept),
        }
        for name in ("difficulty", "discrimination"):
            values = np.array([np.nan]) if scale.scale is None else getattr(scale.scale.items, name)
            row |= {f"{name}_min": float(values.min()), f"{name}_max": float(values.max())}
        rows.append(row | {"verdict": verdict(scale)})
    return pd.DataFrame(rows)


def verdict(scale: ScaleStudy) -> str:
    """Say whether a scale is retained, and if not, why."""
    fitted = scale.fitted
    if scale.pruning.rejected is not None:
        return f"rejected: {scale.pruning.rejected}"
    if fitted is not None and not fitted.converged:
        return f"not converged: {fitted.stopped_because}"
    return "retained"


def global_fit_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Fit of one ability to the items of each scale, before any removal by a rule and after the last.

    Beside it the least adjusted p of any item's S-X2 and of any pair's LD-X2 in the same fit. ``good`` says whether the
    items left meet the cut-offs of the rules, None where that is not known. A scale that lost no item has one row.
    """
    rows = []
    for scale in scales:
        pruning = scale.pruning
        moments = {"before removals": pruning.fit_before, "after removals": pruning.fit_after}
        if pruning.fit_after is pruning.fit_before:
            moments = {"none removed": pruning.fit_after}
        for when, whole in moments.items():
            if whole is not None:
                at_end = whole is pruning.fit_after
                of_round = pruning.rounds[-1 if at_end else 0]
                rows.append(
                    {"scale": scale.name, "items": when, "n_in_round": of_round.fitted.items.n_items}
                    | {name: getattr(whole, name) for name in GLOBAL_FIT}
                    | {
                        "least_p_items": least(of_round.item_fit.p_adjusted),
                        "least_p_pairs": least(adjusted_p_of_pairs(pruning, of_round)),
                        "good": pruning.globally_good if at_end and not np.isnan(whole.m2) else None,
                    }
                )
    return pd.DataFrame(rows)


def adjusted_p_of_pairs(pruning: Pruning, of_round: PruningRound) -> NDArray[np.float64]:
    """The adjusted p of local dependence that the rules go by; NaN where its bootstrap was not done."""
    pairs = of_round.local_dependence
    if pruning.rules.local_dependence_p == "chi_square":
        return pairs.p_adjusted
    return np.full(pairs.p.shape, np.nan) if pairs.p_bootstrap_adjusted is None else pairs.p_bootstrap_adjusted


def least(values: NDArray[np.float64]) -> float:
    """The least of the defined values, NaN if none is."""
    defined = values[~np.isnan(values)]
    return float(defined.min()) if defined.size else np.nan


def rounds_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Every fit: what went in, whether it converged, and what was then removed."""
    rows = []
    for scale in scales:
        left = {f"round {r.number}": [removal.item_id for removal in r.removals] for r in scale.pruning.rounds}
        rows += [
            {
                "scale": scale.name,
                "fit": name.removeprefix("round "),
                "n_in_round": fitted.items.n_items,
                "n_respondents": fitted.n_respondents,
                "log_likelihood": fitted.log_likelihood,
                "steps": fitted.steps,
                "converged": fitted.converged,
                "stopped_because": fitted.stopped_because,
                "removed": listing(left.get(name, ())),
            }
            for name, fitted in scale.fits.items()
        ]
    return pd.DataFrame(rows)


def removed_parameters(pruning: Pruning) -> tuple[ItemParameters, ...]:
    """Parameters of the items removed in each round, from the fit of that round: the last one they were in."""
    return tuple(r.fitted.items.select([removal.item_id for removal in r.removals]) for r in pruning.rounds)


def remaining_parameters(scale: ScaleStudy) -> ItemParameters:
    """Parameters of the items that no rule removed, rejected scale or not; of no item where nothing was fitted."""
    if scale.of_all is not None and scale.of_all.fitted is not None:
        return scale.of_all.fitted.items
    if not scale.pruning.rounds:
        return ItemParameters.from_difficulty([], [])
    last = scale.pruning.rounds[-1]
    gone = {removal.item_id for removal in last.removals}
    return last.fitted.items.select([item for item in last.fitted.items.item_ids if item not in gone])


def item_status_table(scales: Sequence[ScaleStudy], items: ItemTable) -> pd.DataFrame:
    """Every item given: what became of it and why, with its parameters from the last fit it was in.

    ``outcome`` is ``kept``, ``removed`` or ``scale rejected``. Parameters are NaN for an item that no fit had, and
    guessing also where the model has none.
    """
    text = dict(zip(items.item_ids, items.text, strict=True))
    tables = []
    for scale in scales:
        removals = {removal.item_id: removal for removal in scale.pruning.removals}
        fitted = [*removed_parameters(scale.pruning), remaining_parameters(scale)]
        parameters = pd.concat([scale.parameters(each) for each in fitted])
        table = pd.DataFrame({"item_id": scale.responses.item_ids}).merge(parameters, on="item_id", how="left")
        table["guessing"] = table["guessing"].where(table["model"] != "2pl")
        if scale.of_all is None:
            table["n_responses"] = scale.responses.observed.sum(axis=0)
            table["proportion_correct"] = scale.responses.proportion_correct()
        else:
            figures = scale.of_all.table()
            table[["n_responses", "proportion_correct"]] = figures[["n_responses", "proportion_correct"]]
        left = "kept" if scale.pruning.rejected is None else "scale rejected"
        ids = table["item_id"]
        described = pd.DataFrame(
            {
                "scale": scale.name,
                "item_id": ids,
                "text": [text[item] for item in ids],
                "outcome": ["removed" if item in removals else left for item in ids],
                "reason": [in_words(removals[item]) if item in removals else "" for item in ids],
            }
        )
        tables.append(described.join(table[FIGURES_OF_ITEMS]))
    return pd.concat(tables, ignore_index=True)


def examples_table(scales: Sequence[ScaleStudy], items: ItemTable) -> pd.DataFrame:
    """Of each scale the easiest and the hardest item kept, and the first removed for each reason: as in Table 1."""
    status = item_status_table(scales, items)
    chosen: list[str] = []
    for scale in scales:
        of_scale = (status["scale"] == scale.name) & (status["outcome"] == "kept")
        kept = status[of_scale].sort_values("difficulty", kind="stable")["item_id"].tolist()
        first_removed: dict[str, str] = {}
        for removal in scale.pruning.removals:
            first_removed.setdefault(removal.reason, removal.item_id)
        chosen += [*kept[:1], *kept[1:][-1:], *first_removed.values()]
    columns = ["scale", "item_id", "text", "outcome", "reason", "difficulty", "discrimination"]
    return status.set_index("item_id", drop=False).loc[chosen, columns].reset_index(drop=True)


def fit_extremes(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """The worst fitting item of the study, and the best of those not removed, by S-X2 in the first fit of each scale.

    Rows ``worst`` and ``best`` of ``scale, item_id, s_x2, df, p, p_adjusted``; among equal p the larger S-X2 per
    degree of freedom is worse. Empty where no item has a p or there is but one.
    """
    firsts = [scale.pruning.rounds[0].item_fit.table().assign(scale=scale.name) for scale in first_rounds(scales)]
    columns = ["scale", "item_id", "s_x2", "df", "p", "p_adjusted"]
    table = pd.concat(firsts)[columns].dropna(subset=["p"]) if firsts else pd.DataFrame(columns=columns)
    if len(table) < 2:
        return table.iloc[:0]
    table = table.assign(ratio=table["s_x2"] / table["df"]).sort_values(["p", "ratio"], ascending=[True, False])
    kept = table[~table["item_id"].isin([removal.item_id for scale in scales for removal in scale.pruning.removals])]
    best = table if kept.empty else kept
    return pd.concat([table.iloc[[0]], best.iloc[[-1]]])[columns].set_axis(["worst", "best"])


def first_rounds(scales: Sequence[ScaleStudy]) -> list[ScaleStudy]:
    """Scales on which anything was fitted."""
    return [scale for scale in scales if scale.pruning.rounds]


def systems_table(scores: pd.DataFrame | None) -> pd.DataFrame:
    """Scores of the systems: Table 5 of the paper. Empty where the study names none."""
    return _scores_for_people(scores).rename(columns={"respondent_id": "system"})


def group_percentiles_table(found: pd.DataFrame | None) -> pd.DataFrame:
    """Percentiles of the systems within each group of the norm samples; empty where the study names no groups."""
    columns = [
        "system", "scale", "column", "group", "n_people", "percentile", "percentile_lower", "percentile_upper",
    ]  # fmt: skip
    if found is None:
        return pd.DataFrame(columns=columns)
    found = found[found["percentile"].notna()].rename(columns={"respondent_id": "system", "value": "group"})
    return found[columns].reset_index(drop=True)


def example_respondents_table(scores: pd.DataFrame | None) -> pd.DataFrame:
    """On each scale the respondents of the lowest, the middle and the highest ability among those with most items."""
    if scores is None:
        return _scores_for_people(None)
    chosen = []
    for _, rows in scores.groupby("scale", sort=False):
        order = rows[rows["n_items"] == rows["n_items"].max()].sort_values("theta", kind="stable").index
        chosen += list(dict.fromkeys([order[0], order[len(order) // 2], order[-1]]))
    return _scores_for_people(scores.loc[chosen])


def _scores_for_people(scores: pd.DataFrame | None) -> pd.DataFrame:
    columns = [
        "respondent_id", "scale", "n_answered", "accuracy", "theta", "theta_lower", "theta_upper", "percentile",
        "percentile_lower", "percentile_upper", "percentile_empirical", "person_fit", "flags", "percentile_flags",
    ]  # fmt: skip
    if scores is None:
        return pd.DataFrame(columns=columns)
    return as_given(scores).rename(columns={"n_items": "n_answered"})[columns].reset_index(drop=True)


def published_table(
    published: PublishedSettings, scales: Sequence[ScaleStudy], agreement: Agreement | None
) -> pd.DataFrame:
    """Our figures beside the published ones and the difference, ours less theirs; empty where none are given."""
    rows: list[tuple[str, str, float | None, float | None]] = [
        ("all", "Items given", sum(scale.responses.n_items for scale in scales), published.n_given),
        ("all", "Items kept", sum(len(scale.pruning.kept) for scale in scales), published.n_kept),
    ]
    for name, value in published.agreement.items():
        rows.append(("all", COLUMNS[name].heading if name in COLUMNS else name, getattr(agreement, name, None), value))
    ours = {row["scale"]: row for row in ranges_table(scales).to_dict("records")}
    for scale, theirs in published.scales.items():
        mine: Mapping[Any, Any] = ours.get(scale, {})
        rows.append((scale, "Items kept", mine.get("n_kept"), theirs.n_kept))
        for name, letter in (("difficulty", "b"), ("discrimination", "a")):
            bounds: tuple[float | None, float | None] = getattr(theirs, name) or (None, None)
            rows.append((scale, f"Least {letter}", mine.get(f"{name}_min"), bounds[0]))
            rows.append((scale, f"Greatest {letter}", mine.get(f"{name}_max"), bounds[1]))
    compared = [
        (scale, quantity, mine, theirs, None if mine is None else mine - theirs)
        for scale, quantity, mine, theirs in rows
        if theirs is not None
    ]
    # counts stay whole numbers beside decimals
    return pd.DataFrame(compared, columns=["scale", "quantity", "ours", "published", "difference"], dtype=object)


def provenance_table(provenance: Mapping[str, Any]) -> pd.DataFrame:
    """Hashes of the data, settings, versions, date and seed, one line each."""
    lines = _flatten(provenance)
    return pd.DataFrame(lines, columns=["setting", "setting_value"])


def _flatten(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        return [line for key, entry in value.items() for line in _flatten(entry, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple):
        entries = [", ".join(f"{k}: {v}" for k, v in e.items()) if isinstance(e, Mapping) else str(e) for e in value]
        return [(path, "; ".join(entries) or "none")]
    return [(path, "off" if value is None else str(value))]
