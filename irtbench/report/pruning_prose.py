"""The number of abilities, guessing and the rules of pruning in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from irtbench.analysis.dependence_bootstrap import USUAL_SAMPLES
from irtbench.analysis.dimensions import Dimensions
from irtbench.building.prune_rules import ITEMS_FOR_ONE, PruneRules
from irtbench.building.removals import NORMAL_OGIVE
from irtbench.report.formatting import decimal, listing, percent, plural
from irtbench.study.results import ScaleStudy


def abilities(found: Dimensions | None, not_counted: str) -> list[str]:
    """How many abilities the items measure, or why it was not counted, a paragraph each; nothing if not asked."""
    if not_counted:
        return [f"The number of abilities was not counted, since {not_counted}."]
    if found is None:
        return []
    analysis = found.analysis
    number = "1 ability" if analysis.n_abilities == 1 else f"{analysis.n_abilities} abilities"
    counted = (
        f"Parallel analysis (Horn, 1965) of the tetrachoric correlations of all {plural(found.n_items, 'item')} and "
        f"{plural(found.n_respondents, 'respondent')} counts {number}: so many eigenvalues, from the first on, exceed "
        f"the {analysis.percentile:g}th percentile of the same eigenvalue among independent items, of which "
        f"{analysis.n_samples} samples were drawn by shuffling each item’s responses."
    )
    if analysis.tetrachoric.note:
        counted += f" As to the correlations: {analysis.tetrachoric.note}."
    said = [counted]
    if found.rotated is not None:
        follows = found.rotated.follows
        stray = [item for item, own in zip(found.rotated.item_ids, follows, strict=True) if not own]
        turned = (
            f"With {len(found.rotated.factors)} factors, turned towards the scales (Browne, 2001), "
            f"{percent(follows.mean(), 0)} of the items load most on the factor of their own scale"
        )
        said.append(turned + (f"; these do not: {listing(stray)}." if stray else "."))
    return said


def guessing(scales: Sequence[ScaleStudy]) -> str:
    """Whether guessing is needed, and on which items; empty where it was not asked."""
    tested = [(scale.name, scale.pruning.checks.guessing) for scale in scales if scale.pruning.checks is not None]
    if not tested:
        return ""
    n_items = sum(len(test.item_ids) for _, test in tested)
    guessed = [
        f"{item} ({name}, c = {decimal(c)})"
        for name, test in tested
        for item, c, p in zip(test.item_ids, test.guessing, test.p_adjusted, strict=True)
        if p < 0.05
    ]
    asked = f"Each of {plural(n_items, 'item')} was given a guessing parameter by itself, the others keeping none."
    if not guessed:
        return f"{asked} It improves the likelihood significantly for none of them."
    return f"{asked} It improves the likelihood significantly for {listing(guessed)}."


def rules(chosen: PruneRules) -> str:
    """What the rules of pruning are."""
    in_words = {"slope": _slope(chosen), "item_fit": _item_fit(chosen), "local_dependence": _local_dependence(chosen)}
    steps = [in_words[rule] for rule in chosen.order if in_words[rule]]
    text = f"{plural(len(chosen.exclude), 'item')} taken out beforehand. " if chosen.exclude else ""
    text += "Items that nobody was asked, nobody got right or everybody got right leave before any model is fitted. "
    if steps:
        text += (
            "After each fit the first of these rules that finds something removes it, and the model is fitted again: "
            f"{'; '.join(steps)}."
        )
        text += _together(chosen)
        text += _limits(chosen)
    else:
        text += "No rule removes other items."
    whole = [
        f"{name} below {limit:g} of the items left, or of the items given where more than "
        f"{percent(chosen.max_share_bad, 0)} of them leave or parallel analysis counts several abilities in the rest"
        for name, limit in (("CFI", chosen.min_cfi), ("TLI", chosen.min_tli))
        if limit is not None
    ]
    if chosen.min_share_kept is not None:
        whole.append(f"fewer than {percent(chosen.min_share_kept, 0)} of its items left")
    if whole:
        text += f" A scale is rejected as a whole for any of these: {'; '.join(whole)}."
    return text


def adjustment(chosen: PruneRules) -> str:
    """How p of items and of pairs is adjusted for their number."""
    if chosen.local_dependence_p == "chi_square":
        return "after Holm over the items, or pairs of items, of the round"
    return "after Holm over the items of the round, and by the largest of all pairs in each sample of the bootstrap"


def _slope(chosen: PruneRules) -> str:
    found = ["with a negative slope"] if chosen.drop_negative_slopes else []
    if chosen.min_communality is not None:
        h2 = chosen.min_communality
        least_slope = NORMAL_OGIVE * (h2 / (1 - h2)) ** 0.5
        found.append(f"with a communality h² below {h2:g} (a slope below {decimal(least_slope, 3)})")
    return f"all items {' or '.join(found)}" if found else ""


def _item_fit(chosen: PruneRules) -> str:
    if chosen.item_fit_alpha is None:
        return ""
    which = "the item" if chosen.at_once == 1 else f"up to {chosen.at_once} items"
    return f"{which} with the least p of S-X² if that is at most {chosen.item_fit_alpha:g} after Holm"


def _local_dependence(chosen: PruneRules) -> str:
    if chosen.local_dependence_alpha is None:
        return ""
    of_pair = "one item of the pair with the largest LD-X²"
    which = of_pair if chosen.at_once == 1 else f"{of_pair}, up to {chosen.at_once} times,"
    how = "after Holm"
    if chosen.local_dependence_p == "bootstrap":
        most = chosen.bootstrap_samples or USUAL_SAMPLES
        how = f"by a bootstrap of {most} samples (fewer where they settle it) that allows for the number of pairs"
    return f"{which} if its p is at most {chosen.local_dependence_alpha:g} {how}"


def _together(chosen: PruneRules) -> str:
    """How many leave where many are to leave."""
    if chosen.share_at_once == 0 or not {"item_fit", "local_dependence"} & set(chosen.order):
        return ""
    return (
        f" Where many are to leave for item fit or local dependence, the worst {percent(chosen.share_at_once, 0)} of "
        f"them leave together, or one for every {ITEMS_FOR_ONE} items of the scale if that is more."
    )


def _limits(chosen: PruneRules) -> str:
    """What holds the rules back."""
    limits = [f"no scale is left with fewer than {chosen.min_items} items"]
    if chosen.min_per_group:
        limits.append(f"no content group with fewer than {chosen.min_per_group}")
    if chosen.protect:
        limits.append(f"{listing(list(chosen.protect))} {'is' if len(chosen.protect) == 1 else 'are'} kept by request")
    return f" But {listing(limits)}."
