"""What the documentation names exists: files, links, names in the package, and an entry for every source cited."""

import re
from dataclasses import fields
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import pytest

import irtbench
from irtbench.cli.main import COMMANDS

ROOT = Path(irtbench.__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [*PAGES, *(file for room in ("irtbench", "scripts") for file in sorted((ROOT / room).rglob("*.py")))]

FILE = re.compile(
    r"(?<![\w/.-])[\w-]+(?:/[\w.-]+)*\.py\b|(?<![\w/.-])(?:irtbench|tests|scripts|docs|configs|data)/[\w./-]*\w/?"
)
ENTRY_POINTS = {"readers"}  # groups of them, irtbench.readers
NAME = re.compile(r"(?<![\w/.-])irtbench((?:\.[A-Za-z_]\w*)+)")
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")

SURNAME = r"(?:De )?[A-Z][a-z]*[A-Z]?(?:'[A-Z])?[a-z]+(?:-[A-Z][a-z]+)*"
CITATION = re.compile(
    rf"(?P<authors>{SURNAME}(?:(?:, {SURNAME})*,? (?:&|and) {SURNAME}| et al\.)?)"
    r"(?:'s [\w' -]{1,60}?)?,?(?: [A-Z]{3,})? \(?(?P<year>(?:18|19|20)\d\d)\b(?! \w+ x)"
)
BEFORE_A_YEAR = 120  # characters that authors may take
NOT_AUTHORS = {"In", "July", "Python"}

ROOMS_OF_STATISTICS = ("diagnostics", "analysis", "scoring", "evaluation")
#: Functions of these rooms that are on the way to a statistic that has its line.
LEADING_TO_STATISTICS = {
    "antecedent_clusters", "concatenate_classes", "draw_antecedents", "draw_events", "grade_answers", "grading_of",
    "link_pairs", "link_probabilities", "name_clusters", "score_file",
}  # fmt: skip
#: Scripts that make no table: data, random changes of the code.
NO_MEASUREMENTS = {"make_crowd_study.py", "make_judges.py", "mutation_sample.py", "forked_tests.py"}


def joined(path: Path) -> str:
    """A file's text with line breaks as spaces, so that what is cited across them is found."""
    return re.sub(r"\s*\n\s*", " ", path.read_text(encoding="utf-8"))


def citations(text: str) -> set[tuple[tuple[str, ...], str]]:
    """Authors and years of the sources cited; of "et al." the first author."""
    found = set()
    # authors are sought in what stands before a year alone: over a whole file the search would never end
    years = re.finditer(r"\b(?:18|19|20)\d\d\b", text)
    near = (text[max(0, year.start() - BEFORE_A_YEAR) : year.end() + 12] for year in years)
    for match in (match for part in near for match in CITATION.finditer(part)):
        authors = tuple(re.split(r", | & | and ", match["authors"].removesuffix(" et al.")))
        if authors[0] not in NOT_AUTHORS:
            found.add((authors, match["year"]))
    return found


def missing_entries(cited: set[tuple[tuple[str, ...], str]], references: str) -> list[str]:
    """Sources without an entry that begins with the first author, names the others and has the year."""
    entries = [line.removeprefix("- ") for line in references.splitlines() if line.startswith("- ")]
    return [
        f"{', '.join(authors)} ({year})"
        for authors, year in sorted(cited)
        if not any(
            entry.startswith(f"{authors[0]}, ")
            and all(f"{author}, " in entry for author in authors)
            and f" ({year}). " in entry
            for entry in entries
        )
    ]


def exists(name: str) -> bool:
    """Whether ``a.b.c`` of the package is a module, or a public name of one, or an attribute of that."""
    module: object = irtbench
    path = "irtbench"
    for part in name.split("."):
        path = f"{path}.{part}"
        if not hasattr(module, part):
            try:
                import_module(path)
            except ModuleNotFoundError:
                return False
        module = getattr(module, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_links_and_names_that_a_page_gives_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = {found.removesuffix("/") for found in FILE.findall(text)}
    assert [name for name in sorted(files) if not (ROOT / name).exists()] == []
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    names = {found[1:] for found in NAME.findall(text)}
    assert [name for name in sorted(names - ENTRY_POINTS) if not exists(name)] == []
    for module, brackets, line in re.findall(r"from (irtbench[\w.]*) import (?:\(([^)]*)\)|(.*))", text):
        for name in re.findall(r"\w+", brackets or line):
            assert hasattr(import_module(module), name), f"{module}.{name}"


def test_every_source_cited_has_an_entry_in_the_references() -> None:
    references = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    cited = set().union(*(citations(joined(path)) for path in SOURCES if path.name != "references.md"))
    assert len(cited) > 50
    assert missing_entries(cited, references) == []


def test_every_entry_of_the_references_says_where_it_is_found() -> None:
    entries = [line for line in (ROOT / "docs" / "references.md").read_text().splitlines() if line.startswith("- ")]
    assert entries == sorted(entries, key=lambda line: line.lower())
    assert all(re.search(r"doi:10\.\d{4,}/\S+$|arXiv:\d{4}\.\d{5}$|ACL \S+$|No DOI known\.$", line) for line in entries)


def test_every_statistic_has_a_line_on_how_to_read_it() -> None:
    text = (ROOT / "docs" / "how_to_read.md").read_text(encoding="utf-8")
    statistics = {
        name
        for name, module in irtbench._HOMES.items()
        if module.split(".")[0] in ROOMS_OF_STATISTICS and isfunction(getattr(irtbench, name))
    }
    assert len(statistics) > 100
    assert sorted(name for name in statistics - LEADING_TO_STATISTICS if f"`{name}`" not in text) == []
    assert sorted(LEADING_TO_STATISTICS - statistics) == []


def test_every_script_that_measures_is_named_with_its_table() -> None:
    text = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    scripts = {path.name for path in (ROOT / "scripts").glob("*.py")}
    assert sorted(name for name in scripts - NO_MEASUREMENTS if f"scripts/{name}" not in text) == []
    assert scripts >= NO_MEASUREMENTS


def test_every_key_of_a_study_file_has_a_meaning_and_a_type() -> None:
    settings = pytest.importorskip("settings_reference")
    tables = settings.tables()
    inner = {place: cls for name, cls in tables.items() for place, cls in settings.inner_tables(cls, name).items()}
    assert {"min_seconds", "chance_p"} <= {key[0] for key in settings.keys(tables["screening"])}
    assert set(inner) == {"[[pruning.exclude]]", "[[forms.limits]]", "[published.scales.NAME]"}
    reference = settings.reference()
    for table, cls in {**tables, **inner}.items():
        for key, kind, default, meaning in settings.keys(cls):
            assert all((kind, default, meaning)), f"{table}.{key}"
            assert f"| `{key}` |" in reference
        assert not settings.meanings(cls).keys() - {field.name for field in fields(cls)}, table
    found = {key[0]: key[1:3] for table in ("screening", "pruning") for key in settings.keys(tables[table])}
    assert found["chance_p"] == ("number in (0, 1)", "`0.05`")
    assert found["min_responses"] == ("whole number of at least 1", "none")
    assert found["local_dependence_p"] == ('`"bootstrap"` or `"chi_square"`', '`"bootstrap"`')
    assert found["drop_negative_slopes"] == ("true or false", "`true`")
    assert found["protect"] == ("list: each text", "`[]`")


def test_every_argument_and_option_of_a_command_has_help() -> None:
    commands = pytest.importorskip("command_reference")
    for command in COMMANDS:
        for choice in commands.choices(command):
            assert choice.meaning, f"{command} {choice.names}"
            assert choice.names, command
            assert all(choice.names), command
    assert {"--json", "--quiet"} <= {name for choice in commands.choices("fit") for name in choice.names}


def test_files_that_a_command_writes_are_listed() -> None:
    commands = pytest.importorskip("command_reference")
    assert commands.files_written("link")[:3] == ["bank.json", "link.json", "extend.json"]
    assert "advantage_N.svg" in commands.files_written("evaluate breakdown")
    assert "prediction.csv" in commands.files_written("predict")
    for command in set(COMMANDS) - {"quickstart"}:  # which writes what build does
        writes_a_folder = any("DIR" in choice.takes and "--output" in choice.names
                              for choice in commands.choices(command))  # fmt: skip
        assert commands.files_written(command) or not writes_a_folder, command


def test_citations_are_found_in_all_their_forms() -> None:
    text = (
        "(Lord, 1980, ch. 5) and Nguyen & O'Connor (2015, doi:1), Lord and Wingersky's recursion (1984); Thissen et "
        "al., 1995, Maydeu-Olivares & Joe, 2006; (De Boeck, 2008) Chen, McNemar & DeGroot 1990. In 2001 the 2PL"
    )
    found = ["Lord 1980", "Nguyen O'Connor 2015", "Lord Wingersky 1984", "Thissen 1995", "Maydeu-Olivares Joe 2006",
             "De Boeck 2008", "Chen McNemar DeGroot 1990"]  # fmt: skip
    assert {" ".join((*authors, year)) for authors, year in citations(text)} == set(found)
    assert missing_entries(citations("Lord and Wingersky (1984)"), "- Lord, F. M. (1984). A title.") == [
        "Lord, Wingersky (1984)"
    ]
