"""Every public function has an example, and all of them run: pytest collects the package with --doctest-modules."""

import doctest
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import irtbench

FUNCTIONS = [name for name in irtbench._HOMES if inspect.isfunction(getattr(irtbench, name))]
ROOT = Path(irtbench.__file__).parents[1]


def examples_of(text: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(text)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_an_example_that_calls_it(name: str) -> None:
    examples = examples_of(inspect.getdoc(getattr(irtbench, name)) or "")
    assert any(re.search(rf"\b{name}\b", example.source) for example in examples)
    assert any(example.want for example in examples)


def test_there_are_as_many_as_it_seems() -> None:
    assert len(FUNCTIONS) > 90


def test_examples_are_run_with_the_tests() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "--doctest-modules" in options["addopts"]
    assert "irtbench" in options["testpaths"]


def test_a_function_without_an_example_would_be_seen() -> None:
    assert examples_of("Text alone.\n\nExamples\n--------\nNone.") == []
    assert len(examples_of("Text.\n\n>>> 1 + 1\n2\n")) == 1
