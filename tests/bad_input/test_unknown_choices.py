"""A word or a number that is none of a parameter's choices is refused; it is not taken for another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench
from irtbench.data.multiple_testing import adjust

RNG = np.random.default_rng(7)
ITEMS = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 0.8, 1.2] * 2, np.linspace(-1, 1, 8))
DATA = irtbench.simulate_responses(RNG.normal(size=60), ITEMS, rng=RNG)
GAPS = np.where(RNG.random((60, 8)) < 0.1, np.nan, DATA.values)
TRIED = irtbench.as_responses(DATA.values)
THREE_TIMES = irtbench.ResponseMatrix(3 * TRIED.values, TRIED.respondent_ids, TRIED.item_ids, np.full((60, 8), 3))
LONG = DATA.to_long()
ANSWERS = LONG.drop(columns="response").assign(answer=RNG.choice(["a", "b"], len(LONG)))
FEATURES = irtbench.ItemFeatures(ITEMS.item_ids, ("length",), RNG.normal(size=(8, 1)))
FIRST, SECOND = RNG.integers(0, 2, (2, 30)).astype(float)
SCALE = irtbench.Scale("all", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids))
BANK = irtbench.ItemBank((SCALE,))
ABLE = irtbench.estimate_ability(DATA, ITEMS)
SECONDS = LONG.drop(columns="response").assign(seconds=1.0)
ERRORS = np.full(8, 0.1)

CALLS: dict[str, Callable[[Any], object]] = {
    "adjust": lambda word: adjust(np.array([0.1]), word),
    "item_fit missing": lambda word: irtbench.item_fit(GAPS, ITEMS, missing=word),
    "agreement empty": lambda word: irtbench.agreement(ANSWERS, empty=word),
    "majority_labels empty": lambda word: irtbench.majority_labels(ANSWERS, empty=word),
    "crowd_filter other_counts": lambda word: irtbench.crowd_filter(DATA.values[:5], other_counts=word),
    "explain_difficulty": lambda word: irtbench.explain_difficulty(
        ITEMS, FEATURES, standard_errors=ERRORS, rng=RNG, shrinkage=word
    ),
    "explain_responses model": lambda word: irtbench.analysis.explain_responses(DATA, FEATURES, rng=RNG, model=word),
    "explain_grades model": lambda word: irtbench.analysis.explain_grades(DATA.values, FEATURES, rng=RNG, model=word),
    "time_horizon model": lambda word: irtbench.analysis.time_horizon(
        DATA, dict(zip(ITEMS.item_ids, np.exp(np.arange(8)), strict=True)), model=word
    ),
    "paired_bootstrap alternative": lambda word: irtbench.paired_bootstrap(FIRST, SECOND, alternative=word),
    "paired_bootstrap interval": lambda word: irtbench.paired_bootstrap(FIRST, SECOND, interval=word),
    "permutation_test": lambda word: irtbench.permutation_test(FIRST, SECOND, alternative=word),
    "mcnemar": lambda word: irtbench.mcnemar(FIRST, SECOND, alternative=word),
    "compare_systems": lambda word: irtbench.compare_systems([FIRST, SECOND], ["a", "b"], interval=word),
    "compare_systems adjustment": lambda word: irtbench.compare_systems([FIRST, SECOND], ["a", "b"], adjustment=word),
    "mantel_haenszel adjustment": lambda word: irtbench.mantel_haenszel(DATA, ["a", "b"] * 30, adjustment=word),
    "rapid_guesses": lambda word: irtbench.data.rapid_guesses(SECONDS, method=word),
    "fit_raters": lambda word: irtbench.fit_raters(pd.DataFrame(), raters=word),
    "fit_trials": lambda word: irtbench.estimation.fit_trials(THREE_TIMES, word),
    "fit_bifactor": lambda word: irtbench.fit_bifactor(DATA, ["a", "b"] * 4, specific_slopes=word),
    "fit_bifactor device": lambda word: irtbench.fit_bifactor(DATA, ["a", "b"] * 4, device=word),
    "fit_factors device": lambda word: irtbench.fit_factors(DATA, 1, device=word),
    "fit_model prior": lambda word: irtbench.fit_model(DATA, prior=word),
    "Priors.named": lambda word: irtbench.Priors.named(word),
    "from_long": lambda word: irtbench.ResponseMatrix.from_long(LONG, duplicates=word),
    "score_responses": lambda word: irtbench.score_responses(SCALE, DATA.values[:2], unknown_items=word),
    "estimate_ability": lambda word: irtbench.estimate_ability(DATA, ITEMS, method=word),
    "with_item_error": lambda word: irtbench.with_item_error(ABLE, DATA, ITEMS, item_error=word),
    "percentiles": lambda word: irtbench.percentiles(ABLE, norm=word),
    "link_scales": lambda word: irtbench.link_scales(ITEMS, ITEMS, method=word),
    "propagate": lambda word: irtbench.evaluation.propagate(np.eye(3), np.sum, interval=word),
    "score_file": lambda word: irtbench.score_file(BANK, Path("none.csv"), Path("out.csv"), layout=word),
    "read": lambda word: irtbench.read(Path("none.csv"), content=word),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_a_word_of_another_name_is_refused(call: str) -> None:
    with pytest.raises(irtbench.InputError, match=r"expected .*other_word|other_word.*expected"):
        CALLS[call]("other_word")


NUMBERS: dict[str, Callable[[], object]] = {
    "level": lambda: irtbench.compare_abilities(SCALE, DATA.values[:2], rng=RNG, n_item_draws=0, level=95),
    "draws": lambda: irtbench.compare_abilities(SCALE, DATA.values[:2], rng=RNG, n_item_draws=0, n_draws=0),
    "surprising_below": lambda: irtbench.explain(SCALE, DATA.values[:2], surprising_below=10),
    "level but got 0": lambda: irtbench.explain(SCALE, DATA.values[:2], n_levels=0),
    "min_expected": lambda: irtbench.item_fit(DATA, ITEMS, min_expected=float("nan")),
    "percentile": lambda: irtbench.parallel_analysis(DATA, rng=RNG, percentile=0.95),
    "plausible values": lambda: irtbench.plausible_values(DATA, ITEMS, rng=RNG, n_values=0),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_a_number_out_of_range_is_refused(what: str) -> None:
    with pytest.raises(irtbench.InputError, match=what):
        NUMBERS[what]()
