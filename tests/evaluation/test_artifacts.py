"""Question-blind baselines: what is planted they find, what is shuffled they do not, and the figures by hand."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from irtbench.data.input_error import InputError
from irtbench.data.items import ChoiceItems
from irtbench.data.readers.item_table import read_choices
from irtbench.evaluation.artifacts import artifacts, chance_tail, corrected_for_chance

WORDS = np.array([f"w{k}" for k in range(200)])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def draw_items(n: int, *, planted: float = 0.0, how: str = "word", n_options: int = 4, seed: int = 0) -> ChoiceItems:
    """Items of random words; a share of them has a right option that gives itself away."""
    generator = np.random.default_rng(seed)
    options, right = [], []
    for _ in range(n):
        texts = [list(generator.choice(WORDS, 4)) for _ in range(n_options)]
        answer = int(generator.integers(n_options))
        if generator.random() < planted:
            if how == "word":
                texts[answer][1] = "because"
            elif how == "odd":  # the wrong ones share what the right one has not
                for k in range(n_options):
                    texts[k][:2] = texts[answer - 1][:2] if k != answer else texts[k][:2]
            else:
                texts[answer] += ["indeed", "w0", "w1"]
        options.append(tuple(" ".join(words) for words in texts))
        right.append(answer)
    return ChoiceItems(tuple(f"i{j}" for j in range(n)), tuple(options), tuple(right), (None,) * n)


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
    shuffled = ChoiceItems(items.item_ids, items.options, tuple(rng().integers(4, size=120).tolist()), items.group)
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
    assert found.accuracy == 0.5
    assert found.chance == 0.5
    assert found.corrected == 0


@pytest.mark.slow
def test_the_seed_decides() -> None:
    items = draw_items(60, planted=0.5)
    one, other = (artifacts(items, rng=np.random.default_rng(3)).table() for _ in range(2))
    assert one.equals(other)


def test_chance_tail_by_hand() -> None:
    # chances 1/2, 1/3, 1/4: P(none) = 6/24, P(1) = (6 + 3 + 2)/24, so P(>= 2) = 7/24
    chance = np.array([1 / 2, 1 / 3, 1 / 4])
    expected = [1, Fraction(18, 24), Fraction(7, 24), Fraction(1, 24)]
    assert [chance_tail(chance, k) for k in range(4)] == pytest.approx([float(p) for p in expected])
    # METHODS 9: a guesser above 55% of 273, P(X > 150) = .045
    assert chance_tail(np.full(273, 0.5), 151) == pytest.approx(0.045, abs=5e-4)


def test_corrected_for_chance_by_hand() -> None:
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
    (tmp_path / "items.csv").write_text(
        "item_id,option_A,option_B,option_C,gold\n1,x,y,z,B\n2,x,y,,x\n3,x,y,z,option_C\n4,b,a,c,a\n"
    )
    items, frame = read_choices(tmp_path / "items.csv")
    assert items.options == (("x", "y", "z"), ("x", "y"), ("x", "y", "z"), ("b", "a", "c"))
    assert items.right == (1, 0, 2, 1)  # in item 4 the text a goes before the letter A
    assert list(frame) == ["item_id", "option_A", "option_B", "option_C", "gold"]


@pytest.mark.parametrize(
    ("content", "saying"),
    [
        ("item_id,option_A,option_B,gold\n1,x,y,D\n", "row 1 .*column gold: expected an option"),
        ("item_id,text,gold\n1,x,y\n", "no columns of options"),
        ("item_id,option_A,option_B\n1,x,y\n", "column 'gold' missing"),
        ("item_id,option_A,option_B,gold\n1,x,,A\n", "at least 2 options"),
        ("item_id,option_A,option_B,gold\n1,x,y,A\n1,x,y,A\n", "must be unique"),
        ("item_id,option_A,option_B,gold\n,x,y,A\n", "expected a name"),
    ],
)
def test_wrong_items_are_refused(tmp_path: Path, content: str, saying: str) -> None:
    (tmp_path / "items.csv").write_text(content)
    with pytest.raises(InputError, match=saying):
        read_choices(tmp_path / "items.csv")


def test_too_few_items_and_wrong_settings_are_refused() -> None:
    same = ChoiceItems(("1", "2"), (("yes", "no"), ("yes", "no")), (0, 1), (None, None))
    with pytest.raises(InputError, match=r"at least 2 groups .* but got 1"):
        artifacts(same, rng=rng())
    items = draw_items(4)
    for options in ({"n_folds": 1}, {"n_repeats": 0}, {"alpha": 0.0}):
        with pytest.raises(InputError):
            artifacts(items, **options, rng=rng())
    with pytest.raises(InputError, match="the right option is 2"):
        ChoiceItems(("1",), (("a", "b"),), (2,), (None,))
    with pytest.raises(InputError, match="one is empty"):
        ChoiceItems(("1",), (("a", " "),), (0,), (None,))
