"""What ``irtbench fit --testlets`` asks for, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import pandas as pd

from irtbench.cli.reading import Reading
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.sparse_responses import SparseResponses

if TYPE_CHECKING:
    from irtbench.estimation.settings import Device


@dataclass(frozen=True)
class TestletOptions:
    """Testlets to be fitted.

    Parameters
    ----------
    testlets
        The testlet of each item that is in one.
    specific_slopes
        Whether each item has a specific slope of its own, or the items of a testlet have the same.
    """

    testlets: Mapping[str, str]
    specific_slopes: Literal["free", "equal"]

    @classmethod
    def of(
        cls,
        column: str | None,
        item_table: Path | None,
        specific_slopes: Literal["free", "equal"],
        responses: Path,
        reading: Reading,
    ) -> Self | None:
        """Read the testlets from the table of items, or from the responses; None where none are asked for."""
        from irtbench.data.readers.tagged_items import read_testlets

        if column is None:
            if item_table is not None or specific_slopes != "free":
                raise InputError("--item-table and --specific-slopes are of testlets: expected --testlets COLUMN")
            return None
        if item_table is None and responses.is_dir():
            raise InputError(f"--testlets: {responses} is a folder; expected the table of items in --item-table")
        if item_table is not None:
            return cls(read_testlets(item_table, column), specific_slopes)
        try:
            testlets = read_testlets(responses, column, item=reading.columns.get("item_id"))
        except InputError as error:
            raise InputError(f"{error}; a table of items is named by --item-table") from None
        return cls(testlets, specific_slopes)

    def fit(
        self, data: ResponseMatrix | SparseResponses, seed: int, device: Device
    ) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, list[str]]:
        """Contents of fit.json, items.csv and scores.csv, and lines to be printed."""
        from irtbench.analysis.effect_of_testlets import effect_of_testlets
        from irtbench.estimation.bifactor import fit_bifactor

        if isinstance(data, SparseResponses):
            raise InputError("--testlets: so sparse a table of so many items goes without testlets only")
        fitted = fit_bifactor(data, self.testlets, specific_slopes=self.specific_slopes, seed=seed, device=device)
        effect = effect_of_testlets(data, fitted, seed=seed, device=device)
        words = effect.in_words()
        if fitted.alike and self.specific_slopes == "free":
            words.append(
                f"one specific slope for both items of {name_first(fitted.alike)}, whose product alone could be known"
            )
        if fitted.single:
            words.append(f"alone in a testlet, and so in none: item {name_first(fitted.single)}")
        found = fitted.summary() | effect.summary() | {"seed": seed}
        return found, fitted.table(), effect.abilities, words
