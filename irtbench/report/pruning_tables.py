"""What was asked before any item left, and why each item left: tables, one row a thing, numbers as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from irtbench.analysis.dimensions import EIGENVALUES_SHOWN, Dimensions
from irtbench.building.pruned import Pruning, ScaleChecks
from irtbench.building.removals import Removal
from irtbench.report.formatting import REASONS, STATISTICS, decimal, p_value
from irtbench.study.results import ScaleStudy

GLOBAL_FIT = ("rmsea", "tli", "cfi")
CRITERIA = ["log_likelihood", "n_parameters", "aic", "bic", "sabic"]


def eigenvalues_table(dimensions: Dimensions | None) -> pd.DataFrame:
    """The first eigenvalues beside those of independent items; empty where abilities were not counted."""
    if dimensions is None:
        return pd.DataFrame()
    return dimensions.analysis.table().head(EIGENVALUES_SHOWN)


def factor_models_table(dimensions: Dimensions | None) -> pd.DataFrame:
    """Models of one, two and three abilities for all items, each tested against the one before."""
    found = dimensions
    if found is None or found.models is None or found.tests is None:
        return pd.DataFrame()
    tests = found.tests.rename(columns={"larger": "model", "statistic": "likelihood_ratio"})
    table = found.models.merge(tests[["model", "likelihood_ratio", "df", "p"]], on="model", how="left")
    return table[["model", *CRITERIA, "likelihood_ratio", "df", "p", "converged"]]


def loadings_table(dimensions: Dimensions | None) -> pd.DataFrame:
    """Mean loadings of each scale's items on the factors turned to the scales; empty where there are none."""
    if dimensions is None or dimensions.rotated is None:
        return pd.DataFrame()
    return dimensions.rotated.by_label().rename(columns={"label": "scale"})


def _checked(scales: Sequence[ScaleStudy]) -> list[tuple[str, Pruning, ScaleChecks]]:
    """The scales for which two abilities and guessing were looked at."""
    return [(scale.name, scale.pruning, scale.pruning.checks) for scale in scales if scale.pruning.checks is not None]


def two_abilities_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """One ability and two on the items given of each scale, with global fit, the second tested against the first."""
    rows: list[dict[str, Any]] = []
    for name, pruning, checks in _checked(scales):
        test = checks.two_against_one
        fits = (pruning.fit_before, checks.fit_of_two)
        for k, (model, fit) in enumerate(zip(checks.models.to_dict("records"), fits, strict=True)):
            row = {"scale": name, **{key: model[key] for key in ("model", "n_parameters", "aic", "bic")}}
            if k == 1:
                row |= {"likelihood_ratio": test.statistic, "df": test.df, "p": test.p}
                row["converged"] = checks.two_converged
            elif pruning.rounds:
                row["converged"] = pruning.rounds[0].fitted.converged
            if fit is not None:
                row |= {key: getattr(fit, key) for key in GLOBAL_FIT}
            rows.append(row)
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
    rows = [
        {"scale": scale.name, "item_id": removal.item_id, "reason": in_words(removal)}
        | {"proportion_correct": removal.value}
        for scale in scales
        for removal in scale.pruning.removals
        if removal.round == 0
    ]
    return pd.DataFrame(rows)


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
                rows.append(at | (whole if k == 0 else {}) | _grounds(removal))
    return pd.DataFrame(rows, columns=columns)


def _grounds(removal: Removal) -> dict[str, Any]:
    return {
        "item_id": removal.item_id,
        "reason": in_words(removal),
        "statistic": statistic(removal),
        "p": removal.p,
        "p_adjusted": removal.p_adjusted,
    }


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
    said = in_words(removal)
    if not np.isnan(removal.value):
        said += f": {statistic(removal)}"
    if not np.isnan(removal.p):
        said += f", p {p_value(removal.p)}, adjusted {p_value(removal.p_adjusted)}"
    return said
