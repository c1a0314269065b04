"""How often do the tests of a room notice a change of its code? A random sample of mutants, counted by room.

    python scripts/mutation_sample.py --rooms data,evaluation --mutants 20 --seed 0 -o mutants.csv

Cosmic Ray (pip install -e '.[mutation]') says which changes of a file there are: another operator, comparison, number,
constant or branch. Of all places in the rooms asked for, as many as wanted are drawn, so that a long file has its
share, and for each place one of its changes. Each is made in a copy of the checkout, where the tests of the room are
run until the first one fails, those that name the changed file first; the checkout itself is left alone. Mutants whose
tests run into the time limit are counted for themselves: an endless loop is noticed, a busy machine notices nothing.
With `-o` each outcome is written as it comes, and a run that was interrupted goes on where it ended. Tests marked slow
are left out unless `--slow` is given. Defaults stand in pyproject.toml, [tool.mutation_sample].
"""

from __future__ import annotations

import argparse
import ast
import csv
import itertools
import os
import random
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("irtbench", "tests", "scripts", "configs", "data", "docs", "pyproject.toml", "README.md")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutation_sample"]


@dataclass(frozen=True)
class Mutant:
    """One change: an operator of Cosmic Ray, and which of its places in the file."""

    path: Path  # relative to the checkout
    operator: str
    occurrence: int

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
                here.setdefault(place, []).append(Mutant(path, name, k))
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


def tests_of(copy: Path, path: Path) -> list[str]:
    """The test files of the changed file's room; first those in which its name stands, fewest words first."""
    folder = copy / "tests" / room_of(path)
    files = sorted(folder.rglob("test_*.py")) if folder.is_dir() else sorted((copy / "tests").glob("test_*.py"))
    named = {file: path.stem in file.stem or path.stem in file.read_text(encoding="utf-8") for file in files}
    return [str(file) for file in sorted(files, key=lambda file: (not named[file], file.stat().st_size))]


def outcome(copy: Path, path: Path, python: str, timeout: float, *, slow: bool) -> str:
    """What the room's tests say of the copy as it stands: noticed, unnoticed, or too long."""
    left_out = [] if slow else ["-m", "not slow"]
    command = [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *left_out, *tests_of(copy, path)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    beside = {"IRTBENCH_REAL_DATA": os.environ.get("IRTBENCH_REAL_DATA", str(ROOT.parent / "shared"))}
    try:
        done = subprocess.run(
            command, cwd=copy, env=os.environ | one_thread | beside, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "too long"
    if done.returncode > 1 and b"error" not in done.stdout.lower():
        raise SystemExit(f"mutation_sample: pytest ended with {done.returncode}:\n{done.stdout.decode()[-2000:]}")
    return "noticed" if done.returncode else "unnoticed"


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
    parser.add_argument("--timeout", type=float, default=SETTINGS["timeout"], help="seconds for one mutant")
    parser.add_argument("--slow", action="store_true", help="run the tests marked slow too")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="runs the tests")
    parser.add_argument("-o", "--output", type=Path, help="table of the outcomes, written as they come")
    given = parser.parse_args()
    rooms = [room for room in given.rooms.split(",") if room]
    places, rng = places_to_change(rooms), random.Random(given.seed)
    rng.shuffle(places)
    changes = ((mutant, text) for place in places if (text := mutated(mutant := rng.choice(place))) is not None)
    drawn = list(itertools.islice(changes, given.mutants))
    print(f"{len(drawn)} mutants of {len(places)} places, seed {given.seed}", flush=True)
    before = outcomes_before(given.output)
    counted: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            place = ROOT / name
            if place.is_dir():
                shutil.copytree(place, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif place.exists():
                shutil.copy(place, copy / name)
        for mutant, text in drawn:
            key = (str(mutant.path), mutant.operator, str(mutant.occurrence))
            original, began = (ROOT / mutant.path).read_text(encoding="utf-8"), time.perf_counter()
            if key in before:
                said = before[key]
            else:
                (copy / mutant.path).write_text(text, encoding="utf-8")
                said = outcome(copy, mutant.path, given.python, given.timeout, slow=given.slow)
                (copy / mutant.path).write_text(original, encoding="utf-8")
                change, took = changed_line(original, text), time.perf_counter() - began
                print(f"{said:9} {took:5.1f} s  {mutant.path} {change}", flush=True)
                write_outcome(given.output, [*key, said, change])
            counted.setdefault(mutant.room, Counter())[said] += 1
        for room in sorted(counted):  # a room whose tests fail anyhow would notice everything
            any_file = next(mutant.path for mutant, _ in drawn if mutant.room == room)
            if (said := outcome(copy, any_file, given.python, given.timeout, slow=given.slow)) != "unnoticed":
                raise SystemExit(f"mutation_sample: tests of {room} without a mutant: {said}; its figures say nothing")
    for room, counts in [*sorted(counted.items()), ("all", sum(counted.values(), Counter()))]:
        ended = counts["noticed"] + counts["unnoticed"]
        share = f"{counts['noticed'] / ended:.0%}" if ended else "none"
        print(f"{room:12} {counts['noticed']:4} of {ended:4} noticed ({share}); {counts['too long']} ran too long")


def write_outcome(table: Path | None, row: list[str]) -> None:
    if table is None:
        return
    new = not table.exists()
    with table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([["path", "operator", "occurrence", "outcome", "change"]] * new + [row])


if __name__ == "__main__":
    main()
