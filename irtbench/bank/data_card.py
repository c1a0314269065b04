"""What a bank says of itself to those who did not make it: title, licence, whom it was measured on, how."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from irtbench.data.checked_settings import Settings


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
