"""Figures as files: SVG, PNG and PDF, with what they show inside them and in a list beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from matplotlib.axes import Axes

from irtbench.data.harmless_text import escaped, printable
from irtbench.report.blocks import Block, FigureOfPanels
from irtbench.report.drawing import HEIGHT, WIDTH, Drawing, figure_of, on_axes, svg_of

DOTS = 300  # of a PNG, and of what is a picture in a PDF, an inch
FORMATS = ("svg", "png", "pdf")
LIST = "figures.json"  # of the figures in a folder, with their captions


def write_figure(file: Path, draw: Callable[[Axes], object], *, width: float = WIDTH, height: float = HEIGHT) -> None:
    """Let ``draw`` fill an Axes and write it in the format of the file's name (svg, png, pdf).

    The same drawing gives the same bytes every time.
    """
    write_drawing(on_axes(file.stem, draw, width=width, height=height), file)


def write_drawing(drawing: Drawing, file: Path, *, caption: str = "", width: float | None = None) -> None:
    """Write a drawing in the format of the file's name, with its title, its caption and what it shows."""
    title = printable(drawing.heading or title_of(caption))
    description = printable(" ".join(filter(None, [caption, drawing.description])))
    with figure_of(drawing, headed=True, width=width) as figure:
        if file.suffix == ".svg":
            file.write_text(svg_of(figure, title=title, description=description), encoding="utf-8")
            return
        about = {
            ".png": {"Title": title, "Description": description, "Software": None},
            ".pdf": {"Title": title, "Subject": description, "CreationDate": None, "Creator": None, "Producer": None},
        }.get(file.suffix, {})
        figure.savefig(file, dpi=DOTS, metadata={name: text for name, text in about.items() if text != ""})


def title_of(caption: str) -> str:
    """The beginning of a caption, up to its first colon or full stop.

    Examples
    --------
    >>> title_of("Test information: high where the items tell much.")
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
            for ending in formats:
                write_drawing(drawing, folder / f"{drawing.name}.{ending}", caption=block.caption, width=width)
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
    files = [f"{name}.{ending}" for name in names for ending in FORMATS]
    return [LIST, *(file for file in files if Path(file).name == file)]
