"""What ``score`` says of its figures in words: what they stand on, and where they say nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.cli.fit_results import carried_in_words
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.scoring.item_error import item_error_share
from irtbench.scoring.percentiles import FEW_ITEMS
from irtbench.scoring.prediction import predict_accuracy
from irtbench.scoring.scores import ScoringSettings, item_error_on

ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def link_in_words(scale: Scale) -> str | None:
    """What a link adds to the errors of scores on this scale; None where it was not linked."""
    if scale.line is None:
        if "link" not in scale.provenance:
            return None
        return f"{scale.name} was linked by items of unknown covariance: the link's error is not in these intervals"
    at = np.sqrt(scale.line.variance(np.array([scale.line.intercept])))[0]
    links = "a link" if scale.line.generation == 1 else f"{scale.line.generation} links"
    return (
        f"{scale.name} lies on its base scale by {links}, whose error is in these intervals: standard error {at:.3f} "
        f"at ability {scale.line.intercept:.2f}"
    )


def item_error_in_words(scale: Scale, settings: ScoringSettings) -> str | None:
    """That the items' own error is in the scores unasked, since few respondents stand behind them; None where not."""
    how = item_error_on(scale, settings)
    if settings.item_error != "auto" or how == "none":
        return None
    return carried_in_words(how, item_error_share(scale.items, scale.population), scale.name)


def scale_in_words(bank: ItemBank) -> str:
    """Where the crowd is on the scale of ability; a Rasch model's and an anchored one's is not the crowd's own."""
    stated = {scale.name: scale.population for scale in bank.scales if scale.population is not None}
    other = {
        name: density
        for name, density in stated.items()
        if abs(density.mean) > ROUNDING or abs(density.deviation - 1) > ROUNDING
    }
    if not other:
        return f"0 is the mean of the {bank.respondents or 'crowd'} and 1 the standard deviation"
    places = [f"{density.mean:z.2f} and {density.deviation:.2f} on {name}" for name, density in other.items()]
    return f"mean and standard deviation of the {bank.respondents or 'crowd'} are {name_first(places)}"


def weights_in_words(scale: Scale, margins: Path) -> str:
    """What the weights of a norm sample cost."""
    norms = scale.norms
    assert norms is not None
    return (
        f"{scale.name}: {norms.n} people of the norm sample weighted to {margins.name}, who tell as much as "
        f"{norms.effective_n:.0f} of equal weight"
    )


def whole_in_words(bank: ItemBank, responses: ResponseMatrix, level: float) -> list[str]:
    """What accuracy on all items of the bank is expected of those who answered a part of them, a line each."""
    ids = [item for scale in bank.scales for item in scale.items.item_ids]
    if any(scale.items.upper_asymptote is not None for scale in bank.scales) or not set(responses.item_ids) & set(ids):
        return []
    found = predict_accuracy(
        bank.scales, responses.select_items([item for item in responses.item_ids if item in set(ids)]), level=level
    )
    shares = zip(found.respondent_ids, found.n_seen, found.accuracy, found.lower, found.upper, strict=True)
    return [
        f"{who}: {100 * middle:.1f}% right of all {found.n_items} items of the bank is expected "
        f"[{100 * low:.1f}, {100 * high:.1f}] (irtbench predict)"
        for who, n_seen, middle, low, high in shares
        if FEW_ITEMS <= n_seen < found.n_items
    ]


def interval_texts(table: pd.DataFrame, middle: str, lower: str, upper: str, digits: str) -> list[str]:
    """``1.42 [0.88, 2.01]`` for each row; nothing where the value is not known."""
    return [
        "" if pd.isna(m) else f"{m:{digits}} [{low:{digits}}, {high:{digits}}]"
        for m, low, high in zip(table[middle], table[lower], table[upper], strict=True)
    ]
