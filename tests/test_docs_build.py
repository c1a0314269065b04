"""The documentation is built without a warning, and no page of it asks the network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import irtbench
from code_blocks import language_of

ROOT = Path(irtbench.__file__).parents[1]
DOCS = ROOT / "docs"
FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")
FROM_STYLES = re.compile(r"(?:@import\s|url\()[\"']?(?:https?:)?//")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `scripts/docs` builds them."""
    for needed in ("sphinx", "myst_parser", "pydata_sphinx_theme", "numpydoc", "sphinx_copybutton"):
        pytest.importorskip(needed)
    folder = tmp_path_factory.mktemp("docs")
    asked = [
        "--builder",
        "html",
        "--fail-on-warning",
        "--keep-going",
        "--quiet",
        "--doctree-dir",
        str(folder / "cache"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *asked, DOCS, folder / "html"],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


@pytest.mark.slow
def test_every_page_is_built_and_reached(built: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert {page for page in pages if not (built / page).is_file()} == set()
    index = (built / "index.html").read_text(encoding="utf-8")
    assert all(f'href="{page}"' in index for page in ("tutorial_crowd.html", "study_file.html", "api/index.html"))


@pytest.mark.slow
def test_no_page_asks_the_network(built: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in built.rglob("*.html")}
    styles = {style: style.read_text(encoding="utf-8") for style in built.rglob("*.css")}
    assert len(pages) > 40
    assert {page.name: FETCHED.findall(text) for page, text in pages.items() if FETCHED.search(text)} == {}
    assert [style.name for style, text in styles.items() if FROM_STYLES.search(text)] == []


def test_a_page_that_asks_it_would_be_seen() -> None:
    assert FETCHED.search('<script defer src="https://cdn.example.org/mathjax.js"></script>')
    assert FETCHED.search('<link rel="stylesheet" href="//fonts.example.org/a.css" />')
    assert not FETCHED.search('<a href="https://doi.org/10.1007/BF02293801">')
    assert FROM_STYLES.search('@import url("https://fonts.example.org/a.css")')


@pytest.mark.slow
def test_what_is_made_from_the_code_is_in_the_pages(built: Path) -> None:
    pages = {name: (built / f"{name}.html").read_text(encoding="utf-8") for name in (
        "study_file", "commands", "references", "api/diagnostics", "api/models")}  # fmt: skip
    assert all(key in pages["study_file"] for key in ("min_seconds", "chance_p", "normalise", "most_overlap"))
    assert all(word in pages["commands"] for word in ("--item-error", "rounds_pairs.csv", "--allow-unconverged"))
    assert 'id="irtbench.item_fit"' in pages["api/diagnostics"]
    assert "NDArray" in pages["api/models"]
    assert "numpy.dtype" not in pages["api/models"]
    assert 'href="https://doi.org/10.1016/0001-6918(73)90003-6"' in pages["references"]
    assert any("<mfrac>" in page.read_text(encoding="utf-8") for page in built.glob("*.html"))


def test_formulas_of_a_docstring_are_kept_letter_by_letter() -> None:
    marked = pytest.importorskip("formulas_in_docstrings").as_they_stand
    text = ["Error.", "", "    sum |B| g^2", "", "with g.", "", "Parameters", "----------", "b", "    Bins."]
    assert marked(text) == [*text[:2], "::", "", *text[2:]]
    assert marked(["One.", "", "- a list", "  goes on"]) == ["One.", "", "- a list", "  goes on"]
    assert marked(["Of log |a| and ``|b|``, int | None."]) == [r"Of log \|a\| and ``|b|``, int | None."]
    assert marked(["Examples", "--------", ">>> x |= {1} | y |= {2}"])[-1] == ">>> x |= {1} | y |= {2}"
    # the language of a block is seen
    for block, language in (
        (">>> 1 + 1\n2", "python"), ("import numpy as np\n", "python"), ("irtbench fit x -o y\n", "console"),
        ("$ ls\n", "console"), ("[study]\ntitle = 'x'\n", "toml"), ("P = c + (1 - c) / 2\n", "text"),
    ):  # fmt: skip
        assert language_of(block) == language, block
