"""Labels of another vocabulary are refused or mapped, never graded as wrong without a word."""

import pandas as pd
import pytest

from irtbench.data.grading import GradingSettings, grade, labels_by_loose_form
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable

LABELS = ("contradiction", "entailment", "neutral")
N = 12
KEYS = {f"i{k}": LABELS[k % 3] for k in range(N)}


def items_of(keys: dict[str, str]) -> ItemTable:
    nothing = (None,) * len(keys)
    return ItemTable(tuple(keys), tuple(keys.values()), nothing, nothing, nothing, (False,) * len(keys))


def answers_of(texts: dict[str, list[str]], keys: dict[str, str] = KEYS) -> pd.DataFrame:
    rows = [(who, item, text) for who, given in texts.items() for item, text in zip(keys, given, strict=True)]
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])


STRAY = GradingSettings(unknown="stray")


def right(texts: dict[str, list[str]], settings: GradingSettings = STRAY, keys: dict[str, str] = KEYS) -> float:
    """Share of right responses, graded as systems are on a bank."""
    return float(grade(answers_of(texts, keys), items_of(keys), settings).values.mean())


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


def test_a_label_of_no_item_that_people_give_beside_all_others_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_study_refuses_what_is_neither_key_nor_option_and_names_the_setting() -> None:
    texts = list(KEYS.values())
    texts[0] = "do not know"
    for settings, saying in (
        (GradingSettings(), r"1 of 12 answers are neither key nor option of any item: do not know.*grading.options"),
        (GradingSettings(), r"grading.map \(--map OLD=NEW\)"),
    ):
        with pytest.raises(InputError, match=saying):
            right({"s": texts}, settings)
    for settings in (GradingSettings(options=("do not know",)), GradingSettings(unknown="wrong")):
        assert right({"s": texts}, settings) == pytest.approx(11 / 12)
    capitals = {"s": [key.upper() for key in KEYS.values()]}
    with pytest.raises(InputError, match="no answer is the key of any item"):
        right(capitals, GradingSettings())
    with pytest.raises(InputError, match=r'grading.normalise = \["strip", "casefold"\] makes them so'):
        right({"s": [key.upper() if k else key for k, key in enumerate(KEYS.values())]}, GradingSettings())


def test_all_others_are_wrong_where_the_settings_say_so(caplog: pytest.LogCaptureFixture) -> None:
    keys = {f"i{k}": LABELS[k % 3] for k in range(18)}
    texts = [key.replace("contradiction", "contradict") for key in keys.values()]
    assert right({"s": texts}, GradingSettings(unknown="wrong"), keys) == pytest.approx(2 / 3)
    assert "6 answers are no item's key and count as wrong: contradict" in caplog.text
