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


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All of them, whatever they stand in; an import is in no expression."""
    for node in nodes:
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, block, []))


@cache
def imported_modules(path: Path) -> list[str]:
    names = []
    for node in statements(tree(path).body):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
    return names


def test_imports_point_left() -> None:
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


def imported_as_it_loads(nodes: list[ast.stmt]) -> list[str]:
    """Modules imported outside functions, whichever way an `if` or a `try` goes; what is for types alone is not."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            names += imported_as_it_loads([*inner, *(n for h in getattr(node, "handlers", []) for n in h.body)])
    return names


def test_no_file_needs_an_extra_to_be_loaded() -> None:
    assert imported_as_it_loads(ast.parse("try:\n    import sklearn.svm\nexcept ImportError:\n    pass").body) == [
        "sklearn.svm"
    ]
    for path in SOURCES:
        named = {name.split(".")[0] for name in imported_as_it_loads(tree(path).body)}
        assert named.isdisjoint(EXTRAS), path


def test_one_look_to_the_right_is_taken_by_name() -> None:
    """The command line finds its commands, a command what it will need, and the package what draws, by name."""
    named = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if "import_module(" in path.read_text(encoding="utf-8") and path.name != "__init__.py"
    }
    assert named == {"data/exports.py", "cli/main.py", "cli/large.py"}


def test_a_right_pointing_arrow_would_be_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from irtbench.cli.main import main\n")
    assert imported_modules(wrong) == ["irtbench.cli.main"]
    assert "cli" not in LEFT_OF["data"]
