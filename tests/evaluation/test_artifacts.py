"""Question-blind baselines: what is planted they find, what is shuffled they do not, and the figures by hand."""

from pathlib import Path

import numpy as np
import pytest

from builders.refusals import is_refused
from irtbench.data.items import ChoiceItems
from irtbench.data.readers.item_table import read_choices
from irtbench.evaluation.artifacts import artifacts, chance_tail, corrected_for_chance


def draw_items(n: int, *, planted: float = 0.0, how: str = "word", n_options: int = 4, seed: int = 0) -> ChoiceItems:
    """Items of random words; a share of them has a right option that gives itself away."""
    generator = np.random.default_rng(seed)
    options, right = [], generator.integers(n_options, size=n).tolist()
    for answer in right:
        texts = [[f"w{k}" for k in generator.integers(200, size=4)] for _ in range(n_options)]
        if generator.random() < planted:
            if how == "word":
                texts[answer][1] = "because"
            elif how == "odd":  # the wrong ones share what the right one has not
                shared = texts[answer - 1][:2]
                texts = [[*shared, *own[2:]] if k != answer else own for k, own in enumerate(texts)]
            else:
                texts[answer] += ["indeed", "w0", "w1"]
        options.append(tuple(map(" ".join, texts)))
    return ChoiceItems(tuple(f"i{j}" for j in range(n)), tuple(options), tuple(right), (None,) * n)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def by_name(found) -> dict:
    return {baseline.name: baseline for baseline in found.baselines}


@pytest.mark.parametrize(
    ("how", "name"), [("word", "plausible_answer"), ("odd", "odd_one_out"), ("long", "longest_option")]
)
def test_each_baseline_finds_what_is_planted_for_it(how: str, name: str) -> None:
    found = artifacts(draw_items(120, planted=0.9, how=how), n_repeats=1, rng=rng())
    baseline = by_name(found)[name]
    assert baseline.p_adjusted < 1e-6
    if how == "odd":  # has no word to learn, and no length
        assert min(by_name(found)[other].p_adjusted for other in ("plausible_answer", "longest_option")) > 0.01
    # nine tenths are known and the rest guessed; what letters or words leave unclear takes a little off
    assert 0.6 < baseline.corrected < 1
    assert found.suspect.mean() > 0.6


@pytest.mark.slow
def test_items_without_artifacts_are_not_flagged() -> None:
    flagged = [artifacts(draw_items(80, seed=s), n_folds=4, n_repeats=1, rng=rng()).suspect.any() for s in range(20)]
    assert sum(flagged) <= 4  # each with chance .05 at most: P(more than 4 of 20) = .003


def test_a_shuffled_key_hides_what_was_planted() -> None:
    items = draw_items(120, planted=0.9)
    shuffled = ChoiceItems(items.item_ids, items.options, tuple(rng().permutation(items.right).tolist()), items.group)
    found = artifacts(shuffled, n_repeats=2, rng=rng())
    assert not found.suspect.any()
    assert abs(by_name(found)["plausible_answer"].corrected) < 0.2


def test_a_model_sees_neither_the_item_it_is_asked_nor_one_with_the_same_options() -> None:
    # twins whose right options differ: a model that learnt the item would be right, one that learnt its twin wrong
    options = [(f"a{j // 2}", f"b{j // 2}") for j in range(120)]
    items = ChoiceItems(tuple(map(str, range(120))), tuple(options), (0, 1) * 60, (None,) * 120)
    assert abs(by_name(artifacts(items, n_repeats=2, rng=rng()))["plausible_answer"].accuracy - 0.5) < 0.15
    apart = ChoiceItems(items.item_ids, items.options, items.right, items.item_ids)
    assert by_name(artifacts(apart, n_repeats=2, rng=rng()))["plausible_answer"].accuracy < 0.2


def test_the_longest_option_by_hand() -> None:
    # right, wrong, one of two longest
    items = ChoiceItems(("x", "y", "z"), (("aa", "b"), ("a", "bb"), ("aa", "bb")), (0, 0, 1), (None,) * 3)
    found = by_name(artifacts(items, n_folds=2, n_repeats=1, rng=rng()))["longest_option"]
    assert found.right.tolist() == [1, 0, 0.5]
    assert (found.accuracy, found.chance, found.corrected) == (0.5, 0.5, 0)


def test_chances_by_hand() -> None:
    # chances 1/2, 1/3, 1/4: P(none) = 6/24, P(1) = (6 + 3 + 2)/24, so P(>= 2) = 7/24
    chance = np.array([1 / 2, 1 / 3, 1 / 4])
    assert [24 * chance_tail(chance, k) for k in range(4)] == pytest.approx([24, 18, 7, 1])
    # METHODS 9: a guesser above 55% of 273, P(X > 150) = .045
    assert chance_tail(np.full(273, 0.5), 151) == pytest.approx(0.045, abs=5e-4)
    # 40 of 100 known, a quarter of the other 60 guessed right: 55
    assert corrected_for_chance(0.55, 0.25) == pytest.approx(0.4)
    assert corrected_for_chance(0.25, 0.25) == 0
    assert corrected_for_chance(0.1, 0.25) < 0


def test_winograd_schemas_give_nothing_away(real_data: Path) -> None:
    items, _ = read_choices(real_data / "wsc273" / "items.csv")
    assert items.n_items == 273
    assert items.options[0] == ("The city councilmen", "The demonstrators")
    assert items.right[:2] == (0, 1)
    assert not artifacts(items, n_repeats=1, rng=rng()).suspect.any()


def test_the_key_is_a_text_a_column_or_its_letter(tmp_path: Path) -> None:
    rows = "1,x,y,z,B\n2,x,y,,x\n3,x,y,z,option_C\n4,b,a,c,a\n"
    (tmp_path / "items.csv").write_text(f"item_id,option_A,option_B,option_C,gold\n{rows}")
    items, frame = read_choices(tmp_path / "items.csv")
    assert items.options == (("x", "y", "z"), ("x", "y"), ("x", "y", "z"), ("b", "a", "c"))
    assert items.right == (1, 0, 2, 1)  # in item 4 the text a goes before the letter A
    assert list(frame) == ["item_id", "option_A", "option_B", "option_C", "gold"]


@pytest.mark.parametrize(
    ("content", "saying"),
    [
        ("item_id,option_A,option_B,gold\n1,x,,A\n", "at least 2 options"),
        ("item_id,option_A,option_B,gold\n1,x,y,A\n1,x,y,A\n", "must be unique"),
        ("item_id,option_A,option_B,gold\n,x,y,A\n", "expected a name"),
    ],
)
def test_wrong_items_are_refused(tmp_path: Path, content: str, saying: str) -> None:
    (tmp_path / "items.csv").write_text(content)
    is_refused(saying, read_choices, tmp_path / "items.csv")


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: artifacts(ChoiceItems(("1", "2"), (("yes", "no"),) * 2, (0, 1), (None,) * 2), rng=rng()),
         "at least 2 groups .* but got 1"),
        (lambda: artifacts(draw_items(4), n_folds=1, rng=rng()), "n_folds"),
        (lambda: artifacts(draw_items(4), n_repeats=0, rng=rng()), "n_repeats"),
        (lambda: ChoiceItems(("1",), (("a", "b"),), (2,), (None,)), "the right option is 2"),
        (lambda: ChoiceItems(("1",), (("a", " "),), (0,), (None,)), "one is empty"),
    ],
)  # fmt: skip
def test_too_few_items_and_wrong_settings_are_refused(call, saying: str) -> None:
    is_refused(saying, call)
