"""Every public function has an example, and all of them run: pytest collects the package with --doctest-modules."""

import doctest
import inspect
import re
import tomllib
from pathlib import Path

import irtbench

FUNCTIONS = [name for name in irtbench._HOMES if inspect.isfunction(getattr(irtbench, name))]
ROOT = Path(irtbench.__file__).parents[1]


def test_a_public_function_has_an_example_that_calls_it_and_they_are_run_with_the_tests() -> None:
    assert len(FUNCTIONS) > 90
    for name in FUNCTIONS:
        examples = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(irtbench, name)) or "")
        assert any(re.search(rf"\b{name}\b", example.source) for example in examples), name
        assert any(example.want for example in examples), name
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "--doctest-modules" in options["addopts"]
    assert "irtbench" in options["testpaths"]
