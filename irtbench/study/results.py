"""What a study found: one result for the whole and one for each scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.analysis.dimensions import Dimensions
from irtbench.bank.bank import ItemBank
from irtbench.bank.scale import Scale
from irtbench.building.pruned import Pruning
from irtbench.config import StudyFile
from irtbench.data.items import ItemTable
from irtbench.data.respondent_sample import Sampled
from irtbench.data.responses import ResponseMatrix, share_correct
from irtbench.data.screening import Screening
from irtbench.data.screening_outcomes import ScreeningOutcomes
from irtbench.data.shown import Shown, counted
from irtbench.estimation.fitted import FittedModel
from irtbench.evaluation.agreement import Agreement
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import parameter_table
from irtbench.scoring.ability import Abilities
from irtbench.scoring.explanation import Explanation
from irtbench.study.item_analysis import ItemAnalysis
from irtbench.study.screening_effect import ScreeningEffect
from irtbench.study.short_forms import StudyForms


@dataclass(frozen=True, eq=False)
class FittedToAll(Shown):
    """What is of all screened respondents where a scale was pruned on a sample of them.

    Parameters
    ----------
    item_ids
        The items given.
    n_by_item, n_correct_by_item
        Responses and correct ones to each, shape (n_items,).
    n_respondents
        Number of those with a response to any of them.
    fitted
        The fit of the items kept; None if the scale is rejected.
    """

    item_ids: tuple[str, ...]
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    n_respondents: int
    fitted: FittedModel | None

    def table(self) -> pd.DataFrame:
        """One row an item given: ``item_id, n_responses, proportion_correct``."""
        return pd.DataFrame(
            {
                "item_id": self.item_ids,
                "n_responses": self.n_by_item,
                "proportion_correct": share_correct(self.n_correct_by_item, self.n_by_item),
            }
        )

    def in_short(self) -> str:
        """How many, and what was fitted to them."""
        fitted = "nothing fitted" if self.fitted is None else self.fitted.in_short()
        return f"{counted(self.n_respondents, 'respondent')}, {fitted}"


@dataclass(frozen=True, eq=False)
class ScaleStudy(Shown):
    """One scale from the items given to the items kept.

    Parameters
    ----------
    name
        The scale's name, in the paper a gold label.
    responses
        Graded responses of the screened respondents, or of a sample of them, to all items given.
    pruning
        The removals, the fits and the diagnostics of each round.
    scale
        What goes into the bank; None if the scale is rejected.
    abilities
        Of these respondents on the items kept; None if the scale is rejected.
    analysis
        Item analysis of the items kept; None if the scale is rejected or there is nothing to analyse.
    of_all
        What is of all screened respondents where the rest is of a sample of them; None where it is of all.
    """

    name: str
    responses: ResponseMatrix
    pruning: Pruning
    scale: Scale | None
    abilities: Abilities | None
    analysis: ItemAnalysis | None = None
    of_all: FittedToAll | None = None

    @property
    def fitted(self) -> FittedModel | None:
        """The last fit: that of all screened respondents, if there is one, else that of the last round."""
        return self.of_all.fitted if self.of_all is not None and self.of_all.fitted is not None else self.pruning.fitted

    @property
    def fits(self) -> dict[str, FittedModel]:
        """Every fit by its name: those of the rounds, and that to all where the rounds are of a sample."""
        found = {f"round {r.number}": r.fitted for r in self.pruning.rounds}
        if self.of_all is not None and self.of_all.fitted is not None:
            found["all respondents"] = self.of_all.fitted
        return found

    @property
    def n_respondents(self) -> int:
        """Screened respondents with a response to any of the items given."""
        return self.responses.n_respondents if self.of_all is None else self.of_all.n_respondents

    def parameters(self, items: ItemParameters) -> pd.DataFrame:
        """Parameters of some of the items beside the classical figures of all responses, see `parameter_table`."""
        if self.of_all is None:
            return parameter_table(items, self.responses)
        figures = self.of_all.table().set_index("item_id").loc[list(items.item_ids)]
        return items.table().assign(**{str(name): figures[name].to_numpy() for name in figures})

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the items kept may be no scale of ability; empty where nothing speaks against it, and if rejected."""
        return () if self.scale is None or self.fitted is None else self.fitted.doubts

    @property
    def converged(self) -> bool:
        """Whether the last fit converged; a scale of which nothing was fitted counts as one."""
        return self.fitted is None or self.fitted.converged

    def table(self) -> pd.DataFrame:
        """One row a removed item, columns of pruning.csv."""
        return self.pruning.table()

    def in_short(self) -> str:
        """Name and what became of the items."""
        return f"{self.name}, {self.pruning.in_short()}"


@dataclass(frozen=True)
class StudySample:
    """That a study was pruned on a sample of its respondents, and what is known of all of them.

    Parameters
    ----------
    drawn
        How many of the screened respondents, and by which seed.
    outcomes
        What screening made of all respondents.
    """

    drawn: Sampled
    outcomes: ScreeningOutcomes


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
        Who was kept and who was not; of responses on disk, a sample of all respondents.
    agreement, agreement_by_label
        Of the screened respondents' answers; None and empty where only graded responses were given.
    scales
        One after the other, rejected ones included.
    bank
        The scales retained; None if none is.
    respondent_scores
        Scores of the screened respondents themselves, or of the sample, columns of scores.csv; None without a bank.
    system_scores
        Scores of the systems named in the study file; None without a bank or systems.
    provenance
        Data hashes, settings, versions, date and seed.
    seconds
        Time from reading to the last score.
    dimensions
        Number of abilities of all items together; None if the rules do not ask for it or it cannot be counted.
    screening_effect
        What screening changes; None if it was not asked for, and no rule leaves out the less able.
    exclusions_by_ability
        A sentence for each rule of screening that leaves out less able people who answered honestly.
    no_dimensions
        Why it could not be counted; empty if it was, or was not asked for.
    system_explanation
        Where systems differ from people of their ability; None without a bank or systems.
    group_percentiles
        Percentiles of the systems within each group of the norm samples, see ``percentiles_by_group``; None without a
        bank, systems or groups.
    forms
        The short forms that the study file asks for, or why there are none; None without a bank or a wish.
    sample
        Of responses on disk: the sample that scales were pruned on; None where they were pruned on all.
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
    exclusions_by_ability: tuple[str, ...] = ()
    forms: StudyForms | None = None
    sample: StudySample | None = None

    @property
    def outcomes(self) -> ScreeningOutcomes:
        """What screening made of all respondents."""
        return ScreeningOutcomes.of(self.screening) if self.sample is None else self.sample.outcomes

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
        screened = (self.screening if self.sample is None else self.sample.outcomes).in_short()
        return f"{self.settings.study.title}, {screened}, {counted(len(self.scales), 'scale')}"
