"""Pages of what is found of items: bias, keys, assemble; each opens with the result and ends with how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from irtbench.bank.scale import Scale
from irtbench.report.blocks import Block, ItemsTable, Sentence, drawn_options, item_anchor, linked_items, table
from irtbench.report.captions import caption
from irtbench.report.check_figures import bias_figures, key_figures
from irtbench.report.formatting import decimal, listing, percent, plural, write_table
from irtbench.report.page import MOST_SENTENCES, Page, first_rows, how_to_read, result_page
from irtbench.report.scale_figures import form_figures

if TYPE_CHECKING:
    from irtbench.building.assembly import AssembledForms


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
    who = f"between {listing(list(about['groups']))}" if "groups" in about else ""
    if "focal" in about:
        who = f"between {about['focal']} and {about['reference']}"
    who = who or "between systems and the people of the bank"
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
        caption("table_bias", more=more), write_table(shown),
        anchors=[item_anchor(item) for item in worst["item_id"]], filters=("outcome", "size", "ets_class", "r2_class"),
        words="item, size …",
    )  # fmt: skip
    reading = how_to_read(
        f"An item differs where it is harder, or tells less, for one group than for the other at the same ability or "
        f"the same score: its p, adjusted for the number of items, is below {alpha:g}. That is no proof of unfairness: "
        "somebody has to read the item.",
        "Delta is on the scale of the Educational Testing Service: below 0 harder for the focal group. Sizes: A "
        "negligible, below 1; B moderate; C large, from 1.5 on.",
    )
    title = f"Item bias {who}"
    blocks = [*bias_figures(items, alpha=alpha), *figures, rows, *reading]
    return result_page("items bias", title, lead, results, blocks)


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
        caption("table_keys", more=more),
        write_table(shown), anchors=[item_anchor(item) for item in first["item_id"]], details={"items": drawn},
        filters=("outcome", "key", "proposed"), words="item, option …",
    )  # fmt: skip
    reading = how_to_read(
        "A key is suspicious where the able choose another option: the probability that it is wrong rests on who chose "
        f"what, and on the share of wrong keys among all items, {percent(share_wrong)} as estimated.",
        "An item that leads the able astray looks the same as one with a wrong key. Read it before changing its key.",
    )
    blocks = [*key_figures(ranked, options), rows, *reading]
    return result_page("crowd keys", "Keys that may be wrong", lead, results, blocks)


def forms_page(scales: Sequence[Scale], found: AssembledForms) -> Page:
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
        caption("table_form_items", n_forms=forms), write_table(shown),
        anchors=[item_anchor(item) for item in details["item_id"]] if unique else (),
        filters=("form", "scale", "group"), words="item, text …",
    )  # fmt: skip
    precision = found.precision.drop(columns="form") if forms == 1 else found.precision
    blocks = [
        *form_figures(scales, found),
        *table(
            precision,
            caption("table_form_precision"),
        ),
        rows,
    ]
    reading = how_to_read(
        f"Wanted: {found.wishes.wanted}. No other choice of items within the limits given is better for this wish, or "
        "none by more than the gap; the parameters are taken as known.",
        "The standard error of ability is one over the square root of test information. Reliability is the marginal "
        "one in the population of the bank.",
    )
    return result_page("form assemble", "A short form" if forms == 1 else "Short forms", f"{many}; {best}.", results,
                 [*blocks, *reading])  # fmt: skip
