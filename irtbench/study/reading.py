"""How the files of a study are read, by the settings of its ``[data]``."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from irtbench.config import DataSettings
from irtbench.data.how_to_read import ReadingOptions
from irtbench.data.readers.head import look_at
from irtbench.data.readers.recognise import holds_responses, is_outside, read_answers, read_responses
from irtbench.data.readers.respondents import is_prolific


def read_study_table(data: DataSettings) -> pd.DataFrame:
    """The long table of a study's answers or responses, without submissions that Prolific does not count."""
    participants = data.respondents if data.respondents is not None and is_prolific(look_at(data.respondents)) else None
    return _read(data.answers, data, data.format, data.content == "answers", data.columns, participants)


def read_system_table(path: Path, data: DataSettings) -> pd.DataFrame:
    """The long table of a system's answers or responses; its format may be another than that of the study's answers."""
    outside = is_outside(path)
    columns = {} if outside else data.columns
    answers = data.content == "answers" and not (outside and holds_responses(path, columns=columns))
    return _read(path, data, "auto", answers, columns, None)


def _read(
    path: Path, data: DataSettings, format: str, answers: bool, columns: dict[str, str], participants: Path | None
) -> pd.DataFrame:
    outside = is_outside(path)
    how = ReadingOptions(
        format=format, columns=columns, threshold=data.threshold, trials=data.trials, join=data.join,
        metric=data.metric if outside else (), errored=data.errored, items=data.item_pattern,
        exclude=data.exclude_columns, respondents=participants, respondent=data.respondent if outside else "model",
    )  # fmt: skip
    return (read_answers(path, **how) if answers else read_responses(path, **how)).frame
