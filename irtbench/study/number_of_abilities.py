"""How many abilities all items of a study measure together, where it can be counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from irtbench.analysis.dimensions import MOST_FACTORS, Dimensions, find_dimensions
from irtbench.analysis.parallel_analysis import why_not_counted
from irtbench.building.checkpoint import Checkpoint, checkpoint_key
from irtbench.building.removals import constant_items
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fitted import software_versions
from irtbench.estimation.settings import Device


def study_dimensions(
    responses: ResponseMatrix,
    parts: dict[str, tuple[str, ...]],
    seed: int,
    checkpoint_folder: Path | None,
    progress: Callable[[str], None],
    factors: int = 0,
    device: Device = "auto",
) -> tuple[Dimensions | None, str]:
    """Number of abilities of all items together, with models of up to so many factors; or None and why not."""
    label_of = {item: name for name, item_ids in parts.items() for item in item_ids}
    together = responses.select_items(list(label_of))
    gone = {removal.item_id for removal in constant_items(together)}
    data = together.select_items([item for item in together.item_ids if item not in gone]).answered()
    labels = [label_of[item] for item in data.item_ids]
    why_not = why_not_counted(data, MOST_FACTORS + 1)
    if why_not:
        progress(f"number of abilities: not counted, since {why_not}")
        return None, why_not
    checkpoint = None
    if checkpoint_folder is not None:
        checkpoint = Checkpoint(checkpoint_folder, checkpoint_key(data, labels, seed, factors, software_versions()))
        finished = checkpoint.load("dimensions", Dimensions)
        if finished is not None:
            return finished, ""
    found = find_dimensions(data, labels, max_factors=factors, seed=seed, device=device, progress=progress)
    if checkpoint is not None:
        checkpoint.save("dimensions", found)
    return found, ""
