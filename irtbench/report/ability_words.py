"""In what unit a study's abilities are: it depends on the model, for not every one takes the population's."""

from __future__ import annotations

from collections.abc import Sequence

from irtbench.report.formatting import decimal, listing
from irtbench.study.results import ScaleStudy

POPULATION = "standard deviations of the population"
LOGITS = "logits"
ANCHORS = "the unit of the anchors’ scale"
ROUNDING = 0.01  # of mean and standard deviation of a density on nodes


def unit_of_ability(scales: Sequence[ScaleStudy]) -> str:
    """The unit of the scales' abilities and difficulties, which one study fits all alike.

    A Rasch model has slopes of 1 and estimates the population's standard deviation: its unit is the logit. Anchors
    bring a unit of their own.
    """
    fits = [scale.fitted for scale in scales if scale.fitted is not None]
    if any(fitted.settings.kind == "rasch" for fitted in fits):
        return LOGITS
    moments = [fitted.population for fitted in fits]
    own = all(abs(m["mean"]) <= ROUNDING and abs(m["sd"] - 1) <= ROUNDING for m in moments)
    return POPULATION if own else ANCHORS


def where_people_are(scales: Sequence[ScaleStudy]) -> str:
    """One sentence on unit and zero of the scales, with the population's place where it is not 0 and 1."""
    unit = unit_of_ability(scales)
    if unit == POPULATION:
        return f"Abilities and difficulties are in {unit}, 0 at its mean."
    places = [
        f"{decimal(moments['mean'])} and {decimal(moments['sd'])} on {scale.name}"
        for scale in scales
        if (fitted := scale.fitted) is not None and (moments := fitted.population)
    ]
    return (
        f"Abilities and difficulties are in {unit}; mean and standard deviation of the population are "
        f"{listing(places)}."
    )
