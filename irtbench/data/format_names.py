"""What the formats of files are called, on the command line and in study files."""

from __future__ import annotations

from typing import Literal

FormatName = Literal[
    "auto", "long", "wide", "inspect", "lm-eval", "every-eval-ever", "measurement-db", "helm", "potato", "evalplus",
    "lighteval", "label-studio", "argilla", "prodigy", "mturk", "openai-evals", "promptfoo",
    "deepeval", "doccano", "py-irt",
]  # fmt: skip
