"""The blocks of code in a page of Markdown, fenced or indented, and what language each is in."""

import re
import tomllib
from dataclasses import dataclass
from textwrap import dedent

from markdown_it import MarkdownIt

SHELL = re.compile(r"\$ |irtbench |python |\./scripts/|scripts/|pip |\.venv/bin/|[A-Z_]+=\S* ")
PYTHON = re.compile(r"import \w|from [\w.]+ import |def |class |@")
WORDS = {"sh": "console", "bash": "console", "shell": "console", "pycon": "python"}  # of fences


@dataclass(frozen=True)
class CodeBlock:
    """One block: the line it begins on, counted from 1, its language, its text, and whether it is fenced."""

    line: int
    language: str
    text: str
    fenced: bool


def code_blocks(page: str) -> list[CodeBlock]:
    """All blocks of a page; directives of MyST (``{note}``) are none."""
    found = []
    for token in MarkdownIt().parse(page):
        info = token.info.strip().split(" ")[0]
        if token.type in ("fence", "code_block") and not info.startswith("{"):
            language = WORDS.get(info, info) or language_of(token.content)
            found.append(CodeBlock((token.map or [0])[0] + 1, language, token.content, token.type == "fence"))
    return found


def language_of(text: str) -> str:
    """``console``, ``python``, ``toml``, or ``text`` where it is no code."""
    first = text.lstrip().split("\n")[0]
    if first.startswith(">>> ") or PYTHON.match(first):
        return "python"
    if SHELL.match(first):
        return "console"
    try:
        return "toml" if tomllib.loads(dedent(text)) else "text"
    except tomllib.TOMLDecodeError:
        return "text"
