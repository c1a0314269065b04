"""A page: the result first, then what it rests on; one file that needs no other. And the frame of a command's page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from irtbench.data.harmless_text import printable
from irtbench.report.blocks import Block, Heading, Section, Sentence, paragraphs
from irtbench.report.formatting import count, plural

MOST_SENTENCES = 12
MOST_ROWS = 5_000  # of a page's table; the command's own file has all


@dataclass(frozen=True)
class Page:
    """What a page says; the template writes it.

    Parameters
    ----------
    title, byline
        Of the page, and below it what it is and whence.
    lead
        The result in a sentence.
    results
        The same in more sentences, a line each.
    blocks
        Figures, tables and paragraphs below them.
    version
        Of irtbench.
    description
        Paragraphs below the title.
    removed
        What was removed, and why.
    warnings
        What to beware of.
    sections
        Parts that unfold; those without blocks are left out.
    """

    title: str
    byline: str
    lead: str
    results: Sequence[Sentence]
    blocks: Sequence[Block]
    version: str
    description: Sequence[str] = ()
    removed: Sequence[Sentence] = ()
    warnings: Sequence[Sentence] = ()
    sections: Sequence[Section] = ()

    def all_blocks(self) -> Iterator[Block]:
        """From the top to the bottom."""
        yield from self.blocks
        for section in self.sections:
            yield from section.blocks


def render_page(page: Page) -> str:
    """Write a page.

    It refers to nothing outside itself. Its one script sorts, filters and opens items; without it everything can be
    read all the same. Its policy lets no other script and no other style run. Names and texts from the data are
    escaped, control characters replaced. The same page gives the same text.
    """
    environment = Environment(
        loader=PackageLoader("irtbench", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = (own_source(environment, name) for name in ("report.css", "report.js"))
    written = environment.get_template("report.html").render(
        page=page,
        sections=[section for section in page.sections if section.blocks],
        style=Markup(style),  # our own files, no word of the data in them
        script=Markup(script),
        policy=policy(style, script),
    )
    return printable(written)


def own_source(environment: Environment, name: str) -> str:
    """The text of a file next to the template, with line ends as a browser sees them."""
    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, name)
    return source.replace("\r\n", "\n")


def policy(style: str, script: str) -> str:
    """The content security policy that lets this style and this script run and nothing else."""
    of_style, of_script = (
        "'sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() + "'"
        for source in (style, script)
    )
    return (
        f"default-src 'none'; img-src data:; style-src {of_style}; script-src {of_script}; base-uri 'none'; "
        "form-action 'none'"
    )


def result_page(
    command: str,
    title: str,
    lead: str,
    results: Sequence[Sentence],
    blocks: Sequence[Block],
    warnings: Sequence[str] = (),
) -> Page:
    """The page of a command's result; without a date, so that the same input gives the same page."""
    own = version("irtbench")
    warned = [(f"{warning[0].upper()}{warning[1:]}.",) for warning in warnings]
    return Page(title, f"irtbench {command}, version {own}", lead, results, blocks, own, warnings=warned)


def how_to_read(*texts: str) -> list[Block]:
    """The end of such a page."""
    return [Heading("How to read it"), *paragraphs(*texts)]


def first_rows(
    rows: pd.DataFrame, noun: str, most: int = MOST_ROWS, where: str = "the table of results"
) -> tuple[pd.DataFrame, str]:
    """As many rows as a page has, and the sentence that says where there are more; empty where these are all."""
    more = f" The first {count(most)} of {plural(len(rows), noun)}; {where} has all." if len(rows) > most else ""
    return rows.head(most), more
