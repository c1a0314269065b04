"""Several groups: the maximum is that of the Pyro model and of R mirt, and its standard errors are right."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.mirt_figures import verbal
from builders.refusals import is_refused
from irtbench import FitSettings, ResponseMatrix, as_responses, fit_groups


def drawn(
    n: int, n_items: int, *, seed: int, means: tuple[float, ...] = (0.0, -0.6), sds: tuple[float, ...] = (1.0, 1.3)
) -> tuple[ResponseMatrix, np.ndarray]:
    """Groups g0, g1, ... of so many; in all but the first the fourth item is harder by .8; a tenth is missing."""
    rng = np.random.default_rng(seed)
    a, b, group = rng.uniform(0.8, 2.0, n_items), rng.normal(0, 0.9, n_items), np.repeat(np.arange(len(means)), n)
    harder = 0.8 * np.outer(group > 0, np.arange(n_items) == 3)
    z = a * (rng.normal(np.array(means)[group], np.array(sds)[group])[:, None] - b - harder)
    values = np.where(rng.random(z.shape) < 0.1, np.nan, rng.logistic(size=z.shape) < z)
    return as_responses(values), np.array([f"g{k}" for k in group])


def test_the_fit_with_common_items_is_mirts(reference: Path) -> None:
    responses, women = verbal(reference)
    groups = np.where(women, "0", "1")
    expected = pd.read_csv(reference / "next/04_dif/verbal_irt_constrained.csv").iloc[0]
    fitted = fit_groups(responses, groups, reference="1")  # mirt left the women's population free
    assert fitted.converged
    assert fitted.log_likelihood == pytest.approx(expected["loglik"], abs=2e-3)
    assert fitted.mean[1] == pytest.approx(expected["mean"], abs=1e-3)
    assert fitted.sd[1] ** 2 == pytest.approx(expected["var"], abs=3e-3)


def test_the_fit_with_free_items_is_mirts(reference: Path) -> None:
    responses, women = verbal(reference)
    groups = np.where(women, "0", "1")
    pars = pd.read_csv(reference / "next/04_dif/verbal_dtf_pars.csv").set_index("item").loc[list(responses.item_ids)]
    expected = pd.read_csv(reference / "next/04_dif/verbal_dtf_group.csv").iloc[0]
    fitted = fit_groups(responses, groups, reference="0", free_items=pars.index[~pars["anchor"].astype(bool)].tolist())
    assert fitted.log_likelihood == pytest.approx(expected["loglik"], abs=2e-3)
    assert fitted.mean[1] == pytest.approx(expected["mean_focal"], abs=1e-3)
    assert fitted.sd[1] ** 2 == pytest.approx(expected["var_focal"], abs=3e-3)
    for group, name in enumerate(("ref", "foc")):
        np.testing.assert_allclose(fitted.items[group].discrimination, pars[f"a_{name}"], atol=5e-3)
        np.testing.assert_allclose(fitted.items[group].intercept, pars[f"d_{name}"], atol=5e-3)


def test_nodes_follow_a_group_that_lies_far_away() -> None:
    responses, groups = drawn(800, 25, seed=9, means=(0.0, 3.0), sds=(1.0, 2.0))
    fitted = fit_groups(responses, groups)
    assert fitted.converged
    assert fitted.mean[1] == pytest.approx(3.0, abs=3 * fitted.se_mean[1])
    assert fitted.sd[1] == pytest.approx(2.0, abs=3 * fitted.se_sd[1])
    turned = fit_groups(responses, groups, reference="g1")  # the same model on the other group's scale
    assert turned.log_likelihood == pytest.approx(fitted.log_likelihood, abs=0.01)  # nodes are .2 of another unit
    assert turned.sd[1] == pytest.approx(1 / fitted.sd[1], rel=1e-3)
    assert turned.mean[1] == pytest.approx(-fitted.mean[1] / fitted.sd[1], rel=1e-3)


def test_the_order_of_the_other_groups_does_not_matter() -> None:
    responses, groups = drawn(500, 8, seed=5, means=(0, 0.5, -0.5), sds=(1, 1.2, 0.8))
    one = fit_groups(responses, groups, free_items=["item4"], reference="g0")
    difficulty, error = (np.array(part)[:, 3] for part in ([items.difficulty for items in one.items],
                         [items.standard_errors()["difficulty"] for items in one.items]))  # fmt: skip
    assert difficulty[1:] - difficulty[0] == pytest.approx(0.8, abs=4 * max(error))
    assert one.items[1].difficulty[2] == one.items[0].difficulty[2]
    last_first = np.arange(responses.n_respondents)[::-1]
    turned = ResponseMatrix(responses.values[last_first], responses.respondent_ids[::-1], responses.item_ids)
    other = fit_groups(turned, groups[last_first], free_items=["item4"], reference="g0")
    assert (one.groups, other.groups) == (("g0", "g1", "g2"), ("g0", "g2", "g1"))
    for group, same in ((0, 0), (1, 2), (2, 1)):
        assert other.items[same].difficulty == pytest.approx(one.items[group].difficulty, abs=1e-4)
        for name, errors in one.items[group].standard_errors().items():
            assert other.items[same].standard_errors()[name] == pytest.approx(errors, rel=1e-3, nan_ok=True), name
    assert other.se_mean[[0, 2, 1]] == pytest.approx(one.se_mean, rel=1e-3)
    assert np.isnan(fit_groups(responses, groups, FitSettings(standard_errors=False)).se_mean[1])


FEW, FEW_GROUPS = drawn(30, 4, seed=1)
CONSTANT = FEW.values.copy()
CONSTANT[30:, 2] = 1


@pytest.mark.parametrize(
    ("responses", "groups", "words", "saying"),
    [
        (FEW, ["a", "b", "c"], {}, "3 groups for 60 respondents"),
        (FEW, ["a"] * 60, {}, "all respondents are in one group"),
        (FEW, ["a"] * 55 + ["b"] * 5, {}, "5 respondents in group b; expected at least 10"),
        (FEW, FEW_GROUPS, {"reference": "x"}, "no respondent is in group x; expected one of g0, g1"),
        (FEW, FEW_GROUPS, {"free_items": ["x"]}, "no item x among the responses"),
        (FEW, FEW_GROUPS, {"free_items": FEW.item_ids}, "all items are free"),
        (FEW, FEW_GROUPS, {"prior": "hierarchical"}, "expected prior none or weak"),
        (CONSTANT, FEW_GROUPS, {"free_items": ["item3"]}, "of group g1 to item item3 are all the same or none"),
    ],
)
def test_wrong_input_is_named(responses: Any, groups: Any, words: dict[str, Any], saying: str) -> None:
    is_refused(saying, fit_groups, responses, groups, **words)


def test_where_no_item_is_free_one_that_a_group_always_gets_right_is_no_obstacle() -> None:
    responses, groups = drawn(200, 8, seed=1)
    values = responses.values.copy()
    values[200:, 2] = 1
    assert fit_groups(values, groups).converged
