"""Pruning removes what is wrong, for the right reason, and leaves clean data alone."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest

from builders.mirt_figures import snli
from builders.refusals import is_refused
from builders.simulated import simulated, with_values
from irtbench import FitSettings, FittedModel, InputError, ItemParameters, ResponseMatrix, fit_many, fit_model
from irtbench.building.prune_rules import KEEP_ALL, LALOR2016, Exclusion, PruneRules
from irtbench.building.pruned import Checkpoint, Pruning, checkpoint_key, misfit_as_a_whole
from irtbench.building.pruning import UnderWay, prune
from irtbench.diagnostics.local_dependence import local_dependence
from irtbench.models.curves import simulate_responses
from irtbench.models.quadrature import normal_grid

QUICK = replace(LALOR2016, compare_factors=False)
QUICK_FIT = partial(fit_model, standard_errors=False)
BY_FIT = replace(QUICK, min_communality=None, drop_negative_slopes=False)


def clean(n_respondents: int, n_items: int, *, seed: int) -> ResponseMatrix:
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.uniform(0.9, 2.2, n_items), rng.normal(0, 1, n_items))
    return simulate_responses(rng.normal(size=n_respondents), items, rng=rng)


def faulty(
    n_respondents: int = 1500, n_items: int = 16, *, seed: int = 9, flat: Sequence[int] = (),
    misfit: Sequence[int] = (), copied: Sequence[int] = (), missing: float = 0.0,
) -> ResponseMatrix:  # fmt: skip
    """Clean items, but for some that tell nothing, some whose curve falls before it rises, and some with a twin."""
    rng = np.random.default_rng(seed)
    responses = clean(n_respondents, n_items, seed=seed)
    values = responses.values.copy()
    score = np.delete(values, [*flat, *misfit], axis=1).mean(axis=1)
    values[:, list(flat)] = rng.random((n_respondents, len(flat))) < 0.5
    for item in misfit:
        p = np.where(score < 0.35, 0.75, np.where(score < 0.65, 0.35, 0.95))
        values[:, item] = rng.random(n_respondents) < p
    for item in copied:
        same = rng.random(n_respondents) < 0.7
        values[same, item + 1] = values[same, item]
    values[rng.random(values.shape) < missing] = np.nan
    return with_values(responses, values)


def reasons(pruning: Pruning) -> dict[str, str]:
    return {removal.item_id: removal.reason for removal in pruning.removals}


def test_planted_faults_are_found_and_named() -> None:
    responses = faulty(1000, 24, seed=1, flat=(7,), copied=(14,))
    values = responses.values.copy()
    values[:, 3] = 1 - values[:, 3]  # a wrong key
    pruning = prune(with_values(responses, values), fit_model, QUICK)
    found = reasons(pruning)
    assert found.pop("item4") == "negative_slope"
    assert found.pop("item8") in ("low_communality", "negative_slope")  # its slope is near zero, on either side
    (twin,) = {"item15", "item16"} & set(found)
    assert found.pop(twin) == "local_dependence"
    assert len(found) <= 1  # 21 clean items
    removal = next(r for r in pruning.removals if r.item_id == twin)
    assert removal.note == f"depends on {'item16' if twin == 'item15' else 'item15'}"
    assert removal.p_adjusted < 0.05 < removal.value
    assert pruning.rejected is None
    assert pruning.globally_good


def test_rules_are_asked_in_their_order() -> None:
    responses = faulty(800, 12, flat=(0,), misfit=(6,))
    by_slope, by_fit = (
        prune(responses, fit_model, replace(QUICK, order=order, min_items=11))
        for order in (("slope", "item_fit"), ("item_fit", "slope"))
    )
    assert by_slope.rounds[0].removals[0].reason in ("low_communality", "negative_slope")
    assert by_fit.rounds[0].removals[0].reason == "item_fit"
    assert reasons(by_fit)["item7"] == "item_fit"  # a curve of another shape
    assert prune(responses, fit_model, replace(QUICK, order=())).removals == ()


def test_clean_data_lose_under_one_item_in_twenty() -> None:
    found = [prune(clean(1000, 20, seed=seed), fit_model, QUICK) for seed in range(5)]
    # Holm over items and over pairs keeps each familywise error at 5%: one removal in ten runs is expected
    assert sum(len(pruning.removals) for pruning in found) <= 3
    assert {pruning.mended for pruning in found} == {""}


def test_two_abilities_on_one_scale_are_rejected_as_a_whole() -> None:
    first, second = clean(1000, 10, seed=3), clean(1000, 10, seed=4)
    pruning = prune(np.hstack([first.values, second.values]), fit_model, replace(QUICK, order=()))
    assert "one ability does not fit" in pruning.rejected
    assert pruning.kept == ()
    assert pruning.fitted is not None  # what was fitted stays to be looked at


@pytest.mark.filterwarnings("ignore:item fit. no degree of freedom")
def test_missing_responses_reject_nothing_nor_does_a_global_fit_that_cannot_be_said() -> None:
    """In the last 14 respondents to a pair: too few for its share of right responses."""
    rules = replace(QUICK, order=(), min_share_kept=None)
    for missing in (0.2, 0.6):
        pruning = prune(faulty(800, 10, seed=1, missing=missing), fit_model, rules)
        assert pruning.rejected is None
        assert pruning.fit_before.cfi > 0.9 or pruning.fit_before.p >= 0.05
    with pytest.warns(RuntimeWarning, match="M2 is not available"):
        pruning = prune(faulty(60, 12, seed=3, missing=0.55), fit_model, rules)
    assert pruning.rejected is None
    assert pruning.fit_before.reason == "no two items were answered by 20 respondents or more"
    assert not pruning.globally_good


def test_a_scale_of_which_too_little_is_left_is_rejected() -> None:
    responses = faulty(300, 12, seed=6, flat=range(7))
    rules = replace(QUICK, order=("slope",), min_cfi=None, min_tli=None)
    few = np.where(np.arange(300)[:, None] < 4, responses.values, np.nan)
    for data, verdict in (
        (responses, "only 5 of 12 items survive"),
        (with_values(responses, few), "only 4 respondents answered it, fewer than 10"),
        (responses.select_items(["item11", "item12"]), "fewer than 3 items are left"),
    ):
        pruning = prune(data, fit_model, rules)
        assert verdict in pruning.rejected
        assert pruning.kept == ()


def test_a_scale_that_lost_several_at_once_is_not_pruned_below_what_rejects_it() -> None:
    responses = faulty(misfit=(2, 4, 6, 8, 10, 12))
    rules = replace(QUICK, order=("item_fit",), min_cfi=None, min_tli=None, min_share_kept=0.9)
    to_the_end = prune(responses, fit_model, replace(rules, share_at_once=0))
    ended = prune(responses, fit_model, replace(rules, share_at_once=0.5))
    assert len(ended.rounds) < len(to_the_end.rounds)
    assert to_the_end.rejected is not None
    assert "of 16 items survive, fewer than 90%" in ended.rejected


def test_constant_and_unasked_items_go_before_any_fit_and_the_users_word_counts() -> None:
    responses = clean(600, 13, seed=5)
    values = responses.values.copy()
    values[:, 0], values[:, 1], values[:, 2], values[:, 3] = 1.0, 0.0, np.nan, 1 - values[:, 3]
    rules = replace(QUICK, order=("slope",), exclude=(Exclusion("item9", "ambiguous wording"),), protect=("item4",))
    pruning = prune(with_values(responses, values), fit_model, replace(rules, min_cfi=None, min_tli=None))
    assert "item4" in pruning.kept
    first = {r.item_id: r for r in pruning.removals if r.round == 0}
    wanted = {"item1": "all_correct", "item2": "all_wrong", "item3": "no_response", "item9": "excluded"}
    assert {item: removal.reason for item, removal in first.items()} == wanted
    assert first["item9"].note == "ambiguous wording"
    is_refused("item99 is not among the items", prune, responses, fit_model, PruneRules(protect=("item99",)))


@pytest.fixture(scope="module")
def rounds() -> tuple[ResponseMatrix, Pruning]:
    """Responses to two items that do not fit, and three rounds of pruning."""
    responses = faulty(misfit=(2, 6))
    pruning = prune(responses, fit_model, BY_FIT)
    assert len(pruning.rounds) == 3
    return responses, pruning


def test_every_round_keeps_its_statistics(rounds: tuple[ResponseMatrix, Pruning]) -> None:
    pruning = rounds[1]
    items, pairs = pruning.rounds_items(), pruning.rounds_pairs()
    assert items["round"].value_counts().to_dict() == {r.number: r.fitted.items.n_items for r in pruning.rounds}
    assert len(pairs) == sum(r.fitted.items.n_items * (r.fitted.items.n_items - 1) // 2 for r in pruning.rounds)
    left = items[items["removed"] != ""].set_index("item_id")
    assert left["removed"].to_dict() == reasons(pruning)
    removal = pruning.removals[0]
    assert left.loc[removal.item_id, "p_adjusted"] == removal.p_adjusted
    assert pruning.rounds[0].global_fit is pruning.fit_before


def test_m2_waits_for_the_last_round_where_it_takes_long(
    rounds: tuple[ResponseMatrix, Pruning], monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, each = rounds
    monkeypatch.setattr("irtbench.building.pruning.MOST_ITEMS_EACH_ROUND", 5)
    seldom = prune(responses, fit_model, BY_FIT)
    assert reasons(seldom) == reasons(each)
    assert [np.isnan(r.global_fit.m2) for r in seldom.rounds] == [False, True, False]
    assert seldom.rounds[1].global_fit.reason.startswith("not computed between")
    assert (seldom.fit_before, seldom.fit_after) == (each.fit_before, each.fit_after)


def test_interrupted_pruning_goes_on_where_it_was(rounds: tuple[ResponseMatrix, Pruning], tmp_path: Path) -> None:
    responses, whole = rounds
    fits: list[int] = []

    def going_on(stopped_at: int | None = None) -> tuple[int, Pruning]:
        """How many fits it took, and the result."""
        fits.clear()

        def fit(data: ResponseMatrix) -> FittedModel:
            fits.append(data.n_items)
            if len(fits) == stopped_at:
                raise KeyboardInterrupt
            return fit_model(data)

        checkpoint = Checkpoint(tmp_path / "c", checkpoint_key(responses, BY_FIT))
        found = prune(responses, fit, BY_FIT, checkpoint=checkpoint)
        return len(fits), found

    with pytest.raises(KeyboardInterrupt):
        going_on(stopped_at=3)
    assert sorted(file.name for file in (tmp_path / "c").iterdir()) == ["round_1.json", "round_2.json"]
    n_fits, resumed = going_on()
    assert n_fits == 1
    pd.testing.assert_frame_equal(resumed.table(), whole.table())
    pd.testing.assert_frame_equal(resumed.rounds_items(), whole.rounds_items())
    pd.testing.assert_frame_equal(resumed.rounds_pairs(), whole.rounds_pairs())
    assert resumed.rounds[0].fitted.settings == whole.rounds[0].fitted.settings
    (tmp_path / "c" / "round_1.json").write_text("{")  # what is damaged is as if it were not there
    assert going_on()[0] == 1


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[ResponseMatrix, Pruning, Checkpoint]:
    """Nine items, the last of which is guessed, pruned by the procedure of 2016, and what was kept of it."""
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(np.full(9, 1.6), np.linspace(-1, 1.2, 9), np.eye(9)[8] * 0.35)
    responses = simulate_responses(rng.normal(size=2000), items, rng=rng)
    checkpoint = Checkpoint(tmp_path_factory.mktemp("compared"), checkpoint_key(responses, LALOR2016))
    return responses, prune(responses, fit_model, LALOR2016, checkpoint=checkpoint), checkpoint


def test_the_preset_compares_factors_and_tests_guessing_first(
    compared: tuple[ResponseMatrix, Pruning, Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, pruning, checkpoint = compared
    checks = pruning.checks
    assert checks.guessing.p_adjusted.argmin() == 8
    assert checks.n_guessing == 1
    assert checks.models.loc[checks.models["bic"].idxmin(), "model"] == "one ability"
    assert checks.fit_of_two is not None
    assert checks.two_against_one.df == 8
    assert np.isnan(checks.two_against_one.p)
    assert checks.two_against_one.note.startswith("no p")
    assert prune(clean(200, 6, seed=1), fit_model, QUICK).checks is None
    # what was compared is not compared again
    monkeypatch.setattr("irtbench.building.pruning.check_scale", None)  # whoever calls it fails
    resumed = prune(responses, fit_model, LALOR2016, checkpoint=checkpoint).checks
    assert str(vars(resumed.two_against_one)) == str(vars(checks.two_against_one))  # its p is NaN
    pd.testing.assert_frame_equal(resumed.models, checks.models)
    pd.testing.assert_frame_equal(resumed.guessing.table(), checks.guessing.table())


def test_marks_missed_by_chance_and_two_abilities_of_which_nothing_is_known(compared) -> None:
    fit, checks = compared[1].fit_before, compared[1].checks
    poor = replace(fit, cfi=0.85, tli=0.8, p=0.001)
    assert misfit_as_a_whole(replace(poor, p=0.06), LALOR2016) is None
    verdict = "one ability does not fit its items: CFI 0.850 < 0.90, TLI 0.800 < 0.90"
    assert misfit_as_a_whole(poor, LALOR2016) == verdict
    unknown = replace(checks, fit_of_two=replace(fit, cfi=np.nan, tli=np.nan, p=np.nan, reason="so it is"))
    assert misfit_as_a_whole(poor, LALOR2016, unknown) == f"{verdict}; for two abilities it is not known: so it is"


def of_label(real_data: Path, set_name: str, label: str) -> ResponseMatrix:
    items = pd.read_csv(real_data / "lalor2016_snli" / "items.csv").query("set == @set_name and gold == @label")
    return snli(real_data, set_name, list(items["item_id"]))


#: Of Table 4 of the paper: items kept, ends of difficulty and of discrimination, and how near ours come.
TABLE_4 = {
    "5gs contradiction": (20, (-2.765, 0.704), (0.846, 2.731), 0.02),
    "5gs entailment": (28, (-3.253, -1.898), (0.780, 2.610), 0.02),
    "5gs neutral": (28, (-2.082, -0.555), (1.271, 3.598), 0.02),
    "4gs neutral": (28, (-2.148, 0.386), (1.133, 3.313), 0.002),
}
REMOVED_BEFOREHAND = {
    "5gs contradiction": ("4814925710.jpg#0r1c", "5794490455.jpg#0r1c"),
    "4gs neutral": ("248698033.jpg#2r1n",),
}


@pytest.mark.parametrize("scale", TABLE_4)
def test_the_papers_scales_come_out(real_data: Path, scale: str) -> None:
    exclude = tuple(Exclusion(item, "removed by the authors") for item in REMOVED_BEFOREHAND.get(scale, ()))
    pruning = prune(of_label(real_data, *scale.split()), fit_model, replace(QUICK, exclude=exclude))
    n_kept, difficulty, discrimination, near = TABLE_4[scale]
    assert len(pruning.kept) == n_kept
    items = pruning.fitted.items
    for values, ends in ((items.difficulty, difficulty), (items.discrimination, discrimination)):
        np.testing.assert_allclose([values.min(), values.max()], ends, atol=near)


def test_4gs_entailment_is_rejected_as_in_the_paper(real_data: Path) -> None:
    pruning = prune(of_label(real_data, "4gs", "entailment"), fit_model, LALOR2016)
    # one factor in R mirt: CFI .891, TLI .883
    assert pruning.fit_before.cfi == pytest.approx(0.891, abs=0.002)
    assert pruning.fit_before.tli == pytest.approx(0.883, abs=0.002)
    # no item of it is worth a 3PL, and by BIC two abilities are preferred to one
    assert pruning.checks.models["bic"].idxmin() == 1
    assert "two abilities would" in pruning.rejected
    assert pruning.rejected.endswith("10 items would have to leave, more than 30%")


@pytest.mark.slow
def test_a_twin_among_missing_responses_goes_by_the_bootstrap() -> None:
    responses = faulty(1000, 8, seed=12, copied=(4,), missing=0.4)
    pruning = prune(responses, fit_model, PruneRules(bootstrap_samples=19, item_fit_alpha=None, compare_factors=False))
    assert [r.reason for r in pruning.removals[:1]] == ["local_dependence"]
    assert pruning.removals[0].item_id in ("item5", "item6")
    assert len(pruning.removals) <= 2  # another by chance: of 21 clean pairs the largest is below .05 in a twentieth


def test_a_bootstrap_that_cannot_be_leaves_the_other_rules_and_is_named() -> None:
    rules = PruneRules(min_communality=0.1, item_fit_alpha=None)

    def never(sample: ResponseMatrix, items: ItemParameters) -> FittedModel:
        raise InputError("fit: all responses are the same")

    pruning = prune(faulty(flat=(0,)), fit_model, rules, refit=never)
    assert set(reasons(pruning)) == {"item1"}
    assert pruning.rejected is None
    assert pruning.not_available == "local dependence: the refit failed in 10 of 10 bootstrap samples"


@pytest.mark.slow
def test_the_sequential_bootstrap_of_pruning_keeps_its_level() -> None:
    # at the parameters that the responses were drawn from X2 needs no refit, and its order among samples is exact
    items = ItemParameters.from_difficulty([1.0, 1.5, 2.0, 1.2], [-0.8, 0.0, 0.4, 1.0])
    rules = PruneRules()
    fitted = cast(FittedModel, SimpleNamespace(items=items, quadrature=normal_grid(), converged=True))
    n_sets, significant, samples = 200, 0, []
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        responses = simulate_responses(rng.normal(size=60), items, rng=rng)
        going = UnderWay(responses, rules, lambda sample: fitted, None, None, {}, seed, lambda message: None)
        found = going.bootstrapped(local_dependence(responses, items), responses, fitted, 0.05)
        significant += found.p_bootstrap_adjusted.min() <= 0.05
        samples.append(found.bootstrap_samples)
    assert significant <= 20  # .052 of 200 are 10.4; more than 20 have a chance of .002
    assert significant >= 2
    assert 19 <= min(samples) < max(samples) <= 99
    assert np.mean(samples) < 50


def test_samples_of_the_bootstrap_may_be_refitted_together() -> None:
    responses = clean(400, 8, seed=1)
    rules = PruneRules(item_fit_alpha=None, bootstrap_samples=19, compare_factors=False)
    asked: list[int] = []

    def refit_many(samples: Sequence[ResponseMatrix], items: ItemParameters) -> list[FittedModel | None]:
        assert items.item_ids == samples[0].item_ids
        asked.append(len(samples))
        return [*fit_many(samples, FitSettings(standard_errors=False, tolerance=1e-6), start=items).fits]

    together = prune(responses, fit_model, rules, refit_many=refit_many)
    assert asked == [19] * len(together.rounds)
    assert together.kept == responses.item_ids
    assert together.rounds[0].local_dependence.bootstrap_samples == 19


@pytest.mark.slow
def test_many_respondents_whose_ability_is_skewed_are_told_of_the_remedy() -> None:
    """A normal population is then what misfits; with the population estimated no item leaves."""
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.full(12, 2.0), np.linspace(-1.5, 1.5, 12))
    responses = simulate_responses((rng.chisquare(3, 6_000) - 3) / np.sqrt(6), items, rng=rng)
    rules = replace(QUICK, min_share_kept=0.9, min_items=6)
    found = prune(responses, fit_model, rules)
    assert found.rejected is not None
    assert "ability does not look normal under this model (skewness 0.5)" in found.rejected
    estimated = prune(responses, lambda data: fit_model(data, population="estimated"), rules)
    assert (estimated.rejected, estimated.removals) == (None, ())
    few = prune(responses.select_respondents(np.arange(6_000) < 1_000), fit_model, rules)
    assert (few.rejected, few.removals) == (None, ())


def test_a_few_pairs_do_not_reject_a_scale_and_the_verdict_names_them() -> None:
    """Three pairs alike among 16 items: CFI or TLI below .90 as given, and one item of each leaves."""
    pruning = prune(faulty(700, seed=0, copied=(0, 2, 4)), fit_model, QUICK)
    assert pruning.rejected is None
    assert len(pruning.kept) >= 12
    assert pruning.mended.startswith("one ability does not fit its items: ")
    for first in (1, 3, 5):
        assert f"(depends on item{first})" in pruning.mended or f"(depends on item{first + 1})" in pruning.mended


def test_two_abilities_of_few_people_are_not_pruned_until_they_pass() -> None:
    """At r = .5 with 300 people the fit of the rest passes once a few items are gone; its eigenvalues still tell."""
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(300, 2))
    theta[:, 1] = 0.5 * theta[:, 0] + np.sqrt(0.75) * theta[:, 1]
    a, b = rng.uniform(0.8, 2.2, 20), rng.normal(0, 0.9, 20)
    values = (rng.random((300, 20)) < 1 / (1 + np.exp(-a * (theta.repeat(10, axis=1) - b)))).astype(float)
    pruning = prune(values, fit_model, PruneRules(local_dependence_p="chi_square", compare_factors=False))
    assert 2 <= len(pruning.removals) <= 4
    last = pruning.rounds[-1].global_fit
    assert min(last.cfi, last.tli) > 0.9
    assert pruning.rejected.endswith("without those that left parallel analysis counts 2 abilities")


def test_pairs_of_very_many_items_are_not_tested_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.building.pruning.MOST_ITEMS_IN_PAIRS", 7)
    rules = PruneRules(item_fit_alpha=None, min_communality=None, min_cfi=None, min_tli=None, compare_factors=False)
    found = prune(faulty(400, 8, seed=8, copied=(6,)), rules=rules)
    assert len(found.kept) == 8
    assert "8 items have 28 pairs" in found.not_available
    assert found.rounds_pairs().empty


# --- slopes that grow without end ----------------------------------------------------------------------------------


def with_steps(*places: int) -> ResponseMatrix:
    """Eight ordinary items, and one for each place: all but the weakest, or but the best, were right."""
    responses, _, theta = simulated(275, 8, seed=4)
    order = np.argsort(responses.values.sum(axis=1) + 1e-3 * theta)
    steps = np.ones((275, len(places)))
    for k, place in enumerate(places):
        steps[order[: place + 1], k] = 0
    ids = (*responses.item_ids, *(f"step{place}" for place in places))
    return ResponseMatrix(np.hstack([responses.values, steps]), responses.respondent_ids, ids)


@pytest.mark.filterwarnings("ignore:global fit. M2 is not available")
def test_an_item_whose_slope_grows_without_end_is_named_and_leaves_and_the_others_are_fitted() -> None:
    fitted = fit_model(with_steps(40))
    assert not fitted.converged
    assert fitted.stopped_because.startswith("item step40 (234 of 275 right): the slope grows without end")
    assert "leave it out, or take --prior weak" in fitted.stopped_because
    assert fit_model(with_steps(40), FitSettings(prior="weak")).converged
    found = prune(with_steps(40), QUICK_FIT, KEEP_ALL)
    (removal,) = found.removals
    assert (removal.round, removal.item_id, removal.reason) == (1, "step40", "runaway_slope")
    assert removal.statistic == "discrimination"
    assert removal.value > 30
    assert removal.note.startswith("234 of 275 right")
    assert found.fitted.converged
    alone = QUICK_FIT(with_steps())
    np.testing.assert_allclose(found.fitted.items.discrimination, alone.items.discrimination, atol=1e-6)
    assert found.table()["reason"].tolist() == ["runaway_slope"]
    assert prune(with_steps(), QUICK_FIT, KEEP_ALL).removals == ()
    # of 9 items none may with a share of 0; of 11 one with .05, and here three grow
    for share, places in ((0.0, (40,)), (0.05, (20, 120, 200))):
        found = prune(with_steps(*places), QUICK_FIT, replace(KEEP_ALL, max_share_runaway=share))
        assert len(found.removals) <= int(share > 0)
        assert not found.fitted.converged
