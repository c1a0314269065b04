"""Pages by the rules of axe-core, light and dark, with every part open."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import browser
import pytest
from browser import Browser

from builders.command_line import run
from builders.valid_inputs import COMMANDS_READING, write_valid_inputs
from irtbench.report.html import render_report
from irtbench.study.results import Study

AXE = find_spec("axe_core_python")
pytestmark = [
    pytest.mark.skipif(not browser.AVAILABLE, reason="needs chromium and chromedriver"),
    pytest.mark.skipif(AXE is None, reason="needs axe-core-python"),
]
COMMANDS = ("score", "compare", "items bias", "crowd keys", "form assemble", "crowd raters")
CHECK = """const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ["violations"] }).then((found) => done([
      found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html.slice(0, 200))]),
      found.passes.length]));"""


@pytest.fixture(autouse=True, scope="module")
def drawings_on_pages() -> None:
    """They are drawn."""


@pytest.fixture(scope="module")
def pages(study: Study, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, inputs = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("inputs")
    write_valid_inputs(inputs)
    found = {command: folder / f"{command}.html" for command in ("report", *COMMANDS)}
    found["report"].write_text(render_report(study), encoding="utf-8")
    for command in COMMANDS:
        run(*COMMANDS_READING[command][0], "--html", found[command], cwd=inputs)
    return found


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser.started() as found:
        found.devtools("Page.setBypassCSP", enabled=True)  # the policy lets no script but the page's own run
        yield found


@pytest.fixture(scope="module")
def axe() -> str:
    return (Path(AXE.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def checked(window: Browser, axe: str, page: Path, scheme: str) -> tuple[list[list[Any]], int]:
    window.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    window.resize(1000, 900)
    window.open(page)
    window.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    window.devtools("Runtime.evaluate", expression=axe)
    violations, n_passed = window.run_later(CHECK)
    return violations, n_passed


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", *COMMANDS])
def test_no_rule_is_broken(window: Browser, pages: dict[str, Path], axe: str, name: str, scheme: str) -> None:
    violations, n_passed = checked(window, axe, pages[name], scheme)
    assert violations == []
    assert n_passed >= 15


def test_an_opened_item_breaks_none_either(window: Browser, pages: dict[str, Path], axe: str) -> None:
    window.open(pages["report"], "#item-f0~3c~26~3e")
    assert window.settled("return document.querySelectorAll('.sheet svg').length", 1) == 1
    window.devtools("Runtime.evaluate", expression=axe)
    assert window.run_later(CHECK)[0] == []


def test_a_broken_rule_is_seen(window: Browser, pages: dict[str, Path], axe: str, tmp_path: Path) -> None:
    text = pages["crowd keys"].read_text(encoding="utf-8")
    bad = tmp_path / "bad.html"
    bad.write_text(text.replace("<main>", '<main><img src="data:,"><button></button>').replace(' lang="en"', ""))
    violations, _ = checked(window, axe, bad, "light")
    assert {"image-alt", "button-name", "html-has-lang"} <= {rule[0] for rule in violations}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_sorts_searches_and_keeps_to_its_policy(window: Browser, pages: dict[str, Path], name: str) -> None:
    window.complaints()
    window.resize(400, 900)
    window.open(pages[name])
    rows = "return document.querySelectorAll('#items-table > tbody > tr:not(.item)').length"
    n_rows = window.run(rows)
    assert n_rows >= 2
    assert window.run("return document.documentElement.scrollWidth") == 400
    heading = """const heading = document.querySelector("#items-table thead th");
        heading.querySelector("button").click();
        return [heading.getAttribute("aria-sort"),
          [...document.querySelectorAll("#items-table > tbody > tr > th")].map((cell) => cell.textContent)];"""
    order, names = window.run(heading)
    assert order == "ascending"
    assert names == sorted(names, key=lambda text: (len(text), text) if text[-1:].isdigit() else (0, text))
    window.run(
        """const search = document.querySelector("input[type=search]"); search.value = "no such thing";
        search.dispatchEvent(new Event("input"));"""
    )
    assert window.run(rows) == 0
    assert window.run("return document.querySelector('output').textContent").startswith(f"0 of {n_rows} ")
    assert window.complaints() == []
