"""What a study found: one result for the whole and one for each scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from irtbench.analysis.dimensions import Dimensions
from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.building.pruning import Pruning
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening
from irtbench.data.shown import Shown, counted
from irtbench.evaluation.agreement import Agreement
from irtbench.scoring.ability import Abilities
from irtbench.scoring.explanation import Explanation
from irtbench.study.item_analysis import ItemAnalysis
from irtbench.study.screening_effect import ScreeningEffect
from irtbench.study.short_forms import StudyForms


@dataclass(frozen=True, eq=False)
class ScaleStudy(Shown):
    """One scale from the items given to the items kept.

    Parameters
    ----------
    name
        The scale's name, in the paper a gold label.
    responses
        Graded responses of the screened respondents to all items given.
    pruning
        The removals, the fits and the diagnostics of each round.
    scale
        What goes into the bank; None if the scale is rejected.
    abilities
        Of the screened respondents on the items kept; None if the scale is rejected.
    analysis
        Item analysis of the items kept; None if the scale is rejected or there is nothing to analyse.
    """

    name: str
    responses: ResponseMatrix
    pruning: Pruning
    scale: Scale | None
    abilities: Abilities | None
    analysis: ItemAnalysis | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the items kept may be no scale of ability; empty where nothing speaks against it, and if rejected."""
        return () if self.scale is None or self.pruning.fitted is None else self.pruning.fitted.doubts

    @property
    def converged(self) -> bool:
        """Whether the last fit converged; a scale of which nothing was fitted counts as one."""
        return self.pruning.fitted is None or self.pruning.fitted.converged

    def table(self) -> pd.DataFrame:
        """One row a removed item, columns of pruning.csv."""
        return self.pruning.table()

    def in_short(self) -> str:
        """Name and what became of the items."""
        return f"{self.name}, {self.pruning.in_short()}"


@dataclass(frozen=True, eq=False)
class Study(Shown):
    """Everything a study found.

    Parameters
    ----------
    settings
        The study file.
    items
        The items, attention checks included.
    screening
        Who was kept and who was not.
    agreement, agreement_by_label
        Of the screened respondents' answers; None and empty where only graded responses were given.
    scales
        One after the other, rejected ones included.
    bank
        The scales retained; None if none is.
    respondent_scores
        Scores of the screened respondents themselves, columns of scores.csv; None without a bank.
    system_scores
        Scores of the systems named in the study file; None without a bank or systems.
    provenance
        Data hashes, settings, versions, date and seed.
    seconds
        Time from reading to the last score.
    dimensions
        Number of abilities of all items together; None if the rules do not ask for it or it cannot be counted.
    screening_effect
        What screening changes; None if it was not asked for.
    no_dimensions
        Why it could not be counted; empty if it was, or was not asked for.
    system_explanation
        Where systems differ from people of their ability; None without a bank or systems.
    group_percentiles
        Percentiles of the systems within each group of the norm samples, see ``percentiles_by_group``; None without a
        bank, systems or groups.
    forms
        The short forms that the study file asks for, or why there are none; None without a bank or a wish.
    """

    settings: StudyFile
    items: ItemTable
    screening: Screening
    agreement: Agreement | None
    agreement_by_label: dict[str, Agreement]
    scales: tuple[ScaleStudy, ...]
    bank: ItemBank | None
    respondent_scores: pd.DataFrame | None
    system_scores: pd.DataFrame | None
    provenance: dict[str, Any]
    seconds: float
    dimensions: Dimensions | None = None
    no_dimensions: str = ""
    system_explanation: Explanation | None = None
    group_percentiles: pd.DataFrame | None = None
    screening_effect: ScreeningEffect | None = None
    forms: StudyForms | None = None

    @property
    def converged(self) -> bool:
        """Whether the last fit of every scale converged."""
        return all(scale.converged for scale in self.scales)

    def table(self) -> pd.DataFrame:
        """One row a scale: items given and kept, rounds, and why it was rejected, if it was."""
        return pd.DataFrame(
            [
                {
                    "scale": scale.name,
                    "n_items": scale.responses.n_items,
                    "n_items_kept": len(scale.pruning.kept),
                    "rounds": len(scale.pruning.rounds),
                    "rejected": scale.pruning.rejected or "",
                }
                for scale in self.scales
            ]
        )

    def in_short(self) -> str:
        """Title, respondents and items kept."""
        return f"{self.settings.study.title}, {self.screening.in_short()}, {counted(len(self.scales), 'scale')}"
