"""Millions of patterns: scores from Parquet to Parquet, a part at a time, in single precision (NumPy only).

The EAP of a pattern is, on a grid shared by all, two matrix products: responses times log(P / (1 - P)) and what was
asked times log(1 - P). Single precision moves theta by less than 1e-4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray
from scipy.special import expit

from irtbench.building.bank import ItemBank
from irtbench.building.scale import Scale
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_response import information, log_icc
from irtbench.models.quadrature import refine
from irtbench.scoring.ability import AT_END, Abilities
from irtbench.scoring.posterior import STANDARD_NORMAL, cell_edges, node_mass
from irtbench.scoring.scores import (
    ScoringSettings,
    UnknownItems,
    check_known,
    fit_is_defined,
    in_order_of_respondents,
    score_responses,
    score_table,
)

ROWS = 2**15  # respondents of a part
BLOCK = 2**11  # respondents whose arrays fit into the processor's cache
WORKERS = 2
NODES_PER_SD = 2  # of the narrowest posterior there can be: quantiles are then right to .02 of a standard error
TAIL = 1e-8  # a node with less than this share of every posterior there can be is left out
MISSING_CODE = -1.0
LEAST_VARIANCE_LEFT = 1e-5  # share of lz's variance that must remain, above what rounding leaves


def score_parquet(
    bank: ItemBank,
    source: str | Path,
    target: str | Path,
    settings: ScoringSettings | None = None,
    *,
    respondent_column: str | None = None,
    unknown_items: UnknownItems = "error",
    progress: Callable[[str], None] = lambda message: None,
) -> int:
    """Score a wide Parquet table of responses into a Parquet table with the columns of scores.csv.

    Only a few parts of the table are in memory at a time. EAP with known items works in single precision; other
    methods part by part as ``score_responses`` does.

    Parameters
    ----------
    bank
        The scales.
    source
        A row for each respondent; a column of names (the first, unless ``respondent_column`` says otherwise) and one
        for each item, of 1, 0 and null, NaN or -1 where missing.
    target
        The file to write.
    settings
        As for ``score_responses``.
    respondent_column
        The column of names.
    unknown_items
        What other columns mean: an error that names the first five, or nothing.
    progress
        Called with a line now and then.

    Returns
    -------
    int
        Number of respondents.

    Raises
    ------
    InputError
        Naming file, row and column, if a value is none of these or a respondent comes twice; and as
        ``score_responses``.
    """
    settings = settings or ScoringSettings()
    file = pa.parquet.ParquetFile(source)
    names = file.schema_arrow.names
    respondents = names[0] if respondent_column is None else respondent_column
    if respondents not in names:
        raise InputError(f"file {source}: column '{respondents}' missing")
    items = [name for name in names if name != respondents]
    check_known(items, bank.scales, unknown_items)
    known = {item for scale in bank.scales for item in scale.items.item_ids}
    items = [item for item in items if item in known]
    in_single = settings.method == "eap" and settings.item_error == "none"
    scorers = [SharedGridScorer(scale, items, settings) for scale in bank.scales] if in_single else []

    def score_part(part: Part) -> pd.DataFrame:
        if not scorers:
            return score_responses(bank, part.matrix(items), settings)
        return in_order_of_respondents([scorer.score(part.values, part.respondent_ids) for scorer in scorers])

    n = 0
    writer: pa.parquet.ParquetWriter | None = None
    try:
        for scores in _in_turn(score_part, read_parts(file, source, respondents, items)):
            table = pa.Table.from_pandas(scores, preserve_index=False)
            if writer is None:
                writer = pa.parquet.ParquetWriter(target, table.schema)
            writer.write_table(table.cast(writer.schema))
            n += len(scores) // len(bank.scales)
            progress(f"{n} respondents scored")
    finally:
        if writer is not None:
            writer.close()
    if n == 0:
        raise InputError(f"file {source}: no rows; expected at least one respondent")
    return n


class Part:
    """Some respondents of the file: names, and values of 1, 0 and NaN, shape (n, n_items)."""

    def __init__(self, respondent_ids: tuple[str, ...], values: NDArray[np.float32]) -> None:
        self.respondent_ids = respondent_ids
        self.values = values

    def matrix(self, items: Sequence[str]) -> ResponseMatrix:
        """The same as a response matrix."""
        return ResponseMatrix(self.values.astype(np.float64), self.respondent_ids, tuple(items))


def read_parts(
    file: pa.parquet.ParquetFile, source: str | Path, respondents: str, items: Sequence[str]
) -> Iterator[Part]:
    """Read a wide Parquet file part by part, and check it.

    Raises
    ------
    InputError
        Naming row and column of what is wrong.
    """
    seen: set[int] = set()
    first_row = 1
    for batch in file.iter_batches(ROWS, columns=[respondents, *items], use_threads=True):
        ids = tuple(batch.column(respondents).cast(pa.string()).to_pylist())
        hashes = {hash(name) for name in ids}
        if None in ids or "" in ids:
            raise InputError(f"file {source}, column {respondents}: expected a name in every row but one is empty")
        if len(hashes) < len(ids) or not seen.isdisjoint(hashes):
            twice = next(name for k, name in enumerate(ids) if hash(name) in seen or name in ids[:k])
            raise InputError(f"file {source}: respondent {twice} comes twice; expected a row for each")
        seen |= hashes
        values = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
        for k, item in enumerate(items):
            values[:, k] = _numbers(batch.column(item), source, item)
        wrong = ~((values == 0) | (values == 1) | np.isnan(values))
        if wrong.any():
            missing = values == MISSING_CODE
            values[missing] = np.nan
            bad = np.argwhere(wrong & ~missing)
            if bad.size:
                row, column = (int(k) for k in bad[0])
                raise InputError(
                    f"file {source}, row {first_row + row}, column {items[column]}: expected 1, 0 or missing but got "
                    f"{values[row, column]:g}"
                )
        first_row += len(ids)
        yield Part(ids, values)


def _numbers(column: pa.Array, source: str | Path, item: str) -> NDArray[np.float32]:
    try:
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        found: NDArray[np.float32] = column.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"file {source}, column {item}: expected 1, 0 or missing but it holds {column.type}") from None
    return found


def _in_turn(score_part: Callable[[Part], pd.DataFrame], parts: Iterator[Part]) -> Iterator[pd.DataFrame]:
    """Results in the order of the parts, a few of which are worked on at a time."""
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[pd.DataFrame]] = deque()
        for part in parts:
            waiting.append(pool.submit(score_part, part))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class SharedGridScorer:
    """EAP scores of one scale on one grid, fine enough for any pattern of its items.

    Parameters
    ----------
    scale
        The scale.
    columns
        Items of the columns of the values; those of other scales are left aside.
    settings
        Norm and level.
    """

    def __init__(self, scale: Scale, columns: Sequence[str], settings: ScoringSettings) -> None:
        self.scale, self.settings = scale, settings
        members = set(scale.items.item_ids)
        self.chosen = [k for k, item in enumerate(columns) if item in members]
        self.items = scale.items.select([columns[k] for k in self.chosen])
        coarse = scale.population or STANDARD_NORMAL
        most = information(coarse.nodes, self.items).sum(axis=1).max(initial=0.0)
        steepest = np.abs(self.items.discrimination).max(initial=0.0)
        step = min(1 / (NODES_PER_SD * np.sqrt(1 + most)), 1 / max(steepest, 1e-9))
        rises = (self.items.discrimination > 0).astype(np.float64)
        extreme = np.stack([rises, 1 - rises, np.full_like(rises, np.nan)])
        holding = coarse.nodes[(node_mass(extreme, self.items, coarse) > TAIL).any(axis=0)]
        grid = refine(coarse, step, within=(holding[0], holding[-1]))
        self.edges = cell_edges(grid.nodes)
        log_p, log_q = log_icc(grid.nodes, self.items)
        self.weight_right = (log_p - log_q).T.astype(np.float32)
        self.weight_asked = log_q.T.astype(np.float32)
        self.log_weights = grid.log_weights.astype(np.float32)
        self.powers = np.stack([np.ones_like(grid.nodes), grid.nodes, grid.nodes**2], axis=1).astype(np.float32)

    def score(self, values: NDArray[np.float32], respondent_ids: tuple[str, ...]) -> pd.DataFrame:
        """Rows of scores.csv, from values of shape (n_respondents, n_columns)."""
        own = values[:, self.chosen]
        missing = np.isnan(own)
        correct = np.where(missing, np.float32(0), own)
        asked = (~missing).astype(np.float32) if missing.any() else None
        # matrix products for all at once, which the library spreads over processors; the rest block by block
        mass = correct @ self.weight_right
        mass += self.log_weights + (self.weight_asked.sum(axis=0) if asked is None else asked @ self.weight_asked)
        blocks = [slice(start, start + BLOCK) for start in range(0, len(own), BLOCK)]
        lower, upper = np.concatenate([self._normalise(mass[rows]) for rows in blocks], axis=1)
        total, first, second = (mass @ self.powers).astype(np.float64).T
        theta = first / total
        abilities = Abilities(
            respondent_ids=respondent_ids,
            theta=theta,
            standard_error=np.sqrt(np.maximum(second / total - theta**2, 0)),
            lower=lower,
            upper=upper,
            level=self.settings.level,
            n_items=(~missing).sum(axis=1),
            n_correct=correct.sum(axis=1).astype(np.int64),
            at_bound=np.maximum(mass[:, 0], mass[:, -1]) > AT_END,  # the highest mass is 1
            method="eap",
        )
        lz_star = np.concatenate(
            [self._lz_star(correct[rows], None if asked is None else asked[rows], theta[rows]) for rows in blocks]
        )
        return score_table(self.scale, abilities, np.where(fit_is_defined(abilities), lz_star, np.nan), self.settings)

    def _normalise(self, mass: NDArray[np.float32]) -> NDArray[np.float64]:
        """Turn log masses, in place, into masses of which the highest is 1; give both ends of the interval."""
        mass -= mass.max(axis=1, keepdims=True)
        np.exp(mass, out=mass)
        reached = np.cumsum(mass, axis=1)
        level = self.settings.level
        return np.stack([self._quantile(mass, reached, p) for p in ((1 - level) / 2, (1 + level) / 2)])

    def _quantile(
        self, mass: NDArray[np.float32], reached: NDArray[np.float32], probability: float
    ) -> NDArray[np.float64]:
        """As ``Posterior.quantile``, from masses that do not sum to 1."""
        wanted = reached[:, -1] * np.float32(probability)
        cell = (reached < wanted[:, None]).sum(axis=1)
        rows = np.arange(cell.size)
        within = 1 - (reached[rows, cell] - wanted) / mass[rows, cell]
        return self.edges[cell] + within * (self.edges[cell + 1] - self.edges[cell])

    def _lz_star(
        self, correct: NDArray[np.float32], asked: NDArray[np.float32] | None, theta: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """lz* as ``person_fit`` defines it, with w = log(P / (1 - P)) and r = P' / (P (1 - P)) = a s / P."""
        a, d, c = (x.astype(np.float32) for x in (self.items.discrimination, self.items.intercept, self.items.guessing))
        logit = theta.astype(np.float32)[:, None] * a + d
        s = expit(logit)
        p, weight = s, np.broadcast_to(a, s.shape)
        if c.any():
            p = c + (1 - c) * s
            logit = np.log(p) - np.log((1 - c) * expit(-logit))
            weight = a * s / p
        variance = p * (1 - p)
        residual = correct - p
        if asked is not None:
            variance *= asked
            residual *= asked

        def total(terms: NDArray[np.float32], by: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.einsum("ij,ij->i", terms, by)

        by_weight = variance * weight
        with np.errstate(invalid="ignore", divide="ignore"):  # without a response nothing is left
            slope = total(by_weight, logit) / total(by_weight, weight)
            remaining = logit - slope[:, None] * weight
            left = total(variance * remaining, remaining)
            found = total(residual, remaining) / np.sqrt(left)
        found[left <= LEAST_VARIANCE_LEFT * total(variance * logit, logit)] = np.nan
        return found.astype(np.float64)
