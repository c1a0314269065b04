"""How often do the tests of a room notice a change of its code? A random sample of mutants, counted by room.

    python scripts/mutation_sample.py --rooms data,evaluation --mutants 20 --seed 0

Cosmic Ray (pip install -e '.[mutation]') says which changes of a file there are: another operator, comparison, number,
constant or branch. Of all places in the rooms asked for, as many as wanted are drawn, so that a long file has its
share, and for each place one of its changes. Each is made in a copy of the checkout, where the tests of the room are
run until the first one fails; the checkout itself is left alone. Mutants whose tests run longer than the time limit
count as noticed. Tests marked slow are left out unless `--slow` is given. Defaults stand in pyproject.toml,
[tool.mutation_sample].
"""

from __future__ import annotations

import argparse
import ast
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
    return None if changed is None or meaning(changed) == meaning(source) else changed


def changed_line(before: str, after: str) -> str:
    """The first line that differs, for the printout."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next(
        (f"line {k}: {old.strip()}  ->  {new.strip()}" for k, (old, new) in enumerate(pairs, 1) if old != new), ""
    )


def is_noticed(copy: Path, room: str, python: str, timeout: float, *, slow: bool) -> bool:
    """Whether a test of the room fails, or runs into the time limit, in the copy as it stands."""
    folder = copy / "tests" / room
    tests = [str(folder)] if folder.is_dir() else [str(path) for path in sorted((copy / "tests").glob("test_*.py"))]
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *([] if slow else ["-m", "not slow"]),
        *tests,
    ]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    beside = {"IRTBENCH_REAL_DATA": os.environ.get("IRTBENCH_REAL_DATA", str(ROOT.parent / "shared"))}
    try:
        done = subprocess.run(
            command, cwd=copy, env=os.environ | one_thread | beside, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode > 1 and b"error" not in done.stdout.lower():
        raise SystemExit(f"mutation_sample: pytest ended with {done.returncode}:\n{done.stdout.decode()[-2000:]}")
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rooms", default="", help="comma-separated; default: all")
    parser.add_argument("--mutants", type=int, default=SETTINGS["mutants"], help="how many to draw")
    parser.add_argument("--seed", type=int, default=SETTINGS["seed"], help="of the draw")
    parser.add_argument("--timeout", type=float, default=SETTINGS["timeout"], help="seconds for one mutant")
    parser.add_argument("--slow", action="store_true", help="run the tests marked slow too")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="runs the tests")
    given = parser.parse_args()
    rooms = [room for room in given.rooms.split(",") if room]
    places, rng = places_to_change(rooms), random.Random(given.seed)
    rng.shuffle(places)
    changes = ((mutant, text) for place in places if (text := mutated(mutant := rng.choice(place))) is not None)
    drawn = sorted(itertools.islice(changes, given.mutants), key=lambda change: (change[0].room, str(change[0].path)))
    print(f"{len(drawn)} mutants of {len(places)} places, seed {given.seed}", flush=True)
    tried, noticed, sound = Counter[str](), Counter[str](), set[str]()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            place = ROOT / name
            if place.is_dir():
                shutil.copytree(place, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif place.exists():
                shutil.copy(place, copy / name)
        for mutant, text in drawn:
            before = (ROOT / mutant.path).read_text(encoding="utf-8")
            if mutant.room not in sound:  # a room whose tests fail anyhow would notice everything
                if is_noticed(copy, mutant.room, given.python, given.timeout, slow=given.slow):
                    raise SystemExit(f"mutation_sample: tests of {mutant.room} fail or take too long without a mutant")
                sound.add(mutant.room)
            (copy / mutant.path).write_text(text, encoding="utf-8")
            began = time.perf_counter()
            seen = is_noticed(copy, mutant.room, given.python, given.timeout, slow=given.slow)
            (copy / mutant.path).write_text(before, encoding="utf-8")
            tried[mutant.room] += 1
            noticed[mutant.room] += seen
            said, took = "noticed" if seen else "UNNOTICED", time.perf_counter() - began
            print(f"{said:9} {took:5.1f} s  {mutant.path} {changed_line(before, text)}", flush=True)
    for room in sorted(tried):
        print(f"{room:12} {noticed[room]:4} of {tried[room]:4} noticed ({noticed[room] / tried[room]:.0%})")
    if tried:
        print(f"{'all':12} {noticed.total():4} of {tried.total():4} noticed ({noticed.total() / tried.total():.0%})")


if __name__ == "__main__":
    main()
