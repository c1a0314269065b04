"""How often do the tests notice a change of the code? A random sample of mutants, counted by room.

    python -m pytest -m "not slow" --cov --cov-context=test --durations=0 -vv > tests.log
    python scripts/mutation_sample.py --coverage .coverage --log tests.log -o mutants.csv

Cosmic Ray (pip install -e '.[mutation]') says which changes of a file there are: another operator, comparison, number,
constant or branch. Of all places in the rooms asked for, as many as wanted are drawn, so that a long file has its
share, and for each place one of its changes. Each is made in a copy of the checkout, where tests are run until the
first one fails: those that pass through the changed line (by the coverage of each test), the quickest first, until
they would take longer than `--seconds`; where no test is known to pass through (lines that are run at import, or in a
process of their own), the files of the room's tests that name the changed file, as long. The checkout itself is left
alone. A test that notices a mutant is run without it too: one that fails anyhow counts for nothing. Mutants whose
tests run into the time limit are counted for themselves: an endless loop is noticed, a busy machine notices nothing.
With `-o` each outcome is written as it comes, and a run that was interrupted goes on where it ended. Defaults stand in
pyproject.toml, [tool.mutation_sample].
"""

from __future__ import annotations

import argparse
import ast
import csv
import itertools
import os
import random
import re
import shutil
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from forked_tests import FAILED, NO_TESTS, PASSED, ForkedTests

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    "irtbench", "tests", "scripts", "configs", "data", "docs", ".ci", "conftest.py", "pyproject.toml", "README.md",
    "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
)  # fmt: skip
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutation_sample"]


@dataclass(frozen=True)
class Mutant:
    """One change: an operator of Cosmic Ray, and which of its places in the file."""

    path: Path  # relative to the checkout
    operator: str
    occurrence: int
    line: int

    @property
    def room(self) -> str:
        """The folder of the package, or `top` for a file that stands in none."""
        return room_of(self.path)


def room_of(path: Path) -> str:
    return path.parts[1] if len(path.parts) > 2 else "top"


def places_to_change(rooms: list[str]) -> list[list[Mutant]]:
    """Every place of every file of the rooms, in a fixed order, with the changes there are for it."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    kinds = {name: get_operator(name) for name in sorted(operator_names()) if name not in SETTINGS["leave_out"]}
    operators = {name: kind() for name, kind in kinds.items() if not kind.arguments()}
    found = []
    for full in sorted((ROOT / "irtbench").rglob("*.py")):
        path = full.relative_to(ROOT)
        if rooms and room_of(path) not in rooms:
            continue
        nodes = list(ast_nodes(get_ast(full.read_text(encoding="utf-8"))))
        here: dict[object, list[Mutant]] = {}
        for name, operator in operators.items():
            places = [place for node in nodes for place in operator.mutation_positions(node)]
            for k, place in enumerate(places):
                here.setdefault(place, []).append(Mutant(path, name, k, place[0][0]))
        found += list(here.values())
    return found


class WithoutTypes(ast.NodeTransformer):
    """Annotations are never evaluated here: a change of one alone changes nothing."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def meaning(source: str) -> str:
    return ast.dump(WithoutTypes().visit(ast.parse(source)))


def mutated(mutant: Mutant) -> str | None:
    """Text of the file with the change; None where it changes nothing."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    changed: str | None = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    try:
        return None if changed is None or meaning(changed) == meaning(source) else changed
    except SyntaxError:  # no Python any more: nothing to test
        return None


def changed_line(before: str, after: str) -> str:
    """The first line that differs, for the printout."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next(
        (f"line {k}: {old.strip()}  ->  {new.strip()}" for k, (old, new) in enumerate(pairs, 1) if old != new), ""
    )


def statement_lines(source: str, line: int) -> range:
    """Lines of the statement (of a compound one: of its head) that stands on a line."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            end = body[0].lineno if body else (node.end_lineno or line) + 1
            if line < max(end, node.lineno + 1):
                found = range(node.lineno, max(end, node.lineno + 1))
    return found


class TestsOfLines:
    """Which tests pass through a line, the quickest first."""

    __test__ = False

    def __init__(self, coverage_file: Path, log: Path) -> None:
        from coverage import CoverageData

        self.data = CoverageData(str(coverage_file))
        self.data.read()
        self.root = next(file for file in self.data.measured_files() if file.endswith("irtbench/__init__.py"))
        self.seconds: dict[str, float] = {}
        for took, test in re.findall(r"^([0-9.]+)s (?:call|setup) +(.+?)\s*$", log.read_text(), flags=re.MULTILINE):
            for name in (test, test.partition("::")[0]):
                self.seconds[name] = self.seconds.get(name, 0.0) + float(took)

    def through(self, path: Path, source: str, line: int) -> list[str]:
        """Tests that run the statement on a line; without those whose names cannot be given to pytest again."""
        contexts = self.data.contexts_by_lineno(str(Path(self.root).parents[1] / path))
        lines = statement_lines(source, line)
        found = {name.rpartition("|")[0] for k in lines for name in contexts.get(k, []) if "|" in name}
        return sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test))

    def within(self, tests: list[str], seconds: float) -> list[str]:
        total = itertools.accumulate(self.seconds.get(test, 0.0) for test in tests)
        return [test for test, until in zip(tests, total, strict=True) if until <= seconds]


def tests_that_name(copy: Path, path: Path) -> list[str]:
    """Test files of the changed file's room in which its name stands, shortest first; all of them if there is none."""
    folder = copy / "tests" / room_of(path)
    files = sorted((folder if folder.is_dir() else copy / "tests").rglob("test_*.py"), key=lambda f: f.stat().st_size)
    named = [file for file in files if path.stem in file.stem or path.stem in file.read_text(encoding="utf-8")]
    return [str(file.relative_to(copy)) for file in named or files]


class Judge:
    """Runs the tests of one mutant after the other; knows which tests fail without any."""

    def __init__(self, copy: Path, python: str, tests: TestsOfLines, seconds: float, timeout: float) -> None:
        beside = {"IRTBENCH_REAL_DATA": os.environ.get("IRTBENCH_REAL_DATA", str(ROOT.parent / "shared"))}
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.copy, self.tests, self.seconds, self.timeout = copy, tests, seconds, timeout
        self.forked = ForkedTests(copy, python, one_thread | beside)
        self.sound: dict[str, bool] = {}  # a test that failed: whether it passes without a mutant

    def outcome(self, mutant: Mutant, text: str) -> tuple[str, str]:
        """What the tests say of a mutant: noticed, unnoticed or too long; and which one noticed it."""
        place = self.copy / mutant.path
        original = (ROOT / mutant.path).read_text(encoding="utf-8")
        through = self.tests.through(mutant.path, original, mutant.line)
        tests = self.tests.within(through, self.seconds)
        if not tests:
            tests = self.tests.within(tests_that_name(self.copy, mutant.path), self.seconds)
        for batch in (tests[:40], tests[40:]):
            while batch := [test for test in batch if self.sound.get(test, True)]:
                place.write_text(text, encoding="utf-8")
                ended = self.forked.run(batch, self.timeout)
                place.write_text(original, encoding="utf-8")
                if ended.status == PASSED or ended.status == NO_TESTS:
                    break
                if ended.status is None:
                    return "too long", ""
                if ended.status != FAILED:  # the files cannot be imported, if they can without the mutant
                    return ("noticed", "import") if self.passes(batch[:1]) else ("unclear", ended.said[-300:])
                if self.passes([ended.failed]):
                    return "noticed", ended.failed
                batch = [test for test in batch if test != ended.failed] + (
                    ["--deselect", ended.failed] if ended.failed not in batch else []
                )
        return "unnoticed", f"{len(tests)} of {len(through)} tests"

    def passes(self, tests: list[str]) -> bool:
        """Do tests pass without a mutant?"""
        (name,) = tests
        if name not in self.sound:
            self.sound[name] = self.forked.run([name], self.timeout).status == PASSED
            if not self.sound[name]:
                print(f"fails without a mutant: {name}", flush=True)
        return self.sound[name]


def outcomes_before(table: Path | None) -> dict[tuple[str, str, str], str]:
    """Outcomes that an interrupted run wrote: by file, operator and occurrence."""
    if table is None or not table.exists():
        return {}
    with table.open(newline="", encoding="utf-8") as file:
        return {(row["path"], row["operator"], row["occurrence"]): row["outcome"] for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", default="", help="comma-separated; default: all")
    parser.add_argument("--mutants", type=int, default=SETTINGS["mutants"], help="how many to draw")
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"], help="of the draw")
    parser.add_argument("--seconds", type=float, default=SETTINGS["seconds"], help="of tests for one mutant, as logged")
    parser.add_argument("--timeout", type=float, default=SETTINGS["timeout"], help="seconds for one mutant")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="coverage of the tests, by test")
    parser.add_argument("--log", type=Path, required=True, help="what pytest said, with --durations=0 -vv")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="runs the tests")
    parser.add_argument("-o", "--output", type=Path, help="table of the outcomes, written as they come")
    given = parser.parse_args()
    drawn = draw([room for room in given.rooms.split(",") if room], given.mutants, given.seed)
    before = outcomes_before(given.output)
    counted: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "main"
        copy_checkout(copy)
        judge = Judge(copy, given.python, TestsOfLines(given.coverage, given.log), given.seconds, given.timeout)
        for mutant, text in drawn:
            key = (str(mutant.path), mutant.operator, str(mutant.occurrence))
            said, began = before.get(key, ""), time.perf_counter()
            if not said:
                said, by = judge.outcome(mutant, text)
                change = changed_line((ROOT / mutant.path).read_text(encoding="utf-8"), text)
                print(f"{said:9} {time.perf_counter() - began:5.1f} s  {mutant.path} {change}  [{by}]", flush=True)
                write_outcome(given.output, [*key, said, change, by])
            counted.setdefault(mutant.room, Counter())[said] += 1
        judge.forked.close()
    for room, counts in [*sorted(counted.items()), ("all", sum(counted.values(), Counter()))]:
        ended = counts["noticed"] + counts["unnoticed"]
        share = f"{counts['noticed'] / ended:.0%}" if ended else "none"
        print(f"{room:12} {counts['noticed']:4} of {ended:4} noticed ({share}); {counts['too long']} ran too long")


def draw(rooms: list[str], n_mutants: int, seed: int) -> list[tuple[Mutant, str]]:
    """Mutants and the texts of their files: places at random, for each one of its changes."""
    places, rng = places_to_change(rooms), random.Random(seed)
    rng.shuffle(places)
    changes = ((mutant, text) for place in places if (text := mutated(mutant := rng.choice(place))) is not None)
    drawn = list(itertools.islice(changes, n_mutants))
    print(f"{len(drawn)} mutants of {len(places)} places, seed {seed}", flush=True)
    return drawn


def copy_checkout(copy: Path) -> None:
    copy.mkdir()
    for name in COPIED:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif place.exists():
            shutil.copy(place, copy / name)


def write_outcome(table: Path | None, row: list[str]) -> None:
    if table is None:
        return
    new = not table.exists()
    with table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["path", "operator", "occurrence", "outcome", "change", "by"]] * new + [row])


if __name__ == "__main__":
    main()
