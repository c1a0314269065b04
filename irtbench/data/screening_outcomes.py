"""How many respondents screening kept, and how many each rule removed: what is known of very many together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from irtbench.data.screening import ORDER, Screening, ScreeningSettings
from irtbench.data.shown import Shown, counted

KEPT = "kept"


@dataclass(frozen=True)
class ScreeningOutcomes(Shown):
    """Respondents by what screening made of them, the kept first, then by rule in the order of `screen`.

    Parameters
    ----------
    outcome
        ``kept``, or the reason; those alone that somebody has.
    n_respondents
        How many have it.
    n_known
        How many of these have a response to an item that is no attention check.
    accuracy
        Mean over these of the share of correct responses; NaN where there is none.
    settings
        The rules.
    """

    outcome: tuple[str, ...]
    n_respondents: tuple[int, ...]
    n_known: tuple[int, ...]
    accuracy: tuple[float, ...]
    settings: ScreeningSettings

    @classmethod
    def of(cls, screening: Screening) -> ScreeningOutcomes:
        """Those of respondents whose screening is at hand."""
        everyone = pd.DataFrame({"reason": screening.reason, "accuracy": screening.accuracy})
        groups = everyone.groupby("reason")["accuracy"].agg(["size", "count", "mean"])
        groups = groups.reindex([reason for reason in ORDER if reason in groups.index])
        return cls(
            tuple(reason or KEPT for reason in groups.index),
            tuple(groups["size"].tolist()),
            tuple(groups["count"].tolist()),
            tuple(groups["mean"].tolist()),
            screening.settings,
        )

    @classmethod
    def together(cls, parts: Iterable[ScreeningOutcomes], settings: ScreeningSettings) -> ScreeningOutcomes:
        """Those of several groups of respondents under the same rules."""
        found: dict[str, list[float]] = {}
        for part in parts:
            for outcome, n, known, mean in zip(
                part.outcome, part.n_respondents, part.n_known, part.accuracy, strict=True
            ):
                sums = found.setdefault(outcome, [0, 0, 0.0])
                sums[0] += n
                sums[1] += known
                sums[2] += known * mean if known else 0.0
        order = [reason or KEPT for reason in ORDER if (reason or KEPT) in found]
        return cls(
            tuple(order),
            tuple(int(found[name][0]) for name in order),
            tuple(int(found[name][1]) for name in order),
            tuple(found[name][2] / found[name][1] if found[name][1] else np.nan for name in order),
            settings,
        )

    @property
    def n(self) -> int:
        """Number of respondents."""
        return sum(self.n_respondents)

    @property
    def n_kept(self) -> int:
        """Number of those kept."""
        return dict(zip(self.outcome, self.n_respondents, strict=True)).get(KEPT, 0)

    def table(self) -> pd.DataFrame:
        """One row an outcome: ``outcome, n_respondents, share, accuracy``."""
        n = np.array(self.n_respondents, dtype=np.int64)
        return pd.DataFrame(
            {
                "outcome": self.outcome,
                "n_respondents": n,
                "share": n / max(self.n, 1),
                "accuracy": np.array(self.accuracy, dtype=np.float64),
            }
        )

    def in_short(self) -> str:
        """How many are kept, and why others are not."""
        left = [f"{n} {name}" for name, n in zip(self.outcome, self.n_respondents, strict=True) if name != KEPT]
        return ", ".join([f"{self.n_kept} of {counted(self.n, 'respondent')} kept", *left])
