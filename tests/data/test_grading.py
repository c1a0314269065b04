"""Grading: answers against the key, each rule by what it makes equal and must not, labels of another vocabulary."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irtbench.data.grading import GradingSettings, grade, labels_by_loose_form, normalise_text
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers import read_answers, read_items, read_responses
from irtbench.data.responses import ResponseMatrix

# -- grading


def items_with(keys, attention=()):
    nothing = (None,) * len(keys)
    checks = tuple(item in attention for item in keys)
    return ItemTable(tuple(keys), tuple(keys.values()), nothing, nothing, nothing, checks)


def answers_of(*rows):
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])


def test_answers_become_1_0_and_nan():
    items = items_with({"x": "yes", "check": "blue", "y": "no", "nobody": "yes"}, attention=("check",))
    answers = answers_of(("b", "y", "no"), ("a", "x", "no"), ("a", "check", "blue"), ("b", "x", " yes\t"))
    responses = grade(answers, items)
    assert responses.respondent_ids == ("b", "a")  # order of appearance
    assert responses.item_ids == ("x", "check", "y", "nobody")  # all items with a key, attention checks too
    nan = np.nan
    np.testing.assert_array_equal(responses.values, [[1, nan, 1, nan], [0, 1, nan, nan]])


def test_empty_answers_are_wrong_or_missing_as_asked():
    items = items_with({"x": "yes", "y": "yes", "z": "yes", "w": "yes"})
    answers = answers_of(("a", "x", ""), ("a", "y", None), ("a", "z", "  "), ("a", "w", "yes"))
    assert grade(answers, items, GradingSettings(empty="wrong")).values.tolist() == [[0, 0, 0, 1]]
    missing = grade(answers, items, GradingSettings(empty="missing")).values
    np.testing.assert_array_equal(missing, [[np.nan, np.nan, np.nan, 1]])
    # without strip, two spaces are an answer, and a wrong one
    unstripped = grade(answers, items, GradingSettings(normalise=(), empty="missing")).values
    np.testing.assert_array_equal(unstripped, [[np.nan, np.nan, 0, 1]])


@pytest.mark.parametrize(
    ("rule", "same", "different"),
    [
        ("strip", (" yes\n", "yes"), ("y es", "yes")),
        ("casefold", ("STRASSE", "straße"), ("yes.", "yes")),
        ("collapse_spaces", ("a \t b", "a b"), ("ab", "a b")),
        ("punctuation", ("“Yes. ”!", "(Yes)"), ("it's", "its")),
        ("punctuation", ("3.", "3"), ("-3", "3")),
        ("punctuation", ("[.5]", ".5"), (".5", "5")),
        ("unicode", ("ﬁre", "fire"), ("Fire", "fire")),
        ("unicode", ("e\u0301", "é"), ("e", "é")),
    ],
)
def test_each_rule_makes_equal_what_it_says_and_no_more(rule, same, different):
    assert normalise_text(same[0], (rule,)) == normalise_text(same[1], (rule,))
    assert same[0] != same[1]
    assert normalise_text(different[0], (rule,)) != normalise_text(different[1], (rule,))


def test_key_is_normalised_like_the_answers_and_rules_go_in_their_order():
    items = items_with({"x": " The Cat. "})
    answers = answers_of(("a", "x", "the  cat"), ("b", "x", "the dog"))
    rules = ("punctuation", "casefold", "collapse_spaces")
    assert grade(answers, items, GradingSettings(normalise=rules)).values.tolist() == [[1], [0]]
    assert grade(answers, items, GradingSettings(normalise=rules[:2])).values.tolist() == [[0], [0]]
    # ½ is a fraction only after unicode normalisation takes it apart into 1⁄2
    assert normalise_text("½ ", ("strip", "unicode")) == "1⁄2"


@given(st.text(max_size=12), st.sampled_from(["strip", "collapse_spaces", "punctuation", "unicode"]))
@settings(max_examples=200, deadline=None)
def test_a_rule_applied_twice_is_the_rule_applied_once(text, rule):
    once = normalise_text(text, (rule,))
    assert normalise_text(once, (rule,)) == once


def test_answered_item_without_key_is_refused_and_an_unanswered_one_left_out():
    items = items_with({"x": "yes", "open": None})
    assert grade(answers_of(("a", "x", "yes")), items).item_ids == ("x",)
    with pytest.raises(InputError, match="no key for item open"):
        grade(answers_of(("a", "x", "yes"), ("a", "open", "well")), items)


FOUR_ITEMS = {"x": "yes", "y": "no", "z": "yes", "w": "no"}


@pytest.mark.parametrize(
    ("texts", "settings", "saying"),
    [
        (
            ["yes", "maybe", "nay", "maybe"],
            {},
            "3 of 4 answers are neither key nor option of any item: maybe, nay; expected no",
        ),
        (
            ["yes", "maybe", "nay", "maybe"],
            {"options": ("maybe",)},
            "1 of 4 answers are neither key nor option of any item: nay",
        ),
        (["yes", "Maybe", "no", "no"], {}, 'grading.options names further options, grading.unknown = "wrong" counts'),
        (["yes", "Yes", "NO", "no"], {}, 'grading.normalise = ["strip", "casefold"] makes them so'),
        (["yes", "yes.", "(no)", "no"], {}, 'grading.normalise = ["strip", "punctuation"] makes them so'),
        (["yes", "maybe", "nay", "maybe", "oh"], {"unknown": "wrong"}, None),
        (
            ["oh", "maybe", "nay", "maybe", "oh"],
            {"unknown": "wrong"},
            "no answer is the key of any item: maybe, nay, oh",
        ),
    ],
)
def test_answers_that_are_neither_key_nor_option_are_named(texts, settings, saying, caplog):
    rows = [(f"r{k}", list(FOUR_ITEMS)[k % 4], text) for k, text in enumerate(texts)]
    if saying is None:
        grade(answers_of(*rows), items_with(FOUR_ITEMS), GradingSettings(**settings))
        assert "4 answers are no item's key and count as wrong: maybe, nay, oh" in caplog.text
        return
    with pytest.raises(InputError, match=re.escape(saying)):
        grade(answers_of(*rows), items_with(FOUR_ITEMS), GradingSettings(**settings))


def test_options_that_are_no_key_are_wrong_answers_and_open_answers_have_no_options():
    options = GradingSettings(options=(" Maybe ",), normalise=("strip", "casefold"))
    answers = answers_of(("a", "x", "maybe"), ("a", "y", "No"), ("b", "z", ""), ("b", "w", "YES"))
    np.testing.assert_array_equal(
        grade(answers, items_with(FOUR_ITEMS), options).values, [[0, 1, np.nan, np.nan], [np.nan, np.nan, 0, 0]]
    )
    open_items = items_with({"x": "Paris", "y": "Rome", "z": "Oslo"})
    answers = answers_of(("a", "x", "Paris"), ("a", "y", "Milan"), ("a", "z", "Bergen"))
    assert grade(answers, open_items).values.tolist() == [[1, 0, 0]]


def test_other_wrong_input_is_refused():
    items = items_with({"x": "?!", "y": "yes"})
    with pytest.raises(InputError, match="the key of item x is empty after punctuation"):
        grade(answers_of(("a", "y", "yes")), items, GradingSettings(normalise=("punctuation",)))
    with pytest.raises(InputError, match=re.escape("duplicate (respondent, item) pairs: (a, y)")):
        grade(answers_of(("a", "y", "yes"), ("a", "y", "no")), items)
    with pytest.raises(InputError, match="empty"):
        grade(answers_of(), items)
    with pytest.raises(InputError, match=r"GradingSettings.normalise.1: expected 'strip', .* but got 'stem'"):
        GradingSettings(normalise=("strip", "stem"))
    with pytest.raises(InputError, match=r"GradingSettings.empty: expected 'wrong' or 'missing' but got 'zero'"):
        GradingSettings(empty="zero")


def test_grading_the_papers_answers_gives_the_authors_own_coding(real_data):
    """All 176,310 cells; `correct` equals the authors' irt_file_*_coded.csv (PROVENANCE.md)."""
    folder = real_data / "lalor2016_snli"
    n_cells = 0
    for form in ("4gs", "5gs"):
        path = folder / f"responses_{form}.csv.gz"
        items = read_items(folder / "items.csv", where={"set": form})
        graded = grade(read_answers(path).frame, items)
        coded = ResponseMatrix.from_long(read_responses(path).frame, item_ids=graded.item_ids)
        assert graded.respondent_ids == coded.respondent_ids
        np.testing.assert_array_equal(graded.values, coded.values)
        n_cells += graded.n_responses
    assert n_cells == 176_310


# -- vocabulary

LABELS = ("contradiction", "entailment", "neutral")
N = 12
KEYS = {f"i{k}": LABELS[k % 3] for k in range(N)}


def given_by(texts: dict[str, list[str]], keys: dict[str, str] = KEYS) -> pd.DataFrame:
    rows = [(who, item, text) for who, given in texts.items() for item, text in zip(keys, given, strict=True)]
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])


STRAY = GradingSettings(unknown="stray")


def right(texts: dict[str, list[str]], settings: GradingSettings = STRAY, keys: dict[str, str] = KEYS) -> float:
    """Share of right responses, graded as systems are on a bank."""
    return float(grade(given_by(texts, keys), items_with(keys), settings).values.mean())


def as_codes(text: str) -> str:
    return str(LABELS.index(text))


def test_codes_for_labels_are_refused_and_mapped() -> None:
    codes = [as_codes(key) for key in KEYS.values()]
    with pytest.raises(InputError, match=r"no answer is the key of any item: 0, 1, 2; .*\(--map OLD=NEW"):
        right({"s": codes})
    assert right({"s": codes}, GradingSettings(map={as_codes(label): label for label in LABELS})) == 1


def test_codes_are_refused_where_the_bank_has_one_label_only() -> None:
    keys = {f"i{k}": "neutral" for k in range(N)}
    with pytest.raises(InputError, match="no answer is the key of any item: 0, 1, 2"):
        right({"s": ["0", "1", "2"] * 4}, keys=keys)
    assert right({"s": ["entailment", "contradiction"] * 6}, keys=keys) == 0  # wrong, and perhaps meant so


def test_codes_that_are_off_by_one_are_refused() -> None:
    keys = {f"i{k}": str(1 + k % 3) for k in range(18)}
    with pytest.raises(InputError, match=r"6 answers are '0', which is no item's key, .* none by .* is 3;.*'0=3'"):
        right({"s": [str(int(key) - 1) for key in keys.values()]}, keys=keys)


def test_one_label_in_another_spelling_is_refused() -> None:
    keys = {f"i{k}": LABELS[k % 3] for k in range(18)}
    texts = [key.replace("contradiction", "contradict") for key in keys.values()]
    with pytest.raises(InputError, match=r"6 answers are 'contradict'.*--map OLD=NEW.*'contradict=contradiction'"):
        right({"s": texts}, keys=keys)
    # others who spell it as the key does prove nothing about this respondent
    with pytest.raises(InputError, match="'contradict', which is no item's key"):
        right({"s": texts, "t": list(keys.values())}, keys=keys)
    assert right({"s": texts}, GradingSettings(map={"contradict": "contradiction"}), keys) == 1
    assert right({"s": texts}, GradingSettings(map={"contradict": ""}), keys) == pytest.approx(2 / 3)


def test_a_stray_answer_is_wrong_and_named(caplog: pytest.LogCaptureFixture) -> None:
    texts = list(KEYS.values())
    texts[0] = "do not know"
    assert right({"s": texts}) == pytest.approx(11 / 12)
    assert "1 answers are no item's key and count as wrong: do not know" in caplog.text


def test_a_label_of_no_item_that_people_give_among_others_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    keys = {f"i{k}": LABELS[k % 3] for k in range(30)}
    skipped = ["skip" if k < 6 else key for k, key in enumerate(keys.values())]
    assert right({"s": skipped, "t": list(keys.values())}, keys=keys) == pytest.approx(54 / 60)
    assert "6 answers are no item's key" in caplog.text


def test_capitals_and_spaces_tell_no_labels_apart(caplog: pytest.LogCaptureFixture) -> None:
    texts = [f" {key.upper()} " for key in KEYS.values()]
    assert right({"s": texts}) == 1
    assert (
        "labels that differ in capitals or spaces alone count as one: 'CONTRADICTION' as contradiction" in caplog.text
    )


def test_capitals_tell_labels_apart_where_two_keys_differ_in_nothing_else() -> None:
    keys = {f"i{k}": "aA"[k % 2] for k in range(N)}
    assert labels_by_loose_form(keys) == {}
    assert right({"s": ["a"] * N}, keys=keys) == 0.5


def test_where_each_item_has_its_own_key_the_rules_alone_say_what_is_equal(caplog: pytest.LogCaptureFixture) -> None:
    keys = {f"i{k}": f"Word{k}" for k in range(N)}
    texts = [key if k else key.lower() for k, key in enumerate(keys.values())]
    assert right({"s": texts}, keys=keys) == pytest.approx(11 / 12)
    assert right({"s": texts}, GradingSettings(normalise=("casefold",)), keys) == 1
    with pytest.raises(InputError, match="no answer is the key of any item: A, B, C, D"):
        right({"s": ["A", "B", "C", "D"] * 3}, keys=keys)
    caplog.clear()
    assert right({"s": [f"other{k}" for k in range(N)]}, keys=keys) == 0  # a bad system on a hard test
    assert "no answer is the key of any item, all count as wrong" in caplog.text


def test_a_map_onto_what_is_no_key_is_refused() -> None:
    with pytest.raises(InputError, match=r"map 0=contradict: contradict is no item's key; expected one of contradic"):
        right({"s": list(KEYS.values())}, GradingSettings(map={"0": "contradict"}))
    with pytest.raises(InputError, match="map: two of 0,  0 are the same answer after strip"):
        GradingSettings(map={"0": "neutral", " 0": "entailment"})
