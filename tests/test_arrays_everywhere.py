"""Every public function that wants responses, answers or items takes arrays and data frames, with the same result."""

import inspect
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench

WANTED = {
    "responses": (
        "ResponsesLike", "ResponsesLike | SparseResponses", "ResponsesLike | Responses", "ResponsesOrScores",
        "ResponsesLike | CodedScores", "ArrayLike | pd.DataFrame | CodedScores",
    ),
    "answers": ("AnswersLike", "AnswersLike | None", "pd.DataFrame | None"),  # the last of `screen`
}  # fmt: skip
RNG = np.random.default_rng(1)
ITEMS = irtbench.ItemParameters.from_difficulty(
    [1.5] * 6, np.linspace(-1.5, 1.5, 6), item_ids=[f"q{k}" for k in range(6)]
)
RESPONSES = irtbench.simulate_responses(RNG.normal(size=150), ITEMS, rng=RNG)
WIDE = RESPONSES.table().set_index("respondent_id")
FORMS = {"array": RESPONSES.values, "wide": WIDE, "long": RESPONSES.to_long()}
PARAMETERS = ITEMS.table()
SCALE = irtbench.Scale("all", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids))
THETA = irtbench.estimate_ability(RESPONSES, ITEMS).theta

WITH_ITEMS = [
    irtbench.item_fit,
    irtbench.local_dependence,
    irtbench.global_fit,
    irtbench.estimate_ability,
    partial(irtbench.person_fit, theta=THETA),
    partial(irtbench.empirical_curve, item_id="q3", theta=THETA, n_points=5),
]
OTHERS = [
    partial(irtbench.score_responses, SCALE),
    partial(irtbench.explain, SCALE),
    partial(irtbench.explain_all, irtbench.ItemBank((SCALE,))),
    partial(irtbench.predict_accuracy, SCALE),
    partial(irtbench.predict_accuracy, irtbench.ItemBank((SCALE,))),
]
NAMES_ASIDE = [  # what says nothing of the items' names
    irtbench.tetrachoric,
    irtbench.diagnostics.polychoric,
    irtbench.classical_statistics,
    irtbench.internal_consistency,
    irtbench.fit_model,
    partial(irtbench.crowd_filter, k=100, n=150),
]


def table_of(found: Any) -> pd.DataFrame:
    return found if isinstance(found, pd.DataFrame) else found.table()


def alike(one, other) -> None:
    one, other = table_of(one), table_of(other)
    numbers = one.select_dtypes("number").columns
    assert len(numbers) > 0
    pd.testing.assert_frame_equal(one[numbers], other[numbers])


def test_no_public_function_wants_a_matrix_alone() -> None:
    for name in irtbench._HOMES:
        if inspect.isfunction(getattr(irtbench, name)):
            for parameter in inspect.signature(getattr(irtbench, name)).parameters.values():
                assert parameter.annotation in WANTED.get(parameter.name, [parameter.annotation]), name
                assert parameter.annotation not in ("ResponseMatrix", "ItemTable"), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", WITH_ITEMS, ids=lambda f: getattr(f, "func", f).__name__)
def test_with_items_the_result_is_that_of_the_matrix(function, form) -> None:
    alike(function(FORMS[form], items=PARAMETERS), function(RESPONSES, items=ITEMS))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.func.__name__)
def test_with_a_scale_the_result_is_that_of_the_matrix(function, form) -> None:
    alike(function(FORMS[form]), function(RESPONSES))


@pytest.mark.parametrize("function", NAMES_ASIDE, ids=lambda f: getattr(f, "func", f).__name__)
def test_an_array_gives_what_the_matrix_gives_under_names_of_its_own(function) -> None:
    plain = irtbench.ResponseMatrix(RESPONSES.values, RESPONSES.respondent_ids, tuple(f"item{k + 1}" for k in range(6)))
    alike(function(RESPONSES.values), function(plain))
    alike(function(WIDE), function(RESPONSES))


def test_keywords_are_the_settings_by_the_words_of_the_command_line() -> None:
    settings = irtbench.FitSettings(kind="2pl", prior="weak", guessing=0.2, n_options=5)
    fitted = irtbench.fit_model(RESPONSES, model="2pl", prior="weak", guessing=0.2, options=5)
    assert fitted.settings == settings
    without = irtbench.fit_model(RESPONSES, settings, prior="none").settings
    assert without == irtbench.FitSettings(prior="none", guessing=0.2, n_options=5)
    alike(
        irtbench.score_responses(SCALE, RESPONSES, method="wle"),
        irtbench.score_responses(SCALE, RESPONSES, irtbench.ScoringSettings(method="wle")),
    )
    for wrong, said in (
        ({"modle": "3pl"}, "^unknown keyword modle; expected some of model, options, guessing, "),
        ({"prior": "strong"}, "^prior: expected 'none', 'weak' or 'hierarchical' but got 'strong'$"),
    ):
        with pytest.raises(irtbench.InputError, match=said):
            irtbench.fit_model(RESPONSES, **wrong)
