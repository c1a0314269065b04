"""irtbench: from crowd answers to a calibrated evaluation scale, and any system's place on it.

The names here are loaded when they are first used, so that scoring does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irtbench.bank.bank import ItemBank, load_bank, save_bank
    from irtbench.building.pruning import PruneRules, prune
    from irtbench.data.grading import grade
    from irtbench.data.items import ItemTable
    from irtbench.data.responses import ResponseMatrix
    from irtbench.data.screening import screen
    from irtbench.estimation.fit import fit_model
    from irtbench.estimation.fitted import FittedModel
    from irtbench.estimation.settings import FitSettings
    from irtbench.models.item_parameters import ItemParameters
    from irtbench.models.simulation import simulate_responses
    from irtbench.scoring.ability import estimate_ability
    from irtbench.scoring.ability_comparison import compare_abilities
    from irtbench.scoring.prediction import predict_accuracy
    from irtbench.scoring.scores import score_responses

_HOMES = {
    "FittedModel": "estimation.fitted",
    "ItemBank": "bank.bank",
    "ItemParameters": "models.item_parameters",
    "ItemTable": "data.items",
    "PruneRules": "building.pruning",
    "ResponseMatrix": "data.responses",
    "FitSettings": "estimation.settings",
    "compare_abilities": "scoring.ability_comparison",
    "estimate_ability": "scoring.ability",
    "fit_model": "estimation.fit",
    "grade": "data.grading",
    "load_bank": "bank.bank",
    "predict_accuracy": "scoring.prediction",
    "prune": "building.pruning",
    "save_bank": "bank.bank",
    "score_responses": "scoring.scores",
    "screen": "data.screening",
    "simulate_responses": "models.simulation",
}

__all__ = [  # noqa: RUF022 - in the order of the road
    "ResponseMatrix",
    "ItemTable",
    "grade",
    "screen",
    "ItemParameters",
    "simulate_responses",
    "FitSettings",
    "FittedModel",
    "fit_model",
    "PruneRules",
    "prune",
    "ItemBank",
    "save_bank",
    "load_bank",
    "estimate_ability",
    "score_responses",
    "compare_abilities",
    "predict_accuracy",
]


def __getattr__(name: str) -> object:
    """Load a public name from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'irtbench' has no attribute {name!r}")
    return getattr(import_module(f"irtbench.{_HOMES[name]}"), name)
