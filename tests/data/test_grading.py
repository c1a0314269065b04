"""Grading: answers against the key, each rule by what it makes equal and must not, labels of another vocabulary."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.data.grading import GradingSettings, grade, normalise_text
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers import read_answers, read_items, read_responses
from irtbench.data.responses import ResponseMatrix


def items_with(keys, attention=()):
    checks = tuple(item in attention for item in keys)
    return replace(ItemTable.plain(tuple(keys)), key=tuple(keys.values()), attention=checks)


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
        ("strip", ("\ufeffyes\u200b ", "yes"), ("y\u200des", "yes")),
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
    items = items_with({"x": " The Cat. ", "open": None})  # without an answer, left out
    answers = answers_of(("a", "x", "the  cat"), ("b", "x", "the dog"))
    rules = ("punctuation", "casefold", "collapse_spaces")
    assert grade(answers, items, GradingSettings(normalise=rules)).values.tolist() == [[1], [0]]
    assert grade(answers, items, GradingSettings(normalise=rules[:2])).values.tolist() == [[0], [0]]
    # ½ is a fraction only after unicode normalisation takes it apart into 1⁄2
    assert normalise_text("½ ", ("strip", "unicode")) == "1⁄2"


@given(st.text(max_size=12), st.sampled_from(["strip", "collapse_spaces", "punctuation", "unicode"]))
def test_a_rule_applied_twice_is_the_rule_applied_once(text, rule):
    once = normalise_text(text, (rule,))
    assert normalise_text(once, (rule,)) == once


FOUR_ITEMS = {"x": "yes", "y": "no", "z": "yes", "w": "no"}


@pytest.mark.parametrize(
    ("texts", "settings", "saying"),
    [
        ("yes maybe nay maybe", {}, "3 of 4 answers are neither key nor option of any item: maybe, nay; expected no"),
        ("yes maybe nay maybe", {"options": ("maybe",)}, "1 of 4 answers are neither key nor option of any item: nay"),
        ("yes Maybe no no", {}, 'grading.options names further options, grading.unknown = "wrong" counts'),
        ("yes Yes NO no", {}, 'grading.normalise = ["strip", "casefold"] makes them so (or --map)'),
        ("yes yes. (no) no", {}, 'grading.normalise = ["strip", "punctuation"] makes them so (or --map)'),
        ("oh maybe nay maybe oh", {"unknown": "wrong"}, "no answer is the key of any item: maybe, nay, oh"),
    ],
)
def test_answers_that_are_neither_key_nor_option_are_named(texts, settings, saying):
    rows = [(f"r{k}", list(FOUR_ITEMS)[k % 4], text) for k, text in enumerate(texts.split())]
    is_refused(re.escape(saying), grade, answers_of(*rows), items_with(FOUR_ITEMS), GradingSettings(**settings))


def test_options_that_are_no_key_are_wrong_answers_and_open_answers_have_no_options():
    options = GradingSettings(options=(" Maybe ",), normalise=("strip", "casefold"))
    answers = answers_of(("a", "x", "maybe"), ("a", "y", "No"), ("b", "z", ""), ("b", "w", "YES"))
    np.testing.assert_array_equal(
        grade(answers, items_with(FOUR_ITEMS), options).values, [[0, 1, np.nan, np.nan], [np.nan, np.nan, 0, 0]]
    )
    open_items = items_with({"x": "Paris", "y": "Rome", "z": "Oslo"})
    answers = answers_of(("a", "x", "Paris"), ("a", "y", "Milan"), ("a", "z", "Bergen"))
    assert grade(answers, open_items).values.tolist() == [[1, 0, 0]]


@pytest.mark.parametrize(
    ("rows", "settings", "saying"),
    [
        ([("a", "y", "yes")], {"normalise": ("punctuation",)}, "the key of item x is empty after punctuation"),
        ([("a", "y", "yes"), ("a", "y", "no")], {}, r"duplicate \(respondent, item\) pairs: \(a, y\)"),
        ([("a", "y", "yes"), ("a", "open", "well")], {}, "no key for item open"),
        ([], {}, "empty"),
        ([], {"normalise": ("strip", "stem")}, "GradingSettings.normalise.1: expected 'strip', .* but got 'stem'"),
        ([], {"empty": "zero"}, "GradingSettings.empty: expected 'wrong' or 'missing' but got 'zero'"),
        ([], {"map": {"0": "neutral", " 0": "entailment"}}, "map: two of 0,  0 are the same answer after strip"),
    ],
)
def test_other_wrong_input_is_refused(rows, settings, saying):
    with pytest.raises(InputError, match=saying):
        grade(answers_of(*rows), items_with({"x": "?!", "y": "yes", "open": None}), GradingSettings(**settings))


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


def keys_of(n, *labels):
    return {f"i{k}": labels[k % len(labels)] for k in range(n)}


LABELS = ("contradiction", "entailment", "neutral")
KEYS, MANY = keys_of(18, *LABELS), keys_of(30, *LABELS)
ONE_KEY, NUMBERS = keys_of(12, "neutral"), keys_of(18, "1", "2", "3")
OWN = {f"i{k}": f"Word{k}" for k in range(12)}
CODES = ["0", "1", "2"] * 6
SHORT = ["contradict", "entailment", "neutral"] * 6


def right(keys, texts, **settings) -> float:
    """Share of right responses, graded as systems are on a bank."""
    rows = [
        (f"s{k}", item, text)
        for k, own in enumerate(texts if isinstance(texts[0], list) else [texts])
        for item, text in zip(keys, own, strict=True)
    ]
    graded = grade(answers_of(*rows), items_with(keys), GradingSettings(**{"unknown": "stray"} | settings))
    return float(graded.values.mean())


@pytest.mark.parametrize(
    ("keys", "texts", "settings", "saying"),
    [
        (KEYS, CODES, {}, r"no answer is the key of any item: 0, 1, 2; .*\(--map OLD=NEW"),
        (ONE_KEY, ["0", "1", "2"] * 4, {}, "no answer is the key of any item: 0, 1, 2"),
        (OWN, ["A", "B", "C", "D"] * 3, {}, "no answer is the key of any item: A, B, C, D"),
        (NUMBERS, CODES, {}, r"6 answers are '0', which is no item's key, .* none by .* is 3;.*'0=3'"),
        (KEYS, SHORT, {}, r"6 answers are 'contradict'.*--map OLD=NEW.*'contradict=contradiction'"),
        # others who spell it as the key does prove nothing about this respondent
        (KEYS, [SHORT, list(KEYS.values())], {}, "'contradict', which is no item's key"),
        (KEYS, CODES, {"map": {"0": "contradict"}}, "map 0=contradict: contradict is no item's key; expected one of"),
    ],
)
def test_answers_in_another_vocabulary_are_refused(keys, texts, settings, saying) -> None:
    is_refused(saying, right, keys, texts, **settings)


@pytest.mark.parametrize(
    ("keys", "texts", "settings", "share", "warned"),
    [
        (KEYS, CODES, {"map": dict(zip("012", LABELS, strict=True))}, 1, ""),
        (KEYS, SHORT, {"map": {"contradict": "contradiction"}}, 1, ""),
        (KEYS, SHORT, {"map": {"contradict": ""}}, 2 / 3, ""),
        (KEYS, SHORT, {"unknown": "wrong"}, 2 / 3, "6 answers are no item's key and count as wrong: contradict"),
        (ONE_KEY, ["entailment", "contradiction"] * 6, {}, 0, ""),  # wrong, and perhaps meant so
        (KEYS, ["do not know", *list(KEYS.values())[1:]], {}, 17 / 18, "1 answers .* count as wrong: do not know"),
        (MANY, [["skip"] * 6 + [*MANY.values()][6:], [*MANY.values()]], {}, 54 / 60, "6 answers are no item's key"),
        (KEYS, [f" {key.upper()} " for key in KEYS.values()], {}, 1, "count as one: 'CONTRADICTION' as contradiction"),
        # capitals are all in which two keys differ
        (keys_of(12, "ab", "aB"), ["AB", *["ab"] * 11], {}, 5 / 12, "1 answers .* count as wrong: AB"),
        (OWN, ["word0", *list(OWN.values())[1:]], {}, 11 / 12, ""),
        (OWN, ["word0", *list(OWN.values())[1:]], {"normalise": ("casefold",)}, 1, ""),
        (OWN, [f"other{k}" for k in range(12)], {}, 0, "no answer is the key of any item, all count as wrong"),
    ],
)
def test_labels_of_no_item_are_wrong_or_mapped(keys, texts, settings, share, warned, caplog) -> None:
    assert right(keys, texts, **settings) == pytest.approx(share)
    assert re.search(warned, caplog.text)
