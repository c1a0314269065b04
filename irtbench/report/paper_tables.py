"""The tables of the page, the paper's among them: one row a thing, numbers as numbers.

`formatting.write_table` writes them for people; the columns' headings are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.analysis.dimensions import EIGENVALUES_SHOWN, Dimensions
from irtbench.building.prune_rules import Removal
from irtbench.building.pruned import Pruning, PruningRound, ScaleChecks
from irtbench.config import PublishedSettings
from irtbench.data.grading import NormalisationRule, normalise_text
from irtbench.data.items import ItemTable
from irtbench.evaluation.agreement import Agreement
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.formatting import COLUMNS, REASONS, STATISTICS, decimal, listing, p_value
from irtbench.scoring.percentiles import as_given
from irtbench.study.results import ScaleStudy

MOST_CATEGORIES = 10  # of answers, for each to have a line of its own
FIGURES_OF_ITEMS = [
    "n_responses", "proportion_correct", "difficulty", "discrimination", "guessing", "se_difficulty",
    "se_discrimination", "se_guessing",
]  # fmt: skip
GLOBAL_FIT = ("n_respondents", "m2", "df", "p", "rmsea", "rmsea_lower", "rmsea_upper", "srmsr", "tli", "cfi")


def agreement_table(overall: Agreement | None, by_label: Mapping[str, Agreement]) -> pd.DataFrame:
    """Size and majorities over all items and those of each label: Table 2 of the paper. Empty for graded responses."""
    columns = [
        "n_respondents", "n_items", "n_answers", "majority", "supermajority", "key_majority", "key_supermajority",
        "proportion_correct",
    ]  # fmt: skip
    return pd.DataFrame(
        [
            {"label": label} | {name: getattr(found, name) for name in columns}
            for label, found in _agreements(overall, by_label)
        ],
        columns=["label", *columns],
    )


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
    """Over all items and those of each label; the one scale of items without labels is all of them."""
    return [] if overall is None else list({"all": overall, **by_label}.items())


def ranges_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Items given and kept by each scale, and the ranges of the parameters kept: Table 4 of the paper."""
    return pd.DataFrame(
        {
            "scale": scale.name,
            "n_respondents": scale.n_respondents,
            "n_given": scale.responses.n_items,
            "n_kept": len(scale.pruning.kept),
            **{f"{name}_{end}": np.nan for name in ("difficulty", "discrimination") for end in ("min", "max")},
            **({} if scale.scale is None else ranges_of(scale.scale.items)),
            "verdict": verdict(scale),
        }
        for scale in scales
    )


def ranges_of(items: ItemParameters) -> dict[str, float]:
    """The least and the greatest difficulty and discrimination."""
    found = {"difficulty": items.difficulty, "discrimination": items.discrimination}
    ends = {"min": np.min, "max": np.max}
    return {f"{name}_{end}": float(of(values)) for name, values in found.items() for end, of in ends.items()}


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

    Next to it the least adjusted p of any item's S-X2 and of any pair's LD-X2 in the same fit. ``good`` says whether
    the items left meet the cut-offs of the rules, None where that is not known. A scale that lost no item has one row.
    """
    rows = []
    for scale in scales:
        pruning, before, after = scale.pruning, scale.pruning.fit_before, scale.pruning.fit_after
        moments = [("before removals", before, 0), ("after removals", after, -1)]
        for when, whole, place in [("none removed", after, -1)] if after is before else moments:
            if whole is not None:
                of_round = pruning.rounds[place]
                rows.append(
                    {"scale": scale.name, "items": when, "n_in_round": of_round.fitted.items.n_items}
                    | {name: getattr(whole, name) for name in GLOBAL_FIT}
                    | {
                        "least_p_items": pd.Series(of_round.item_fit.p_adjusted).min(),
                        "least_p_pairs": pd.Series(adjusted_p_of_pairs(pruning, of_round)).min(),
                        "good": pruning.globally_good if place == -1 and not np.isnan(whole.m2) else None,
                    }
                )
    return pd.DataFrame(rows)


def adjusted_p_of_pairs(pruning: Pruning, of_round: PruningRound) -> NDArray[np.float64]:
    """The adjusted p of local dependence that the rules go by; NaN where its bootstrap was not done."""
    pairs = of_round.local_dependence
    if pruning.rules.local_dependence_p == "chi_square":
        return pairs.p_adjusted
    return np.full(pairs.p.shape, np.nan) if pairs.p_bootstrap_adjusted is None else pairs.p_bootstrap_adjusted


def rounds_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Every fit: what went in, whether it converged, and what was then removed."""
    names = "n_respondents", "log_likelihood", "steps", "converged", "stopped_because"
    left = {
        (s.name, f"round {r.number}"): [one.item_id for one in r.removals] for s in scales for r in s.pruning.rounds
    }
    return pd.DataFrame(
        {
            "scale": scale.name,
            "fit": name.removeprefix("round "),
            "n_in_round": fitted.items.n_items,
            **{column: getattr(fitted, column) for column in names},
            "removed": listing(left.get((scale.name, name), [])),
        }
        for scale in scales
        for name, fitted in scale.fits.items()
    )


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
        guessing = table.get("guessing", pd.Series(np.nan, table.index))
        table["guessing"] = guessing.where(table["model"] == "3pl")
        if scale.of_all is None:
            of_fits, pairs = table["n_responses"], scale.responses.observed.sum(axis=0)
            table["n_responses"] = of_fits.fillna(pd.Series(pairs, table.index)).astype(int)  # trials, of items fitted
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
        removed = pd.DataFrame([vars(one) for one in scale.pruning.removals], columns=["reason", "item_id"])
        chosen += [*kept[:1], *kept[1:][-1:], *removed.drop_duplicates("reason")["item_id"]]
    columns = ["scale", "item_id", "text", "outcome", "reason", "difficulty", "discrimination"]
    return status.set_index("item_id", drop=False).loc[chosen, columns].reset_index(drop=True)


def fit_extremes(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """The worst fitting item of the study, and the best of those not removed, by S-X2 in the first fit of each scale.

    Rows ``worst`` and ``best`` of ``scale, item_id, s_x2, df, p, p_adjusted``; among equal p the larger S-X2 per
    degree of freedom is worse. Empty where no item has a p or there is but one.
    """
    firsts = [
        scale.pruning.rounds[0].item_fit.table().assign(scale=scale.name) for scale in scales if scale.pruning.rounds
    ]
    columns = ["scale", "item_id", "s_x2", "df", "p", "p_adjusted"]
    table = pd.concat(firsts)[columns].dropna(subset=["p"]) if firsts else pd.DataFrame(columns=columns)
    if len(table) < 2:
        return table.iloc[:0]
    table = table.assign(ratio=table["s_x2"] / table["df"]).sort_values(["p", "ratio"], ascending=[True, False])
    kept = table[~table["item_id"].isin([removal.item_id for scale in scales for removal in scale.pruning.removals])]
    best = table if kept.empty else kept
    return pd.concat([table.iloc[[0]], best.iloc[[-1]]])[columns].set_axis(["worst", "best"])


def systems_table(scores: pd.DataFrame | None) -> pd.DataFrame:
    """Scores of the systems: Table 5 of the paper. Empty where the study names none."""
    return _scores_for_people(scores).rename(columns={"respondent_id": "system"})


def group_percentiles_table(found: pd.DataFrame | None) -> pd.DataFrame:
    """Percentiles of the systems within each group of the norm samples; empty where the study names no groups."""
    if found is None:
        return pd.DataFrame()
    columns = [
        "system", "scale", "column", "group", "n_people", "percentile", "percentile_lower", "percentile_upper",
    ]  # fmt: skip
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
    """Our figures and the published ones and the difference, ours less theirs; empty where none are given."""
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
    # counts stay whole numbers among decimals
    return pd.DataFrame(compared, columns=["scale", "quantity", "ours", "published", "difference"], dtype=object)


def provenance_table(provenance: Mapping[str, Any]) -> pd.DataFrame:
    """Hashes of the data, settings, versions, date and seed, one line each."""
    return pd.DataFrame(_flatten(provenance), columns=["setting", "setting_value"])


def _flatten(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        return [line for key, entry in value.items() for line in _flatten(entry, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list | tuple):
        entries = [", ".join(f"{k}: {v}" for k, v in e.items()) if isinstance(e, Mapping) else str(e) for e in value]
        return [(path, "; ".join(entries) or "none")]
    return [(path, "off" if value is None else str(value))]


FIT_OF_ABILITIES = ("rmsea", "tli", "cfi")
CRITERIA = ["log_likelihood", "n_parameters", "aic", "bic", "sabic"]


def tables_of_dimensions(found: Dimensions) -> dict[str, pd.DataFrame]:
    """By the name of their caption: the first eigenvalues, and those of independent items; models of one, two and three
    abilities for all items, each tested against the one before; mean loadings on the factors turned to the scales.
    """  # fmt: skip
    tables = {"table_eigenvalues": found.analysis.table().head(EIGENVALUES_SHOWN)}
    if found.models is not None and found.tests is not None:
        tests = found.tests.rename(columns={"larger": "model", "statistic": "likelihood_ratio"})
        models = found.models.merge(tests[["model", "likelihood_ratio", "df", "p"]], on="model", how="left")
        tables["table_factor_models"] = models[["model", *CRITERIA, "likelihood_ratio", "df", "p", "converged"]]
    if found.rotated is not None:
        tables["table_loadings"] = found.rotated.by_label().rename(columns={"label": "scale"})
    return tables


def _checked(scales: Sequence[ScaleStudy]) -> list[tuple[str, Pruning, ScaleChecks]]:
    """The scales for which two abilities and guessing were looked at."""
    return [(scale.name, scale.pruning, scale.pruning.checks) for scale in scales if scale.pruning.checks is not None]


def two_abilities_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """One ability and two on the items given of each scale, with global fit, the second tested against the first."""
    rows = []
    for name, pruning, checks in _checked(scales):
        test, one, two = checks.two_against_one, pruning.fit_before, checks.fit_of_two
        of_one: dict[str, Any] = {"converged": pruning.rounds[0].fitted.converged} if pruning.rounds else {}
        of_two = {
            "likelihood_ratio": test.statistic, "df": test.df, "p": test.p, "converged": checks.two_converged,
        }  # fmt: skip
        models = zip(checks.models.to_dict("records"), (one, two), (of_one, of_two), strict=True)
        rows += [
            {"scale": name, **{key: model[key] for key in ("model", "n_parameters", "aic", "bic")}}
            | found
            | ({} if fit is None else {key: getattr(fit, key) for key in FIT_OF_ABILITIES})
            for model, fit, found in models
        ]
    return pd.DataFrame(rows)


def guessing_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Of each scale how many items were tested and need guessing, and the item with the least p."""
    rows = []
    for name, _, checks in _checked(scales):
        table = checks.guessing.table()
        least = table.iloc[int(checks.guessing.p.argmin())]
        rows.append(
            {"scale": name, "n_items": len(table), "n_guessing": checks.n_guessing}
            | {"item_id": least["item_id"], "guessing": least["guessing"], "likelihood_ratio": least["statistic"]}
            | {"p": least["p"], "p_adjusted": least["p_adjusted"]}
        )
    return pd.DataFrame(rows)


def before_fit_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Items that left before any model was fitted: excluded by the user, asked of nobody, constant."""
    return pd.DataFrame(
        {"scale": scale.name, "item_id": removal.item_id, "reason": in_words(removal)}
        | {"proportion_correct": removal.value}
        for scale in scales
        for removal in scale.pruning.removals
        if removal.round == 0
    )


def removals_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Every round of every scale: what left and on what grounds, and the global fit of the items that were in.

    A round that removes several items has a row for each, the fit in the first; one that removes none has one row.
    """
    columns = ["scale", "round", "n_in_round", "item_id", "reason", "statistic", "p", "p_adjusted", "cfi"]
    rows: list[dict[str, Any]] = []
    for scale in scales:
        for r in scale.pruning.rounds:
            at = {"scale": scale.name, "round": r.number}
            whole = {"n_in_round": r.fitted.items.n_items, "cfi": r.global_fit.cfi}
            if not r.removals:
                end = "nothing more to remove" if scale.pruning.rejected is None else "the scale is rejected"
                rows.append(at | whole | {"item_id": "", "reason": end})
            for k, removal in enumerate(r.removals):
                grounds = {
                    "item_id": removal.item_id, "reason": in_words(removal), "statistic": statistic(removal),
                    "p": removal.p, "p_adjusted": removal.p_adjusted,
                }  # fmt: skip
                rows.append(at | (whole if k == 0 else {}) | grounds)
    return pd.DataFrame(rows, columns=columns)


def statistic(removal: Removal) -> str:
    """The statistic on which an item was removed, with its value."""
    return f"{STATISTICS[removal.statistic]} = {decimal(removal.value, 3)}"


def in_words(removal: Removal) -> str:
    """Why an item left."""
    if removal.reason == "local_dependence":
        return removal.note
    return f"{REASONS[removal.reason]}: {removal.note}" if removal.note else REASONS[removal.reason]


def explain(removal: Removal) -> str:
    """Why an item left, with its figures, as one would write it in an appendix.

    Examples
    --------
    >>> explain(Removal(1, "i7", "item_fit", "s_x2", 44.4457, 0.00082, 0.0246))
    'does not follow its curve: S-X² = 44.446, p <.001, adjusted .025'
    >>> explain(Removal(0, "i9", "excluded", note="ambiguous"))
    'taken out beforehand: ambiguous'
    """
    value = "" if np.isnan(removal.value) else f": {statistic(removal)}"
    p = "" if np.isnan(removal.p) else f", p {p_value(removal.p)}, adjusted {p_value(removal.p_adjusted)}"
    return f"{in_words(removal)}{value}{p}"
