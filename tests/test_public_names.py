"""Every room has its public names, and loading the package loads no torch."""

import inspect
import re
import subprocess
import sys
import typing
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import irtbench
from irtbench.building.form_wishes import FormKeywords
from irtbench.building.prune_rules import PruneKeywords
from irtbench.data.grading import GradingKeywords
from irtbench.data.screening import ScreeningKeywords
from irtbench.estimation.settings import WORDS, FitKeywords
from irtbench.scoring.adaptive import AdaptiveKeywords
from irtbench.scoring.scores import ScoringKeywords

ROOT = Path(irtbench.__file__).parent


def test_every_public_name_is_there_and_documented() -> None:
    for name, module in irtbench._HOMES.items():
        found = getattr(irtbench, name)
        assert found.__doc__, name
        assert (found.__name__, found.__module__) == (name, f"irtbench.{module}")


def test_names_are_listed_and_type_checkers_see_the_same() -> None:
    assert len(dir(irtbench)) - len([name for name in dir(irtbench) if name.startswith("__")]) <= 150
    stubs = [ROOT / "__init__.pyi", *(ROOT / room / "__init__.pyi" for room in irtbench._ROOMS)]
    lines = [re.findall(r"^from irtbench\.([\w.]+) import (\w+) as (\w+)$", stub.read_text(), re.M) for stub in stubs]
    named = [(name, module) for found in lines for module, name, known in found if name == known]
    assert len(named) == len(dict(named)) == len(irtbench._HOMES)  # each in one stub
    assert dict(named) == irtbench._HOMES
    assert irtbench.__version__ == version("irtbench")
    alone = [name for name in dir(irtbench) if not name.startswith("__")]
    assert alone == sorted([*irtbench.__all__, *irtbench._ROOMS])
    assert set(re.findall(r"\w+", irtbench.__doc__ or "")) >= set(irtbench._HOMES)


@pytest.mark.parametrize("room", irtbench._ROOMS)
def test_a_room_has_its_names_and_no_file_hides_one(room: str) -> None:
    package = getattr(irtbench, room)
    assert dir(package) == sorted(package.__all__)
    for name in package.__all__:
        assert not (ROOT / room / f"{name}.py").exists()
        assert getattr(package, name) is getattr(irtbench, name)
    with pytest.raises(AttributeError, match=f"'irtbench.{room}' has no attribute 'nothing'"):
        _ = package.nothing


def test_no_name_hides_a_room_or_a_file() -> None:
    here = {path.stem for path in ROOT.iterdir()}
    assert here.isdisjoint(irtbench.__all__)
    import_module("irtbench.study.run")  # which loads most rooms
    file = import_module("irtbench.evaluation.calibration")
    assert irtbench.evaluation.calibration is file
    assert irtbench.calibration is file.calibration


def test_the_package_itself_is_light_and_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fit_modle'"):
        _ = irtbench.fit_modle  # type: ignore[attr-defined]
    program = "import sys, irtbench; irtbench.load_bank; assert not {'torch', 'pyro'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("settings", "keywords", "words"),
    [
        (irtbench.FitSettings, FitKeywords, WORDS),
        (irtbench.GradingSettings, GradingKeywords, {}),
        (irtbench.ScreeningSettings, ScreeningKeywords, {}),
        (irtbench.FormWishes, FormKeywords, {}),
        (irtbench.PruneRules, PruneKeywords, {}),
        (irtbench.ScoringSettings, ScoringKeywords, {}),
        (irtbench.AdaptiveSettings, AdaptiveKeywords, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_keywords_have_the_fields_and_types_of_their_settings(settings, keywords, words) -> None:
    hints = typing.get_type_hints(settings)
    allowed = {one.name: hints[one.name] for one in fields(settings)}
    assert typing.get_type_hints(keywords) == allowed | {word: hints[name] for word, name in words.items()}


def test_help_shows_the_keywords_that_the_types_allow() -> None:
    found = []
    for name in irtbench._HOMES:
        public = getattr(irtbench, name)
        function = public.__init__ if inspect.isclass(public) else public
        written = getattr(function, "__annotations__", {}).get("keywords")
        if written is None:
            continue
        found.append(name)
        typed = re.fullmatch(r"Unpack\[(\w+)\]", written)
        assert typed, f"{name}: **keywords: {written}"
        allowed = typing.get_type_hints(getattr(sys.modules[function.__module__], typed[1]))
        shown = inspect.signature(public).parameters
        assert all(one.kind is not one.VAR_KEYWORD for one in shown.values())
        named = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
        assert [*shown] == [*(one for one in named if one != "self"), *(one for one in shown if one in allowed)]
        assert set(allowed) <= set(shown)
    assert len(found) == 17


@pytest.mark.slow
def test_a_type_checker_sees_wrong_keywords_and_values(tmp_path: Path) -> None:
    mypy = pytest.importorskip("mypy.api")
    file = tmp_path / "wrong.py"
    file.write_text(
        "import irtbench\n"
        "irtbench.fit_model([[1]], model='3pl', prior='weak')\n"
        "irtbench.fit_model([[1]], modle='3pl')\n"
        "irtbench.fit_model([[1]], prior='strong')\n"
    )
    said, _, _ = mypy.run([str(file), "--config-file", str(ROOT.parent / "pyproject.toml")])
    assert re.findall(r"wrong.py:(\d+): error: .*\[([\w-]+)\]", said) == [("3", "call-arg"), ("4", "arg-type")]
