"""Scores of very many patterns of one scale on one grid, in single precision (NumPy only).

The EAP of a pattern is, on a grid shared by all, two matrix products: responses times log(P / (1 - P)) and what was
asked times log(1 - P). Single precision moves theta by less than 1e-4. Complete patterns without guessing are looked up
by their weighted sum instead (`CompletePatterns`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.scale import Scale
from irtbench.data.coded_responses import MISSING
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.pattern_likelihood import PatternTerms
from irtbench.models.curves import items_curve, log_icc
from irtbench.models.quadrature import refine
from irtbench.models.theta_posterior import (
    STANDARD_NORMAL,
    cell_edges,
    node_mass,
    quantiles_in_cells,
    step_for_any_pattern,
)
from irtbench.scoring.ability import AT_END, Abilities
from irtbench.scoring.complete_patterns import LEAST_VARIANCE_LEFT, CompletePatterns, PatternScores
from irtbench.scoring.item_error import with_line_error
from irtbench.scoring.scores import ScoringSettings, fit_is_defined, score_table

BLOCK = 2**11  # respondents whose arrays fit into the processor's cache
NODES_PER_SD = 2  # of the narrowest posterior there can be: quantiles are then right to .02 of a standard error
TAIL = 1e-8  # a node with less than this share of every posterior there can be is left out


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
        steepest = np.abs(self.items.discrimination).max(initial=0.0)
        step = min(step_for_any_pattern(self.items, coarse, nodes_per_sd=NODES_PER_SD), 1 / max(steepest, 1e-9))
        rises = (self.items.discrimination > 0).astype(np.float64)
        extreme = np.stack([rises, 1 - rises, np.full_like(rises, np.nan)])
        holding = coarse.nodes[(node_mass(extreme, self.items, coarse) > TAIL).any(axis=0)]
        grid = refine(coarse, step, within=(holding[0], holding[-1]))
        self.edges = cell_edges(grid.nodes)
        log_p, log_q = log_icc(grid.nodes, self.items)
        self.weight_right = (log_p - log_q).T.astype(np.float32)
        self.weight_asked = log_q.T.astype(np.float32)
        self.log_weights = grid.log_weights.astype(np.float32)
        self.complete = CompletePatterns.of(self.items, grid, log_q.sum(axis=1), settings.level)
        self.powers = np.stack([np.ones_like(grid.nodes), grid.nodes, grid.nodes**2], axis=1).astype(np.float32)

    def score(self, responses: ResponseMatrix) -> pd.DataFrame:
        """Rows of scores.csv, from one response each to the columns."""
        abilities, lz_star = self.estimate(responses)
        return score_table(self.scale, with_line_error(abilities, self.scale.line), lz_star, self.settings)

    def estimate(self, responses: ResponseMatrix) -> tuple[Abilities, NDArray[np.float64]]:
        """Abilities and lz*, NaN where that is not defined, from the same responses."""
        coded = responses.coded_responses
        coded = coded if len(self.chosen) == responses.n_items else coded[:, self.chosen]
        own = coded.astype(np.float32)
        own[coded == MISSING] = np.nan
        if self.complete is None:
            found = self._on_the_grid(own)
            n_items, n_correct = (~np.isnan(own)).sum(axis=1), np.nansum(own, axis=1)
        else:
            by_slope, by_intercept, n_correct = (own @ self.complete.weights).T  # NaN where a response is missing
            has_gaps = np.isnan(n_correct)
            by_slope[has_gaps], by_intercept[has_gaps] = 0, 0
            found = self.complete.at(by_slope, by_intercept)
            n_items = np.full(len(own), own.shape[1])
            if has_gaps.any():
                others = own[has_gaps]
                found.replace(has_gaps, self._on_the_grid(others))
                n_items[has_gaps] = (~np.isnan(others)).sum(axis=1)
                n_correct[has_gaps] = np.nansum(others, axis=1)
        abilities = Abilities(
            respondent_ids=responses.respondent_ids,
            theta=found.theta,
            standard_error=found.standard_error,
            lower=found.lower,
            upper=found.upper,
            level=self.settings.level,
            n_items=n_items,
            n_correct=n_correct.astype(np.int64),
            at_bound=found.at_ends > AT_END,
            method="eap",
        )
        return abilities, np.where(fit_is_defined(abilities), found.lz_star, np.nan)

    def _on_the_grid(self, own: NDArray[np.float32]) -> PatternScores:
        """Scores of any patterns of the items, shape (n_respondents, n_items), NaN where missing."""
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
        return PatternScores(
            theta=theta,
            standard_error=np.sqrt(np.maximum(second / total - theta**2, 0)),
            lower=lower,
            upper=upper,
            at_ends=np.maximum(mass[:, 0], mass[:, -1]),  # the highest mass is 1
            lz_star=np.concatenate(
                [self._lz_star(correct[rows], None if asked is None else asked[rows], theta[rows]) for rows in blocks]
            ),
        )

    def _normalise(self, mass: NDArray[np.float32]) -> NDArray[np.float64]:
        """Turn log masses, in place, into masses of which the highest is 1; give both ends of the interval."""
        mass -= mass.max(axis=1, keepdims=True)
        np.exp(mass, out=mass)
        reached = np.cumsum(mass, axis=1)
        level = self.settings.level
        both_ends = np.array([(1 - level) / 2, (1 + level) / 2], dtype=np.float32)
        return quantiles_in_cells(mass, reached, self.edges, reached[:, -1:] * both_ends).T

    def _lz_star(
        self, correct: NDArray[np.float32], asked: NDArray[np.float32] | None, theta: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """lz* in single precision."""
        a, d = (x.astype(np.float32) for x in (self.items.discrimination, self.items.intercept))
        curves = items_curve(theta.astype(np.float32)[:, None] * a + d, self.items)
        log_odds, weight = curves.z, np.broadcast_to(a, curves.z.shape)
        if self.items.has_asymptotes:
            log_odds, weight = np.log(curves.p / curves.q), a * curves.weight
        variance, residual = curves.p * (1 - curves.p), correct - curves.p
        if asked is not None:
            variance, residual = variance * asked, residual * asked
        terms = PatternTerms.of(variance, log_odds, weight, least_left=LEAST_VARIANCE_LEFT)
        return terms.lz_star(residual).astype(np.float64)
