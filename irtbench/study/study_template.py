"""A study file for a data set: what its data say is filled in, the rest are the defaults with a word about each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from irtbench.data.grading import NormalisationRule

Preset = Literal["standard", "lalor2016", "none"]
#: Rules of ``[grading] normalise`` that a study file begins with.
NORMALISE: tuple[NormalisationRule, ...] = ("strip", "casefold")


@dataclass(frozen=True)
class Template:
    """What goes into a study file; what is None or empty is left out.

    Parameters
    ----------
    title
        What the study is called.
    answers
        Its file or folder, as the study file names it.
    content, format, items
        What that holds, in which format, and the table of items.
    data
        Further keys of ``[data]``: columns, trials, metric, ...
    attention
        Whether there are attention checks, which screening then asks for.
    n_options
        How many answers there are to choose from, where they are fixed: a rule of screening by it is proposed as a
        comment, since it depends on ability.
    by_label
        Whether there is a scale for each label.
    answers_mapped
        ``[grading] map``.
    prior
        Of ``[model]``.
    preset
        Of ``[pruning]``.
    systems
        Files of systems to score at the end.
    respondents
        What the bank calls those whose responses these are, where it is not people.
    """

    title: str
    answers: str
    content: Literal["answers", "responses"]
    format: str = "auto"
    items: str | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    attention: bool = False
    n_options: int | None = None
    by_label: bool = False
    answers_mapped: Mapping[str, str] = field(default_factory=dict)
    prior: str | None = None
    preset: Preset = "standard"
    systems: Sequence[str] = ()
    respondents: str = ""


def study_text(template: Template, *, output: Path) -> str:
    """The study file as TOML; results go to the folder `output` beside it."""
    data: dict[str, object] = {"answers": template.answers}
    if template.items is not None:
        data["items"] = template.items
    if template.content == "responses":
        data["content"] = "responses"
    if template.format != "auto":
        data["format"] = template.format
    data |= {key: value for key, value in template.data.items() if value not in (None, "", (), [], {}, "error")}
    screening: dict[str, object] = {}
    if template.attention:
        screening["attention_share"] = 1.0
    tables: list[tuple[str, str, dict[str, object]]] = [
        ("study", "", {"title": template.title, "seed": 1}),
        ("data", "", data),
        ("screening", "who is left out", screening),
    ]
    if template.content == "answers":
        grading: dict[str, object] = {"normalise": list(NORMALISE), "empty": "wrong"}
        if template.answers_mapped:
            grading["map"] = dict(template.answers_mapped)
        tables.append(("grading", "how answers are compared with the key", grading))
    model: dict[str, object] = {"kind": "2pl"}
    if template.prior is not None:
        model["prior"] = template.prior
    by: dict[str, object] = {"by": "label" if template.by_label else "none"}
    tables += [
        ("scales", "label: one scale a label of the items; none: one for all", by),
        ("model", "", model),
        ("pruning", "standard, lalor2016 or none; single rules beside it", {"preset": template.preset}),
        ("score", "systems to score at the end", {"systems": list(template.systems)}),
        ("output", "", {"directory": output.as_posix()}),
    ]
    if template.respondents:
        tables.append(("card", "what the bank says of itself", {"respondents": template.respondents}))
    lines = [f"# Study file of irtbench: irtbench build {output.name}.toml"]
    for name, comment, table in tables:
        lines += ["", f"[{name}]" + (f"  # {comment}" if comment else "")]
        lines += [f"{key} = {toml_value(value)}" for key, value in table.items()]
        if name == "screening" and template.n_options is not None and template.content == "answers":
            lines.append(
                f"# chance_level = {1 / template.n_options:.4f}  # leaves out who may guess, and honest weak people too"
            )
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    """A value as TOML writes it: texts, numbers, truth values, lists and inline tables.

    Examples
    --------
    >>> print(toml_value({"a b": [1, True, "x"]}))
    { "a b" = [1, true, "x"] }
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_text(str(key))} = {toml_value(entry)}" for key, entry in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    return toml_text(str(value))


def toml_text(text: str) -> str:
    """A text as a TOML basic string, whose escapes are those of JSON but for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
