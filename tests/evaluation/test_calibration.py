"""Calibration: the paper's algorithms by hand, identities, limits, coverage of what claims to cover."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.evaluation.calibration import calibration, calibration_difference, error_interval
from irtbench.evaluation.reliability import (
    ReliabilityCurve,
    adaptive_bins,
    concatenate_classes,
    debiased_squared_error,
    default_bin_size,
    equal_width_bins,
    reliability_curve,
)

# Five pairs, bins of two: sorted q .1 .2 | .4 .6 .9, the last pair joining the second bin.
Q = np.array([0.6, 0.1, 0.9, 0.2, 0.4])
Y = np.array([1.0, 0.0, 1.0, 1.0, 0.0])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def stretched(n: int, slope: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Predictions, and events that happen with probability .5 + slope (q - .5)."""
    q = generator.beta(0.8, 0.8, n)
    return q, (generator.random(n) < 0.5 + slope * (q - 0.5)).astype(np.float64)


def test_algorithm_1_the_parts_of_brier_and_bins_of_equal_width_by_hand() -> None:
    # bin 1: q = .15, p = 1/2; bin 2: q = 1.9/3, p = 2/3
    # error^2 = (2 (.35)^2 + 3 (1/30)^2) / 5 = (.245 + 1/300) / 5
    found = calibration(Q, Y, bin_size=2, n_width_bins=2, rng=rng())
    assert found.curve.n.tolist() == [2, 3]
    assert found.curve.mean_predicted == pytest.approx([0.15, 1.9 / 3])
    assert found.curve.observed_share == pytest.approx([1 / 2, 2 / 3])
    assert found.error == pytest.approx(np.sqrt((0.245 + 1 / 300) / 5), abs=1e-12)
    # Brier = (.16 + .01 + .01 + .64 + .16) / 5 = .98 / 5; refinement = (2 (1/4) + 3 (2/9)) / 5 = (7/6) / 5
    parts = found.brier, found.refinement, found.within_bins
    assert parts == pytest.approx((0.196, 7 / 30, 0.196 - (0.245 + 1 / 300) / 5 - 7 / 30))
    # [0, .5) holds .1 .2 .4 (1 of 3 right), [.5, 1] holds .6 .9 (both): (3 (.1)^2 + 2 (.25)^2) / 5
    assert found.equal_width_error == pytest.approx(np.sqrt((3 * 0.1**2 + 2 * 0.25**2) / 5))
    assert equal_width_bins(np.array([0.0, 0.09, 0.1, 0.95, 1.0]), 10).tolist() == [0, 0, 1, 2, 2]
    # where predictions are the same in a bin nothing is left: q = .2 (1 of 4), q = .7 (1 of 2)
    exact = calibration([0.2] * 4 + [0.7] * 2, [1, 0, 0, 0, 1, 0], bin_size=2, rng=rng())
    # calibration (4 (.05)^2 + 2 (.2)^2) / 6 = .015; refinement (4 (3/16) + 2 (1/4)) / 6 = 5/24
    assert (exact.calibration, exact.refinement, exact.brier, exact.within_bins) == pytest.approx(
        (0.015, 5 / 24, 0.015 + 5 / 24, 0), abs=1e-15
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60, unique=True), st.integers(1, 20))
def test_without_ties_the_bins_are_those_printed_and_equal_predictions_are_never_parted(
    values: list[float], size: int
) -> None:
    q = np.sort(values)
    printed = np.arange(q.size) // size  # floor((k - 1) / beta), k from 1
    if q.size % size and printed[-1] > 0:
        printed[printed == printed[-1]] -= 1
    assert adaptive_bins(q, size).tolist() == printed.tolist()
    assert adaptive_bins(np.array([0.5, 0.1, 0.2, 0.2, 0.2, 0.6]), 2).tolist() == [1, 0, 0, 0, 0, 1]
    assert adaptive_bins(np.full(7, 0.3), 2).tolist() == [0] * 7


@given(
    st.lists(st.tuples(st.sampled_from(np.linspace(0, 1, 11)), st.booleans()), min_size=4, max_size=40), st.randoms()
)
def test_the_order_of_rows_never_matters(pairs, random) -> None:
    mixed = random.sample(pairs, len(pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        one, other = (
            calibration([q for q, _ in rows], [y for _, y in rows], bin_size=3, n_samples=50, rng=rng())
            for rows in (pairs, mixed)
        )
    for name in ("error", "lower", "upper", "debiased_squared_error", "equal_width_error", "brier", "overconfident"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-12, nan_ok=True), name


def test_algorithm_2_by_hand() -> None:
    # one bin: error = |q - p'|, p' ~ N(.5, .25 / 100): with q = .9 no sample crosses, so the mean is .4, the sd .05
    curve = reliability_curve(np.full(100, 0.9), np.arange(100) % 2.0, np.zeros(100, dtype=np.int64))
    found = error_interval(curve, n_samples=200_000, rng=rng())
    assert found == pytest.approx((0.4 - 1.96 * 0.05, 0.4 + 1.96 * 0.05), abs=0.001)
    # two pairs, one right: p' ~ N(.5, 1/8). With q = 0 the error is p' clipped to [0, 1]. Clipping is symmetric about
    # .5, so the mean stays .5, and with s = sqrt(1/8), c = .5 / s = sqrt(2):
    # variance = s^2 (P(|Z| < c) - 2 c phi(c)) + .25 P(|Z| > c) = .125 (.84270 - .41511) + .25 (.15730) = .092774
    curve = ReliabilityCurve(*(np.array([v]) for v in (2, 0.0, 0.5, 0.0, 1.0)), level=0.95)  # type: ignore[misc]
    lower, upper = error_interval(curve, n_samples=400_000, rng=rng())
    assert (lower + upper) / 2 == pytest.approx(0.5, abs=0.002)
    assert (upper - lower) / 2 == pytest.approx(1.96 * np.sqrt(0.092774), abs=0.003)


def test_the_debiased_error_by_hand_and_its_bounds_those_of_its_square() -> None:
    # one bin: gaps q - y are .5, .5, -.5 with q = .5: D = 1/6, s^2 = 3/2 (1/4 - 1/36) = 1/3, D^2 - s^2 / 3 = -1/12
    q, y, one = np.full(3, 0.5), np.array([0.0, 0.0, 1.0]), np.zeros(3, dtype=np.int64)
    found = debiased_squared_error(q, y, one)
    assert found.squared == pytest.approx(1 / 36 - 1 / 9)
    # S = 1/9; D'WSWD - tr(WSWS) = 1/36 1/9 - 1/81 < 0, counted as 0; variance = 2 / 81
    assert found.standard_error == pytest.approx(np.sqrt(2) / 9)
    # far from calibrated, so that the lower bound of the square lies above zero and below one
    q, y = stretched(4_000, 0.3, rng())
    whole = calibration(q, y, n_samples=20, rng=rng())
    found = debiased_squared_error(q, y, adaptive_bins(q, whole.bin_size))
    bounds = found.squared + 1.959964 * found.standard_error * np.array([-1, 1])
    assert 0 < bounds[0] < 1
    assert [whole.debiased_lower, whole.debiased_upper] == pytest.approx(np.sqrt(bounds), abs=1e-6)


def test_the_debiased_square_is_unbiased_and_its_interval_covers() -> None:
    generator = rng()
    for slope in (1.0, 0.7):
        squares, held, truths = [], [], []
        for _ in range(300):
            q, y = stretched(1_000, slope, generator)
            bins = adaptive_bins(q, 50)
            found = debiased_squared_error(q, y, bins)
            gap = np.bincount(bins, (1 - slope) * (q - 0.5)) / np.bincount(bins)
            truths.append(float(np.bincount(bins) @ gap**2 / 1_000))
            squares.append(found.squared)
            held.append(abs(found.squared - truths[-1]) <= 1.96 * found.standard_error)
        assert np.mean(squares) == pytest.approx(np.mean(truths), abs=3.5 * np.std(squares) / np.sqrt(300))
        assert 0.91 <= np.mean(held) <= 0.995  # 95% of 300 +- 3 sd is .912 to .988


def test_repeating_every_pair_fools_only_who_takes_copies_for_independent() -> None:
    q, y = stretched(2_000, 1.0, rng())
    item = np.tile(np.arange(2_000), 5)
    copied = np.tile(q, 5), np.tile(y, 5)
    bins = adaptive_bins(copied[0], 500)
    honest = debiased_squared_error(*copied, bins, clusters=item)
    naive = debiased_squared_error(*copied, bins)
    alone = debiased_squared_error(q, y, adaptive_bins(q, 100))
    assert honest.squared == pytest.approx(alone.squared, abs=1e-4)
    assert honest.standard_error == pytest.approx(alone.standard_error, rel=0.03)
    assert naive.squared > 2 * naive.standard_error > honest.squared


def test_overconfident_and_underconfident_by_hand_and_beyond_chance() -> None:
    # .9 happens 1 of 2 (over), .1 happens 1 of 2 (over), .6 happens always (under), .5 is neither
    found = calibration([0.9, 0.9, 0.1, 0.1, 0.6, 0.6, 0.5, 0.5], [1, 0, 1, 0, 1, 1, 1, 1], bin_size=2, rng=rng())
    assert found.curve.overconfidence.tolist() == [1, 0, -1, 1]
    # two pairs a bin prove nothing
    assert (found.overconfident, found.underconfident, found.clearly_overconfident) == (0.5, 0.25, 0)
    q, y = stretched(20_000, 1.0, rng())
    found = calibration(q, y, bin_size=200, n_samples=10, rng=rng())
    assert found.clearly_overconfident + found.clearly_underconfident < 0.13  # 5% of 100 bins + 3.5 sd
    y = (rng().random(20_000) < 0.5).astype(float)
    extreme = np.where(q > 0.5, 0.9, 0.1)
    assert calibration(extreme, y, bin_size=200, n_samples=10, rng=rng()).clearly_overconfident == 1


def test_classes_are_concatenated() -> None:
    q, y, item = concatenate_classes([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [0, 2])
    assert q.tolist() == [0.7, 0.2, 0.1, 0.3, 0.3, 0.4]
    assert (y.tolist(), item.tolist()) == ([1, 0, 0, 0, 0, 1], [0, 0, 0, 1, 1, 1])
    is_refused("sum to 1", concatenate_classes, [[0.7, 0.2]], [0])
    is_refused("class from 0 to 1, got 2", concatenate_classes, [[0.7, 0.3]], [2])
    is_refused("do not fit", concatenate_classes, [[0.7, 0.3]], [0, 1])


def two_models(n: int, slopes: tuple[float, float], generator: np.random.Generator):
    """Each model sees one of two causes of the event, and states .5 + what it sees / slope."""
    seen = generator.uniform(-0.25, 0.25, (2, n))
    y = (generator.random(n) < 0.5 + seen.sum(axis=0)).astype(np.float64)
    return *(0.5 + part / slope for part, slope in zip(seen, slopes, strict=True)), y


def test_the_worse_calibrated_model_is_found_and_equals_are_not() -> None:
    found = calibration_difference(*two_models(4_000, (0.5, 1.0), rng()))
    # x / .5 - x over x ~ U(-.25, .25): the squared error is 1/48, less what bins of a tenth average out (a hundredth)
    assert found.difference == pytest.approx(1 / 48, abs=0.005)
    assert found.lower > 0
    assert found.p < 1e-6
    generator = rng()
    alarms = [calibration_difference(*two_models(1_000, (0.7, 0.7), generator)).p < 0.05 for _ in range(300)]
    assert np.mean(alarms) < 0.09  # 5% of 300 + 3 sd


def test_a_model_against_itself_its_mirror_and_one_that_agrees_with_it() -> None:
    first, second, y = two_models(4_000, (0.5, 1.0), rng())
    same = calibration_difference(first, first, y)
    assert (same.difference, same.lower, same.upper, same.p) == (0, 0, 0, 1)
    there, back = calibration_difference(first, second, y), calibration_difference(second, first, y)
    assert (there.difference, there.lower, there.p) == pytest.approx((-back.difference, -back.upper, back.p))
    close = np.clip(first + rng().normal(0, 0.01, y.size), 0, 1)
    paired = calibration_difference(first, close, y)
    half = (paired.upper - paired.lower) / 2
    alone = 1.96 * debiased_squared_error(first, y, adaptive_bins(first, 400)).standard_error
    assert half < 0.7 * alone  # unpaired it would be sqrt(2) times one model's


@pytest.mark.parametrize(
    ("q", "y", "saying"),
    [
        ([0.5, 1.2], [0, 1], r"pair 2: expected a probability in \[0, 1\] but got 1.2"),
        ([0.5, -0.1], [0, 1], "pair 2"),
        ([np.nan, 0.1], [0, 1], "pair 1"),
        ([0.5, 0.1], [0, 2], "pair 2: expected the label 1 or 0 but got 2"),
        ([0.5, 0.1], [0, np.nan], "pair 2: expected the label"),
        ([0.5, 0.1], [0], "do not fit"),
        ([], [], "at least one pair"),
    ],
)
def test_wrong_pairs_are_refused(q: list[float], y: list[float], saying: str) -> None:
    is_refused(saying, calibration, q, y, rng=rng())
    is_refused(saying, calibration_difference, q, q, y)


@pytest.mark.parametrize(("name", "least"), [("bin_size", 1), ("n_width_bins", 1), ("n_samples", 2)])
def test_wrong_settings_are_refused(name: str, least: int) -> None:
    options = {"bin_size": 2} | {name: least - 1}
    is_refused(f"{name} must be at least {least} but got", calibration, Q, Y, **options, rng=rng())
    is_refused("2 clusters for 5 pairs", calibration, Q, Y, bin_size=2, clusters=[1, 2], rng=rng())


def test_labels_that_are_all_the_same_are_no_proof_of_an_error() -> None:
    """A hundred events of .99 all happen with chance .37: by hand D = -.01, S = .99 .01 / 100, one bin."""
    q, y, bins = np.full(100, 0.99), np.ones(100), np.zeros(100, dtype=np.int64)
    found = debiased_squared_error(q, y, bins)
    s = 0.99 * 0.01 / 100
    assert found.squared == pytest.approx(0.01**2)
    assert found.standard_error == pytest.approx(np.sqrt(4 * (0.01**2 * s - s**2) + 2 * s**2))
    # the first model says .99, the second what happened: no bin of either has another label
    two = calibration_difference(q, np.ones(100), y, bin_size=100)
    assert two.lower < 0 < two.upper


def test_what_few_pairs_and_labels_that_are_all_the_same_leave_undefined() -> None:
    with pytest.warns(RuntimeWarning, match="5 pairs are fewer than a bin of 9"):
        found = calibration(Q, Y, bin_size=9, rng=rng())
    assert found.error == pytest.approx(abs(Q.mean() - Y.mean()))
    with pytest.warns(RuntimeWarning) as caught:
        found = calibration([0.7], [1], rng=rng())
    assert found.error == pytest.approx(0.3)
    assert np.isnan([found.lower, found.upper, found.debiased_error, found.debiased_lower]).all()
    assert {str(w.message).split(":")[1] for w in caught} >= {" the interval is undefined"}
    with pytest.warns(RuntimeWarning, match="one item only"):
        assert np.isnan(calibration_difference([0.7], [0.6], [1]).p)
    with pytest.warns(RuntimeWarning, match="in no bin do the labels differ"):
        found = calibration(np.linspace(0.5, 1, 40), np.ones(40), rng=rng())
    assert np.isnan(found.lower)
    assert found.debiased_lower > 0  # gaps still vary, so this is defined
    # the bin size is the paper's unless there are too few pairs
    assert [default_bin_size(n) for n in (1, 9, 300, 49_999, 50_000, 10**6)] == [1, 1, 30, 4_999, 5_000, 5_000]


def test_people_are_overconfident_and_more_so_on_hard_statements(real_data) -> None:
    import pandas as pd

    folder = real_data / "gk_calibration"
    stated = pd.read_csv(folder / "responses.csv.gz").merge(pd.read_csv(folder / "items.csv"), on="item_id")
    assert len(stated) == 27_540
    # PROVENANCE.md: Brier .2401 in all; .187, .257, .277 by level
    whole = calibration(stated["prob_true"], stated["gold"], rng=rng())
    assert whole.brier == pytest.approx(0.2401, abs=5e-5)
    assert whole.overconfident > 0.8
    # judges of one statement are no independent witnesses of it: 300 statements know far less than 27,540 pairs
    by_statement = calibration(stated["prob_true"], stated["gold"], clusters=stated["item_id"], rng=rng())
    assert by_statement.error == whole.error
    assert by_statement.debiased_upper - by_statement.debiased_lower > 4 * (whole.debiased_upper - whole.debiased_lower)
    by_level = [calibration(r["prob_true"], r["gold"], rng=rng()) for _, r in stated.groupby("level")]
    assert [found.brier for found in by_level] == pytest.approx([0.187, 0.257, 0.277], abs=5e-4)
    assert by_level[0].error < by_level[1].error < by_level[2].error
