"""What is known of the respondents besides their answers: the columns and weights that norms are formed by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from irtbench.bank.norms import Norms
from irtbench.bank.raking import rake, raked_norms
from irtbench.config import StudyFile
from irtbench.data.input_error import InputError
from irtbench.data.readers.head import look_at
from irtbench.data.readers.respondents import is_prolific, read_respondents, respondents_of, weights_of
from irtbench.data.responses import Responses, name_first
from irtbench.scoring.ability import Abilities


def read_columns_of_norms(settings: StudyFile, table: pd.DataFrame) -> tuple[pd.DataFrame, Path] | tuple[None, None]:
    """Columns of the respondents that norms are formed by, and their file: a table of respondents, or the answers."""
    data, weight = settings.data, settings.score.norm_weight
    names = list(dict.fromkeys([*settings.score.norm_columns, *([] if weight is None else [weight])]))
    if not names:
        prolific = data.respondents is not None and is_prolific(look_at(data.respondents))  # says who counts
        if data.respondents is not None and settings.screening.min_approval is None and not prolific:
            raise InputError(
                f"{settings.path}: data.respondents: no column of it is asked for; "
                "expected score.norm_groups, score.norm_group, score.norm_margins, score.norm_weight or "
                "screening.min_approval"
            )
        return None, None
    if data.respondents is not None:
        known = {"respondent_id": "Participant id"} if is_prolific(look_at(data.respondents)) else {}
        columns = {**known, **data.respondent_columns}
        return read_respondents(data.respondents, names, columns=columns), data.respondents
    return respondents_of(table, names, data.answers), data.answers


def columns_of_norms(
    settings: StudyFile,
    respondents: pd.DataFrame | None,
    respondents_from: Path | None,
    screened: Responses,
    progress: Callable[[str], None],
) -> pd.DataFrame | None:
    """The same for the screened respondents, in their order, checked before anything is fitted."""
    if respondents is None or respondents_from is None:
        return None
    of_screened = respondents.reindex(list(screened.respondent_ids)).astype(object)
    of_screened = of_screened.where(of_screened.notna(), None)
    for name in settings.score.norm_columns:
        known = of_screened[name].notna()
        if not known.any():
            raise InputError(
                f"file {respondents_from}, column {name}: empty for all {screened.n_respondents} screened "
                "respondents; expected a value for some"
            )
        if not known.all():
            progress(f"{name}: known of {int(known.sum())} of {screened.n_respondents} respondents")
    for name, value in settings.score.norm_group.items():
        values = sorted(set(of_screened[name].dropna()))
        if value not in values:
            raise InputError(
                f"{settings.path}: score.norm_group: no screened respondent has {name} {value}; "
                f"expected one of {name_first(values)}"
            )
    weights = None
    if settings.score.norm_weight is not None:
        weights = weights_of(of_screened, settings.score.norm_weight, respondents_from)
    if settings.score.norm_margins:
        raked = rake({str(name): list(of_screened[name]) for name in of_screened}, settings.score.norm_margins, weights)
        progress(f"norms weighted to {name_first(list(settings.score.norm_margins))}: {raked.in_short()}")
    return of_screened


def norms_of(abilities: Abilities, columns: pd.DataFrame | None, settings: StudyFile) -> Norms:
    """The norm sample of a scale, with the weights and groups of its respondents."""
    if columns is None:
        return Norms(abilities.theta, standard_error=abilities.standard_error)
    own = columns.loc[list(abilities.respondent_ids)]
    weight = settings.score.norm_weight
    norms = Norms(
        abilities.theta,
        None if weight is None else weights_of(own, weight, settings.data.respondents or settings.data.answers),
        abilities.standard_error,
        {name: tuple(own[name]) for name in settings.score.norm_columns},
    )
    return raked_norms(norms, settings.score.norm_margins) if settings.score.norm_margins else norms
