"""What a fit of many scales found: a fitted model of each, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.shown import Shown, counted
from irtbench.estimation.fitted import FittedModel


@dataclass(frozen=True, eq=False)
class FittedScales(Shown):
    """Models of scales that were fitted together, in the order in which the scales were given.

    Parameters
    ----------
    names
        Of the scales.
    fits
        The model of each; None where its responses do not determine one.
    reasons
        Why there is none; empty where there is one.
    seconds
        That all of them took.
    """

    names: tuple[str, ...]
    fits: tuple[FittedModel | None, ...]
    reasons: tuple[str, ...]
    seconds: float

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> FittedModel:
        """The model of a scale.

        Raises
        ------
        InputError
            If there is no such scale, or its responses do not determine one.
        """
        if name not in self.names:
            raise InputError(f"fitted scales: no scale {name}; expected one of {name_first(self.names)}")
        place = self.names.index(name)
        if (fitted := self.fits[place]) is None:
            raise InputError(f"scale {name}: {self.reasons[place]}")
        return fitted

    @property
    def not_converged(self) -> tuple[str, ...]:
        """Names of the scales without estimates to be used: not fitted, or not converged."""
        return tuple(
            name for name, fitted in zip(self.names, self.fits, strict=True) if fitted is None or not fitted.converged
        )

    def table(self) -> pd.DataFrame:
        """One row a scale: its size, log-likelihood, whether it converged, and why the iterations ended."""
        rows = [
            {
                "scale": name,
                "n_items": None if fitted is None else fitted.items.n_items,
                "n_respondents": None if fitted is None else fitted.n_respondents,
                "log_likelihood": None if fitted is None else fitted.log_likelihood,
                "converged": fitted is not None and fitted.converged,
                "stopped_because": reason if fitted is None else fitted.stopped_because,
            }
            for name, fitted, reason in zip(self.names, self.fits, self.reasons, strict=True)
        ]
        table = pd.DataFrame(rows, columns=list(rows[0]) if rows else ["scale"])
        whole = {name: "Int64" for name in ("n_items", "n_respondents") if name in table}
        return table.astype(whole)

    def items_table(self) -> pd.DataFrame:
        """The items of all scales that have a model, columns of items.csv with the scale's name first."""
        parts = [
            fitted.table().assign(scale=name)
            for name, fitted in zip(self.names, self.fits, strict=True)
            if fitted is not None
        ]
        if not parts:
            return pd.DataFrame({"scale": []})
        table = pd.concat(parts, ignore_index=True)
        return table[["scale", *(column for column in table if column != "scale")]]

    def in_short(self) -> str:
        """How many converged, and how many did not or have no model."""
        none = sum(fitted is None for fitted in self.fits)
        open_end = len(self.not_converged) - none
        parts = [counted(len(self), "scale"), f"{len(self) - none - open_end} converged"]
        parts += [f"{open_end} NOT CONVERGED"] if open_end else []
        parts += [f"{none} not fitted"] if none else []
        return ", ".join(parts)
