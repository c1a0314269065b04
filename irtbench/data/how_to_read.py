"""How files of answers and responses are read: what the user decides where a file leaves a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

if TYPE_CHECKING:
    from irtbench.data.readers.trials import Trials


FormatName = Literal[
    "auto", "long", "wide", "inspect", "lm-eval", "every-eval-ever", "measurement-db", "helm", "potato", "evalplus",
    "lighteval", "label-studio", "argilla", "prodigy", "mturk", "openai-evals", "promptfoo",
    "deepeval", "doccano", "py-irt",
]  # fmt: skip


class ReadingOptions(TypedDict, total=False):
    """The keywords of `read_responses` and `read_answers`."""

    format: str
    columns: Mapping[str, str] | None
    threshold: float | None
    trials: Trials
    metric: str | Sequence[str]
    errored: Literal["missing", "wrong"]
    join: Literal["id", "hash"] | None
    items: str | None
    exclude: Sequence[str]
    respondents: str | Path | None
    respondent: str


@dataclass(frozen=True)
class HowToRead:
    """What the user decides of files of answers or responses, see `read_responses`."""

    format: str = "auto"
    columns: Mapping[str, str] = field(default_factory=dict)
    trials: Trials = "error"
    threshold: float | None = None
    metric: tuple[str, ...] = ()
    errored: Literal["missing", "wrong"] = "missing"
    join: Literal["id", "hash"] | None = None
    items: str | None = None
    exclude: tuple[str, ...] = ()
    respondents: Path | None = None
    respondent: str = "model"

    @classmethod
    def of(cls, how: ReadingOptions, **more: Any) -> Self:
        """From the keywords of a reader, one name or several where there may be several."""
        given: dict[str, Any] = {**how, **more}
        for name in ("metric", "exclude"):
            if name in given:
                given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
        if given.get("respondents") is not None:
            given["respondents"] = Path(given["respondents"])
        return cls(**given | {"columns": given.get("columns") or {}})
