"""What every diagnostic asks of its input, once, at the door."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_parameters import ItemParameters


def check_items_agree(responses: ResponseMatrix, items: ItemParameters) -> None:
    """Refuse responses and parameters that do not list the same items in the same order."""
    if responses.n_items != items.n_items:
        raise InputError(f"diagnostics: {responses.n_items} items in the responses but {items.n_items} parameters")
    for k, (column, item) in enumerate(zip(responses.item_ids, items.item_ids, strict=True)):
        if column != item:
            raise InputError(
                f"diagnostics: column {k + 1} is {column} in the responses but {item} in the item parameters; "
                "expected the same items in the same order"
            )


def check_respondents_agree(answers: pd.DataFrame, responses: ResponseMatrix) -> None:
    """Refuse answers to these items by somebody who is not among the responses."""
    unknown = answers["item_id"].isin(responses.item_ids) & ~answers["respondent_id"].isin(responses.respondent_ids)
    if unknown.any():
        raise InputError(
            f"answers: respondent {answers['respondent_id'][unknown].iloc[0]} has answers but no row in the "
            "responses; expected the same respondents (an array's are named r1 ...)"
        )


def check_theta(theta: NDArray[np.float64], responses: ResponseMatrix) -> NDArray[np.float64]:
    """Return abilities as float64, shape (n_respondents,), after refusing any other shape and any not finite."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (responses.n_respondents,):
        raise InputError(f"diagnostics: theta has shape {theta.shape} for {responses.n_respondents} respondents")
    if not np.isfinite(theta).all():
        first = int(np.flatnonzero(~np.isfinite(theta))[0])
        raise InputError(
            f"diagnostics: theta of respondent {responses.respondent_ids[first]} must be finite but is {theta[first]}"
        )
    return theta
