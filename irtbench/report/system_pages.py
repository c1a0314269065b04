"""Pages of what is found of systems: score and compare; each opens with the result and ends with how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.report.blocks import Block, ItemsTable, Sentence, table
from irtbench.report.captions import caption
from irtbench.report.formatting import decimal, p_value, plural, write_table
from irtbench.report.page import MOST_ROWS, MOST_SENTENCES, Page, first_rows, how_to_read, result_page
from irtbench.report.scoring_figures import comparison_figures, percentile_figures, places, score_figures
from irtbench.scoring.percentiles import as_given
from irtbench.scoring.scores import ScoringSettings

BELOW = {
    "normal": "the share of the population below",
    "empirical": "the share of the norm sample below",
    "smoothed": "the share below of the population that the norm sample stands for",
}
ADJUSTMENTS = {"holm": "Holm’s method", "fdr_bh": "Benjamini and Hochberg’s false discovery rate"}


def score_page(bank: ItemBank, scores: pd.DataFrame, scoring: ScoringSettings) -> Page:
    """Scores of systems: where each stands among people, and every score.

    Parameters
    ----------
    bank
        That they were scored on.
    scores
        Contents of scores.csv.
    scoring
        How they were scored.
    """
    shown = [
        "respondent_id", "scale", "n_items", "n_correct", "accuracy", "theta", "theta_lower", "theta_upper",
        "percentile", "percentile_lower", "percentile_upper", "percentile_empirical", "person_fit", "flags",
        "percentile_flags",
    ]  # fmt: skip
    first, more = first_rows(as_given(scores), "score")
    rows = ItemsTable(
        caption("table_scores", level=scoring.level, more=more),
        write_table(first[[name for name in shown if name in first]]),
        noun="score", filters=("respondent_id", "scale"), words="system, scale, remark …",
    )  # fmt: skip
    group = "" if scoring.norm_group is None else f" with {scoring.norm_group[0]} {scoring.norm_group[1]}"
    n_systems = scores["respondent_id"].nunique()
    reading = how_to_read(
        f"Ability θ is on the scale of the bank. Percentile: {BELOW[scoring.norm]}{group}, with the error of ability "
        "and of the norm sample in its interval; rank in the sample: the share of the norm sample below.",
        "No percentile is given for too few items, items that say too little about this ability, or answers unlike a "
        "person’s; the last column says why.",
        "Person fit lz* is clearly negative where easy items are missed and hard ones solved; one person in twenty is "
        "below −1.645.",
    )
    lead = f"{plural(n_systems, 'system')} scored on {plural(len(bank.scales), 'scale')}."
    figures = percentile_figures(scores, scoring, bank.respondents)
    figures += score_figures(bank.scales, scores, level=scoring.level)
    return result_page("score", "Scores", lead, places(scores, scoring, bank.respondents), [*figures, rows, *reading])


def comparison_page(comparison: pd.DataFrame, ranking: pd.DataFrame | None, *, level: float, adjustment: str) -> Page:
    """Comparisons of systems in pairs: which differ, the ranking, and every pair.

    Parameters
    ----------
    comparison, ranking
        Contents of comparison.csv and of ranking.csv; None without a bank.
    level
        Coverage of the intervals.
    adjustment
        How p was adjusted.
    """
    what = "accuracy" if ranking is None else "theta"
    word = "accuracy" if ranking is None else "ability"
    alpha = 1 - level
    differ = comparison[comparison[f"{what}_p_adjusted"] < alpha]
    lead = (
        f"{len(differ)} of {plural(len(comparison), 'pair')} differ significantly in {word} "
        f"(adjusted p below {alpha:.3g})."
    )
    surest = differ.sort_values(f"{what}_p_adjusted", kind="stable").head(MOST_SENTENCES)
    several = comparison["scale"].nunique() > 1
    results: list[Sentence] = []
    if ranking is None:
        results = [
            (_difference(row, what, word, f" on {row['scale']}" * several),) for row in surest.to_dict("records")
        ]
        if len(surest) < len(differ):
            results.insert(0, (f"The {len(surest)} with the smallest p:",))
    shown = {"scale": "scale", "first": "first", "second": "second", "n_items": "n_items"}
    for kind in ("accuracy", "theta", "percentile"):
        shown |= {f"{kind}_difference": f"{kind}_difference", f"{kind}_lower": f"{kind}_difference_lower",
                  f"{kind}_upper": f"{kind}_difference_upper", f"{kind}_p_adjusted": f"{kind}_p_adjusted"}  # fmt: skip
    columns = [name for name in shown if name in comparison]
    pairs = comparison[columns].rename(columns=shown)
    pairs = pairs[["first", "second", *(name for name in pairs if name not in ("first", "second"))]]
    if len(pairs) > MOST_ROWS:
        pairs = pairs.sort_values(f"{what}_p_adjusted", kind="stable")
    first, more = first_rows(pairs, "pair")
    rows = ItemsTable(
        caption("table_pairs", level=level, more=more),
        write_table(first), noun="pair", filters=("scale", "first", "second"), words="system, scale …",
    )  # fmt: skip
    blocks: list[Block] = [*comparison_figures(comparison, ranking, level=level)]
    if ranking is not None:
        names = [
            *("rank", "rank_lower", "rank_upper", "respondent_id", "scale", "theta", "theta_lower", "theta_upper"),
            *("percentile", "percentile_lower", "percentile_upper", "probability_best", "indistinguishable_from"),
        ]
        ranked = ranking[names].assign(indistinguishable_from=ranking["indistinguishable_from"].str.replace(";", ", "))
        blocks += table(ranked.head(MOST_ROWS), caption("table_ranking", n=len(ranked), most=MOST_ROWS))
    blocks.append(rows)
    how = ADJUSTMENTS.get(adjustment, adjustment)
    blocks += how_to_read(
        f"p is two-sided and adjusted for the number of pairs by {how}. Intervals are not adjusted: one that leaves 0 "
        "out is no proof where there are many pairs.",
        "Accuracy compares the systems on the same items, item by item. Ability weighs each item by what it tells, and "
        "its error includes that of the items." if ranking is not None
        else "Accuracy compares the systems on the same items, item by item.",
    )  # fmt: skip
    return result_page("compare", "Comparison of systems", lead, results, blocks)


def _difference(row: Mapping[Any, Any], what: str, word: str, on: str) -> str:
    first, second, d = row["first"], row["second"], row[f"{what}_difference"]
    better, worse = (first, second) if d > 0 else (second, first)
    ends = sorted(abs(row[f"{what}_{end}"]) if row[f"{what}_{end}"] * d > 0 else -abs(row[f"{what}_{end}"])
                  for end in ("lower", "upper"))  # fmt: skip
    digits = 2 if what == "theta" else 3
    return (
        f"{better} is better than {worse}{on}: {word} higher by {decimal(abs(d), digits)} "
        f"[{decimal(ends[0], digits)}, {decimal(ends[1], digits)}], adjusted p {p_value(row[f'{what}_p_adjusted'])}."
    )
