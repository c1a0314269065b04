"""Pages as a browser shows them: items sort, filter and open, nothing is cut off, no rule of axe-core is broken."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import browser
import pytest
from browser import Browser
from report_study import SCRIPT, drawn, render_report

from builders.command_line import run
from builders.valid_inputs import COMMANDS_READING
from irtbench.study.results import Study

pytestmark = [
    pytest.mark.slow,  # a browser is started
    pytest.mark.skipif(not browser.AVAILABLE, reason="needs chromium and chromedriver"),
]

ROWS = """return [...document.querySelectorAll("#items-table > tbody > tr:not(.item)")].map((row) =>
    [...row.cells].map((cell) => cell.textContent));"""
OPEN = "return document.querySelector('tr.open')?.id ?? null"
COLUMNS = """return [...document.querySelectorAll("#items-table > thead th")].map((cell) => cell.dataset.column);"""


AXE = find_spec("axe_core_python")
CHECK = """const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ["violations"] }).then((found) => done([
      found.violations.map((rule) => [rule.id, rule.nodes.map((node) => node.html.slice(0, 200))]),
      found.passes.length]));"""
COMMANDS = ("score", "compare", "items bias", "crowd keys", "form assemble", "crowd raters")
UNFOLD = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
FIRST = "item-f0~3c~26~3e"  # the address of f0<&>


@pytest.fixture(scope="module")
def page(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    with drawn():
        file.write_text(render_report(study), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser.started() as found:
        yield found


@pytest.fixture
def shown(window: Browser, page: Path) -> Iterator[Browser]:
    """The page as opened, which must not have complained when the test is over."""
    window.complaints()
    window.resize(1000, 900)
    window.open(page)
    yield window
    assert window.complaints() == []


def column(shown: Browser, name: str) -> list[str]:
    place = shown.run(COLUMNS).index(name)
    return [row[place] for row in shown.run(ROWS)]


def sort_by(shown: Browser, name: str) -> str:
    """Press the heading of a column, and say what the table then says of its order."""
    return str(
        shown.run(
            f"""const heading = document.querySelector('#items-table th[data-column="{name}"]');
            heading.querySelector("button").click(); return heading.getAttribute("aria-sort");"""
        )
    )


def number(text: str) -> float | None:
    found = re.match(r"[−<]?[\d.]+", text)
    return None if found is None else float(found[0].replace("−", "-").lstrip("<"))


def test_items_sort_by_number_and_by_name_with_the_unknown_last(shown: Browser) -> None:
    assert sort_by(shown, "difficulty") == "ascending"
    values = [number(text) for text in column(shown, "difficulty")]
    assert len(values) == 20
    assert values == sorted(values, key=lambda value: (value is None, value))
    assert values[0] < 0
    assert sort_by(shown, "difficulty") == "descending"
    values = [number(text) for text in column(shown, "difficulty")]
    assert values == sorted(values, key=lambda value: (value is None, -(value or 0)))
    sort_by(shown, "item_id")
    names = column(shown, "item_id")
    assert names == sorted(names)
    sorted_by = shown.run(
        "return [...document.querySelectorAll('[aria-sort]')].map((heading) => heading.dataset.column)"
    )
    assert sorted_by == ["item_id"]


def test_items_are_searched_and_filtered(shown: Browser) -> None:
    shown.run(UNFOLD)
    shown.run("document.querySelector('input[type=search]').focus()")
    shown.press(*"f9<&")
    assert column(shown, "item_id") == ["f9<&>"]
    assert shown.run("return document.querySelector('output').textContent") == "1 of 20 items"
    shown.run(
        """const search = document.querySelector("input[type=search]"); search.value = "";
        const outcome = document.querySelector(".controls select"); outcome.value = "=scale rejected";
        outcome.dispatchEvent(new Event("change"));"""
    )
    assert column(shown, "item_id") == [f"s{k}" for k in range(5)]  # those that no rule had removed before


def test_an_address_opens_its_item_even_when_filtered_away(shown: Browser, page: Path) -> None:
    shown.open(page, f"#{FIRST}")
    sheet = "return document.querySelector('tr.item')?.textContent ?? null"
    assert SCRIPT in shown.run(sheet)
    row = shown.run(
        """const row = document.querySelector("tr.open"), place = row.getBoundingClientRect();
        return [row.id, row.closest("details").open, place.top >= 0 && place.bottom <= innerHeight];"""
    )
    assert row == [FIRST, True, True]
    assert shown.run("return document.querySelectorAll('tr.item script').length") == 0
    drawn = shown.run(
        """const svg = document.querySelector("tr.item svg");
        return [svg.querySelectorAll("circle").length, svg.querySelector(".model").getAttribute("d").length > 200,
          svg.querySelector(".x").textContent];"""
    )
    assert drawn == [10, True, "ability θ (standard deviations of the population)"]
    assert "yes (key)" in shown.run(sheet)
    shown.run(
        """const search = document.querySelector("input[type=search]"); search.value = "f9";
        search.dispatchEvent(new Event("input"));"""
    )
    assert shown.run(sheet) is None
    shown.run("location.hash = '#item-f3~3c~26~3e'")
    assert shown.settled(OPEN, "item-f3~3c~26~3e") == "item-f3~3c~26~3e"
    assert len(column(shown, "item_id")) == 20


def test_of_many_items_some_are_in_the_page_and_all_are_found(window: Browser, page: Path, tmp_path: Path) -> None:
    source = page.read_text(encoding="utf-8")
    start = source.index("<tbody>", source.index('id="items-table"')) + len("<tbody>")
    rows = source[start : source.index("</tbody>", start)]
    many = "".join(re.sub(r'(id="item-|#item-)', rf"\g<1>{k}-", rows) for k in range(40))
    file = tmp_path / "many.html"
    file.write_text(source[:start] + many + source[start + len(rows) :], encoding="utf-8")
    window.open(file, "#items")
    laid_out = "return document.querySelectorAll('#items-table > tbody > tr').length"
    assert window.run(laid_out) == 500
    assert window.run("return document.querySelector('output').textContent") == "800 items"
    window.run("const box = document.getElementById('items-table').parentElement; box.scrollTop = box.scrollHeight")
    assert window.settled(laid_out, 600) == 600
    window.run("location.hash = '#item-39-s4'")
    assert window.settled(OPEN, "item-39-s4") == "item-39-s4"
    assert window.run(laid_out) == 801
    window.open(file, "#items")
    window.run("dispatchEvent(new Event('beforeprint'))")
    assert window.run(laid_out) == 800
    assert window.complaints() == []


def test_items_open_and_close_by_the_keyboard(shown: Browser, page: Path) -> None:
    shown.open(page, "#items")
    shown.run("document.querySelector('#items-table tbody a').focus()")
    enter, escape = "\ue007", "\ue00c"
    opened = """const link = document.activeElement;
        return [document.querySelector("tr.open")?.id ?? null, link.getAttribute("aria-expanded"), link.textContent];"""
    shown.press(enter)
    wanted = [FIRST, "true", "f0<&>"]
    assert shown.settled(opened, wanted) == wanted
    shown.press(escape)
    closed = [None, None, "f0<&>"]
    assert shown.settled(opened, closed) == closed
    shown.run("document.querySelector('#items-table thead button').focus()")
    shown.press(enter)
    assert shown.run("return document.querySelector('[aria-sort]').dataset.column") == "item_id"


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1000, "light"), (1600, "light")])
def test_nothing_is_cut_at_any_width(shown: Browser, width: int, scheme: str) -> None:
    shown.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    shown.resize(width, 900)
    shown.run(UNFOLD)
    shown.run(f"location.hash = '#{FIRST}'")
    shown.settled(OPEN, FIRST)
    found = shown.run(
        """const beyond = [...document.querySelectorAll("body *")].filter((node) =>
            !node.closest(".scroll > *, svg") && node.getBoundingClientRect().right > innerWidth + 1);
        const sheet = document.querySelector(".sheet").getBoundingClientRect();
        return [document.documentElement.scrollWidth, beyond.map((node) => node.outerHTML.slice(0, 80)),
          sheet.left >= 0 && sheet.right <= innerWidth, getComputedStyle(document.body).backgroundColor];"""
    )
    assert found[:3] == [width, [], True]
    assert (found[3] == "rgb(255, 255, 255)") == (scheme == "light")
    shown.devtools("Emulation.setEmulatedMedia", features=[])


def test_a_long_name_of_an_item_stays_in_its_column(shown: Browser) -> None:
    shown.run(UNFOLD)
    found = shown.run(
        """const cell = document.querySelector("#items-table tbody th"), link = cell.querySelector("a");
        link.textContent = "x".repeat(300);
        return [link.getBoundingClientRect().right, cell.getBoundingClientRect().right];"""
    )
    assert found[0] <= found[1]


def test_without_script_parts_unfold_and_everything_is_there(window: Browser, page: Path) -> None:
    window.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        window.open(page, "#item-s3")
        answer = window.devtools(
            "Runtime.evaluate",
            expression="""JSON.stringify([document.getElementById("item-s3").closest("details").open,
              document.querySelectorAll("#items-table .aside").length > 0
              && [...document.querySelectorAll("#items-table tr:target .aside")].every((cell) => cell.offsetWidth > 0),
              document.querySelectorAll(".controls, thead button").length])""",
        )
        assert json.loads(answer["result"]["value"]) == [True, True, 0]
        window.devtools("Emulation.setEmulatedMedia", media="print")
        answer = window.devtools(
            "Runtime.evaluate",
            expression="""JSON.stringify([...document.querySelectorAll("details")].map((part) =>
              part.querySelector(".unfolded").getBoundingClientRect().height > 0))""",
        )
        unfolded = json.loads(answer["result"]["value"])
        assert len(unfolded) >= 10
        assert all(unfolded)
    finally:
        window.devtools("Emulation.setScriptExecutionDisabled", value=False)
        window.devtools("Emulation.setEmulatedMedia", media="")


def test_it_is_printed_open_and_folded_again(shown: Browser) -> None:
    pdf = base64.b64decode(shown.devtools("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") >= 6
    buttons = "return document.querySelectorAll('#items-table thead button').length"
    n_columns = len(shown.run(COLUMNS))
    assert shown.run(buttons) == n_columns
    shown.run("dispatchEvent(new Event('beforeprint'))")
    assert shown.run(buttons) == 0  # headings are text on paper, which alone is repeated on every page
    shown.run("dispatchEvent(new Event('afterprint'))")
    assert shown.run(buttons) == n_columns
    assert shown.run("return document.querySelectorAll('details[open]').length") == 0


def test_no_script_from_elsewhere_runs(window: Browser, page: Path, tmp_path: Path) -> None:
    # the policy holds even for markup that escaping would have let through
    injected = "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"
    other = tmp_path / "injected.html"
    other.write_text(page.read_text(encoding="utf-8").replace("<main>", f"<main>{injected}"), encoding="utf-8")
    window.open(other)
    assert window.run("return document.title") == "A study of <b>bold</b> claims"
    assert any("Content Security Policy" in complaint for complaint in window.complaints())


def broken(window: Browser, page: Path, fragment: str = "", schemes: Sequence[str] = ("light", "dark")) -> list[str]:
    """Rules of axe-core that the page breaks with every part open, each with where."""
    if AXE is None:
        pytest.skip("needs axe-core-python")
    window.devtools("Page.setBypassCSP", enabled=True)  # the policy lets no script but the page's own run
    violations: list[str] = []
    try:
        window.open(page, fragment)
        window.run(UNFOLD)
        window.devtools("Runtime.evaluate", expression=(Path(AXE.origin).parent / "axe.min.js").read_text("utf-8"))
        for scheme in schemes:
            window.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            found, n_passed = window.run_later(CHECK)
            violations += found
            assert n_passed >= 15
    finally:
        window.devtools("Page.setBypassCSP", enabled=False)
        window.devtools("Emulation.setEmulatedMedia", features=[])
    return violations


def test_the_report_breaks_no_rule_and_an_opened_item_none_either(window: Browser, page: Path) -> None:
    window.resize(1000, 900)
    assert broken(window, page, f"#{FIRST}") == []
    assert window.run("return document.querySelectorAll('.sheet svg').length") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_sorts_searches_and_breaks_no_rule(
    window: Browser, inputs: Path, tmp_path: Path, name: str
) -> None:
    page = tmp_path / "page.html"
    run(*COMMANDS_READING[name][0], "--html", page, cwd=inputs)
    window.resize(400, 900)
    assert broken(window, page) == []
    window.complaints()
    window.open(page)
    rows = "return document.querySelectorAll('#items-table > tbody > tr:not(.item)').length"
    n_rows = window.run(rows)
    assert n_rows >= 2
    assert window.run("return document.documentElement.scrollWidth") == 400
    order, names = window.run(
        """const heading = document.querySelector("#items-table thead th");
        heading.querySelector("button").click();
        return [heading.getAttribute("aria-sort"),
          [...document.querySelectorAll("#items-table > tbody > tr > th")].map((cell) => cell.textContent)];"""
    )
    assert order == "ascending"
    assert names == sorted(names, key=lambda text: (len(text), text) if text[-1:].isdigit() else (0, text))
    window.run(
        """const search = document.querySelector("input[type=search]"); search.value = "no such thing";
        search.dispatchEvent(new Event("input"));"""
    )
    assert window.run(rows) == 0
    assert window.run("return document.querySelector('output').textContent").startswith(f"0 of {n_rows} ")
    assert window.complaints() == []


def test_a_broken_rule_is_seen(window: Browser, page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    bad = tmp_path / "bad.html"
    bad.write_text(text.replace("<main>", '<main><img src="data:,"><button></button>').replace(' lang="en"', ""))
    assert {"image-alt", "button-name", "html-has-lang"} <= {rule[0] for rule in broken(window, bad, schemes=["light"])}
