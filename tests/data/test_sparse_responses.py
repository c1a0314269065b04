"""Sparse responses: the same fit as from the full matrix, and the long form checked like it."""

import numpy as np
import pandas as pd
import pytest

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses, responses_from_long
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import PriorName
from irtbench.models.simulation import simulate_responses


def both(*, n: int = 400, n_items: int = 30, missing: float = 0.7) -> tuple[ResponseMatrix, SparseResponses]:
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
    drawn = simulate_responses(rng.normal(size=n), items, rng=rng, missing=missing)
    table = drawn.to_long().sample(frac=1, random_state=1)  # rows of one respondent need not stand together
    return ResponseMatrix.from_long(table), SparseResponses.from_long(table)


def test_the_sparse_form_holds_what_the_matrix_holds() -> None:
    matrix, sparse = both()
    assert sparse.respondent_ids == matrix.respondent_ids
    assert sparse.item_ids == matrix.item_ids
    np.testing.assert_array_equal(sparse.to_matrix().values, matrix.values)
    np.testing.assert_array_equal(sparse.n_by_item, matrix.n_by_item)
    np.testing.assert_array_equal(sparse.n_by_respondent, matrix.n_by_respondent)
    np.testing.assert_array_equal(sparse.n_correct_by_item, matrix.n_correct_by_item)
    np.testing.assert_allclose(sparse.proportion_correct(), matrix.proportion_correct())


@pytest.mark.parametrize(
    ("kind", "prior", "missing"),
    [
        ("2pl", "none", 0.7),
        ("2pl", "weak", 0.7),
        ("3pl", "weak", 0.5),
        ("4pl", "weak", 0.5),
        ("2pl", "hierarchical", 0.7),
    ],
)
def test_a_sparse_fit_equals_the_dense_one(kind: str, prior: PriorName, missing: float) -> None:
    matrix, sparse = both(missing=missing)
    # they start from different places
    settings = FitSettings(kind=kind, prior=prior, tolerance=1e-6)  # type: ignore[arg-type]
    dense, thin = fit_model(matrix, settings), fit_model(sparse, settings)
    assert dense.converged
    assert thin.converged
    assert thin.log_likelihood == pytest.approx(dense.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(thin.items.discrimination, dense.items.discrimination, atol=1e-5)
    np.testing.assert_allclose(thin.items.intercept, dense.items.intercept, atol=1e-5)
    for name, error in thin.items.standard_errors().items():
        np.testing.assert_allclose(error, dense.items.standard_errors()[name], rtol=1e-4)


def test_many_items_get_their_own_information_from_a_sparse_form() -> None:
    matrix, sparse = both(n=700, n_items=600, missing=0.9)
    settings = FitSettings(prior="weak")
    for name, error in fit_model(sparse, settings).items.standard_errors().items():
        np.testing.assert_allclose(error, fit_model(matrix, settings).items.standard_errors()[name], rtol=1e-4)


def test_selecting_items_and_respondents_is_that_of_the_matrix() -> None:
    matrix, sparse = both()
    wanted = [sparse.item_ids[k] for k in (7, 2, 19)]
    keep = np.arange(sparse.n_respondents) % 3 == 1
    ours = sparse.select_items(wanted).select_respondents(keep).to_matrix()
    theirs = matrix.select_items(wanted).select_respondents(keep)
    assert ours.respondent_ids == theirs.respondent_ids
    np.testing.assert_array_equal(ours.values, theirs.values)
    with pytest.raises(InputError, match="unknown item nowhere"):
        sparse.select_items(["nowhere"])


def test_dense_parts_hold_every_response_once() -> None:
    matrix, sparse = both()
    parts = list(sparse.parts(90))
    assert [name for part in parts for name in part.respondent_ids] == list(matrix.respondent_ids)
    assert sum(part.n_responses for part in parts) == matrix.n_responses
    assert list(matrix.parts()) == [matrix]


def test_a_small_or_full_table_becomes_a_matrix_and_a_large_empty_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    table = both(missing=0.95)[0].to_long()
    assert isinstance(responses_from_long(table), ResponseMatrix)
    monkeypatch.setattr("irtbench.data.sparse_responses.MOST_DENSE_CELLS", 1000)
    assert isinstance(responses_from_long(table), SparseResponses)
    assert isinstance(responses_from_long(both(missing=0.5)[0].to_long()), ResponseMatrix)


def long(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"])


def test_bad_sparse_tables_are_refused_in_a_line() -> None:
    with pytest.raises(InputError, match=r"duplicate .*\(r1, i1\)"):
        SparseResponses.from_long(long(("r1", "i1", 1), ("r1", "i1", 0)))
    with pytest.raises(InputError, match="respondent r2, item i1: expected 1, 0 or missing but got 2"):
        SparseResponses.from_long(long(("r1", "i1", 1), ("r2", "i1", 2)))
    with pytest.raises(InputError, match="table is empty"):
        SparseResponses.from_long(long())
    held = SparseResponses.from_long(long(("r1", "i1", 1), ("r2", "i1", np.nan)))
    assert (held.n_respondents, held.n_responses) == (2, 1)


def test_adam_on_a_sparse_list_gives_what_it_gives_on_the_matrix() -> None:
    matrix, sparse = both(n=200, n_items=10, missing=0.3)
    dense, found = (fit_model(data, FitSettings(optimiser="adam", tolerance=1e-4)) for data in (matrix, sparse))
    assert dense.converged
    assert found.converged
    assert found.log_likelihood == pytest.approx(dense.log_likelihood, abs=1e-8)
    np.testing.assert_allclose(found.items.discrimination, dense.items.discrimination, atol=1e-8)
