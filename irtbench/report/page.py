"""A page: sections of paragraphs, tables and figures as data, and the one file that shows them and needs no other."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes

from irtbench.data.harmless_text import escaped, printable
from irtbench.report.drawing import HEIGHT, Drawing, figure_of, laid_out_once, on_axes, svg_of
from irtbench.report.formatting import WrittenTable, count, plural, words, write_table

MOST_NAMED = 8  # items in one sentence
MOST_OPTIONS = 8  # of an item: more are free text


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table with a caption that says how to read it."""

    caption: str
    table: WrittenTable


@dataclass(frozen=True)
class ItemsTable:
    """The one table of a page that is sorted, searched and filtered: all items, or whatever has a row each.

    Parameters
    ----------
    caption
        How to read it.
    table
        The written values; the name of what the row is about comes first.
    anchors
        The address of each row, which opens there; none for rows that do not open.
    asides
        For each column whether a page with script shows it only where a row is opened; none where all are shown.
    details
        What the script shows of a row that is opened, as plain JSON values.
    noun
        What a row is.
    filters
        Columns whose values can be chosen.
    words
        What can be searched for.
    """

    caption: str
    table: WrittenTable
    anchors: Sequence[str] = ()
    asides: Sequence[bool] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    noun: str = "item"
    filters: Sequence[str] = ("outcome", "scale")
    words: str = "item, text, reason …"


@dataclass(frozen=True)
class FigureOfPanels:
    """Panels next to each other under one caption."""

    caption: str
    panels: list[Drawing]


@dataclass(frozen=True)
class Heading:
    """What the blocks below are about."""

    text: str


Block = Text | Table | ItemsTable | FigureOfPanels | Heading


@dataclass(frozen=True)
class Section:
    """A part of the page; without blocks it is left out."""

    anchor: str
    title: str
    blocks: list[Block]


def paragraphs(*texts: str) -> list[Block]:
    """A paragraph block of each text that is not empty."""
    return [Text(text) for text in texts if text]


def table(frame: pd.DataFrame, caption: str) -> list[Block]:
    """A table block; none for an empty table."""
    return [] if frame.empty else [Table(caption, write_table(frame))]


def figure(panels: list[Drawing], caption: str) -> list[Block]:
    """A figure block; none without panels. Those that share a name are numbered."""
    names = [panel.name for panel in panels]
    alike = {name for name in names if names.count(name) > 1}
    numbered = [f"{name}_{names[: k + 1].count(name)}" if name in alike else name for k, name in enumerate(names)]
    panels = [replace(panel, name=name) for panel, name in zip(panels, numbered, strict=True)]
    return [FigureOfPanels(caption, panels)] if panels else []


def one_panel(
    name: str, draw: Callable[[Axes], object], description: str, *, height: float = HEIGHT, caption: str = "",
    **found: object,
) -> list[Block]:  # fmt: skip
    """A figure of one drawing; its caption has the drawing's name unless given, and says what was found."""
    return figure([on_axes(name, draw, description=description, height=height)], words(caption or name, **found))


@dataclass(frozen=True)
class Link:
    """Words that lead to a place on the page."""

    text: str
    anchor: str


#: A sentence or more: words, and words that lead somewhere.
Sentence = tuple[str | Link, ...]


def item_anchor(item_id: str) -> str:
    """The fragment of an item's address: letters, digits, ``-``, ``_`` and ``.`` as they are, other bytes as ``~xx``.

    Different items have different addresses, and none holds what HTML or a browser's address would read otherwise.

    Examples
    --------
    >>> item_anchor("c11"), item_anchor("a b<&>"), item_anchor("~")
    ('item-c11', 'item-a~20b~3c~26~3e', 'item-~7e')
    """
    kept = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    name = item_id.encode("utf-8", errors="surrogatepass")
    return "item-" + "".join(chr(byte) if byte in kept else f"~{byte:02x}" for byte in name)


def linked_items(item_ids: Sequence[str]) -> Sentence:
    """The items as in a sentence, each leading to its row; of many the first ``MOST_NAMED`` and how many more.

    Examples
    --------
    >>> linked_items(["a", "b"])
    (Link(text='a', anchor='item-a'), ' and ', Link(text='b', anchor='item-b'))
    """
    named = item_ids if len(item_ids) <= MOST_NAMED + 1 else item_ids[:MOST_NAMED]
    links: list[str | Link] = [Link(item, item_anchor(item)) for item in named]
    if len(named) < len(item_ids):
        links.append(plural(len(item_ids) - len(named), "other"))
    parted = [part for link in links for part in (link, ", ")][:-1]
    if len(links) > 1:
        parted[-2] = " and "
    return tuple(parted)


def drawn_options(options: pd.DataFrame) -> dict[str, object]:
    """What the page's script shows of the options of an item: rows of distractors.csv as plain JSON values.

    ``options`` are rows of option, whether it is the key, answers, percent of the lower, middle and upper third (None
    where nobody was asked), flags; ``more`` says how many there are beyond ``MOST_OPTIONS``.
    """
    names = ["option", "is_key", "n", "share_low", "share_middle", "share_high", "flags"]
    rows = [
        [printable(str(option)), bool(is_key), int(n), *(None if s != s else round(100 * s) for s in shares), flags]
        for option, is_key, n, *shares, flags in options[names].head(MOST_OPTIONS).itertuples(index=False)
    ]
    return {"options": rows, "more": max(len(options) - MOST_OPTIONS, 0)}


FILE_DOTS = 300  # of a PNG, and of what is a picture in a PDF, an inch
FORMATS = ("svg", "png", "pdf")
LIST = "figures.json"  # of the figures in a folder, with their captions


def write_drawing(
    drawing: Drawing, folder: Path, formats: Iterable[str] = FORMATS, *, caption: str = "", width: float | None = None
) -> None:
    """Write a drawing in these formats, with its title, its caption and what it shows, from one layout."""
    title = printable(drawing.heading or title_of(caption))
    description = printable(" ".join(filter(None, [caption, drawing.description])))
    with figure_of(drawing, headed=True, width=width) as figure:
        laid_out_once(figure)
        for ending in formats:
            file = folder / f"{drawing.name}.{ending}"
            if ending == "svg":
                file.write_text(svg_of(figure, title=title, description=description), encoding="utf-8")
                continue
            about: dict[str, str | None] = {"Title": title, "Description": description, "Software": None}
            if ending == "pdf":
                undated = dict.fromkeys(("CreationDate", "Creator", "Producer"))
                about = {"Title": title, "Subject": description, **undated}
            figure.savefig(file, dpi=FILE_DOTS, metadata={name: text for name, text in about.items() if text != ""})


def title_of(caption: str) -> str:
    """The beginning of a caption, up to its first colon or full stop.

    Examples
    --------
    >>> title_of("Test information: high where abilities are known well.")
    'Test information'
    """
    return min((caption.partition(mark)[0] for mark in (": ", ". ")), key=len).removesuffix(".")


def write_figures(
    blocks: Iterable[Block], folder: Path, *, formats: Iterable[str] = FORMATS, width: float | None = None
) -> None:
    """Write every figure among the blocks of a page, and with more than one format the list of them."""
    formats = tuple(formats)
    listed = []
    for block in blocks:
        if not isinstance(block, FigureOfPanels):
            continue
        for drawing in block.panels:
            write_drawing(drawing, folder, formats, caption=block.caption, width=width)
            about = {"title": drawing.heading or title_of(block.caption), "caption": block.caption}
            listed.append({"name": drawing.name} | about | {"description": drawing.description})
    if len(formats) > 1:
        text = escaped(json.dumps(listed, indent=2, ensure_ascii=False))
        (folder / LIST).write_text(text + "\n", encoding="utf-8")


def written_before(folder: Path) -> list[str]:
    """Names of the figures that an earlier run wrote into a folder, by its list; none where there is no such list."""
    try:
        listed = json.loads((folder / LIST).read_text(encoding="utf-8"))
        names = [str(figure["name"]) for figure in listed]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    drawn = [f"{name}.{ending}" for name in names for ending in FORMATS]
    return [LIST, *(file for file in drawn if Path(file).name == file)]


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
    templates = files("irtbench.report") / "templates"
    style, script = ((templates / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    return printable(
        environment.get_template("report.html").render(
            page=page,
            kind=lambda block: type(block).__name__,
            sections=[section for section in page.sections if section.blocks],
            style=Markup(style),  # our own files, no word of the data in them
            script=Markup(script),
            policy=policy(style, script),
        )
    )


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
