"""What a command shows: its page, which opens with the result, and the figure of a result for ``result.plot()``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import irtbench.building
from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.estimation.raters.fitted_raters import FittedRaters
from irtbench.report.check_figures import (
    bias_figures,
    draw_bias,
    draw_dependence,
    draw_expected_scores,
    draw_fit,
    draw_horizons,
    draw_person_fit,
    draw_predictions,
    draw_scree,
    draw_wrong_keys,
    key_figures,
)
from irtbench.report.drawing import STYLE, Series, found_plot
from irtbench.report.evaluation_figures import (
    MOST_RATERS,
    draw_agreement,
    draw_baselines,
    draw_crowd_filter,
    draw_differences,
    draw_event_counts,
    draw_human_accuracy,
    draw_item_agreement,
    draw_reasons,
    draw_reliability,
    draw_severities,
    draw_shares,
    facet_figures,
)
from irtbench.report.formatting import count, decimal, listing, p_value, percent, plural, words, write_table
from irtbench.report.page import (
    MOST_ROWS,
    MOST_SENTENCES,
    Block,
    ItemsTable,
    Page,
    Sentence,
    drawn_options,
    first_rows,
    how_to_read,
    item_anchor,
    linked_items,
    result_page,
    table,
)
from irtbench.report.scale_figures import (
    draw_curves,
    draw_drift,
    draw_expected_errors,
    draw_information,
    draw_norm_sample,
    draw_positions,
    draw_precision,
    draw_sum_scores,
    draw_wright_map,
    form_figures,
)
from irtbench.report.scoring_figures import (
    comparison_figures,
    draw_paths,
    draw_predicted,
    group_in_words,
    percentile_figures,
    places,
    score_figures,
)
from irtbench.scoring.percentiles import as_given
from irtbench.scoring.scores import ScoringSettings


def bias_page(items: pd.DataFrame, about: Mapping[str, Any], figures: Sequence[Block], *, alpha: float) -> Page:
    """Item bias: which items differ, what that does to the test, and every item.

    Parameters
    ----------
    items
        Contents of bias.csv.
    about
        Contents of bias.json.
    figures
        Of the items that differ, if any: their curves and the expected scores.
    alpha
        Adjusted p below which an item differs.
    """
    flagged = list(about["flagged"])
    sides = [about["focal"], about["reference"]] if "focal" in about else list(about.get("groups", ()))
    who = f"between {listing(sides or ['systems', 'the people of the bank'])}"
    lead = f"{len(flagged)} of {plural(len(items), 'item')} differ {who}."
    results: list[Sentence] = [("Items that differ: ", *linked_items(flagged), ".")] if flagged else []
    test = about.get("test")
    if isinstance(test, pd.DataFrame):
        results += [
            (
                f"On the whole test, equally able {row['group']} score {decimal(row['signed'])} of {row['n_items']} "
                f"points [{decimal(row['signed_lower'])}, {decimal(row['signed_upper'])}] against "
                f"{about['reference']}.",
            )
            for row in test[test["over"] == "group"].to_dict("records")
        ]
    if about.get("caution"):
        results.append((f"{str(about['caution']).capitalize()}.",))
    if about.get("items_left_out"):
        results.append((f"Left out, for they cannot be compared: {listing(list(about['items_left_out']))}.",))
    names = ["item_id", "delta", "size", "odds_ratio", "ets_class", "rms_difference", "r2_change", "r2_class", "shift",
             "shift_lower", "shift_upper", "chi2", "x2", "df", "p", "p_adjusted", "n_systems", "n_correct",
             "expected_correct"]  # fmt: skip
    worst, more = first_rows(items.sort_values("p", kind="stable"), "item")
    shown = worst[[name for name in names if name in worst]].assign(
        outcome=["differs" if item in set(flagged) else "" for item in worst["item_id"]]
    )
    rows = ItemsTable(
        words("table_bias", more=more), write_table(shown),
        anchors=[item_anchor(item) for item in worst["item_id"]], filters=("outcome", "size", "ets_class", "r2_class"),
        words="item, size …",
    )  # fmt: skip
    blocks = [
        *bias_figures(items, alpha=alpha), *figures, rows,
        *how_to_read(
            "An item differs where it is harder, or discriminates less, for one group than for the other at the same "
            f"ability or the same score: its p, adjusted for the number of items, is below {alpha:g}. That is no proof "
            "of unfairness: somebody has to read the item.",
            "Delta is on the scale of the Educational Testing Service: below 0 harder for the focal group. Sizes: A "
            "negligible, below 1; B moderate; C large, from 1.5 on.",
        ),
    ]  # fmt: skip
    return result_page("items bias", f"Item bias {who}", lead, results, blocks)


def keys_page(
    ranked: pd.DataFrame, options: pd.DataFrame, *, share_wrong: float, suspicious: float, too_few: str = ""
) -> Page:
    """Keys that may be wrong, and who chose which option of each item.

    Parameters
    ----------
    ranked, options
        Contents of keys.csv and distractors.csv.
    share_wrong
        Share of wrong keys among the items, estimated.
    suspicious
        Probability from which on an item is put forward.
    too_few
        Why none is, in words; empty where respondents are enough.
    """
    suspicious = 1.0 if too_few else suspicious
    wrong = ranked[ranked["p_wrong_key"] > suspicious]
    lead = (
        f"{too_few}."
        if too_few
        else f"{len(wrong)} of {plural(len(ranked), 'key')} {'looks' if len(wrong) == 1 else 'look'} wrong."
    )
    results: list[Sentence] = [
        (
            *linked_items([row["item_id"]]),
            f": the key is {row['key']}, the able choose {row['proposed']} (wrong with probability "
            f"{decimal(row['p_wrong_key'])}).",
        )
        for row in wrong.head(MOST_SENTENCES).to_dict("records")
    ]
    first, more = first_rows(ranked, "item")
    known = options[options["item_id"].isin(first["item_id"])].groupby("item_id", sort=False)
    drawn = {item_anchor(str(item)): drawn_options(own) for item, own in known}
    shown = first.assign(outcome=["looks wrong" if p > suspicious else "" for p in first["p_wrong_key"]])
    rows = ItemsTable(
        words("table_keys", more=more),
        write_table(shown), anchors=[item_anchor(item) for item in first["item_id"]], details={"items": drawn},
        filters=("outcome", "key", "proposed"), words="item, option …",
    )  # fmt: skip
    blocks = [
        *key_figures(ranked, options), rows,
        *how_to_read(
            "A key is suspicious where the able choose another option: the probability that it is wrong rests on who "
            f"chose what, and on the share of wrong keys among all items, {percent(share_wrong)} as estimated.",
            "An item that leads the able astray looks the same as one with a wrong key. Read it before changing its "
            "key.",
        ),
    ]  # fmt: skip
    return result_page("crowd keys", "Keys that may be wrong", lead, results, blocks)


def forms_page(scales: Sequence[Scale], found: irtbench.building.AssembledForms) -> Page:
    """Short forms: how precise they are, and their items.

    Parameters
    ----------
    scales
        Those that the items were chosen from.
    found
        The forms.
    """
    n, forms = len(found.forms[0]), len(found.forms)
    many = plural(n, "item") if forms == 1 else f"{plural(forms, 'form')} of {plural(n, 'item')} each"
    best = "no other choice is better" + ("" if found.optimal else f" by more than {percent(found.gap, 2)}")
    reliable = found.precision.drop_duplicates(["form", "scale"])[["form", "scale", "reliability"]]
    results: list[Sentence] = [
        (
            (f"Form {row['form']}" if forms > 1 else "The form")
            + (f" has a reliability of {decimal(row['reliability'], 3)} on {row['scale']}."),
        )
        for row in reliable.head(MOST_SENTENCES).to_dict("records")
    ]
    details = found.table().rename(columns={"label": "group"})
    names = ["item_id", "scale", "difficulty", "discrimination", "guessing", "text", "key", "form", "position"]
    if "group" in details and not details["group"].equals(details["scale"]):
        names.insert(2, "group")
    shown = details[[name for name in names if name in details and not (name == "form" and forms == 1)]]
    unique = details["item_id"].is_unique
    rows = ItemsTable(
        words("table_form_items", n_forms=forms), write_table(shown),
        anchors=[item_anchor(item) for item in details["item_id"]] if unique else (),
        filters=("form", "scale", "group"), words="item, text …",
    )  # fmt: skip
    precision = found.precision.drop(columns="form") if forms == 1 else found.precision
    blocks = [
        *form_figures(scales, found),
        *table(precision, words("table_form_precision")),
        rows,
        *how_to_read(
            f"Wanted: {found.wishes.wanted}. No other choice of items within the limits given is better for this wish, "
            "or none by more than the gap; the parameters are taken as known.",
            "The standard error of ability is one over the square root of test information. Reliability is the "
            "marginal one in the population of the bank.",
        ),
    ]
    title = "A short form" if forms == 1 else "Short forms"
    return result_page("form assemble", title, f"{many}; {best}.", results, blocks)


BELOW = {
    "normal": "the share of the population below",
    "empirical": "the share of the norm sample below",
    "smoothed": "the share below of the population that the norm sample represents",
}
ADJUSTMENTS = {"holm": "Holm’s method", "fdr_bh": "Benjamini and Hochberg’s false discovery rate"}


def score_page(bank: ItemBank, scores: pd.DataFrame, scoring: ScoringSettings) -> Page:
    """Scores of systems: where each is among people, and every score.

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
        words("table_scores", level=scoring.level, more=more),
        write_table(first[[name for name in shown if name in first]]),
        noun="score", filters=("respondent_id", "scale"), words="system, scale, remark …",
    )  # fmt: skip
    reading = how_to_read(
        f"Ability θ is on the scale of the bank. Percentile: {BELOW[scoring.norm]}{group_in_words(scoring)}, with the "
        "error of ability and of the norm sample in its interval; rank in the sample: the share of the norm sample "
        "below.",
        "No percentile is given for too few items, items that say too little about this ability, or answers unlike a "
        "person’s; the last column says why.",
        "Person fit lz* is clearly negative where easy items are missed and hard ones solved; one person in twenty is "
        "below −1.645.",
    )
    lead = f"{plural(scores['respondent_id'].nunique(), 'system')} scored on {plural(len(bank.scales), 'scale')}."
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
    what, word = ("accuracy", "accuracy") if ranking is None else ("theta", "ability")
    alpha = 1 - level
    differ = comparison[comparison[f"{what}_p_adjusted"] < alpha]
    lead = (
        f"{len(differ)} of {plural(len(comparison), 'pair')} differ significantly in {word} "
        f"(adjusted p below {alpha:.3g})."
    )
    clearest = differ.sort_values(f"{what}_p_adjusted", kind="stable").head(MOST_SENTENCES)
    several = comparison["scale"].nunique() > 1
    results: list[Sentence] = []
    if ranking is None:
        results = [
            (_difference(row, what, word, f" on {row['scale']}" * several),) for row in clearest.to_dict("records")
        ]
        if len(clearest) < len(differ):
            results.insert(0, (f"The {len(clearest)} with the smallest p:",))
    shown = {"first": "first", "second": "second", "scale": "scale", "n_items": "n_items"}
    for kind in ("accuracy", "theta", "percentile"):
        shown |= {f"{kind}_difference": f"{kind}_difference", f"{kind}_lower": f"{kind}_difference_lower",
                  f"{kind}_upper": f"{kind}_difference_upper", f"{kind}_p_adjusted": f"{kind}_p_adjusted"}  # fmt: skip
    pairs = comparison[[name for name in shown if name in comparison]].rename(columns=shown)
    if len(pairs) > MOST_ROWS:
        pairs = pairs.sort_values(f"{what}_p_adjusted", kind="stable")
    first, more = first_rows(pairs, "pair")
    rows = ItemsTable(
        words("table_pairs", level=level, more=more),
        write_table(first), noun="pair", filters=("scale", "first", "second"), words="system, scale …",
    )  # fmt: skip
    blocks: list[Block] = [*comparison_figures(comparison, ranking, level=level)]
    if ranking is not None:
        names = [
            *("rank", "rank_lower", "rank_upper", "respondent_id", "scale", "theta", "theta_lower", "theta_upper"),
            *("percentile", "percentile_lower", "percentile_upper", "probability_best", "indistinguishable_from"),
        ]
        ranked = ranking[names].assign(indistinguishable_from=ranking["indistinguishable_from"].str.replace(";", ", "))
        blocks += table(ranked.head(MOST_ROWS), words("table_ranking", n=len(ranked), most=MOST_ROWS))
    blocks.append(rows)
    how = ADJUSTMENTS.get(adjustment, adjustment)
    blocks += how_to_read(
        f"p is two-sided and adjusted for the number of pairs by {how}. Intervals are not adjusted: one that leaves 0 "
        "out is no proof where there are many pairs.",
        "Accuracy compares the systems on the same items, item by item. Ability weighs each item by its information, "
        "and its error includes that of the items." if ranking is not None
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


OF_RATERS = "rater_id n mean_score severity consistency infit outfit flags"  # columns of the page's tables
OF_RESPONDENTS = "respondent_id n_ratings n_raters mean_score theta fair_score"
OF_ITEMS = "item_id n mean_score discrimination difficulty infit outfit"


def chosen(rows: pd.DataFrame, columns: str) -> pd.DataFrame:
    """These columns with their intervals and errors, as far as they are there."""
    names = [f"{start}{name}{end}" for name in columns.split() for start, end in
             (("", ""), ("se_", ""), ("", "_lower"), ("", "_upper"))]  # fmt: skip
    return rows[[name for name in names if name in rows]]


def rater_page(found: FittedRaters, precision: pd.DataFrame) -> Page:
    """The page of ``irtbench crowd raters``."""
    raters, scores = found.table().sort_values("severity", ascending=False, kind="stable"), found.scores()
    named = raters[raters["flags"].str.contains("severe|lenient")]
    lead = (
        f"{plural(len(raters), 'rater')} of {plural(len(scores), 'respondent')}: severities have standard deviation "
        f"{decimal(found.rater_sd)} logits, {count(len(named))} differ from the average."
    )
    shown, others = first_rows(raters, "rater")
    ranked, more = first_rows(scores.sort_values("fair_score", ascending=False, kind="stable"), "respondent")
    of_groups = pd.DataFrame()
    if found.interactions is not None:
        of_groups = found.interactions.sort_values("p", kind="stable").head(MOST_RATERS)
        of_groups = of_groups.set_axis(["rater_id", "group", *of_groups.columns[2:]], axis=1)
    blocks = [
        *facet_figures(found),
        ItemsTable(words("table_raters", more=others), write_table(chosen(shown, OF_RATERS)), noun="rater",
                   words="rater, remark …"),
        *table(chosen(ranked, OF_RESPONDENTS), words("table_rated", more=more)),
        *table(chosen(found.item_rows(), OF_ITEMS), words("table_rated_items")),
        *table(precision, words("table_rating_precision")),
        *table(of_groups, words("table_rater_groups")),
        *how_to_read(
            "Severity is in logits: a rater of severity 1 above another has odds of the higher score smaller by "
            "2.7. The fair score is what an average rater is expected to give on all items; its interval holds the "
            "uncertainty of ability, raters and items.",
            "Infit and outfit are 1 for a rater who follows the model; above 1.5 the scores are erratic, below 0.5 "
            "they hardly vary beyond what the model expects.",
        ),
    ]  # fmt: skip
    return result_page("crowd raters", "Raters", lead, [], blocks, found.doubts)


ALPHA = 0.05  # adjusted p below which a finding is filled
MOST_POSITIONS = 40  # respondents of whom each has a row; of more there is a histogram


def _draw_abilities(result: Any, ax: Axes) -> Axes:
    known = np.isfinite(result.theta)
    if result.theta.size > MOST_POSITIONS:
        return draw_norm_sample(ax, result.theta[known])
    return draw_positions(ax, result.table()[known])


def _draw_item_fit(result: Any, ax: Axes) -> Axes:
    table = result.table().sort_values("rmsea", ascending=False, kind="stable").head(MOST_POSITIONS)
    words = f"adjusted p < {ALPHA:g}", f"adjusted p ≥ {ALPHA:g}"
    every, found = Series("", table["rmsea"]), table["p_adjusted"] < ALPHA
    return found_plot(ax, list(table["item_id"]), every, found, words, label="RMSEA of the item")


def _draw_comparison(result: Any, ax: Axes) -> Axes:
    table = result.table()
    names = [f"{first} - {second}" for first, second in zip(table["first"], table["second"], strict=True)]
    return draw_differences(ax, table, names=names, label="difference of the means")


#: The drawing of each type of result, by its name: a figure loads no module of a result that is not there.
DRAWINGS: Mapping[str, Callable[[Any, Axes], Axes]] = {
    "ItemParameters": lambda result, ax: draw_curves(ax, result),
    "Scale": lambda result, ax: draw_curves(ax, result.items),
    "ItemBank": lambda result, ax: draw_information(ax, {scale.name: scale.items for scale in result.scales}),
    "ItemMap": lambda result, ax: draw_wright_map(ax, result),
    "SumScoreTable": lambda result, ax: draw_sum_scores(ax, result),
    "MeasurementPrecision": lambda result, ax: draw_precision(ax, result),
    "Norms": lambda result, ax: draw_norm_sample(ax, result.theta),
    "EmpiricalCurve": lambda result, ax: draw_fit(ax, result),
    "ParallelAnalysis": lambda result, ax: draw_scree(ax, result),
    "DifferentialTestFunctioning": lambda result, ax: draw_expected_scores(ax, result),
    "ExplainedDifficulty": lambda result, ax: draw_predictions(ax, result),
    "TimeHorizon": lambda result, ax: draw_horizons(ax, result),
    "Abilities": _draw_abilities,
    "ItemFit": _draw_item_fit,
    "PersonFit": lambda result, ax: draw_person_fit(ax, result.lz_star),
    "LocalDependence": lambda result, ax: draw_dependence(ax, result.table()),
    "AbilityComparison": lambda result, ax: draw_positions(
        ax, result.ranking(result.pairs()["theta_p"].to_numpy()).head(MOST_POSITIONS)
    ),
    "Calibration": lambda result, ax: draw_reliability(ax, {"": result.curve}),
    "ReliabilityCurve": lambda result, ax: draw_reliability(ax, {"": result}),
    "Artifacts": lambda result, ax: draw_baselines(ax, result),
    "CrowdFilter": lambda result, ax: draw_crowd_filter(ax, result),
    "HumanAccuracy": lambda result, ax: draw_human_accuracy(ax, {f"{result.n_items} items": result}),
    "SystemComparison": _draw_comparison,
    "SwitchProtocol": lambda result, ax: draw_shares(
        ax, result.table(), rows="measure", share="share", label="share of items"
    ),
    "EventCounts": lambda result, ax: draw_event_counts(ax, result.table()),
    "ItemDifferences": lambda result, ax: draw_bias(ax, result.table(), alpha=ALPHA),
    "WrongKeys": lambda result, ax: draw_wrong_keys(
        ax, result.table().sort_values("p_wrong_key", ascending=False, kind="stable")
    ),
    "AdaptivePaths": lambda result, ax: draw_paths(ax, result),
    "PredictedAccuracy": lambda result, ax: draw_predicted(ax, result.table()),
    "Screening": lambda result, ax: draw_reasons(
        ax, {"kept": int(result.kept.sum())} | Counter(why for why in result.reason if why)
    ),
    "Agreement": lambda result, ax: draw_agreement(ax, {f"{result.n_items} items": result}),
    "ItemAgreement": lambda result, ax: draw_item_agreement(ax, result.table()),
    "FittedRaters": lambda result, ax: draw_severities(ax, result.table()),
    "CrowdPlan": lambda result, ax: draw_expected_errors(ax, result),
    "Drift": lambda result, ax: draw_drift(ax, result.table()),
}


def figure_of(result: object, ax: Axes | None = None) -> Axes:
    """Draw a result on the axes given, or on new ones of pyplot in the style of irtbench's figures.

    Raises
    ------
    TypeError
        If there is no figure of such a result.
    """
    if ax is not None:
        return draw(result, ax)
    import matplotlib.pyplot as plt  # chooses a backend, which who gives axes has chosen

    with in_style():
        return draw(result, plt.subplots(layout="constrained")[1])


@contextmanager
def in_style() -> Iterator[None]:
    """Settings of irtbench's figures for a while, and no others.

    A context of matplotlib's own puts all settings back, and so takes back what a notebook sets with its first figure.
    """
    before = {name: matplotlib.rcParams[name] for name in STYLE}
    matplotlib.rcParams.update(STYLE)
    try:
        yield
    finally:
        matplotlib.rcParams.update(before)


def draw(result: object, ax: Axes) -> Axes:
    """Draw a result on the axes, by its type or one that it is made from."""
    kind = next((kind.__name__ for kind in type(result).__mro__ if kind.__name__ in DRAWINGS), None)
    if kind is None:
        raise TypeError(f"there is no figure of {type(result).__name__}")
    return DRAWINGS[kind](result, ax)
