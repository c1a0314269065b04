"""What pruning keeps: clean scales whoever answers what, scales with twin items, and scales of two abilities.

    python scripts/kept_scales.py [--sets 20] [--seed 1] [--size 600 20] [--only clean | faults]

Each data set goes through `prune` with the default rules, as `build` does it: slopes .8 to 2.2, difficulties normal, 20
items. Prints, for each way of missing responses, in how many sets at most two items are lost, and for each fault how
many scales are rejected, in how many one ability fits badly as given, and how many items the others keep.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

import numpy as np
from diagnostics_error_rates import missing_by_design
from scipy.special import expit

from irtbench.building.pruned import Pruning, misfit_as_a_whole
from irtbench.building.pruning import prune
from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.fit_many import fit_many
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters

FAULTS = ("none", "one pair", "two pairs", "three pairs", "mess", "two abilities, r = .5")
ALIKE = 0.8  # of the second item's responses are those of the first: nine tenths are then the same
CLEAN = 2  # items that a clean scale may lose


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, nargs=2, default=(600, 20))
    parser.add_argument("--only", choices=("clean", "faults"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    size = tuple(arguments.size)
    if arguments.only != "faults":
        print("| clean, with responses missing | at most two lost | lost in all | rejected |\n|---|---|---|---|")
        for name, all_found in clean_scales(*size, arguments.sets, arguments.seed).items():
            lost = [len(found.removals) for found in all_found]
            few, rejected = sum(n <= CLEAN for n in lost), sum(found.rejected is not None for found in all_found)
            print(f"| {name} | {few} of {len(lost)} | {sum(lost)} | {rejected} |", flush=True)
    if arguments.only != "clean":
        print("\n| fault | rejected | one ability fits badly as given | items kept of the others |\n|---|---|---|---|")
        for fault in FAULTS:
            sets = [pruned(faulty(fault, *size, seed=(arguments.seed, k))) for k in range(arguments.sets)]
            rejected = np.mean([found.rejected is not None for found in sets])
            bad = np.mean([misfit_as_a_whole(found.rounds[0].global_fit, found.rules) is not None for found in sets])
            kept = [len(found.kept) for found in sets if found.rejected is None]
            print(f"| {fault} | {rejected:.3f} | {bad:.2f} | {np.mean(kept) if kept else np.nan:.1f} |", flush=True)


def scale(n: int, n_items: int, rng: np.random.Generator) -> tuple[ItemParameters, np.ndarray]:
    """Items and abilities."""
    a, b = rng.uniform(0.8, 2.2, n_items), np.clip(rng.normal(0, 0.9, n_items), -2, 2)
    return ItemParameters.from_difficulty(a, b), rng.normal(size=n)


def clean_scales(n: int, n_items: int, n_sets: int, seed: int) -> dict[str, list[Pruning]]:
    """Pruned, by the way in which responses are missing."""
    found: dict[str, list[Pruning]] = {}
    for k in range(n_sets):
        rng = np.random.default_rng((seed, k))
        items, theta = scale(n, n_items, rng)
        values = (rng.random((n, n_items)) < expit(items.discrimination * theta[:, None] + items.intercept)).astype(
            float
        )
        for name, holes in missing_by_design(theta, items.difficulty, values, rng).items():
            found.setdefault(name, []).append(pruned(np.where(holes, np.nan, values)))
    return found


def faulty(fault: str, n: int, n_items: int, *, seed: Sequence[int]) -> np.ndarray:
    """Complete responses with one fault."""
    rng = np.random.default_rng(tuple(seed))
    items, theta = scale(n, n_items, rng)
    each = np.tile(theta[:, None], n_items)
    if fault.startswith("two abilities"):
        each[:, n_items // 2 :] = (0.5 * theta + np.sqrt(0.75) * rng.normal(size=n))[:, None]
    values = (rng.random((n, n_items)) < expit(items.discrimination * each + items.intercept)).astype(float)
    pairs = {"one pair": 1, "two pairs": 2, "three pairs": 3, "mess": 1}.get(fault, 0)
    for first in range(0, 2 * pairs, 2):
        copied = rng.random(n) < ALIKE
        values[copied, first + 1] = values[copied, first]
    if fault == "mess":  # two reversed items and two at random besides
        values[:, 2:4] = 1 - values[:, 2:4]
        values[:, 4:6] = rng.random((n, 2)) < [0.5, 0.6]
    return values


def pruned(values: np.ndarray) -> Pruning:
    """By the default rules, as `build` does it."""
    values = values[~np.isnan(values).all(axis=1)]
    responses = ResponseMatrix(values, numbered("r", len(values)), numbered("item", values.shape[1]))
    settings = FitSettings()

    def refit_many(samples: Sequence[ResponseMatrix], items: ItemParameters) -> tuple[FittedModel | None, ...]:
        return fit_many(samples, settings.for_samples(), start=items).fits

    return prune(responses, lambda data: fit_model(data, settings), refit_many=refit_many)


if __name__ == "__main__":
    main()
