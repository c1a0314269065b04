"""Responses of a large study, simulated into Parquet a part at a time: what docs/scale.md is measured on.

    python scripts/simulate_large.py 10_000_000 100 -o large
    python scripts/simulate_large.py 1_000_000 100 --layout long --order random --missing 0.3 -o long

Abilities are standard normal, slopes log-normal about 1.2 and difficulties normal. A wide table has a row for each
respondent and a column of int8 for each item; a long one has a row for each response: respondent_id, item_id, response.
The folder holds part-00000.parquet and so on, and truth.csv beside it the parameters. Every part is drawn with a
generator of its own, so that memory does not grow with the study.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from irtbench.models.item_parameters import ItemParameters

BLOCK = 2**13  # respondents whose probabilities are held at once


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("respondents", type=int)
    parser.add_argument("items", type=int)
    parser.add_argument("--layout", choices=["wide", "long"], default="wide")
    parser.add_argument("--order", choices=["respondent", "random"], default="respondent", help="of a long table")
    parser.add_argument("--missing", type=float, default=0.0, help="share of the responses that were not observed")
    parser.add_argument("--part", type=int, default=1_000_000, help="respondents of a file; most, if in random order")
    parser.add_argument("--seed", type=int, default=2016)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder, which must not be there yet")
    options = parser.parse_args(arguments)
    if min(options.respondents, options.items, options.part) < 1 or not 0 <= options.missing < 1:
        parser.error("numbers must be positive, and --missing from 0 to below 1")
    return options


def draw_items(n: int, rng: np.random.Generator) -> ItemParameters:
    """Items of a 2PL."""
    return ItemParameters.from_difficulty(1.2 * np.exp(0.3 * rng.normal(size=n)), rng.normal(size=n))


def draw_responses(n: int, items: ItemParameters, missing: float, rng: np.random.Generator) -> NDArray[np.int8]:
    """Responses 1, 0 and -1 for missing, shape (n, n_items)."""
    found = np.empty((n, items.n_items), dtype=np.int8)
    slope, intercept = (part.astype(np.float32) for part in (items.discrimination, items.intercept))
    for first in range(0, n, BLOCK):
        rows = found[first : first + BLOCK]
        theta = rng.standard_normal((len(rows), 1), dtype=np.float32)
        odds = np.exp(-(theta * slope + intercept))
        rows[:] = rng.random(rows.shape, dtype=np.float32) * (1 + odds) < 1
        if missing:
            rows[rng.random(rows.shape, dtype=np.float32) < missing] = -1
    return found


def wide_table(values: NDArray[np.int8], first: int, item_ids: tuple[str, ...]) -> pa.Table:
    """A row for each respondent; missing responses are null."""
    by_item = np.ascontiguousarray(values.T)
    columns = [pa.array(column, mask=column < 0) if (column < 0).any() else pa.array(column) for column in by_item]
    return pa.table([names(first, len(values)), *columns], names=["respondent_id", *item_ids])


def long_table(
    values: NDArray[np.int8], first: int, item_ids: tuple[str, ...], shuffle: np.random.Generator | None
) -> pa.Table:
    """A row for each response that is there, in the order of respondents or in any."""
    cells = np.flatnonzero(values.ravel() >= 0)
    if shuffle is not None:
        shuffle.shuffle(cells)
    rows, columns = np.divmod(cells, values.shape[1])
    items = pa.DictionaryArray.from_arrays(pa.array(columns.astype(np.int32)), pa.array(item_ids))
    responses = pa.array(values.ravel()[cells])
    return pa.table(
        [names(first, len(values)).take(pa.array(rows)), items, responses],
        names=["respondent_id", "item_id", "response"],
    )


def names(first: int, n: int) -> pa.Array:
    """Respondents r1, r2, and so on."""
    numbers = pa.array(np.arange(first + 1, first + n + 1)).cast(pa.string())
    return pa.compute.binary_join_element_wise("r", numbers, "")


def main(arguments: list[str] | None = None) -> None:
    options = read_options(arguments)
    options.output.mkdir(parents=True)
    seeds = np.random.SeedSequence(options.seed).spawn(-(-options.respondents // options.part) + 1)
    items = draw_items(options.items, np.random.default_rng(seeds[0]))
    items.table().to_csv(options.output.with_name(f"{options.output.name}-truth.csv"), index=False)
    for number, seed in enumerate(seeds[1:]):
        rng = np.random.default_rng(seed)
        first = number * options.part
        values = draw_responses(min(options.part, options.respondents - first), items, options.missing, rng)
        if options.layout == "wide":
            table = wide_table(values, first, items.item_ids)
        else:
            table = long_table(values, first, items.item_ids, rng if options.order == "random" else None)
        pa.parquet.write_table(table, options.output / f"part-{number:05}.parquet", row_group_size=2**17)
        print(f"{first + len(values)} respondents")


if __name__ == "__main__":
    main()
