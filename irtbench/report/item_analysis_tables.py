"""Tables of item analysis: reliability of the scales, items as they were answered, options."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from irtbench.report.formatting import plural
from irtbench.study.results import ScaleStudy

SHOWN = ("proportion_correct", "item_rest", "biserial", "discrimination_index", "alpha_if_dropped")
MOST_OPTIONS = 40  # rows of options in the page; the rest is in the tables of `irtbench crowd keys`


def reliability_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """How reliable each scale is, and how many items like its own a reliability of .9 needs."""
    rows = []
    for scale in scales:
        if scale.analysis is None:
            continue
        found = scale.analysis.reliability
        rows.append(
            {
                "scale": scale.name,
                "n_items": found.n_items,
                "alpha": found.alpha,
                "alpha_lower": found.alpha_lower,
                "alpha_upper": found.alpha_upper,
                "omega": found.omega,
                "marginal": found.marginal,
                "empirical": found.empirical,
                "n_items_spearman_brown": np.ceil(found.n_items_spearman_brown),
                "n_items_information": np.ceil(found.n_items_information),
            }
        )
    return pd.DataFrame(rows)


def classical_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Classical statistics of the items kept, of each scale the least discriminating first."""
    parts = [
        scale.analysis.table().assign(scale=scale.name).sort_values("item_rest", kind="stable")
        for scale in scales
        if scale.analysis is not None
    ]
    if not parts:
        return pd.DataFrame()
    found = pd.concat(parts, ignore_index=True).rename(columns={"n": "n_responses"})
    return found[["scale", "item_id", "n_responses", *SHOWN]]


def options_table(scales: Sequence[ScaleStudy]) -> pd.DataFrame:
    """Options that are flagged, with the key of their item above them."""
    parts = []
    for scale in scales:
        if scale.analysis is None or scale.analysis.options.empty:
            continue
        options = scale.analysis.options
        flagged = set(options.loc[options["flags"] != "", "item_id"])
        shown = options[options["item_id"].isin(flagged) & ((options["flags"] != "") | options["is_key"])]
        parts.append(shown.assign(scale=scale.name))
    if not parts:
        return pd.DataFrame()
    columns = ["scale", "item_id", "option", "is_key", "n", "share_low", "share_middle", "share_high", "flags"]
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)[columns].head(MOST_OPTIONS)
    return found.rename(columns={"n": "n_answers", "flags": "remark"})


def said_of_options(scales: Sequence[ScaleStudy]) -> str:
    """How many items have an option that is flagged; empty without raw answers."""
    tables = [scale.analysis.options for scale in scales if scale.analysis is not None]
    options = pd.concat(tables) if tables else pd.DataFrame()
    if options.empty:
        return ""
    flagged = options.loc[options["flags"] != "", "item_id"].nunique()
    if not flagged:
        return (
            "No option of any item is flagged: of none a wrong option draws the able, and each was chosen by somebody."
        )
    return f"On {plural(flagged, 'item')} of {options['item_id'].nunique()} an option is flagged."
