"""Settings made in Python are checked like those of a file, before anything is done with them."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from builders.refusals import is_refused
from irtbench.building.prune_rules import Exclusion, PruneRules
from irtbench.config import OutputSettings, ScoreSettings, read_study
from irtbench.data.checked_settings import Range, Settings, checked_seed, settings_from
from irtbench.data.input_error import InputError
from irtbench.estimation.fit import fit_model
from irtbench.scoring.scores import ScoringSettings


@dataclass(frozen=True)
class Inner(Settings):
    name: str
    pair: tuple[float, float] | None = None


@dataclass(frozen=True)
class Outer(Settings):
    number: Annotated[int, Range(at_least=1)] = 1
    choice: Mapping[str, Literal["2pl", "3pl"] | Annotated[float, Range(at_least=0, below=1)]] = field(
        default_factory=dict
    )
    file: Path | None = None
    parts: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (PruneRules, {"order": ("slop",)}, "PruneRules.order.0: expected 'slope', 'item_fit' or 'local_dependence'"),
        (PruneRules, {"order": "slope"}, "PruneRules.order: expected a list but got 'slope'"),
        (PruneRules, {"min_tli": math.nan}, "PruneRules.min_tli: expected a finite number but got nan"),
        (PruneRules, {"at_once": 1.5}, "PruneRules.at_once: expected a whole number but got 1.5"),
        (PruneRules, {"at_once": True}, "PruneRules.at_once: expected a whole number but got True"),
        (PruneRules, {"compare_factors": "no"}, "PruneRules.compare_factors: expected true or false but got 'no'"),
        (PruneRules, {"exclude": ("i1",)}, "PruneRules.exclude.0: expected Exclusion but got 'i1'"),
        (PruneRules, {"exclude": ({"item_id": "i1"},)}, "PruneRules.exclude.0.reason: missing; expected a value"),
        (PruneRules, {"bootstrap_samples": 3}, "PruneRules.bootstrap_samples: expected a number of at least 19"),
        (PruneRules, {"max_share_runaway": 2}, "PruneRules.max_share_runaway: expected a number in [0, 1] but got 2"),
        (PruneRules, {"order": ("slope", "slope")}, "pruning: order names a rule twice: slope, slope"),
        (PruneRules, {"exclude": (Exclusion("a", "b"), Exclusion("a", "c"))}, "pruning: a is excluded twice"),
        (PruneRules, {"exclude": (Exclusion("a", ""),), "protect": ("a",)}, "pruning: a is both excluded"),
        (Exclusion, {"item_id": None, "reason": "typo"}, "Exclusion.item_id: expected a text but got None"),
        (ScoringSettings, {"seed": -1}, "ScoringSettings.seed: expected a number in [0, 4.29497e+09] but got -1"),
        (ScoringSettings, {"norm": "empirical", "norm_group": ("country",)}, "ScoringSettings.norm_group.1: expected"),
        (ScoreSettings, {"norm_group": {"country": 3}}, "ScoreSettings.norm_group.country: expected a text but got 3"),
        (OutputSettings, {"directory": 3}, "OutputSettings.directory: expected a path but got 3"),
        (Outer, {"choice": {"i": 2}}, "Outer.choice.i: expected '2pl' or '3pl' or a number in [0, 1) but got 2"),
        (Outer, {"parts": [{"name": "a", "pair": [1]}]}, "Outer.parts.0.pair.1: expected one more value but got"),
        (Outer, {"parts": [{"nmae": "a"}]}, "Outer.parts.0.nmae: unknown key; expected one of name, pair"),
        (Outer, {"number": np.zeros((40, 40))}, "Outer.number: expected a whole number but got array"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_when_the_settings_are_made(cls: type, values: dict[str, Any], message: str) -> None:
    is_refused(f"^{re.escape(message)}.{{0,200}}$", cls, **values)


@pytest.mark.parametrize(
    ("key", "value"), [("min_cfi", 5), ("order", ["slop"]), ("at_once", 0), ("min_items", "three")]
)
def test_the_file_and_python_say_the_same(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / "a.csv").write_text("respondent_id,item_id,answer\n")
    (tmp_path / "study.toml").write_text(f'[data]\nanswers = "a.csv"\n[pruning]\n{key} = {value!r}\n')
    with pytest.raises(InputError) as of_python:
        PruneRules(**{key: value})
    said = str(of_python.value).removeprefix("PruneRules.")
    is_refused(rf"pruning\.{re.escape(said)}$", read_study, tmp_path / "study.toml")


def test_what_can_be_is_taken_as_the_type_the_field_has() -> None:
    made = Outer(np.int64(3), {"i": "3pl", "j": 0}, "a.csv", [{"name": "x", "pair": [1, 2.5]}])  # type: ignore[arg-type]
    assert made == Outer(3, {"i": "3pl", "j": 0.0}, Path("a.csv"), (Inner("x", (1.0, 2.5)),))
    assert type(made.number) is int
    assert PruneRules(order=["slope"], min_cfi=1).order == ("slope",)  # type: ignore[arg-type]
    assert PruneRules(min_cfi=None) == settings_from(PruneRules, {"min_cfi": None})
    assert PruneRules(min_communality=np.float64(0.2)).min_communality == 0.2


@pytest.mark.parametrize(
    ("limits", "words", "inside", "outside"),
    [
        (Range(at_least=1), "a number of at least 1", 1, 0.9),
        (Range(above=0), "a number above 0", 1e-9, 0),
        (Range(at_most=2), "a number of at most 2", 2, 2.1),
        (Range(below=2), "a number below 2", -5, 2),
        (Range(above=0, at_most=1), "a number in (0, 1]", 1, 0),
        (Range(at_least=0, below=1), "a number in [0, 1)", 0, 1),
    ],
)
def test_a_range_says_what_it_holds(limits: Range, words: str, inside: float, outside: float) -> None:
    assert (str(limits), inside in limits, outside in limits) == (words, True, False)


@pytest.mark.parametrize("seed", [-1, "a", 1.5, True, None, 2**32, 99999999999999999999999])
def test_one_door_for_seeds(seed: object) -> None:
    with pytest.raises(InputError, match="seed: expected a whole number from 0 to 4294967295 but got"):
        fit_model(np.tile([[1.0, 0.0], [0.0, 1.0]], (10, 1)), seed=seed)
    assert checked_seed(np.int64(2**32 - 1)) == 2**32 - 1
