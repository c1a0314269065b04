"""What is wanted of a crowd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from irtbench.data.checked_settings import Inside, Range, Settings
from irtbench.data.input_error import InputError


@dataclass(frozen=True)
class PlanSettings(Settings):
    """What is wanted of a crowd, and what is known of it; None leaves a wish out.

    Parameters
    ----------
    se_difficulty
        Standard error of b that ``share`` of the items is to reach.
    se_theta
        Root mean squared error of a respondent's ability over the population.
    percentile_width
        Mean width of the interval of a percentile, as a share: .3 is thirty percentiles.
    n_each
        Items that each respondent answers; None: as few as ``se_theta`` and ``percentile_width`` allow, else all.
    n_respondents
        Respondents, if their number is given; None: as few as the wishes allow.
    share
        Share of the items that is to reach ``se_difficulty``.
    level
        Coverage of the percentile's interval.
    guess
        Chance that somebody who does not read answers an attention check right.
    slip
        Chance that somebody who reads answers it wrong.
    guesser_passes
        Highest chance allowed that somebody who does not read passes the checks.
    reader_fails
        Highest chance allowed that somebody who reads fails them.
    careless
        Share of the people recruited who do not read.

    Raises
    ------
    InputError
        If a value lies outside its range, or none of the wishes and neither number is given.
    """

    se_difficulty: Annotated[float, Range(above=0)] | None = None
    se_theta: Annotated[float, Range(above=0, below=1)] | None = None
    percentile_width: Inside | None = None
    n_each: Annotated[int, Range(at_least=2)] | None = None
    n_respondents: Annotated[int, Range(at_least=1)] | None = None
    share: Annotated[float, Range(above=0, at_most=1)] = 0.9
    level: Inside = 0.95
    guess: Inside = 1 / 3
    slip: Annotated[float, Range(at_least=0, below=0.5)] = 0.015
    guesser_passes: Inside = 0.05
    reader_fails: Inside = 0.05
    careless: Annotated[float, Range(at_least=0, below=1)] = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_respondents is None and self.se_difficulty is None and self.se_theta is None:
            raise InputError("plan: expected a wanted standard error of b or theta, or the number of respondents")
