"""Responses held as whole numbers, mostly a byte each, and read as floating point numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from irtbench.data.responses import ResponseMatrix

MISSING = -1  # what a response that is missing is held as
HELD = "_coded_responses"  # where a matrix has them


def coded(values: Any) -> NDArray[Any]:
    """Numbers of correct responses, NaN where missing, in the smallest type that holds them, with `MISSING` for NaN.

    What is no whole number, or negative, stays as it is, to be refused by who knows whose response it is.
    """
    given = np.asarray(values)
    if given.dtype == np.bool_:
        return given.astype(np.int8)
    kinds: tuple[type[np.signedinteger[Any]], ...] = (np.int8, np.int32)
    if given.dtype.kind in "iu" and given.size and given.min() >= 0:
        for kind in kinds:
            if given.max() <= np.iinfo(kind).max:
                return given.astype(kind)
    if given.dtype.kind != "f":
        given = given.astype(np.float64)
    missing = np.isnan(given)
    for kind in kinds:
        with np.errstate(invalid="ignore"):  # of numbers too large for it, which then differ
            found: NDArray[Any] = given.astype(kind)
        found[missing] = MISSING
        as_given = found == given
        as_given |= missing
        as_given &= (found >= 0) | missing
        if as_given.all():
            return found
    return given.astype(np.float64)


def decoded(held: NDArray[Any]) -> NDArray[np.float64]:
    """Floating point numbers with NaN for what is missing."""
    found = held.astype(np.float64)
    found[held == MISSING] = np.nan
    return found


class Coded:
    """A field that is held as `coded`, and read as floating point numbers."""

    def __get__(self, responses: ResponseMatrix, owner: type) -> NDArray[np.float64]:
        held = responses.coded_responses
        if held.dtype == np.float64:  # refused in a moment
            return held
        found = decoded(held)
        found.setflags(write=False)
        return found

    def __set__(self, responses: ResponseMatrix, values: Any) -> None:
        held = coded(values)
        held.setflags(write=False)
        vars(responses)[HELD] = held
