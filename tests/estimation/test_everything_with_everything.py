"""Every model with every option: it converges, or is refused as docs/estimation.md says."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.fit_categories import fit_categories

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
#: Where an option does not go with a model: the first words of the refusal.
REFUSED = {
    **{
        (option, model): f"models: {model} is of one ability"
        for option in ("several abilities", "testlets")
        for model in ("rasch", "1pl", "3pl", "4pl", "nominal")
    },
    ("prior hierarchical", "rasch"): "prior hierarchical is one of slopes",
    ("prior hierarchical", "1pl"): "prior hierarchical is one of slopes",
    ("prior hierarchical", "4pl"): "prior hierarchical does not go with a 4pl",
    **{("prior hierarchical", model): "prior hierarchical goes with right and wrong" for model in IN_CATEGORIES},
    **{("priors of single items", model): "prior_items goes with right and wrong" for model in IN_CATEGORIES},
    **{("guessing fixed by item", model): "by_item goes with right and wrong" for model in IN_CATEGORIES},
    **{("posterior", model): "posterior goes with right and wrong" for model in IN_CATEGORIES},
}


@cache
def crowd() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(5)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 8), np.linspace(-1.2, 1.2, 8), 0.1)
    return irtbench.simulate_responses(rng.normal(size=400), items, rng=rng)


@cache
def with_gaps() -> irtbench.ResponseMatrix:
    values = crowd().values.copy()
    values[np.random.default_rng(6).random(values.shape) < 0.3] = np.nan
    values[np.isnan(values).all(axis=1), 0] = 1
    return irtbench.ResponseMatrix(values, crowd().respondent_ids, crowd().item_ids)


@cache
def of_trials() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(7)
    n = rng.integers(1, 4, (400, 8))
    p = 1 / (1 + np.exp(-1.3 * rng.normal(size=(400, 1)) + np.linspace(-1.2, 1.2, 8)))
    return irtbench.ResponseMatrix(rng.binomial(n, p).astype(float), crowd().respondent_ids, crowd().item_ids, n)


@cache
def grades(*, gaps: bool = False) -> pd.DataFrame:
    """Grades 0 to 2 of as many respondents and items."""
    rng = np.random.default_rng(8)
    theta, slopes = rng.normal(size=(400, 1, 1)), rng.uniform(1, 2, (8, 1))
    steps = np.linspace(-1.2, 1.2, 8)[:, None] + np.array([-0.7, 0.7])
    given = (slopes * (theta - steps) + rng.logistic(size=(400, 8, 1)) > 0).sum(axis=2).astype(float)
    given[(rng.random(given.shape) < 0.3) & gaps] = np.nan
    given[np.isnan(given).all(axis=1), 0] = 1
    return pd.DataFrame(given, columns=list(crowd().item_ids))


def a_row_a_grade(table: pd.DataFrame) -> pd.DataFrame:
    long = (
        table.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id", value_name="score")
    )
    return long.dropna()


@cache
def of_passages() -> pd.DataFrame:
    """Grades 0 to 2 of two passages of four items, each with an ability of its own."""
    rng = np.random.default_rng(9)
    z = 1.3 * rng.normal(size=(400, 1)) + 1.2 * rng.normal(size=(400, 2))[:, [0] * 4 + [1] * 4]
    return pd.DataFrame((z[:, :, None] + rng.logistic(size=(400, 8, 1)) > [-0.7, 0.7]).sum(axis=2))


def with_several(words: dict[str, Any], fit: Callable[..., Any], **more: Any) -> Any:
    model = words.get("models", words.get("model", "2pl"))
    return fit(of_passages() if "models" in words else (of_passages() > 0).astype(int), models=model, **more)


#: The same of grades, by what the responses of right and wrong are.
OF_GRADES: dict[str, Callable[[], pd.DataFrame]] = {
    "crowd": grades,
    "with_gaps": lambda: grades(gaps=True),
    "of_trials": lambda: pd.concat([a_row_a_grade(grades()), a_row_a_grade(grades(gaps=True))]),
    "sparse": lambda: a_row_a_grade(grades(gaps=True)),
}


@cache
def bank() -> irtbench.ItemParameters:
    return irtbench.fit_model(crowd(), prior="weak", guessing=0.1).items


@cache
def sparse() -> SparseResponses:
    return SparseResponses.from_long(with_gaps().to_long())


def fitted(words: dict[str, Any], data: Callable[[], Any] = crowd, **more: Any) -> Any:
    if "models" in words:
        return fit_categories(OF_GRADES[data.__name__](), **words, **more)
    return irtbench.fit_model(data(), **words, **more)


def beside_anchors(words: dict[str, Any]) -> Any:
    if "models" in words:
        known = fit_categories(grades(), **words)
        return fitted(words, anchors=known.items.select(known.items.item_ids[:4]))
    return fitted(words, anchors=bank().select(bank().item_ids[:4]))


def in_groups(words: dict[str, Any]) -> Any:
    groups = ["a", "b"] * 200
    return fitted(words, groups=groups) if "models" in words else irtbench.fit_groups(crowd(), groups, **words)


OPTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "prior weak": lambda words: fitted(words, prior="weak"),
    "prior hierarchical": lambda words: fitted(words, prior="hierarchical"),
    "priors of single items": lambda words: fitted(words, prior_items={"item1": (0.0, 0.5)}),
    "guessing fixed by item": lambda words: fitted(words, by_item={"item1": 0.2}),
    "estimated population": lambda words: fitted(words, population="estimated"),
    "anchors": beside_anchors,
    "groups": in_groups,
    "missing responses": lambda words: fitted(words, with_gaps),
    "several trials": lambda words: fitted(words, of_trials),
    "sparse tables": lambda words: fitted(words, sparse),
    "many scales": lambda words: irtbench.fit_many([grades() if "models" in words else crowd()] * 3, **words)["scale2"],
    "several abilities": lambda words: with_several(
        words, irtbench.fit_factors, n_factors=2, zero_loadings=np.array([[False, j < 4] for j in range(8)])
    ),
    "testlets": lambda words: with_several(
        words, irtbench.fit_bifactor, testlets=["a"] * 4 + ["b"] * 4, specific_slopes="equal"
    ),
    "posterior": lambda words: fitted(words, prior="weak", posterior="normal", n_nodes=21),
    "Adam": lambda words: fitted(words, optimiser="adam", tolerance=1e-3),
    "single precision": lambda words: fitted(words, dtype="float32"),
}
SLOW = ("posterior", "Adam")
CASES = [
    pytest.param(option, model, marks=pytest.mark.slow if option in SLOW and (option, model) not in REFUSED else ())
    for option in OPTIONS
    for model in MODELS
]


@pytest.mark.parametrize(("option", "model"), CASES)
def test_every_model_with_every_option(option: str, model: str) -> None:
    if (option, model) in REFUSED:
        with pytest.raises(irtbench.InputError, match=REFUSED[option, model]):
            OPTIONS[option](MODELS[model])
        return
    found = OPTIONS[option](MODELS[model])
    assert found.converged, found.stopped_because
    assert np.isfinite(found.log_likelihood)
    items = found.items[0] if isinstance(found, irtbench.GroupedModel) else found.items
    assert np.isfinite(items.covariance).all()


def test_the_table_of_the_docs_is_this_one() -> None:
    rows = [f"| option | {' | '.join(MODELS)} |", f"|---|{'---|' * len(MODELS)}"]
    for option in [one for one in OPTIONS if any((one, model) in REFUSED for model in MODELS)]:
        rows.append(f"| {option} | {' | '.join('no' if (option, model) in REFUSED else 'yes' for model in MODELS)} |")
    page = Path(__file__).parents[2] / "docs" / "estimation.md"
    assert "\n".join(rows) in page.read_text(encoding="utf-8")
