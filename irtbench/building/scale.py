"""A scale: the items that measure one ability, the people it was measured on, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.models.item_response import ItemParameters
from irtbench.models.quadrature import Quadrature

NORM_DECIMALS = 4  # of theta in the norm sample: far below any standard error, and ties stay ties


@dataclass(frozen=True, eq=False)
class Norms:
    """The screened respondents of the reference population, as their abilities.

    Parameters
    ----------
    theta
        EAP of each respondent, kept to ``NORM_DECIMALS`` decimals, shape (n,).
    weights
        Positive weight of each respondent where the sample is not drawn evenly, shape (n,); None for equal weights.

    Raises
    ------
    InputError
        If the sample is empty, a value is not finite, a weight is not positive, or lengths differ.
    """

    theta: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        theta = np.array(self.theta, dtype=np.float64).round(NORM_DECIMALS)
        if theta.ndim != 1 or theta.size == 0 or not np.isfinite(theta).all():
            raise InputError("norms: theta must be a list of at least one finite number")
        theta.setflags(write=False)
        object.__setattr__(self, "theta", theta)
        if self.weights is not None:
            weights = np.array(self.weights, dtype=np.float64)
            if weights.shape != theta.shape:
                raise InputError(f"norms: {weights.size} weights for {theta.size} respondents")
            if not (np.isfinite(weights) & (weights > 0)).all():
                raise InputError("norms: weights must be positive and finite")
            weights.setflags(write=False)
            object.__setattr__(self, "weights", weights)

    @property
    def n(self) -> int:
        """Number of respondents."""
        return self.theta.size


@dataclass(frozen=True, eq=False)
class Scale:
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

    Raises
    ------
    InputError
        If there is no item, ``details`` is about other items, or ``provenance`` holds what JSON cannot.
    """

    name: str
    items: ItemParameters
    details: ItemTable
    norms: Norms | None = None
    population: Quadrature | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.items.n_items == 0:
            raise InputError(f"scale {self.name}: expected at least one item")
        if self.details.item_ids != self.items.item_ids:
            raise InputError(f"scale {self.name}: parameters and details are not about the same items in one order")
        if any(self.details.attention):
            raise InputError(f"scale {self.name}: an attention check cannot be an item of a scale")
        try:
            plain = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(f"scale {self.name}: provenance must be plain JSON values: {error}") from None
        object.__setattr__(self, "provenance", plain)
