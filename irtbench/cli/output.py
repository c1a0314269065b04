"""Results as files and on the terminal."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from irtbench.cli.page import put
from irtbench.cli.result_files import output_file, output_folder
from irtbench.cli.shown_table import IN_JSON, ShownTable, readable
from irtbench.data.harmless_text import escaped, guarded_table, printable
from irtbench.data.input_error import InputError
from irtbench.data.place import without_credentials

__all__ = [
    "demand_table_name", "output_file", "output_folder", "plain", "say", "say_next", "show_table",
    "to_html", "to_json", "to_latex", "to_markdown", "top_and_bottom", "write_json", "write_table",
]  # fmt: skip

MANY_ROWS = 10_000  # from which on a table of plain columns is written several times as fast
MOST_ROWS_SHOWN = 40  # on the terminal
TABLE_NAMES = (".csv", ".csv.gz", ".parquet", ".json", ".md", ".tex", ".html")


def demand_table_name(file: Path) -> None:
    """Refuse a name that says no format that tables are written in.

    Raises
    ------
    InputError
        Naming those that there are.
    """
    if not file.name.lower().endswith(TABLE_NAMES):
        raise InputError(f"output {file}: expected a name that ends in {', '.join(TABLE_NAMES)}")


def write_table(table: pd.DataFrame, file: Path) -> None:
    """Write a table as CSV (gzipped for ``.gz``), Parquet, JSON, Markdown, LaTeX or HTML, by the file's name.

    In CSV a text that a spreadsheet would take for a formula has an apostrophe before it; `read_table` takes it away.
    """
    if file.suffix == ".parquet":
        table.to_parquet(file, index=False)
    elif file.suffix == ".json":
        write_json(table, file)
    elif file.suffix == ".md":
        file.write_text(to_markdown(table), encoding="utf-8")
    elif file.suffix == ".tex":
        file.write_text(to_latex(table), encoding="utf-8")
    elif file.suffix == ".html":
        file.write_text(to_html(table), encoding="utf-8")
    else:
        # without a time, which would make every gzipped file differ
        gzipped = {"method": "gzip", "mtime": 0} if file.suffix == ".gz" else None
        table = guarded_table(table)
        if gzipped is not None or len(table) < MANY_ROWS or not write_many_rows(table, file):
            table.to_csv(file, index=False, lineterminator="\n", compression=gzipped)


def write_many_rows(table: pd.DataFrame, file: Path) -> bool:
    """Write the bytes that pandas writes, much sooner; False where a column or a text in it forbids."""
    columns: list[pa.Array] = []
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if column.dtype == np.float64:
            # as Python writes a number: 1.0 and 1e-05
            texts = [None if number != number else repr(number) for number in column.tolist()]
            columns.append(pa.array(texts, pa.string()))
        elif column.dtype == np.int64 or pd.api.types.infer_dtype(column, skipna=True) == "string":
            columns.append(pa.array(column, from_pandas=True))
        else:
            return False
    names = [str(name) for name in table.columns]
    plain = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    if len(names) < 2 or any(set(name) & set(',"\r\n') for name in names):
        return False
    try:
        with file.open("wb") as sink:
            sink.write((",".join(names) + "\n").encode())
            pa.csv.write_csv(pa.Table.from_arrays(columns, names), sink, plain)
    except pa.ArrowInvalid:  # a text that needs quotes
        return False
    return True


def to_markdown(table: pd.DataFrame) -> str:
    """The table in Markdown, numbers to three digits behind the point."""
    rows = [list(table.columns), *([readable(value) for value in row] for row in table.itertuples(index=False))]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    line = ["---:" if holds_numbers(table[name]) else "---" for name in table.columns]
    return "".join("| " + " | ".join(row) + " |\n" for row in [cells[0], line, *cells[1:]])


def to_latex(table: pd.DataFrame) -> str:
    """The table in LaTeX, of the package booktabs, numbers to three digits behind the point."""
    sides = "".join("r" if holds_numbers(table[name]) else "l" for name in table.columns)
    return in_words(table).to_latex(index=False, escape=True, na_rep="", float_format="%.3f", column_format=sides)


def to_html(table: pd.DataFrame) -> str:
    """The table as a page of HTML that a word processor opens, numbers to three digits behind the point."""
    rows = in_words(table).to_html(index=False, border=1, na_rep="", float_format=lambda number: f"{number:.3f}")
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>table</title></head>'
    return f"{head}\n<body>\n{rows}\n</body></html>\n"


def holds_numbers(column: pd.Series[Any]) -> bool:
    """Whether a column holds numbers, be it as texts."""
    if pd.api.types.is_numeric_dtype(column):
        return True
    given = column[column.notna() & (column != "")]
    return not given.empty and bool(pd.to_numeric(given, errors="coerce").notna().all())


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names of columns as a paper has them."""
    return table.rename(columns=lambda name: str(name).replace("_", " "))


def write_json(value: Any, file: Path) -> None:
    """Write plain values as JSON."""
    file.write_text(to_json(value) + "\n", encoding="utf-8")


def to_json(value: Any) -> str:
    """Plain values, arrays and tables as strict JSON; what is not a number (NaN, infinity) becomes null."""
    return escaped(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Turn NumPy and pandas values into those that JSON knows."""
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict(orient="records")]
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return [plain(entry) for entry in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return None if value is pd.NA else value


def say(text: str) -> None:
    """Print a line for people on standard output; names in it cannot drive the terminal."""
    put(printable(without_credentials(text)))


def say_next(*words: object) -> None:
    """Print, as the last line, the command that comes next; paths with spaces are quoted."""
    put(printable(without_credentials(f"next: {shlex.join(map(str, words))}")))


def top_and_bottom(table: pd.DataFrame) -> pd.DataFrame:
    """As many rows of either end as `show_table` may show, so that others need not be put into words."""
    if len(table) <= 2 * MOST_ROWS_SHOWN:
        return table
    return pd.concat([table.head(MOST_ROWS_SHOWN), table.tail(MOST_ROWS_SHOWN)])


def show_table(
    table: pd.DataFrame,
    *,
    title: str = "",
    most: int = MOST_ROWS_SHOWN,
    rest: Path | tuple[Path | None, str] | None = None,
    of: int | None = None,
) -> None:
    """Print a table for people on standard output, numbers to three digits behind the point; see `ShownTable`.

    `rest` is the file that has all rows, or a folder and its name in it; where there is none --json prints them.
    """
    file = rest[0] and rest[0] / rest[1] if isinstance(rest, tuple) else rest
    put(ShownTable(table, title, most, IN_JSON if file is None else str(file), of))
