"""Sizes of the simulated data, and how they are named on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

NAME = re.compile(r"(2pl|3pl):(\d+)x(\d+)(:hierarchical)?")


@dataclass(frozen=True)
class Size:
    """Responses of ``n_respondents`` to ``n_items`` that follow a 2PL or a 3PL.

    ``hierarchical`` asks irtbench for a prior learnt from the items, which is what few respondents call for.
    """

    kind: Literal["2pl", "3pl"]
    n_respondents: int
    n_items: int
    hierarchical: bool = False

    @classmethod
    def parse(cls, name: str) -> Size:
        """Read ``2pl:1000x90``, ``3pl:1000x90`` or ``2pl:100x2000:hierarchical``."""
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"size {name!r}: expected such as 2pl:1000x90, 3pl:5000x100 or 2pl:100x2000:hierarchical")
        kind, n_respondents, n_items, hierarchical = match.groups()
        if int(n_respondents) < 10 or int(n_items) < 3:
            raise ValueError(f"size {name!r}: expected at least 10 respondents and 3 items")
        return cls("2pl" if kind == "2pl" else "3pl", int(n_respondents), int(n_items), hierarchical is not None)

    @property
    def name(self) -> str:
        """As `parse` reads it."""
        return f"{self.kind}:{self.n_respondents}x{self.n_items}{':hierarchical' if self.hierarchical else ''}"

    @property
    def label(self) -> str:
        """As tables and figures say it."""
        return f"{self.kind.upper()} {self.n_respondents:,} x {self.n_items:,}"

    @property
    def n_responses(self) -> int:
        """Number of responses; none is missing."""
        return self.n_respondents * self.n_items


ON_PROCESSOR = [
    "2pl:1000x30",
    "2pl:1000x90",
    "2pl:5000x100",
    "2pl:20000x200",
    "2pl:100000x100",
    "2pl:100000x500",
    "3pl:1000x90",
    "3pl:5000x100",
    "2pl:100x2000:hierarchical",
]
ON_GPU = ["2pl:100000x100", "2pl:1000000x100", "2pl:1000000x1000", "2pl:10000000x100"]
