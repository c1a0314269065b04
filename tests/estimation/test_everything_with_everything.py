"""Every model with every option: the maximum of its likelihood written down, or refused as docs/estimation.md says."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import irtbench
from builders.by_hand import Read, assert_by_hand, counts_of, log_p, total
from builders.few_draws import few_draws
from builders.refusals import is_refused
from irtbench import SparseResponses, fit_categories

MODELS: dict[str, dict[str, Any]] = {
    "rasch": {"model": "rasch"},
    "1pl": {"model": "1pl"},
    "2pl": {},
    "3pl": {"model": "3pl"},
    "4pl": {"model": "4pl"},
    "grm": {"models": "grm"},
    "gpcm": {"models": "gpcm"},
    "nominal": {"models": "nominal"},
}
IN_CATEGORIES = ("grm", "gpcm", "nominal")
N = 400  # respondents
#: Where an option does not go with a model: the first words of the refusal.
REFUSED = {
    **{(option, "nominal"): "models: nominal is of one ability" for option in ("several abilities", "testlets")},
    ("prior hierarchical", "rasch"): "prior hierarchical is one of slopes",
    ("prior hierarchical", "1pl"): "prior hierarchical is one of slopes",
    ("prior hierarchical", "4pl"): "prior hierarchical does not go with a 4pl",
    ("prior hierarchical", "nominal"): "prior hierarchical goes with 2pl, grm and gpcm but not with nominal",
    **{("priors of single items", model): "prior_items goes with right and wrong" for model in IN_CATEGORIES},
    **{("guessing fixed by item", model): "by_item goes with right and wrong" for model in IN_CATEGORIES},
    **{("posterior", model): "posterior goes with right and wrong" for model in IN_CATEGORIES},
}


@cache
def crowd() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(5)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 8), np.linspace(-1.2, 1.2, 8), 0.1)
    return irtbench.simulate_responses(rng.normal(size=N), items, rng=rng)


@cache
def with_gaps() -> irtbench.ResponseMatrix:
    values = crowd().values.copy()
    values[np.random.default_rng(6).random(values.shape) < 0.3] = np.nan
    values[np.isnan(values).all(axis=1), 0] = 1
    return irtbench.ResponseMatrix(values, crowd().respondent_ids, crowd().item_ids)


@cache
def of_trials() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(7)
    n = rng.integers(1, 4, (N, 8))
    p = 1 / (1 + np.exp(-1.3 * rng.normal(size=(N, 1)) + np.linspace(-1.2, 1.2, 8)))
    return irtbench.ResponseMatrix(rng.binomial(n, p).astype(float), crowd().respondent_ids, crowd().item_ids, n)


@cache
def grades(*, gaps: bool = False) -> pd.DataFrame:
    """Grades 0 to 2 of as many respondents and items."""
    rng = np.random.default_rng(8)
    theta, slopes = rng.normal(size=(N, 1, 1)), rng.uniform(1, 2, (8, 1))
    steps = np.linspace(-1.2, 1.2, 8)[:, None] + np.array([-0.7, 0.7])
    given = (slopes * (theta - steps) + rng.logistic(size=(N, 8, 1)) > 0).sum(axis=2).astype(float)
    given[(rng.random(given.shape) < 0.3) & gaps] = np.nan
    given[np.isnan(given).all(axis=1), 0] = 1
    return pd.DataFrame(given, columns=list(crowd().item_ids))


def a_row_a_grade(table: pd.DataFrame) -> pd.DataFrame:
    long = (
        table.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id", value_name="score")
    )
    return long.dropna()


#: Grades in the same forms as the responses of right and wrong.
OF_GRADES: dict[str, Callable[[], pd.DataFrame]] = {
    "crowd": grades,
    "with_gaps": lambda: grades(gaps=True),
    "of_trials": lambda: pd.concat([a_row_a_grade(grades()), a_row_a_grade(grades(gaps=True))]),
    "sparse": lambda: a_row_a_grade(grades(gaps=True)),
}


@cache
def bank() -> irtbench.ItemParameters:
    return irtbench.fit_model(crowd(), prior="weak", guessing=0.1).items


def sparse() -> SparseResponses:
    return SparseResponses.from_long(with_gaps().to_long())


def fitted(words: dict[str, Any], data: Callable[[], Any] = crowd, **more: Any) -> Any:
    if "models" in words:
        return fit_categories(OF_GRADES[data.__name__](), **words, **more)
    return irtbench.fit_model(data(), **words, **more)


def counted(words: dict[str, Any], fit: Any, data: str = "crowd") -> Tensor:
    """How often each respondent gave each category of each item, in the order of the fit's items."""
    items = fit.items[0] if isinstance(fit, irtbench.GroupedModel) else fit.items
    if "models" not in words:
        given = {"crowd": crowd, "with_gaps": with_gaps, "of_trials": of_trials, "sparse": with_gaps}[data]()
        counts = counts_of(given.correct, given.trials)
    elif data == "of_trials":
        counts = counts_of(grades().to_numpy()) + counts_of(grades(gaps=True).to_numpy())
    else:
        counts = counts_of(grades(gaps=data != "crowd").to_numpy())
    return counts[:, [crowd().item_ids.index(item) for item in items.item_ids]]


def plain(words: dict[str, Any], data: Callable[[], Any] = crowd, *, loosely: float = 1.0, **more: Any) -> None:
    fit = fitted(words, data, **more)
    assert_by_hand(fit, [counted(words, fit, data.__name__)], within=1e-4 * loosely, rtol=1e-3 * loosely)


def beside_anchors(words: dict[str, Any], **more: Any) -> None:
    """With their own errors."""
    known: Any = fit_categories(grades(), **words).items if "models" in words else bank()
    first = known.select(known.item_ids[:4])
    fit = fitted(words, anchors=first, **more)
    assert_by_hand(
        fit, [counted(words, fit)], anchors=first.covariance, within=1e-2 if more else 1e-4, rtol=0.1 if more else 1e-3
    )


def in_groups(words: dict[str, Any], **more: Any) -> None:
    groups = ["a", "b"] * (N // 2)
    fit: Any = (
        fitted(words, groups=groups, **more)
        if "models" in words
        else irtbench.fit_groups(crowd(), groups, **words, **more)
    )
    counts = counted(words, fit)
    assert_by_hand(fit, [counts[::2], counts[1::2]], within=1e-2 if more else 1e-4, rtol=0.1 if more else 1e-3)


def of_an_estimated_population(words: dict[str, Any]) -> None:
    fit = fitted(words, population="estimated")
    read, density = Read.of(fit), fit.estimated_population
    theta, weights = (torch.from_numpy(part.copy()) for part in (density.nodes, density.weights))
    by_hand = total(counted(words, fit), log_p(read.kind, read.x, theta[:, None]), weights)
    assert fit.log_likelihood == pytest.approx(float(by_hand), abs=1e-4)
    assert fit.converged
    assert np.isfinite(fit.items.covariance).all()


def of_many_scales(words: dict[str, Any]) -> None:
    fit = irtbench.fit_many([grades() if "models" in words else crowd()] * 3, **words)["scale2"]
    assert_by_hand(fit, [counted(words, fit)])


def of_several_abilities(words: dict[str, Any], fit: Callable[..., Any], *how: Any) -> None:
    fit(grades() if "models" in words else crowd(), *how, models=words.get("models", words.get("model")))


def of_a_posterior(words: dict[str, Any]) -> None:
    with few_draws(300):
        fit = fitted(words, prior="weak", posterior="normal", n_nodes=21)
    assert fit.converged, fit.stopped_because
    assert np.isfinite(fit.items.covariance).all()


OPTIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "prior weak": lambda words: plain(words, prior="weak"),
    "prior hierarchical": lambda words: fitted(words, prior="hierarchical"),
    "priors of single items": lambda words: plain(words, prior_items={"item1": (0.0, 0.5)}),
    "guessing fixed by item": lambda words: plain(words, by_item={"item1": 0.2}),
    "estimated population": of_an_estimated_population,
    "anchors": beside_anchors,
    "groups": in_groups,
    "missing responses": lambda words: plain(words, with_gaps),
    "several trials": lambda words: plain(words, of_trials),
    "sparse tables": lambda words: plain(words, sparse),
    "many scales": of_many_scales,
    "several abilities": lambda words: of_several_abilities(words, irtbench.fit_factors, 2),
    "testlets": lambda words: of_several_abilities(words, irtbench.fit_bifactor, ["a", "b"] * 4),
    "posterior": of_a_posterior,
    "Adam": lambda words: plain(words, optimiser="adam", tolerance=1e-3, loosely=100),
    "single precision": lambda words: plain(words, dtype="float32", loosely=20),
}
SLOW = ("posterior", "Adam")
#: Where these go is tested in `test_abilities_in_categories`, `engine_contract` and the tests of few people.
ELSEWHERE = ("several abilities", "testlets", "prior hierarchical")
CASES = [
    pytest.param(option, model, marks=pytest.mark.slow if option in SLOW and (option, model) not in REFUSED else ())
    for option in OPTIONS
    for model in MODELS
    if option not in ELSEWHERE or (option, model) in REFUSED
]


@pytest.mark.parametrize(("option", "model"), CASES)
def test_every_model_with_every_option(option: str, model: str) -> None:
    if (option, model) in REFUSED:
        is_refused(REFUSED[option, model], OPTIONS[option], MODELS[model])
    else:
        OPTIONS[option](MODELS[model])


def test_groups_take_trials() -> None:
    fit = irtbench.fit_groups(of_trials(), ["a", "b"] * (N // 2))
    counts = counted({}, fit, "of_trials")
    assert_by_hand(fit, [counts[::2], counts[1::2]])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["2pl", "3pl", "gpcm"])
@pytest.mark.parametrize("how", [beside_anchors, in_groups])
def test_adam_finds_populations_too(how: Callable[..., None], model: str) -> None:
    how(MODELS[model], optimiser="adam", tolerance=1e-3)


def test_the_table_of_the_docs_is_this_one() -> None:
    rows = [f"| option | {' | '.join(MODELS)} |", f"|---|{'---|' * len(MODELS)}"]
    for option in [one for one in OPTIONS if any((one, model) in REFUSED for model in MODELS)]:
        rows.append(f"| {option} | {' | '.join('no' if (option, model) in REFUSED else 'yes' for model in MODELS)} |")
    page = Path(__file__).parents[2] / "docs" / "estimation.md"
    assert "\n".join(rows) in page.read_text(encoding="utf-8")
