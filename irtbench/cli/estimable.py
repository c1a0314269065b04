"""What of the responses can be estimated: items that some got right and some wrong, and those who answered them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from irtbench.cli.options import demand_varied_items
from irtbench.data.stored_responses import AnyResponses, StoredResponses

if TYPE_CHECKING:
    from irtbench.building.removals import Removal
    from irtbench.estimation.settings import FitSettings
    from irtbench.models.item_parameters import ItemParameters

Given = TypeVar("Given", bound=AnyResponses)


def estimable(
    given: Given, settings: FitSettings, file: Path, known: ItemParameters | None = None
) -> tuple[Given, list[Removal], list[str]]:
    """What can be fitted; the items left out for their responses are all the same, and respondents without any."""
    kept, left_out = varied_items(given, settings, file, known)
    data: Any = given.select_items(kept)
    if isinstance(given, StoredResponses):
        data = data.answered()
        return data, left_out, sorted(data.idle_ids())
    if not data.n_by_respondent.all():
        data = data.select_respondents(data.n_by_respondent > 0)
    return data, left_out, sorted(set(given.respondent_ids) - set(data.respondent_ids))


def varied_items(
    given: AnyResponses, settings: FitSettings, file: Path, known: ItemParameters | None
) -> tuple[list[str], list[Removal]]:
    """Items that can be fitted, and those that are left out."""
    from irtbench.building.removals import constant_items

    left_out = [removal for removal in constant_items(given) if not settings.bounds(removal.item_id)]
    left_out = [removal for removal in left_out if known is None or removal.item_id not in known.item_ids]
    gone = {removal.item_id for removal in left_out}
    kept = [item for item in given.item_ids if item not in gone]
    demand_varied_items(kept, file)
    return kept, left_out
