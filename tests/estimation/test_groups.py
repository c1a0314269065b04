"""Several groups: the maximum is that of the Pyro model and of R mirt, and its standard errors are right."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_groups, simulate_responses


def drawn(
    *,
    seed: int,
    sizes: tuple[int, ...] = (500, 500),
    means: tuple[float, ...] = (0.0, -0.6),
    sds: tuple[float, ...] = (1.0, 1.3),
    n_items: int = 15,
    guessing: float = 0.0,
    missing: float = 0.0,
    shift: dict[int, float] | None = None,
) -> tuple[ResponseMatrix, np.ndarray]:
    """Groups g0, g1, ...; in all but the first, items are harder by ``shift``."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.8, 2.0, n_items), rng.normal(0, 0.9, n_items)
    other = b.copy()
    for item, by in (shift or {}).items():
        other[item] += by
    parts = [
        simulate_responses(
            rng.normal(mean, sd, size),
            ItemParameters.from_difficulty(a, other if group else b, guessing),
            rng=rng,
            missing=missing,
        ).values
        for group, (size, mean, sd) in enumerate(zip(sizes, means, sds, strict=True))
    ]
    ids = tuple(f"r{i}" for i in range(sum(sizes)))
    responses = ResponseMatrix(np.vstack(parts), ids, tuple(f"i{j}" for j in range(n_items)))
    return responses, np.repeat([f"g{g}" for g in range(len(sizes))], sizes)


def verbal(reference: Path) -> tuple[ResponseMatrix, list[str]]:
    table = pd.read_csv(reference / "next/data/verbal.csv")
    items = [name for name in table.columns if name.startswith(("S1", "S2", "S3", "S4"))]
    ids = tuple(f"r{i}" for i in range(len(table)))
    return ResponseMatrix(table[items].to_numpy(float), ids, tuple(items)), table["Gender"].astype(str).tolist()


def test_the_fit_with_common_items_is_mirts(reference: Path) -> None:
    responses, groups = verbal(reference)
    expected = pd.read_csv(reference / "next/04_dif/verbal_irt_constrained.csv").iloc[0]
    fitted = fit_groups(responses, groups, reference="1")  # mirt left the women's population free
    assert fitted.converged
    assert fitted.log_likelihood == pytest.approx(expected["loglik"], abs=2e-3)
    assert fitted.mean[1] == pytest.approx(expected["mean"], abs=1e-3)
    assert fitted.sd[1] ** 2 == pytest.approx(expected["var"], abs=3e-3)


def test_the_fit_with_free_items_is_mirts(reference: Path) -> None:
    responses, groups = verbal(reference)
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
    responses, groups = drawn(seed=9, sizes=(800, 800), means=(0.0, 3.0), sds=(1.0, 2.0), n_items=25)
    fitted = fit_groups(responses, groups)
    assert fitted.converged
    assert fitted.mean[1] == pytest.approx(3.0, abs=3 * fitted.se_mean[1])
    assert fitted.sd[1] == pytest.approx(2.0, abs=3 * fitted.se_sd[1])
    turned = fit_groups(responses, groups, reference="g1")  # the same model on the other group's scale
    assert turned.log_likelihood == pytest.approx(fitted.log_likelihood, abs=0.01)  # nodes are .2 of another unit
    assert turned.sd[1] == pytest.approx(1 / fitted.sd[1], rel=1e-3)
    assert turned.mean[1] == pytest.approx(-fitted.mean[1] / fitted.sd[1], rel=1e-3)


def test_a_free_item_has_parameters_of_its_own_in_each_group() -> None:
    responses, groups = drawn(
        seed=4, sizes=(1500, 1500, 1500), means=(0, 0.5, -0.5), sds=(1, 1, 1), missing=0.2, shift={3: 0.8}
    )
    fitted = fit_groups(responses, groups, free_items=["i3"])
    difficulty = [part.difficulty[3] for part in fitted.items]
    error = [part.standard_errors()["difficulty"][3] for part in fitted.items]
    for group in (1, 2):
        assert difficulty[group] - difficulty[0] == pytest.approx(0.8, abs=4 * max(error))
        assert fitted.items[group].difficulty[2] == fitted.items[0].difficulty[2]
    common = fit_groups(responses, groups, FitSettings(standard_errors=False))
    assert 2 * (fitted.log_likelihood - common.log_likelihood) > 60
    assert np.isnan(common.se_mean[1])


def test_the_order_of_the_other_groups_does_not_matter() -> None:
    responses, groups = drawn(
        seed=5, sizes=(600, 400, 300), means=(0, 0.5, -0.5), sds=(1, 1.2, 0.8), n_items=8, shift={3: 0.8}
    )
    one = fit_groups(responses, groups, free_items=["i3"], reference="g0")
    last_first = np.arange(responses.n_respondents)[::-1]
    turned = ResponseMatrix(responses.values[last_first], responses.respondent_ids[::-1], responses.item_ids)
    other = fit_groups(turned, groups[last_first], free_items=["i3"], reference="g0")
    assert (one.groups, other.groups) == (("g0", "g1", "g2"), ("g0", "g2", "g1"))
    for group, same in ((0, 0), (1, 2), (2, 1)):
        assert other.items[same].difficulty == pytest.approx(one.items[group].difficulty, abs=1e-4)
        for name, errors in one.items[group].standard_errors().items():
            assert other.items[same].standard_errors()[name] == pytest.approx(errors, rel=1e-3, nan_ok=True), name
    assert other.se_mean[[0, 2, 1]] == pytest.approx(one.se_mean, rel=1e-3)


def test_wrong_input_is_named() -> None:
    responses, groups = drawn(seed=1, sizes=(30, 30), n_items=4)
    with pytest.raises(InputError, match="3 groups for 60 respondents"):
        fit_groups(responses, ["a", "b", "c"])
    with pytest.raises(InputError, match="all respondents are in one group"):
        fit_groups(responses, ["a"] * 60)
    with pytest.raises(InputError, match="5 respondents in group b; expected at least 10"):
        fit_groups(responses, ["a"] * 55 + ["b"] * 5)
    with pytest.raises(InputError, match="no respondent is in group x; expected one of g0, g1"):
        fit_groups(responses, groups, reference="x")
    with pytest.raises(InputError, match="no item x among the responses"):
        fit_groups(responses, groups, free_items=["x"])
    with pytest.raises(InputError, match="all items are free"):
        fit_groups(responses, groups, free_items=responses.item_ids)
    with pytest.raises(InputError, match="expected prior none or weak"):
        fit_groups(responses, groups, FitSettings(prior="hierarchical"))
    values = responses.values.copy()
    values[30:, 2] = 1
    same = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    with pytest.raises(InputError, match="responses of group g1 to item i2 are all the same or none"):
        fit_groups(same, groups, free_items=["i2"])
    # where no item is free, an item that one group always gets right is no obstacle
    responses, groups = drawn(seed=1, sizes=(200, 200), n_items=8)
    values = responses.values.copy()
    values[200:, 2] = 1
    assert fit_groups(ResponseMatrix(values, responses.respondent_ids, responses.item_ids), groups).converged
