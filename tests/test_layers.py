"""Imports point left only: a test walks the syntax trees and fails on an arrow that points right."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import irtbench

ROOT = Path(irtbench.__file__).parent
LEFT_OF = {
    "data": set(),
    "models": {"data"},
    "estimation": {"data", "models"},
    "diagnostics": {"data", "models"},
    "analysis": {"data", "models", "estimation", "diagnostics"},
    "bank": {"data", "models"},
    "building": {"data", "models", "estimation", "diagnostics", "analysis", "bank"},
    "scoring": {"data", "models", "diagnostics", "bank"},
    "evaluation": {"data"},
    "config": {"data", "models", "estimation", "diagnostics", "analysis", "bank", "building", "scoring", "evaluation"},
}
LEFT_OF["study"] = LEFT_OF["config"] | {"config"}
LEFT_OF["report"] = LEFT_OF["study"] | {"study"}
LEFT_OF["cli"] = LEFT_OF["report"] | {"report"}
LEFT_OF["__main__"] = {"cli"}
HEAVY_ALLOWED = ("models/pyro_model/",)
EXTRAS = {"sklearn", "crowdkit", "zstandard", "statsmodels", "dask", "mirt", "girth", "hypothesis", "pytest"}
SOURCES = sorted(path for path in ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(nodes: Iterable[ast.AST], loading: bool = True) -> Iterator[tuple[str, bool]]:
    """Modules, and whether they are imported as the file loads.

    That is outside functions, whichever way an `if` or a `try` goes; what is for types alone is not.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, loading) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module or "", loading
        else:
            for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            later = for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for block in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from imports(getattr(node, block, []), loading and not later)


@cache
def imported(path: Path) -> list[tuple[str, bool]]:
    return [*imports(ast.parse(path.read_text(encoding="utf-8")).body)]


def imported_modules(path: Path) -> list[str]:
    return [name for name, _ in imported(path)]


def test_imports_point_left() -> None:
    assert [*imports(ast.parse("from irtbench.cli.main import main").body)] == [("irtbench.cli.main", True)]
    assert "cli" not in LEFT_OF["data"]
    for path in SOURCES:
        here = room(path)
        for name in imported_modules(path):
            assert name != "irtbench" or here == "cli", f"{path} imports the top level"
            if name.startswith("irtbench.") and here != "__init__":
                there = name.split(".")[1]
                assert there == here or there in LEFT_OF[here], f"{path} imports {name}, which stands right of it"


def test_torch_is_in_estimation_and_the_pyro_model_only() -> None:
    for path in SOURCES:
        if room(path) not in ("estimation", "analysis") and not str(path.relative_to(ROOT)).startswith(HEAVY_ALLOWED):
            heavy = {name.split(".")[0] for name in imported_modules(path)} & {"torch", "pyro"}
            assert not heavy, f"{path} imports {heavy}"


def test_no_file_needs_an_extra_to_be_loaded() -> None:
    tried = "try:\n    import sklearn.svm\nexcept ImportError:\n    def load():\n        import dask"
    assert [*imports(ast.parse(tried).body)] == [("sklearn.svm", True), ("dask", False)]
    for path in SOURCES:
        assert {name.split(".")[0] for name, loading in imported(path) if loading}.isdisjoint(EXTRAS), path


def test_no_study_waits_for_all_distributions_of_scipy() -> None:
    loaded = {str(path.relative_to(ROOT)) for path in SOURCES if ("scipy.stats", True) in imported(path)}
    assert loaded == {"evaluation/consistency.py"}  # which a study does not load


def test_one_look_to_the_right_is_taken_by_name() -> None:
    """The command line finds its commands, a command what it will need, and the package what draws, by name."""
    named = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if "import_module(" in path.read_text(encoding="utf-8") and path.name != "__init__.py"
    }
    assert named == {"data/exports.py", "cli/main.py", "cli/large.py"}
