"""Results as tables and plain values: what the files hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from irtbench.report.paper_tables import explain, ranges_of
from irtbench.study.results import ScaleStudy, Study

SCORE_COLUMNS = [
    "respondent_id", "scale", "n_items", "n_correct", "accuracy", "theta", "se", "theta_lower", "theta_upper",
    "percentile", "percentile_lower", "percentile_upper", "percentile_empirical", "person_fit", "method", "flags",
    "percentile_flags",
]  # fmt: skip


def items_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Parameters of all kept items: the columns of items.csv, and the scale."""
    tables = [
        scale.parameters(scale.scale.items).assign(scale=scale.name) for scale in scales if scale.scale is not None
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"item_id": [], "scale": []})


def pruning_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Every removal: the columns of pruning.csv, a note, the scale, the items then in it, and the whole in words."""
    columns = ["round", "item_id", "reason", "statistic", "value", "p", "p_adjusted", "note", "scale", "n_items"]
    rows = [
        vars(removal) | {"scale": scale.name, "n_items": n_items(scale, removal.round), "explanation": explain(removal)}
        for scale in scales
        for removal in scale.pruning.removals
    ]
    return pd.DataFrame(rows, columns=[*columns, "explanation"])


def n_items(scale: ScaleStudy, number: int) -> int:
    """Items that were in at a round of a scale's pruning; at round 0 all that were given."""
    return scale.pruning.rounds[number - 1].fitted.items.n_items if number else scale.responses.n_items


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
        result |= {"difficulty": ends[:2], "discrimination": ends[2:]}
        result["fit"] = scale.fitted.summary()
    return result


def scores_table(systems: pd.DataFrame | None, respondents: pd.DataFrame | None) -> pd.DataFrame:
    """Scores of systems and of the screened respondents: the columns of scores.csv, and the role of each row."""
    tables = [
        table.assign(role=role)
        for table, role in ((systems, "system"), (respondents, "respondent"))
        if table is not None
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*SCORE_COLUMNS, "role"])
