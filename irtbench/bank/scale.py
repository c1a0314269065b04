"""A scale: the items that measure one ability, its norm sample, its links, its item map, and a bank's data card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.norms import Norms
from irtbench.data.checked_settings import Settings
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.items import ItemTable
from irtbench.data.responses import positions_of
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.models.curves import icc, information
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import (
    ParametersLike,
    as_parameters,
    stated_population,
)
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import STANDARD_NORMAL, step_at


@dataclass(frozen=True)
class DataCard(Settings):
    """A data card: sentences by the maker of a bank, kept in the bank.

    Parameters
    ----------
    title
        What the scale is called.
    description
        What it measures and what it is for.
    license
        Under which its items and parameters may be used, such as ``CC-BY-4.0``.
    population
        Who the respondents are: where from, how many, since when.
    respondents
        What sentences call them: ``models``, ``pupils``; ``people`` and ``the crowd`` by default.
    collection
        How their answers were collected: platform, instruction, payment, screening.
    citation
        What to cite.

    Examples
    --------
    >>> import irtbench
    >>> card = irtbench.DataCard(title="Entailment", license="CC-BY-4.0")
    >>> card.stated()
    {'title': 'Entailment', 'license': 'CC-BY-4.0'}
    """

    title: str = ""
    description: str = ""
    license: str = ""
    population: str = ""
    respondents: str = ""
    collection: str = ""
    citation: str = ""

    def of_models(self) -> Self:
        """The same, with respondents called models unless it says what they are."""
        return self if self.respondents else replace(self, respondents="models")

    def stated(self) -> dict[str, str]:
        """What it says, by name; fields that say nothing are left out."""
        return {f.name: text for f in fields(self) if (text := getattr(self, f.name))}


STEP = 0.05  # between nodes of a population
NO_WEIGHT = 1e-14  # of a node that is left out


class Line(Shown):
    """Base of lines A theta + B, with the covariance of (A, B)."""

    covariance: NDArray[np.float64]

    @property
    def se_slope(self) -> float:
        """Standard error of A."""
        return float(np.sqrt(self.covariance[0, 0]))

    @property
    def se_intercept(self) -> float:
        """Standard error of B."""
        return float(np.sqrt(self.covariance[1, 1]))


@dataclass(frozen=True, eq=False)
class ScaleLine(Line, columns="slope, intercept, se_slope, se_intercept, generation"):
    """theta_base = A theta + B, theta on the scale that the items were fitted on, and the error of A and B.

    The items of the scale are on the base scale already; what they do not say is how well the line is known.

    Parameters
    ----------
    slope, intercept
        A, above 0, and B; over all links, where there were several.
    covariance
        Sampling covariance of (A, B) between the two scales as they were fitted, shape (2, 2).
    generation
        Number of links back to the base scale.

    Raises
    ------
    InputError
        If the slope is not positive, a figure is not finite, or the covariance has a negative variance.
    """

    slope: float
    intercept: float
    covariance: NDArray[np.float64]
    generation: int = 1

    def __post_init__(self) -> None:
        covariance = np.array(self.covariance, dtype=np.float64)
        refuse_any((
            (covariance.shape != (2, 2) or not np.isfinite(covariance).all() or (np.diagonal(covariance) < 0).any(),
             "link: expected a finite covariance of slope and intercept, shape (2, 2)"),
            (not (0 < self.slope < np.inf and np.isfinite(self.intercept) and self.generation >= 1),
             "link: expected a finite line with a slope above 0, and at least one generation"),
        ))  # fmt: skip
        covariance.setflags(write=False)
        object.__setattr__(self, "covariance", covariance)

    def upper(self) -> list[float]:
        """Variance of A, covariance of A and B, variance of B."""
        return [float(value) for value in self.covariance[np.triu_indices(2)]]

    def variance(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the line's error adds to the variance of abilities on the base scale, the shape of ``theta``.

        var(A) u^2 + 2 u cov(A, B) + var(B) at u = (theta - B) / A, the ability on the scale of the fit.
        """
        (var_a, cov_ab), (_, var_b) = self.covariance
        at = (theta - self.intercept) / self.slope
        return np.asarray(np.maximum(var_a * at**2 + 2 * at * cov_ab + var_b, 0.0))

    def draws(self, theta: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Abilities on the base scale under lines drawn from their sampling distribution, one line a column.

        Parameters
        ----------
        theta
            Draws of abilities, shape (n_respondents, n_draws).
        rng
            The random numbers.
        """
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(values.clip(0))
        slope, intercept = root @ rng.normal(size=(2, theta.shape[1]))
        return np.asarray(theta + slope * (theta - self.intercept) / self.slope + intercept)

    def in_short(self) -> str:
        """The line, its standard errors, and the generation."""
        return (
            f"slope {self.slope:.3f} ({self.se_slope:.3f}), intercept {self.intercept:.3f} ({self.se_intercept:.3f}), "
            f"generation {self.generation}"
        )


@dataclass(frozen=True, eq=False)
class Scale(Drawn):
    """One ability: its items, its population and its norm sample.

    Parameters
    ----------
    name
        The scale's name, in the paper a gold label.
    items
        Fitted parameters; at least one item.
    details
        Key, text, group and label of the same items in the same order; none of them an attention check.
    norms
        The norm sample; None where there is none.
    population
        Density of ability that was fitted with the items, the prior of scoring; None for the standard normal.
    provenance
        Where the scale comes from, as plain JSON values: data hash, settings, versions, date, pruning record, seed.
    joint_error
        The sampling error of all items together, by which the scale can be linked to others; None where it is not
        known.
    line
        Of a linked scale, how well it is known where it lies on the base scale; None where it was not linked, or that
        is not known.

    Raises
    ------
    InputError
        If there is no item, ``details`` or ``joint_error`` is about other items, or ``provenance`` holds what JSON
        cannot.
    """

    name: str
    items: ItemParameters
    details: ItemTable
    norms: Norms | None = None
    population: Quadrature | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    joint_error: JointError | None = None
    line: ScaleLine | None = None

    def __post_init__(self) -> None:
        refuse_any((holds, f"scale {self.name}: {why}") for holds, why in (
            (self.items.n_items == 0, "expected at least one item"),
            (self.details.item_ids != self.items.item_ids,
             "parameters and details are not about the same items in one order"),
            (self.joint_error is not None and self.joint_error.n_items != self.items.n_items,
             "parameters and their joint error are not about the same items"),
            (any(self.details.attention), "an attention check cannot be an item of a scale"),
        ))  # fmt: skip
        try:
            plain = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(f"scale {self.name}: provenance must be plain JSON values: {error}") from None
        object.__setattr__(self, "provenance", plain)

    @property
    def doubt(self) -> str:
        """Why abilities on it are in doubt, by what its fit said; empty where it converged and said nothing."""
        fit = self.provenance.get("fit", self.provenance)
        fit = fit if isinstance(fit, dict) else {}
        if fit.get("converged") is False:
            return "its fit did not converge"
        doubts = fit.get("doubts")
        return str(doubts[0]) if isinstance(doubts, list) and doubts else ""

    def select(self, item_ids: Sequence[str]) -> Scale:
        """The scale with these of its items, in this order."""
        items = self.items.select(item_ids)
        error = self.joint_error
        return replace(
            self,
            items=items,
            details=self.details.select(item_ids),
            joint_error=None if error is None else error.select(positions_of(item_ids, self.items.item_ids)),
        )

    def table(self) -> pd.DataFrame:
        """One row an item: its parameters with their standard errors, its key, label, group and text."""
        details = self.details.table().drop(columns=["item_id", "attention"])
        return pd.concat([self.items.table(), details], axis=1)

    def in_short(self) -> str:
        """Name, items and norm sample."""
        sample = "no norm sample" if self.norms is None else f"norm sample of {self.norms.n}"
        return f"{self.name}, {counted(self.items.n_items, 'item')}, {sample}"


def population_of(scale: Scale) -> Quadrature:
    """The scale's population on nodes so close that what is averaged over them, smooth in theta, is exact."""
    fine = refine(STANDARD_NORMAL if scale.population is None else scale.population, STEP)
    has_weight = fine.weights > NO_WEIGHT
    return Quadrature(fine.nodes[has_weight], fine.log_weights[has_weight])


#: A scale, or parameters of its items in any form that `as_parameters` takes.
ScaleLike = Scale | ParametersLike


def as_scale(given: ScaleLike, *, categories: bool = False) -> Scale:
    """A scale as it is; item parameters alone as the scale ``all`` without norms, of the population that they state."""
    if isinstance(given, Scale):
        as_parameters(given.items, categories=categories)
        return given
    items = as_parameters(given, categories=categories)
    population = stated_population(given, "items") if isinstance(given, pd.DataFrame) else None
    return Scale("all", items, ItemTable.plain(items.item_ids), population=population)


MEASURES = ("difficulty", "discrimination", "information")


@dataclass(frozen=True, eq=False)
class ItemMap(Drawn, short="{scale.items.n_items:item} of {scale.name}, difficulty {scale.items.difficulty:spanned}"):
    """What each item of a scale asks of people and tells about them; its figure is the Wright map.

    Parameters
    ----------
    scale
        The scale.
    expected_correct
        Proportion correct expected in the population, E[P(theta)], shape (n_items,).
    information
        Fisher information expected of a person of the population, E[I(theta)], shape (n_items,).
    """

    scale: Scale
    expected_correct: NDArray[np.float64]
    information: NDArray[np.float64]

    @property
    @np.errstate(invalid="ignore")
    def share_of_information(self) -> NDArray[np.float64]:
        """Share of the scale's expected information that is the item's, shape (n_items,); NaN if there is none."""
        return np.asarray(self.information / self.information.sum(), dtype=np.float64)

    def table(self) -> pd.DataFrame:
        """One row an item, the most difficult first: columns of items.csv, what is expected of the population, text."""
        items = self.scale.table()
        described = [name for name in ("label", "group", "key", "text") if items[name].notna().any()]
        known = [name for name in items if name not in ("label", "group", "key", "text")]
        return (
            items[known]
            .assign(
                expected_correct=self.expected_correct,
                information=self.information,
                share_of_information=self.share_of_information,
            )
            .join(items[described])
            .sort_values("difficulty", ascending=False, kind="stable", ignore_index=True)
        )

    def extremes(self, most: int = 5) -> pd.DataFrame:
        """The items at either end: hardest and easiest, most and least discriminating, most and least informative.

        Rows of `table` with ``measure`` and ``end`` (``highest`` or ``lowest``) before them, at most so many an end; an
        item is never at both ends of a measure.
        """
        items = self.table()
        most = min(most, len(items) // 2 or 1)
        parts = []
        for measure in MEASURES:
            if items[measure].nunique() < 2 < len(items):  # the slopes of a Rasch model
                continue
            ranked = items.sort_values(measure, ascending=False, kind="stable", ignore_index=True)
            ends = {"highest": ranked.head(most), "lowest": ranked.iloc[most:].tail(most).iloc[::-1]}
            parts += [rows.assign(measure=measure, end=end)[["measure", "end", *rows]] for end, rows in ends.items()]
        return pd.concat([part for part in parts if len(part)], ignore_index=True)


def item_map(scale: ScaleLike, *, population: Quadrature | None = None) -> ItemMap:
    """Place the items and the people of a scale on one line.

    Parameters
    ----------
    scale
        A scale of a bank, or item parameters (`as_parameters`).
    population
        Density of ability; None for the scale's own, the standard normal where it has none.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.5, 0.5, 2.0], [-1.0, 0.5, 1.5], item_ids=["a", "b", "c"])
    >>> found = irtbench.item_map(items)
    >>> found
    <ItemMap: 3 items of all, difficulty -1.00 to 1.50>
    >>> found.table()[["item_id", "difficulty", "expected_correct", "information"]].round(3)
      item_id  difficulty  expected_correct  information
    0       c         1.5             0.130        0.312
    1       b         0.5             0.441        0.058
    2       a        -1.0             0.746        0.315
    """
    scale = as_scale(scale, categories=True)
    items, steepest = scale.items, float(np.abs(scale.items.discrimination).max())
    fine = refine(population or scale.population or STANDARD_NORMAL, step_at(steepest**2))  # for the steepest item
    return ItemMap(scale, fine.weights @ icc(fine.nodes, items), fine.weights @ information(fine.nodes, items))
