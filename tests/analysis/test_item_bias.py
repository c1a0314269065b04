"""Item bias: planted differences are found and measured, differences in ability are not mistaken for them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from builders.simulated import rearranged
from irtbench.analysis.item_bias import comparable_items, item_bias
from irtbench.analysis.linked_groups import LinkedGroups, link
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.logistic_regression import logistic_regression
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses

METHODS = ("likelihood_ratio", "logistic")
slowly_by_likelihood = pytest.mark.parametrize(
    "method", [pytest.param(m, marks=[pytest.mark.slow] if m == "likelihood_ratio" else []) for m in METHODS]
)


def two_groups(
    *,
    seed: int,
    n: tuple[int, int] = (600, 600),
    n_items: int = 16,
    mean: float = -0.7,
    sd: float = 1.0,
    shift: dict[int, float] | None = None,
    slope_ratio: dict[int, float] | None = None,
    missing: float = 0.0,
) -> tuple[ResponseMatrix, np.ndarray]:
    """Reference and focal respondents; items are harder by ``shift`` for the focal group, or of another slope."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.8, 2.0, n_items), rng.normal(0, 0.8, n_items)
    focal_a, focal_b = a.copy(), b.copy()
    for item, by in (shift or {}).items():
        focal_b[item] += by
    for item, ratio in (slope_ratio or {}).items():
        focal_a[item] *= ratio
    parts = [
        simulate_responses(rng.normal(m, s, size), ItemParameters.from_difficulty(*ab), rng=rng, missing=missing).values
        for size, m, s, ab in ((n[0], 0, 1, (a, b)), (n[1], mean, sd, (focal_a, focal_b)))
    ]
    values = np.vstack(parts)
    ids = tuple(f"r{i}" for i in range(sum(n)))
    responses = ResponseMatrix(values, ids, tuple(f"item{j}" for j in range(n_items)))
    return responses, np.arange(sum(n)) >= n[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_planted_shift_is_found_with_its_size(method: str) -> None:
    responses, focal = two_groups(seed=5, n=(1500, 1500), shift={2: 0.9, 9: -0.9})
    found = item_bias(responses, focal, method=method, adjustment="holm")
    table = found.table().set_index("item_id")
    assert set(table.index[table["p_adjusted"] < 0.05]) == {"item2", "item9"}
    assert set(table.index[~table["anchor"]]) == {"item2", "item9"}
    assert table.loc["item2", "delta"] < -1 < 1 < table.loc["item9", "delta"]  # harder: negative
    assert table.loc["item2", "size"] == "large"
    # the focal population, 0.7 below the other, is recovered although two items are biased; its error is about .05
    assert found.focal_mean == pytest.approx(-0.7, abs=0.15)
    assert found.focal_sd == pytest.approx(1.0, abs=0.15)
    np.testing.assert_allclose(found.p, chi2.sf(found.x2, 2), atol=1e-12)  # a slope and an intercept are freed


@pytest.mark.slow
def test_delta_is_2_35_times_the_shift_in_logits() -> None:
    # Rasch-like items of slope 1: a shift of .8 in difficulty is .8 logits, delta = -2.35 * .8 = -1.88
    rng = np.random.default_rng(5)
    items = ItemParameters.from_difficulty(np.ones(20), rng.normal(0, 0.8, 20))
    harder = ItemParameters.from_difficulty(np.ones(20), items.difficulty + np.eye(20)[4] * 0.8)
    values = np.vstack([simulate_responses(rng.normal(size=4000), part, rng=rng).values for part in (items, harder)])
    responses = ResponseMatrix(values, tuple(map(str, range(8000))), items.item_ids)
    delta = item_bias(responses, np.arange(8000) >= 4000).delta
    assert delta[4] == pytest.approx(-1.88, abs=0.3)  # its standard error is about .13
    assert np.abs(np.delete(delta, 4)).max() < 0.5


@slowly_by_likelihood
def test_crossing_curves_are_found_though_delta_is_small(method: str) -> None:
    responses, focal = two_groups(seed=3, n=(2000, 2000), mean=0.0, slope_ratio={5: 0.35})
    found = item_bias(responses, focal, method=method)
    assert found.p_crossing[5] < 1e-4
    assert found.p_adjusted[5] < 0.01
    assert found.rms_difference[5] == max(found.rms_difference)


@pytest.mark.slow
@slowly_by_likelihood
def test_clean_items_are_flagged_at_the_nominal_rate_though_abilities_differ(method: str) -> None:
    p = np.concatenate(
        [item_bias(*two_groups(seed=100 + s, n=(400, 400), n_items=12, mean=-1.0), method=method).p for s in range(20)]
    )
    # 240 tests: the standard error of a 5% rate is 1.4%
    assert 0.01 < np.mean(p < 0.05) < 0.09


@pytest.mark.slow
def test_matching_without_regard_to_ability_would_be_wrong() -> None:
    # The same clean data with groups a whole sd apart: regressing on the sum score sees bias everywhere, since at the
    # same sum score the weaker group's ability is lower. The reported tests do not.
    flagged = {"sum score": 0.0, "reported": 0.0}
    for seed in range(4):
        responses, focal = two_groups(seed=200 + seed, n=(3000, 3000), n_items=10, mean=-1.0)
        score = responses.values.sum(axis=1)
        for item in range(10):
            columns = np.stack([np.ones_like(score), score - responses.values[:, item], focal.astype(float)], axis=1)
            answers = responses.values[:, item]
            same, uniform = (logistic_regression(columns[:, :w], answers, 1e-6 * np.eye(w)) for w in (2, 3))
            flagged["sum score"] += 2 * (uniform.log_likelihood - same.log_likelihood) > 3.841
        flagged["reported"] += (item_bias(responses, focal, method="logistic").p_uniform < 0.05).sum()
    assert flagged["sum score"] > 20  # of 40
    assert flagged["reported"] < 8  # binomial(40, .05) exceeds 7 once in 1,000


@pytest.mark.slow
def test_purified_anchors_keep_many_biased_items_from_making_others_look_biased() -> None:
    # a quarter of the items is harder for the focal group: with all items as anchors the others look easier for it
    biased = {0: 0.8, 1: 0.8, 2: 0.8, 3: 0.8}
    responses, focal = two_groups(seed=8, n=(1500, 1500), shift=biased)
    found = item_bias(responses, focal)
    assert found.rounds > 1
    assert not found.anchor[:4].any()
    assert np.mean(found.p[4:] < 0.05) <= 2 / 12
    assert found.focal_mean == pytest.approx(-0.7, abs=0.1)


@pytest.mark.slow
def test_machines_against_people_with_missing_responses() -> None:
    responses, focal = two_groups(seed=11, n=(1000, 60), mean=1.2, sd=0.7, shift={6: 2.5}, missing=0.3)
    found = item_bias(responses, focal)
    table = found.table()
    assert table.loc[table["p"].idxmin(), "item_id"] == "item6"
    assert found.p_adjusted[6] < 0.05
    assert found.n_focal[6] == (~np.isnan(responses.values[focal, 6])).sum()
    assert np.mean(np.delete(found.p, 6) < 0.05) < 0.2


@slowly_by_likelihood
def test_an_item_the_whole_focal_group_gets_right_is_finite(method: str) -> None:
    responses, focal = two_groups(seed=4, n=(400, 100))
    values = responses.values.copy()
    values[focal, 3] = 1
    found = item_bias(ResponseMatrix(values, responses.respondent_ids, responses.item_ids), focal, method=method)
    assert np.isfinite([found.delta[3], found.x2[3], found.rms_difference[3]]).all()
    assert found.p[3] < 1e-6
    assert found.delta[3] > 1.5


def test_the_studied_item_is_at_a_maximum_and_all_others_are_held() -> None:
    responses, focal = two_groups(seed=7, n=(300, 200), n_items=6)
    linked = link(responses, focal, freed=np.zeros(6, dtype=bool), settings=FitSettings())
    common = linked.others_fixed(2, slope=False, intercept=False)
    # with all its items common, the fit of all is the largest likelihood of this item too
    assert common.log_posterior == pytest.approx(linked.mode.log_posterior, abs=1e-6)
    assert linked.refitted(2, slope=False, intercept=False).log_posterior == pytest.approx(common.log_posterior)
    uniform, either = (linked.others_fixed(2, slope=slope, intercept=True, start=common) for slope in (False, True))
    assert either.log_posterior >= uniform.log_posterior - 1e-5 >= common.log_posterior - 2e-5
    # by nothing but what is kept of each group: the other items' likelihoods, and this one's curve and the population
    # the columns are (a_1, d_1, c_1, a, d, c), those of the population's mean and log standard deviation below a and d
    for found, free in ((uniform, (3, 1, 4)), (either, (3, 0, 1, 4))):
        at = found.items.matrix.clone()
        assert height(linked, 2, at) == pytest.approx(found.log_posterior, abs=1e-6)
        for row, column in [(0, k) for k in free] + [(1, 3), (1, 4)]:
            for step in (-0.02, 0.02):
                moved = at.clone()
                moved[row, column] += step
                assert height(linked, 2, moved) < found.log_posterior


def height(linked: LinkedGroups, item: int, at: torch.Tensor) -> float:
    """Log-likelihood of both groups with the item, and the focal population below it, elsewhere."""
    total = 0.0
    for group, part in enumerate(linked.groups):
        slope, intercept = at[0, 3] + group * at[0, 0], at[0, 4] + group * at[0, 1]
        mean, deviation = group * at[1, 3], (group * at[1, 4]).exp()
        log_weights = torch.log_softmax(-0.5 * ((linked.theta - mean) / deviation) ** 2, dim=0)
        z = slope * linked.theta + intercept
        own = torch.where(part.rows.right[:, item, None] == 1, z, -z)
        joint = part.without(item, [item]) + torch.nn.functional.logsigmoid(own) + log_weights
        total += float(torch.logsumexp(joint, dim=1).sum())
    return total


def test_an_item_that_one_group_gets_right_and_the_other_wrong_says_nothing_of_the_scale() -> None:
    responses, focal = two_groups(seed=7, n=(300, 200), n_items=6)
    values = responses.values.copy()
    values[:, 3] = focal
    split = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    found = item_bias(split, focal)
    without = item_bias(split.select_items([item for item in split.item_ids if item != "item3"]), focal)
    assert not found.anchor[3]
    assert found.x2[3] > 100
    assert found.focal_mean == pytest.approx(without.focal_mean, abs=1e-3)


@pytest.mark.slow
@settings(max_examples=2)
@given(seed=st.integers(0, 1000))
def test_order_of_respondents_and_items_is_no_matter(seed: int) -> None:
    responses, focal = two_groups(seed=21, n=(150, 150), n_items=6)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(300), rng.permutation(6)
    first = item_bias(responses, focal).table().set_index("item_id")
    second = item_bias(rearranged(responses, rows, columns), focal[rows]).table().set_index("item_id").loc[first.index]
    pd.testing.assert_series_equal(first["x2"], second["x2"], atol=0.01, rtol=0.01)


@pytest.mark.parametrize("group", ["reference", "focal"])
def test_ten_respondents_make_a_group_and_nine_do_not(group: str) -> None:
    responses, focal = two_groups(seed=1, n=(60, 10), n_items=4)
    few = focal if group == "focal" else ~focal
    found = item_bias(responses, focal if group == "focal" else few, method="logistic")
    sizes = {"focal": found.n_focal, "reference": found.n_reference}
    assert sizes[group].tolist() == [10] * 4
    fewer = np.arange(70) != 69  # the last of the ten leaves
    with pytest.raises(InputError, match=f"9 respondents in the {group} group; expected at least 10"):
        item_bias(responses.select_respondents(fewer), (focal if group == "focal" else few)[fewer])


def test_wrong_input_is_named() -> None:
    responses, focal = two_groups(seed=1, n=(30, 30), n_items=4)
    with pytest.raises(InputError, match=r"focal has shape \(3,\) for 60 respondents"):
        item_bias(responses, np.zeros(3, dtype=bool))
    with pytest.raises(InputError, match="5 respondents in the focal group; expected at least 10"):
        item_bias(responses, np.arange(60) >= 55)
    with pytest.raises(InputError, match="alpha must be between 0 and 1"):
        item_bias(responses, focal, alpha=2)
    with pytest.raises(InputError, match="2 items; expected at least 3"):
        item_bias(responses.select_items(["item0", "item1"]), focal)
    values = responses.values.copy()
    values[:, 0], values[focal, 1] = 1, np.nan
    worse = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    with pytest.raises(InputError, match="nobody in the focal group answered item item1"):
        item_bias(worse, focal)
    with pytest.raises(InputError, match="all responses are the same for item item0"):
        item_bias(worse.select_items(["item0", "item2", "item3"]), focal)
    assert comparable_items(worse, focal) == ("item2", "item3")


def test_the_likelihood_ratio_with_all_others_as_anchors_is_that_of_mirt(reference: Path) -> None:
    table = pd.read_csv(reference / "next" / "data" / "verbal.csv")
    items = [name for name in table if name not in ("Anger", "Gender")]
    ids = tuple(f"r{i}" for i in range(len(table)))
    responses = ResponseMatrix(table[items].to_numpy(dtype=float), ids, tuple(items))
    found = item_bias(responses, table["Gender"].to_numpy() == 0, purify=False)  # mirt lets the women's mean free
    expected = pd.read_csv(reference / "next" / "04_dif" / "verbal_irt_lr_drop.csv").set_index("item").loc[items]
    np.testing.assert_allclose(found.x2, expected["X2"], atol=1e-3)
    group = pd.read_csv(reference / "next" / "04_dif" / "verbal_irt_constrained.csv").loc[0]
    assert found.focal_mean == pytest.approx(group["mean"], abs=1e-3)
    assert found.focal_sd**2 == pytest.approx(group["var"], abs=2e-3)


@pytest.mark.slow
def test_a_quarter_of_the_items_biased_one_way_leaves_the_others_at_their_level() -> None:
    biased = dict.fromkeys(range(5), 0.8)
    flagged = {True: 0, False: 0}
    for seed in range(8):
        responses, focal = two_groups(seed=300 + seed, n=(500, 500), n_items=20, shift=biased)
        for purify in flagged:
            found = item_bias(responses, focal, method="logistic", purify=purify)
            flagged[purify] += int((found.p[5:] < 0.05).sum())
            assert found.anchor.all() == (not purify)
    # of 120 tests: binomial(120, .05) exceeds 14 once in 1,000; with all items as anchors it is a third of them
    assert flagged[True] <= 14
    assert flagged[False] > 20
