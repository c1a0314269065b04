"""Which items a round removes, on statistics written by hand."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from irtbench import FitSettings, ItemFit, ItemParameters, LocalDependence, PruneRules, ResponseMatrix, prune
from irtbench.building.prune_rules import (
    KEEP_ALL,
    Removable,
    Removal,
    communalities,
    dependent_items,
    flat_or_reversed,
    most_dependent,
    worst_fitting,
)
from irtbench.study.study_data import fit_grades

ITEMS = ("a", "b", "c", "d", "e")
RULES = PruneRules(local_dependence_p="chi_square")


def fits_of(item_ids: tuple[str, ...], p: np.ndarray) -> ItemFit:
    """Fit of items; p stands for the adjusted p too."""
    n = len(item_ids)
    other = {name: np.full(n, 1.0) for name in ("s_x2", "rmsea", "infit", "outfit")}
    return ItemFit(
        item_ids=item_ids, df=np.full(n, 5), p=p, p_adjusted=p, n_respondents=np.full(n, 100),
        respondents_used="all 100", **other,
    )  # fmt: skip


def pairs(x2: dict[str, float], *, p: float = 0.001) -> LocalDependence:
    """Local dependence of all pairs: those named ("ab") have this X2 and are significant, the others X2 = 1."""
    names = ["".join(pair) for pair in combinations(ITEMS, 2)]
    values = np.array([x2.get(name, 1.0) for name in names])
    significance = np.where([name in x2 for name in names], p, 0.9)
    return LocalDependence(
        item_1=tuple(name[0] for name in names), item_2=tuple(name[1] for name in names), x2=values, g2=values,
        p=significance, p_adjusted=significance, cramers_v=values / 100, q3=values / 100,
        n_respondents=np.full(len(names), 100), df=np.ones(len(names), dtype=np.int64), p_bootstrap=significance,
        p_bootstrap_adjusted=significance,
    )  # fmt: skip


def gone(removals: list[Removal]) -> list[str]:
    return [removal.item_id for removal in removals]


def dependent(found: LocalDependence, rules: PruneRules, groups: dict[str, str] | None = None) -> list[Removal]:
    return most_dependent(found, Removable(1, list(ITEMS), rules, groups or {}))


CHAIN = {"ab": 60, "cd": 50, "ac": 40, "bd": 35}
GROUPS = {"a": "left", "b": "left", "c": "right", "d": "right"}


@pytest.mark.parametrize(
    ("x2", "rules", "groups", "left"),
    [
        ({"ab": 50, "bc": 20, "de": 30}, {}, {}, "b"),  # clears ab and bc, a clears ab alone
        ({"ab": 50, "bc": 40, "de": 30}, {"at_once": 3}, {}, "bd"),  # bc went with b; neither d nor e clears more
        ({"ab": 50, "bc": 40, "de": 30}, {"at_once": 1}, {}, "b"),
        ({"ab": 50, "bc": 40}, {"protect": ("b",)}, {}, "a"),
        ({"ab": 50}, {"protect": ("a", "b")}, {}, ""),
        ({"ab": 50, "cd": 20}, {"protect": ("a", "b")}, {}, "c"),  # which the protected pair does not keep from it
        (CHAIN, {"at_once": 5, "min_per_group": 1}, GROUPS, "ad"),  # the rest clear with them; one of each stays
        (CHAIN, {"at_once": 5, "min_per_group": 1, "min_items": 4}, GROUPS, "a"),
        (CHAIN, {"at_once": 5, "min_per_group": 2}, GROUPS, ""),
        ({"ae": 20}, {"min_per_group": 2}, GROUPS, "e"),  # of no group
        ({"ab": 50, "ac": 40, "ad": 30, "de": 20}, {}, {}, "a"),
    ],
)
def test_of_dependent_pairs_the_items_that_clear_most_go_within_all_limits(x2, rules, groups, left: str) -> None:
    assert "".join(gone(dependent(pairs(x2), replace(RULES, **rules), groups))) == left


def test_a_removal_says_on_what_the_item_depends() -> None:
    first, second = dependent(pairs({"ab": 50, "bc": 40, "de": 30}), replace(RULES, at_once=3))
    assert (first.note, first.value, second.note) == ("depends on a", 50, "depends on e")
    # a star round a: its centre alone; two pairs beside it: one item of each, counted before any leaves
    found = pairs({"ab": 50, "ac": 40, "ad": 30, "de": 20})
    assert gone(dependent_items(found, Removable(1, list(ITEMS), RULES, {}))) == ["a", "d"]


def test_a_p_at_the_level_counts_as_the_bootstraps_smallest_must() -> None:
    # 19 samples: the smallest p is 1 / 20 = .05
    rules = PruneRules(bootstrap_samples=19)
    assert len(dependent(pairs({"ab": 50}, p=1 / 20), rules)) == 1
    assert dependent(pairs({"ab": 50}, p=2 / 20), rules) == []
    missing = replace(pairs({"ab": 50}), p_bootstrap=None, p_bootstrap_adjusted=None)
    with pytest.raises(ValueError, match="the bootstrap of local dependence was not done"):
        dependent(missing, rules)
    assert dependent(missing, replace(rules, local_dependence_alpha=None)) == []


def test_the_worst_fitting_go_first_within_all_limits() -> None:
    found = fits_of(ITEMS, np.array([0.9, 0.001, 0.9, 0.0001, 0.01]))

    def worst(rules: PruneRules) -> list[str]:
        return gone(worst_fitting(found, Removable(1, list(ITEMS), rules, {})))

    assert worst(RULES) == ["d"]
    assert worst(replace(RULES, at_once=9)) == ["d", "b"]  # the floor of three items
    assert worst(replace(RULES, at_once=9, min_items=5)) == []
    assert worst(replace(RULES, protect=("d",))) == ["b"]
    assert worst(replace(RULES, protect=("b", "d", "e"))) == []
    assert worst(replace(RULES, item_fit_alpha=None)) == []
    (removal,) = worst_fitting(replace(found, statistic="score"), Removable(1, list(ITEMS), RULES, {}))
    assert (removal.reason, removal.statistic) == ("item_fit", "score")


def test_slopes_the_least_first_until_the_floor() -> None:
    items = ItemParameters.from_difficulty([1.5, -0.2, 0.3, -0.9, 0.6], [0.0] * 5)
    found = flat_or_reversed(items, Removable(1, items.item_ids, replace(RULES, min_items=3), {}))
    assert [(r.item_id, r.reason) for r in found] == [("item4", "negative_slope"), ("item2", "negative_slope")]
    # h2 = .3^2 / (.3^2 + 1.702^2) = .0301
    tolerant = replace(RULES, drop_negative_slopes=False, min_items=3)
    found = flat_or_reversed(items, Removable(1, list(items.item_ids)[:4] + ["x"] * 9, tolerant, {}))
    assert found[-2].value == pytest.approx(0.0301, abs=1e-4)


def test_of_many_a_tenth_leaves_or_one_for_thirty_items_of_the_scale_the_worst_first() -> None:
    names = tuple(f"i{k:02}" for k in range(50))
    p = np.full(50, 0.9)
    p[10:40] = np.linspace(1e-9, 1e-6, 30)

    def worst(rules: PruneRules, n_flagged: int = 30) -> list[str]:
        few = fits_of(names, np.where(np.arange(50) < 10 + n_flagged, p, 0.9))
        return gone(worst_fitting(few, Removable(1, list(names), rules, {})))

    assert worst(RULES) == ["i10", "i11", "i12"]
    assert worst(RULES, 19) == ["i10"]  # a scale of 50 items with fewer than twenty to leave
    assert worst(replace(RULES, share_at_once=0)) == ["i10"]
    assert worst(replace(RULES, share_at_once=0.5)) == [f"i{k}" for k in range(10, 25)]
    assert worst(replace(RULES, at_once=4)) == ["i10", "i11", "i12", "i13"]
    assert [RULES.most_in_a_round(1, n_items) for n_items in (30, 59, 60, 338)] == [1, 1, 2, 11]


@pytest.mark.parametrize("guessing", [0.2, 0.0])
def test_guessing_does_not_take_clean_items_for_flat_ones(guessing: float) -> None:
    rng = np.random.default_rng(102)
    a, b = np.exp(rng.normal(0.1, 0.3, 16)), rng.normal(0.3, 1, 16)
    p = guessing + (1 - guessing) / (1 + np.exp(-a * (rng.normal(size=(500, 1)) - b)))
    values = (rng.random(p.shape) < p).astype(float)
    values[:, 4] = rng.random(500) < 0.5  # clicks at random
    found = prune(values, local_dependence_alpha=None, item_fit_alpha=None, compare_factors=False)
    gone = {removal.item_id: removal.reason for removal in found.removals}
    assert gone.pop("item5") in ("low_communality", "negative_slope")
    assert len(gone) <= 3  # 10 where the slopes of the 2PL decide
    assert found.guessing == (pytest.approx(guessing, abs=0.05) if guessing else 0.0)
    assert ("compare model 3pl" in found.guessing_in_words) == (guessing > 0)


def test_a_round_shows_the_communality_that_the_rule_judges_by() -> None:
    rng = np.random.default_rng(1)
    score = np.stack([np.digitize(rng.normal(size=300) + rng.logistic(size=300), [-1, 1]) for _ in range(3)], axis=1)
    ids, names = ("a", "b", "c"), tuple(map(str, range(300)))
    grades = ResponseMatrix(score, names, ids, np.full(score.shape, 2))
    fitted = fit_grades(grades, "pcm", dict.fromkeys(ids, (0, 1, 2)), FitSettings(standard_errors=False), seed=1)
    table = prune(grades, lambda data: fitted, KEEP_ALL).rounds_items()
    np.testing.assert_allclose(table["communality"], communalities(fitted.items, 1.0))
