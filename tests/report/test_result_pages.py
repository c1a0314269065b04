"""Pages of single results: they open with the result, show the files' numbers, escape every name, and have limits."""

import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_study import drawn

from builders.command_line import run
from irtbench.report.page import FigureOfPanels, ItemsTable, render_page
from irtbench.report.result_pages import bias_page, comparison_page, keys_page

MARKUP = "<script>alert(1)</script>"


def said(text: str) -> str:
    """What a reader reads, on one line."""
    body = text[text.index("<body>") : text.rindex("<script>")]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).replace("−", "-").split())


BETTER = r"\d+ of \d+ pairs? differ significantly in"
BIAS = "items bias responses.csv --groups groups.csv --method mantel-haenszel -o {}/b"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("line", "lead"),
    [
        ("score bank.json systems.csv -o {}/s.csv", r"\d+ systems? scored on \d+ scale"),
        ("compare wide.csv -o {}/c", f"{BETTER} accuracy"),
        ("compare wide.csv --bank bank.json --item-error none -o {}/c", f"{BETTER} ability"),
        (BIAS, r"\d+ of \d+ items differ between "),
        ("crowd keys answers.csv --items items.csv -o {}/k", r"\d+ respondents are too few to call a key wrong"),
        ("form assemble bank.json --length 3 -o {}/f", "3 items; no other choice is better"),
        ("form assemble parameters.csv --length 2 --forms 2 -o {}/f", "2 forms of 2 items each"),
    ],
)
def test_a_page_opens_with_the_result_and_ends_with_how_to_read_it(
    inputs: Path, tmp_path: Path, line: str, lead: str
) -> None:
    page = tmp_path / "page.html"
    run(line.format(tmp_path), "--html", page, "-q", cwd=inputs)
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?://", text)
    read = said(text)
    assert re.search(rf"Result {lead}", read), read[:400]
    assert read.index("Figure 1.") < read.index("Table 1.") < read.index("How to read it")


def test_the_same_input_gives_the_same_page_with_the_numbers_of_the_file(inputs: Path, tmp_path: Path) -> None:
    pages, file = [tmp_path / "one.html", tmp_path / "two.html"], tmp_path / "scores.csv"
    with drawn():
        for page in pages:
            run(f"score bank.json systems.csv -o {file} --html {page} -q", cwd=inputs)
    assert pages[0].read_bytes() == pages[1].read_bytes()
    read = said(pages[0].read_text(encoding="utf-8"))
    for row in pd.read_csv(file).to_dict("records"):
        assert f"{row['theta']:.2f} [{row['theta_lower']:.2f}, {row['theta_upper']:.2f}]" in read
        assert row["respondent_id"] in read


def comparison(names: list[str]) -> pd.DataFrame:
    first, second = np.triu_indices(len(names), 1)
    gap = 0.01 * (second - first)
    return pd.DataFrame(
        {
            "scale": "all items", "first": [names[k] for k in first], "second": [names[k] for k in second],
            "n_items": 50, "accuracy_difference": gap, "accuracy_lower": gap - 0.005, "accuracy_upper": gap + 0.005,
            "accuracy_p_adjusted": np.where(second - first > 1, 0.001, 0.5),
        }
    )  # fmt: skip


def test_who_is_better_is_printed_with_the_interval_on_that_side() -> None:
    table, turned = comparison(["a", "b", "c"]), comparison(["a", "b", "c"])
    turned["accuracy_difference"] *= -1
    turned["accuracy_lower"], turned["accuracy_upper"] = -table["accuracy_upper"], -table["accuracy_lower"]
    for differences, said in ((table, "a is better than c"), (turned, "c is better than a")):
        page = comparison_page(differences, None, level=0.95, adjustment="holm")
        assert page.lead == "1 of 3 pairs differ significantly in accuracy (adjusted p below 0.05)."
        assert page.results == [(f"{said}: accuracy higher by 0.020 [0.015, 0.025], adjusted p .001.",)]


@pytest.mark.slow
def test_many_systems_make_a_page_of_bounded_size() -> None:
    page = comparison_page(comparison([f"s{k:03d}" for k in range(120)]), None, level=0.95, adjustment="holm")
    (table,) = [block for block in page.blocks if isinstance(block, ItemsTable)]
    assert len(table.table.rows) == 5_000
    assert "The first 5,000 of 7,140 pairs" in table.caption
    assert len(page.results) == 13
    (figure,) = [block for block in page.blocks if isinstance(block, FigureOfPanels)]
    assert "The 40 pairs of least p of 7,140" in figure.panels[0].description
    with drawn():
        assert len(render_page(page)) < 5_000_000


def test_names_are_text_wherever_they_stand() -> None:
    pages = [
        comparison_page(comparison([MARKUP, "b", "c"]), None, level=0.95, adjustment="fdr_bh"),
        bias_page(
            pd.DataFrame({"item_id": [MARKUP, "$x$"], "delta": [2.0, 0.1], "p": [0.1, 0.5], "p_adjusted": [0.1, 0.5]}),
            {"flagged": [MARKUP], "groups": {MARKUP: 3, "b": 3}, "reference": MARKUP, "items_left_out": [MARKUP]},
            [],
            alpha=0.05,
        ),
        keys_page(
            pd.DataFrame(
                {"item_id": [MARKUP], "key": [MARKUP], "proposed": ["</script>"], "p_wrong_key": [0.9],
                 "discrimination": [-1.0], "item_rest": [-0.1], "p_proposed": [0.9]}
            ),
            pd.DataFrame(
                {"item_id": [MARKUP] * 2, "option": [MARKUP, "</script>"], "is_key": [True, False], "n": [3, 4],
                 "share": [0.4, 0.6], "point_biserial": [-0.2, 0.2], "flags": ["", ""], "share_low": [0.9, 0.1],
                 "share_middle": [0.5, np.nan], "share_high": [0.1, 0.9]}
            ),
            share_wrong=0.1, suspicious=0.5,
        ),
    ]  # fmt: skip
    for page in pages:
        text = render_page(page)
        assert MARKUP not in text
        assert "&lt;script&gt;alert(1)" in text
        assert text.count("<script") == text.count("</script>")
    # without a difference there is still a page
    table = pd.DataFrame({"item_id": ["a"], "delta": [np.nan], "p": [np.nan], "p_adjusted": [np.nan]})
    page = bias_page(table, {"flagged": [], "groups": {"x": 1, "y": 1}, "reference": "x"}, [], alpha=0.05)
    assert page.lead == "0 of 1 item differ between x and y."
    assert "a" in said(render_page(page))
