"""The error of links: mirt's covariance, equateIRT's standard errors, and those of chains by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.linalg import block_diag

import irtbench
from builders.mirt_figures import reference_form
from builders.refusals import is_refused
from builders.scales import bank_of, scale_of
from irtbench import ItemBank, load_bank, save_bank
from irtbench.bank.scale import ScaleLine
from irtbench.building.extending import ancestry_of, covariance_as_fitted, moved_joint_error
from irtbench.models.item_parameters import JointError

N = 6


def some_error(seed: int = 1, n: int = N, size: float = 0.05) -> JointError:
    """A covariance of the errors of n items, of any kind."""
    factor = size * np.random.default_rng(seed).normal(size=(3 * n, 3 * n)) / np.sqrt(3 * n)
    return JointError((factor @ factor.T).reshape(n, 3, n, 3), 1e-3, 5e-4)


def some_scale(error: JointError | None = None, shift: float = 0.0) -> irtbench.Scale:
    """Six items whose guessing is estimated."""
    rng = np.random.default_rng(2)
    items = irtbench.ItemParameters.from_difficulty(
        rng.uniform(0.8, 1.8, N), rng.normal(size=N) - shift, 0.1, guessing_estimated=True
    )
    return scale_of(items, joint_error=error)


@pytest.fixture(scope="module")
def of_mirt(reference: Path) -> tuple[Path, dict[str, irtbench.FittedModel]]:
    """The folder of mirt's and equateIRT's figures, and our fits of the same responses."""
    folder = reference / "next" / "05_linking"
    return folder, {form: irtbench.fit_model(pd.read_csv(folder / f"a2pl_data_{form}.csv")) for form in "XY"}


@pytest.mark.parametrize("form", ["X", "Y"])
def test_the_whole_covariance_is_that_of_mirt(of_mirt, form: str) -> None:
    """mirt 1.45.1, Oakes: reference/next/05_linking."""
    folder, fits = of_mirt
    _, expected = reference_form(folder, "a2pl", form)
    found = fits[form].joint_error.covariance
    scale = np.sqrt(np.einsum("jaja->ja", expected))[:, :2]
    away = (found - expected)[:, :2, :, :2] / (scale[:, :, None, None] * scale)
    assert np.abs(away).max() < 0.01  # as correlations; standard errors to .5%
    assert fits[form].joint_error.location == pytest.approx(1 / 1500, rel=1e-3)
    assert fits[form].joint_error.unit == pytest.approx(1 / 3000, rel=1e-3)


def test_standard_errors_from_the_responses_are_those_of_equateirt(of_mirt, tmp_path: Path) -> None:
    folder, fits = of_mirt
    scales: list[irtbench.Scale] = []
    for fitted in fits.values():
        save_bank(bank_of(fitted.items, joint_error=fitted.joint_error), tmp_path / "bank.json")
        scales += load_bank(tmp_path / "bank.json").scales
    table = pd.read_csv(folder / "a2pl_coefficients.csv").query("method == 'Stocking-Lord' and weights == 'GH30_N01'")
    (expected,) = table.itertuples()
    link = irtbench.link_scales(*scales)
    assert link.joint
    assert (link.slope, link.intercept) == pytest.approx((expected.A, expected.B), abs=1e-3)
    assert (link.se_slope, link.se_intercept) == pytest.approx((expected.se_A, expected.se_B), rel=0.01)
    assert link.covariance[0, 1] == pytest.approx(expected.cov_AB, rel=0.05)


@pytest.mark.parametrize("model", ["rasch", "1pl", "2pl"])
def test_of_the_items_error_that_of_zero_and_unit_is_a_part(model: str) -> None:
    """What is left of the covariance without it is one: no direction has a negative variance."""
    rng = np.random.default_rng(3)
    truth = irtbench.ItemParameters.from_difficulty(np.full(12, 1.3), np.linspace(-1.5, 1.5, 12))
    fitted = irtbench.fit_model(irtbench.simulate_responses(rng.normal(size=500), truth, rng=rng), model=model)
    error, items = fitted.joint_error, fitted.items
    each = np.arange(12)
    np.testing.assert_array_equal(error.covariance[each, :, each, :], items.covariance)
    by = np.zeros((12, 3, 2))
    by[:, 1, 0] = by[:, 0, 1] = items.discrimination  # (a s, d + a m)
    left = error.covariance - np.einsum("jak,k,lbk->jalb", by, [error.location, error.unit], by)
    assert np.linalg.eigvalsh(left.reshape(36, 36)).min() > -1e-12
    more = error.covariance - 2 * np.einsum("jak,k,lbk->jalb", by, [error.location, error.unit], by)
    assert np.linalg.eigvalsh(more.reshape(36, 36)).min() < -1e-5  # twice is too much


def test_moved_items_err_as_both_calibrations_do() -> None:
    """J S J', J the derivatives of the items on the old scale by those of both scales, by differences."""
    scales = some_scale(some_error(1)), some_scale(some_error(2), shift=0.4)
    names = ("discrimination", "intercept", "guessing")

    def on_old(values: NDArray[np.float64]) -> NDArray[np.float64]:
        old, new = (
            replace(scale.items, **dict(zip(names, own.T, strict=True)))
            for scale, own in zip(scales, values.reshape(2, N, 3), strict=True)
        )
        moved = irtbench.link_scales(old, new, method="mean-mean").items(new)
        return np.stack([getattr(moved, name) for name in names], axis=1).ravel()

    at = np.array([[getattr(scale.items, name) for name in names] for scale in scales]).transpose(0, 2, 1).ravel()
    jacobian = np.stack([(on_old(at + step) - on_old(at - step)) / 2e-6 for step in 1e-6 * np.eye(36)], axis=1)
    errors = block_diag(*(scale.joint_error.covariance.reshape(18, 18) for scale in scales))
    old, new = scales
    link = irtbench.link_scales(old, new, method="mean-mean")
    moved = moved_joint_error(link, new.items, new.joint_error, old.joint_error)
    expected = jacobian @ errors @ jacobian.T
    np.testing.assert_allclose(moved.covariance.reshape(18, 18), expected, rtol=1e-6, atol=1e-9)
    assert (moved.location, moved.unit) == (old.joint_error.location, old.joint_error.unit)


def test_the_line_between_fitted_scales_has_not_the_error_of_their_people() -> None:
    """By hand: A = 2, B = 1; var(A) less 4 (.02 + .01), cov less 2 * .01, var(B) less 4 * .03 + .04 + .01."""
    link = irtbench.ScaleLink("haebara", 2.0, 1.0, np.array([[0.2, 0.05], [0.05, 0.3]]), ("i1", "i2"))
    old, new = JointError(np.zeros((2, 3, 2, 3)), 0.04, 0.01), JointError(np.zeros((2, 3, 2, 3)), 0.03, 0.02)
    assert covariance_as_fitted(link, old, new) == pytest.approx(np.array([[0.08, 0.03], [0.03, 0.13]]))


def test_two_links_by_independent_errors_add_up() -> None:
    """Without joint errors: A = A_1 A_2, B = A_1 B_2 + B_1, errors of the first by hand."""
    covariance = np.tile(np.diag([0.01, 0.01, 0.0]), (N, 1, 1))
    first = scale_of(replace(some_scale().items, covariance=covariance))
    once = irtbench.linked_scale(first, first, irtbench.link_scales(first, first))
    assert (once.line.generation, once.line.slope) == (1, pytest.approx(1))
    link = irtbench.ScaleLink("haebara", 2.0, 1.0, np.diag([0.01, 0.02]), ("item1", "item2"))
    once = replace(once, line=ScaleLine(1.25, 0.5, np.array([[0.04, 0.01], [0.01, 0.09]])))
    twice = irtbench.linked_scale(once, first, link)
    # A / A_1 = 1.6, (B - B_1) / A_1 = .4: var(A) .01 + 2.56 * .04, cov 1.6 (.4 * .04 + .01),
    # var(B) .02 + .16 * .04 + .8 * .01 + .09
    assert twice.line.covariance == pytest.approx(np.array([[0.1124, 0.0416], [0.0416, 0.1244]]))
    assert twice.line.generation == 2
    assert [entry["slope"] for entry in ancestry_of(twice.provenance)] == [2.0, pytest.approx(1)]
    assert irtbench.linked_scale(replace(once, line=None), first, link).line is None  # the first link's is not known


def test_a_bank_keeps_joint_error_and_line(tmp_path: Path) -> None:
    error = some_error()
    scale = replace(some_scale(error), line=ScaleLine(1.2, 0.4, np.array([[0.01, 0.002], [0.002, 0.02]]), 3))
    save_bank(ItemBank((scale,)), tmp_path / "bank.json")
    (found,) = load_bank(tmp_path / "bank.json").scales
    np.testing.assert_allclose(found.joint_error.covariance, error.covariance, rtol=1e-5)
    assert (found.joint_error.location, found.joint_error.unit) == (error.location, error.unit)
    assert (found.line.slope, found.line.intercept, found.line.generation) == (1.2, 0.4, 3)
    np.testing.assert_array_equal(found.line.covariance, scale.line.covariance)
    assert ItemBank((scale,)).schema_version == 4
    save_bank(ItemBank((found,)), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "bank.json").read_bytes()
    short = found.select(["item4", "item2"])
    np.testing.assert_array_equal(short.joint_error.covariance[0, :, 1], found.joint_error.covariance[3, :, 1])
    assert short.details.item_ids == ("item4", "item2")


def test_a_joint_error_of_other_items_is_refused() -> None:
    is_refused("parameters and their joint error are not about the same items", some_scale, some_error(n=4))
    is_refused(r"shape \(n_items, 3, n_items, 3\) but got \(2, 2\)", JointError, np.zeros((2, 2)), 0.0, 0.0)
    is_refused("must be finite", JointError, np.full((1, 3, 1, 3), np.nan), 0.0, 0.0)
    for line in ((0.0, 0.0, np.eye(2)), (1.0, 0.0, -np.eye(2)), (1.0, np.inf, np.eye(2))):
        is_refused("^link: expected a finite", ScaleLine, *line)
    new = irtbench.ItemParameters.from_difficulty([1.0], [0.0], item_ids=["new"])
    assert irtbench.extended_scale(some_scale(some_error()), new).joint_error is None


def test_generations_are_on_record(tmp_path: Path) -> None:
    """Through the file each year; with the same items in all years the errors of those between cancel."""
    linked = replace(some_scale(some_error(0)), provenance={"year": 0})
    se = []
    for year in range(1, 5):
        save_bank(ItemBank((linked,)), tmp_path / "bank.json")
        (before,) = load_bank(tmp_path / "bank.json").scales
        new = replace(some_scale(some_error(year)), provenance={"year": year})
        linked = irtbench.linked_scale(before, new, irtbench.link_scales(before, new))
        assert linked.line.generation == year
        se.append(linked.provenance["link"]["se_intercept"])
    assert [entry["se_intercept"] for entry in ancestry_of(linked.provenance)] == se[::-1]
    assert linked.provenance["new"] == {"year": 4}
    assert linked.provenance["old"]["old"]["old"]["old"] == {"year": 0}
    assert max(se) < 1.5 * min(se)  # of four independent links it would be twice that of one


def test_fits_without_such_a_covariance_say_so() -> None:
    rng = np.random.default_rng(8)
    truth = irtbench.ItemParameters.from_difficulty(np.full(8, 1.3), np.linspace(-1, 1, 8))
    responses = irtbench.simulate_responses(rng.normal(size=200), truth, rng=rng)
    for options in ({"standard_errors": False}, {"anchors": truth.select(["item1", "item2"])}):
        assert irtbench.fit_model(responses, **options).joint_error is None  # type: ignore[arg-type]
    # an estimated population has its own kurtosis; here it is near the normal one
    estimated = irtbench.fit_model(responses, population="estimated").joint_error
    assert estimated.location == pytest.approx(1 / 200, rel=0.02)
    assert estimated.unit == pytest.approx(1 / 400, rel=0.5)
