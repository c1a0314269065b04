"""Two calibrations are brought onto one scale: equateIRT's figures, by hand, and within their standard errors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench import InputError, ItemParameters, Quadrature
from irtbench.building.linking import ScaleLink, link_scales

METHODS = {"mean-mean": "mean-mean", "mean-sigma": "mean-sigma", "Haebara": "haebara", "Stocking-Lord": "stocking-lord"}
SLOPE, INTERCEPT = 1.2, 0.5
UNIFORM = Quadrature(np.linspace(-4, 4, 40), np.full(40, -np.log(40)))


def reference_form(folder: Path, study: str, form: str) -> tuple[ItemParameters, np.ndarray]:
    """Items of R mirt's calibration and the covariance of (a, d, c), turned from that of (c, b, a), d = -a b."""
    table = pd.read_csv(folder / f"{study}_pars_{form}.csv")
    ids, a, b = tuple(table["item"]), table["a"].to_numpy(), table["b"].to_numpy()
    c = table["c"].to_numpy() if "c" in table else np.zeros(len(ids))
    whole = pd.read_csv(folder / f"{study}_vcov_{form}.csv", index_col=0)
    n = len(ids)
    of_abc = np.zeros((3, n, 3, n))
    names = [[f"{name}.{item}" for item in ids] for name in "abc"]
    known = range(3 if c.any() else 2)
    for k in known:
        for m in known:
            of_abc[k, :, m, :] = whole.loc[names[k], names[m]]
    turn = np.zeros((3, 3, n))  # of (a, d, c) by (a, b, c)
    turn[0, 0], turn[1, 0], turn[1, 1], turn[2, 2] = 1, -b, -a, 1
    covariance = np.einsum("xkj,kjml,yml->jxly", turn, of_abc, turn)
    return ItemParameters.from_difficulty(a, b, c, item_ids=ids, guessing_estimated=bool(c.any())), covariance


@pytest.mark.parametrize("study", ["a2pl", "a3pl"])
def test_figures_are_those_of_equateirt(reference: Path, study: str) -> None:
    folder = reference / "next" / "05_linking"
    (old, old_covariance), (new, new_covariance) = (reference_form(folder, study, form) for form in "XY")
    expected = pd.read_csv(folder / f"{study}_coefficients.csv", dtype={"weights": str}).fillna("")
    n_checked = 0
    for row in expected[expected["method"].isin(METHODS)].itertuples():
        link = link_scales(
            old,
            new,
            method=METHODS[row.method],
            population=UNIFORM if row.weights.startswith("uniform") else None,
            old_covariance=old_covariance,
            new_covariance=new_covariance,
        )
        assert link.slope == pytest.approx(row.A, abs=2e-5)
        assert link.intercept == pytest.approx(row.B, abs=2e-5)
        n_checked += 1
        if row.method == "mean-sigma":
            continue  # its error is another: test_the_error_of_mean_sigma_is_that_of_draws
        assert link.se_slope == pytest.approx(row.se_A, rel=1e-3)
        assert link.se_intercept == pytest.approx(row.se_B, rel=1e-3)
        assert link.covariance[0, 1] == pytest.approx(row.cov_AB, abs=2e-6)
    assert n_checked == 6


def two_scales(n: int = 12, seed: int = 1) -> tuple[ItemParameters, ItemParameters]:
    """Items on the old scale and on the new one, where theta_old = 1.2 theta_new + .5."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(0.8, 2, n), rng.normal(0, 1, n), rng.uniform(0, 0.25, n)
    return (
        ItemParameters.from_difficulty(a, b, c, guessing_estimated=True),
        ItemParameters.from_difficulty(a * SLOPE, (b - INTERCEPT) / SLOPE, c, guessing_estimated=True),
    )


@pytest.mark.parametrize("method", METHODS.values())
def test_the_line_between_exact_scales_is_exact(method: str) -> None:
    old, new = two_scales()
    link = link_scales(old, new.table().iloc[::-1], method=method)  # by name, not by place; a data frame will do
    assert link.slope == pytest.approx(SLOPE, abs=1e-7)
    assert link.intercept == pytest.approx(INTERCEPT, abs=1e-7)
    assert np.isnan(link.se_slope)  # no covariance is known
    moved = link.items(new)
    for name in ("discrimination", "difficulty", "guessing"):
        np.testing.assert_allclose(getattr(moved, name), getattr(old, name), atol=1e-6)
    assert link.table()["n_items"].tolist() == [12]
    assert f"{method}, 12 common items, slope 1.200" in repr(link)


def own_errors(items: ItemParameters, sd: float) -> ItemParameters:
    """The same with independent errors of this size stated for slope and intercept."""
    return replace(items, covariance=np.tile(np.diag([sd**2, sd**2, 0.0]), (items.n_items, 1, 1)))


def drawn(items: ItemParameters, rng: np.random.Generator, *, shared: float = 0.0) -> ItemParameters:
    """Estimates: errors as stated, and one of this size in all difficulties alike, for respondents are a sample."""
    assert items.covariance is not None
    sd = np.sqrt(items.covariance[:, 0, 0])
    a = items.discrimination + sd * rng.normal(size=items.n_items)
    moved = shared * rng.normal() * items.discrimination
    return replace(items, discrimination=a, intercept=items.intercept + sd * rng.normal(size=items.n_items) - moved)


@pytest.mark.parametrize("method", METHODS.values())
def test_slope_and_intercept_lie_within_two_standard_errors_as_often_as_they_should(method: str) -> None:
    old, new = (own_errors(items, 0.1) for items in two_scales(15))
    rng = np.random.default_rng(5)
    links = [link_scales(drawn(old, rng), drawn(new, rng), method=method) for _ in range(200)]
    within = np.array(
        [
            [abs(link.slope - SLOPE) < 2 * link.se_slope, abs(link.intercept - INTERCEPT) < 2 * link.se_intercept]
            for link in links
        ]
    )
    # 95.4% of 200 with a standard error of 1.5%
    assert ((within.mean(axis=0) > 0.91) & (within.mean(axis=0) < 0.99)).all()


@pytest.mark.slow
def test_errors_that_items_share_need_the_whole_covariance() -> None:
    old, new = (own_errors(items, 0.1) for items in two_scales(15))
    rng, shared, within = np.random.default_rng(6), 0.06, np.zeros(2)
    for _ in range(200):
        estimates = [drawn(items, rng, shared=shared) for items in (old, new)]
        whole = []
        for items in estimates:
            blocks, each = np.zeros((15, 3, 15, 3)), np.arange(15)
            blocks[each, :, each, :] = items.covariance
            blocks[:, 1, :, 1] += shared**2 * np.outer(items.discrimination, items.discrimination)
            whole.append(blocks)
        alone = link_scales(*estimates)
        together = link_scales(*estimates, old_covariance=whole[0], new_covariance=whole[1])
        assert together.intercept == alone.intercept
        within += [abs(link.intercept - INTERCEPT) < 2 * link.se_intercept for link in (alone, together)]
    assert within[0] / 200 < 0.7
    assert 0.91 < within[1] / 200 < 0.99


def test_the_error_of_mean_sigma_is_that_of_draws(reference: Path) -> None:
    """Where equateIRT's is smaller by a tenth. Errors of a fifth, for a line through the estimates is a first order."""
    parts = [reference_form(reference / "next" / "05_linking", "a2pl", form) for form in "XY"]
    (old, old_covariance), (new, new_covariance) = parts
    rng, shrink, lines = np.random.default_rng(7), 5.0, []
    drawn_values = []
    for items, covariance in parts:
        n = items.n_items
        mean = np.stack([items.discrimination, items.intercept], axis=1).ravel()
        error = covariance[:, :2, :, :2].reshape(2 * n, 2 * n) / shrink**2
        drawn_values.append(rng.multivariate_normal(mean, error, size=2000).reshape(2000, n, 2))
    for values in zip(*drawn_values, strict=True):
        moved = [
            replace(items, discrimination=ad[:, 0], intercept=ad[:, 1])
            for (items, _), ad in zip(parts, values, strict=True)
        ]
        link = link_scales(*moved, method="mean-sigma")
        lines.append((link.slope, link.intercept))
    found = np.cov(np.array(lines).T) * shrink**2
    link = link_scales(old, new, method="mean-sigma", old_covariance=old_covariance, new_covariance=new_covariance)
    assert link.se_slope == pytest.approx(np.sqrt(found[0, 0]), rel=0.05)  # three standard errors of 2,000 draws
    assert link.se_intercept == pytest.approx(np.sqrt(found[1, 1]), rel=0.05)


def test_abilities_carry_the_error_of_the_line() -> None:
    link = ScaleLink("haebara", 1.2, 0.5, np.array([[0.04, 0.01], [0.01, 0.09]]), ("i1", "i2"))
    # theta = 2, se = .5: 1.2 * 2 + .5 = 2.9; .36 + .04 * 4 + 2 * 2 * .01 + .09 = .65
    assert link.abilities(2.0, 0.5).to_numpy().ravel() == pytest.approx([2.9, np.sqrt(0.65)])
    # of a group with mean 2 and standard deviation 3: the same without .36, and 3.6 with 3 * .2
    expected = {"mean": 2.9, "sd": 3.6, "se_mean": np.sqrt(0.29), "se_sd": 0.6}
    assert link.population(2.0, 3.0) == pytest.approx(expected)


def test_items_of_a_common_slope_keep_one_and_covariances_turn_with_them() -> None:
    rasch = replace(own_errors(two_scales()[0], 0.1), discrimination=np.ones(12), kind=("rasch",) * 12)
    moved = ScaleLink("haebara", 0.8, 0.5, np.zeros((2, 2)), ("i1", "i2")).items(rasch)
    assert set(moved.model) == {"1pl"}
    assert moved.standard_errors()["difficulty"] == pytest.approx(0.8 * rasch.standard_errors()["difficulty"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "mean"}, "^link: method: expected one of mean-mean, .* but got 'mean'$"),
        ({"common": ["item1", "item99"]}, "^link: item item99 is not on both scales$"),
        ({"common": ["item1"]}, "^link: 1 common item; expected at least 2 of the same item_id$"),
        ({"new_covariance": np.zeros((3, 3))}, "^link: new_covariance: expected shape .* but got"),
    ],
)
def test_what_does_not_make_a_line_is_said(change: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        link_scales(*two_scales(), **change)


def test_slopes_of_zero_go_by_curves_alone() -> None:
    old, new = two_scales()
    flat = [replace(items, discrimination=items.discrimination * (np.arange(12) > 0)) for items in (old, new)]
    with pytest.raises(InputError, match="discrimination must be above 0 but is not for item1; leave them out"):
        link_scales(*flat, method="mean-mean")
    same = [replace(items, intercept=np.where(np.arange(12) > 0, items.intercept, 0.0)) for items in flat]
    assert link_scales(*same, method="haebara").slope == pytest.approx(SLOPE, abs=1e-6)
    every = [replace(items, discrimination=np.zeros(12)) for items in (old, new)]
    with pytest.raises(InputError, match="do not determine slope and intercept"):
        link_scales(*every)
    alike = ItemParameters.from_difficulty([1.0, 1.0], [0.5, 0.5])
    with pytest.raises(InputError, match="all of one difficulty; expected method mean-mean"):
        link_scales(alike, alike, method="mean-sigma")
