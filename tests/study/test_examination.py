"""What a look at a data set finds: each finding in data that have it, and not in data that have not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.refusals import is_refused
from builders.simulated import simulated
from irtbench.data.readers import LongTable, read_responses
from irtbench.study.examination import Examination, Shape, advise, choose_prior, examine

N, M = 120, 12
LABELS = ("no", "perhaps", "yes")
KEYS = [LABELS[k % 3] for k in range(M)]


def table(frame: pd.DataFrame, **left_out: int) -> LongTable:
    return LongTable(frame.reset_index(drop=True), Path("r.csv"), "long", {}, left_out)


def clean() -> pd.DataFrame:
    """Responses of which nothing is to be said: the extreme scores of a small test are taken out."""
    responses = simulated(N, M, seed=5)[0]
    frame = responses.to_long()
    share = frame.groupby("respondent_id")["response"].transform("mean")
    return frame[(share > 0) & (share < 1)].reset_index(drop=True)


def answers() -> pd.DataFrame:
    frame = clean()
    key = frame["item_id"].map({f"item{k + 1}": KEYS[k] for k in range(M)})
    other = key.map({"no": "perhaps", "perhaps": "yes", "yes": "no"})
    frame["answer"] = np.where(frame.pop("response") == 1, key, other)
    return frame


def items() -> irtbench.ItemTable:
    return replace(irtbench.ItemTable.plain([f"item{k + 1}" for k in range(M)]), key=tuple(KEYS))


def codes(found: Examination) -> set[str]:
    return {finding.code for finding in found.findings}


def test_of_clean_data_nothing_is_reported() -> None:
    assert examine(table(answers()), items=items()).findings == ()
    found = examine(table(clean()))
    assert found.findings == ()
    assert found.summary.n_items == M
    assert found.plain()["findings"] == []


def with_response(frame: pd.DataFrame, item: str, response: float) -> pd.DataFrame:
    return frame.assign(response=frame["response"].mask(frame["item_id"] == item, response))


def one_apart(frame: pd.DataFrame) -> pd.DataFrame:
    frame = with_response(frame, "item3", 1)
    frame.loc[frame.index[frame["item_id"] == "item3"][0], "response"] = 0
    return frame


def in_blocks(frame: pd.DataFrame) -> pd.DataFrame:
    """The second half of the people answered the second half of the items, and the first the first."""
    early = frame["respondent_id"].isin(frame["respondent_id"].unique()[:50])
    first = frame["item_id"].isin([f"item{k}" for k in range(1, 7)])
    return frame[early == first]


def copied(frame: pd.DataFrame) -> pd.DataFrame:
    """Forty items, and the first person's responses under another name too."""
    responses = simulated(N, 40, seed=5)[0].to_long()
    n_right = responses.groupby("respondent_id")["response"].sum()
    double = responses[responses["respondent_id"] == n_right[(n_right > 10) & (n_right < 30)].index[0]]
    return pd.concat([responses, double.assign(respondent_id="copy")])


def skipped_by_the_less_able(frame: pd.DataFrame, *, how: float = 1.0) -> pd.DataFrame:
    """Who has more right answers more of the items, or less."""
    share = frame.groupby("respondent_id")["response"].transform("mean")
    chance = np.random.default_rng(7).random(len(frame))
    return frame[chance < 1 / (1 + np.exp(-10 * how * (share - share.median())))]


TROUBLE = {
    "few_respondents": lambda f: f[f["respondent_id"].isin(f["respondent_id"].unique()[:9])],
    "all_correct": lambda f: with_response(f, "item3", 1),
    "all_wrong": lambda f: with_response(f, "item3", 0),
    "never_answered": lambda f: with_response(f, "item3", np.nan),
    "one_apart": one_apart,
    "few_responses": lambda f: f[(f["item_id"] != "item3") | f["respondent_id"].isin(f["respondent_id"].unique()[:9])],
    "nothing_answered": lambda f: f.assign(response=f["response"].mask(f["respondent_id"] == "r2")),
    "few_answers": lambda f: f[(f["respondent_id"] != "r2") | f["item_id"].isin(["item1", "item2"])],
    "all_or_nothing": lambda f: f.assign(response=f["response"].mask(f["respondent_id"] == "r2", 1)),
    "blocks": in_blocks,
    "wrong_key": lambda f: f.assign(response=f["response"].mask(f["item_id"] == "item3", 1 - f["response"])),
    "near_names": lambda f: f.assign(
        respondent_id=f["respondent_id"].mask((f["respondent_id"] == "r7") & (f["item_id"] > "item4"), "R7 ")
    ),
    "twin_items": lambda f: pd.concat([f, f[f["item_id"] == "item3"].assign(item_id="twin")]),
    "copied_respondents": copied,
    "duplicates": lambda f: pd.concat([f, f[:2]]),
    "trials": lambda f: pd.concat([f.assign(trial="1"), f[:2].assign(trial="2")]),
    "answered_by_ability": skipped_by_the_less_able,
    "finer_scores": lambda f: f.assign(response=f["response"] * 0.7),
}


TEXTS = {
    "twin_items": "1 group of items has the same responses by all: item3 = twin; ",
    "near_names": "1 respondent has the name of another but for capitals or spaces: R7 ; if one is meant, give it one",
}


@pytest.mark.parametrize("code", TROUBLE)
def test_trouble_is_found_and_named(code: str) -> None:
    found = examine(table(TROUBLE[code](clean())))
    finding = found.finding(code)
    assert finding is not None, codes(found)
    assert finding.n >= 1
    assert "; " in finding.text  # what is there, and what to do
    assert finding.text.startswith(TEXTS.get(code, ""))
    assert not finding.text.startswith(("1 items", "1 respondents"))


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize(("how", "words"), [(1.0, "abler"), (-1.0, "less able"), (0.0, "")])
def test_who_answers_more_is_said_where_it_goes_with_ability(how: float, words: str, top: int) -> None:
    frame = skipped_by_the_less_able(clean(), how=how)
    frame["response"] *= 1 + (top - 1) * (np.arange(len(frame)) % 2)  # grades: every other right response is a 2
    found = examine(table(frame))
    assert (found.finding("grades") is not None) == (top > 1)
    finding = found.finding("answered_by_ability")
    assert (finding.text.split(" respondents")[0] if finding else "") == words


def test_a_wrong_vocabulary_stops_what_needs_a_grade() -> None:
    frame = answers()
    frame["answer"] = frame["answer"].map({"no": "0", "perhaps": "1", "yes": "2"})
    found = examine(table(frame), items=items())
    assert codes(found) == {"vocabulary"}
    assert "--map OLD=NEW" in found.findings[0].text
    assert not any(command.works for command in found.commands if command.command in ("fit", "build"))


def test_answers_without_a_key_and_with_their_own() -> None:
    frame = answers()
    assert codes(examine(table(frame))) == {"no_key"}
    own = frame.assign(gold=frame["item_id"].map(dict(zip(items().item_ids, KEYS, strict=True))))
    found = examine(table(own))
    assert found.findings == ()
    assert next(command for command in found.commands if command.command == "build").works


def test_items_that_the_table_lacks_or_has_too_many_or_without_key() -> None:
    known = items()
    lacking = known.select(known.item_ids[1:])
    assert examine(table(answers()), items=lacking).finding("unknown_items").examples == ("item1",)  # type: ignore[union-attr]
    more = irtbench.ItemTable.plain([*known.item_ids, "new"])
    found = examine(table(answers()), items=replace(more, key=(None, *KEYS[1:], "no")))
    assert found.finding("unasked_items").examples == ("new",)  # type: ignore[union-attr]
    assert found.finding("no_keys").examples == ("item1",)  # type: ignore[union-attr]
    for table_of_items in (lacking, replace(more, key=(None, *KEYS[1:], "no"))):  # of which no study can be built
        (build,) = (one for one in examine(table(answers()), items=table_of_items).commands if one.command == "build")
        assert (build.works, build.why) == (False, "first: the table of items lacks some, or their keys")


def labelled(*labels: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Three of the answers "perhaps" become the first of these, and the next three the second."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        own = frame.index[frame["answer"] == "perhaps"]
        for k, label in enumerate(labels):
            frame.loc[own[3 * k : 3 * k + 3], "answer"] = label
        return frame

    return change


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.replace({"item_id": {"item3": "new"}})


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (labelled("Perhaps"), "near_labels", "1 label is nearly the same as others: 'Perhaps' (3) next to 'perhaps'"),
        (labelled("perhpas"), "near_labels", "1 label is nearly the same as others: 'perhpas' (3) next to 'perhaps'"),
        (labelled("perhaps "), "near_labels", "1 label is nearly the same as others: 'perhaps ' (3) next to 'perhaps'"),
        (labelled("never"), "near_labels", None),
        (labelled("Perhaps", " PERHAPS"), "near_labels", "2 labels are nearly the same as others: "),
        (renamed, "unknown_items", "1 item answered is not in the table of items: new; "),
        (renamed, "unasked_items", "1 item of the table was never answered: item3; "),
    ],
)
def test_a_finding_of_answers_in_words(
    change: Callable[[pd.DataFrame], pd.DataFrame], code: str, text: str | None
) -> None:
    finding = examine(table(change(answers())), items=items()).finding(code)
    assert finding is None if text is None else finding is not None and finding.text.startswith(text)


def test_one_item_and_one_respondent_are_one_and_what_all_got_right_is_counted() -> None:
    of_one = clean().query("respondent_id == 'r1'")
    found = examine(table(of_one))
    assert found.finding("few_respondents").text.startswith("1 respondent gave responses")  # type: ignore[union-attr]
    assert found.prior_reason.startswith("12 items outnumber") or "1 response to" in found.prior_reason
    assert found.commands[0].why == "1 respondent; expected at least 10"
    assert examine(table(clean().query("item_id == 'item1'"))).commands[2].why == "1 item; expected more than 3"
    assert examine(table(clean().assign(response=1.0))).prior_reason.startswith(f"{len(clean()) // M} responses to")


SHAPE = Shape(n_respondents=1000, n_items=50, per_item=1000, graded=True, has_answers=False)


@pytest.mark.parametrize(
    ("changes", "prior"),
    [
        ({}, "none"),
        ({"n_respondents": 40, "per_item": 40.0}, "hierarchical"),
        ({"n_items": 5000, "per_item": 990.0}, "hierarchical"),
        ({"n_items": 5000, "some_apart": True}, "none"),
        ({"per_item": 20.0}, "hierarchical"),
        ({"per_item": 120.0}, "weak"),
        ({"some_apart": True}, "weak"),
    ],
)
def test_the_prior_goes_by_how_many_answered(changes: dict[str, object], prior: str) -> None:
    assert choose_prior(replace(SHAPE, **changes))[0] == prior  # type: ignore[arg-type]


def works(shape: Shape, *obstacles: str) -> set[str]:
    return {command.command for command in advise(shape, "none", obstacles) if command.works}


def test_what_works_goes_by_what_is_there() -> None:
    # a thousand people are too many pairs to compare
    assert works(SHAPE) == {"fit", "items diagnose", "build", "score"}
    assert works(replace(SHAPE, n_respondents=40)) == {"fit", "items diagnose", "compare", "score"}
    assert works(replace(SHAPE, n_respondents=9)) == {"compare", "score"}
    assert works(SHAPE, "several trials") == {"score"}
    assert works(replace(SHAPE, n_items=0)) == {"score"}
    assert works(replace(SHAPE, has_answers=True)) == {"build", "crowd agree", "score"}
    assert works(replace(SHAPE, has_answers=True, graded=False)) == {"crowd agree", "score"}


@pytest.mark.parametrize("code", ["never_answered", "finer_scores"])
def test_a_data_frame_is_examined_as_a_file_of_it(code: str) -> None:
    frame = TROUBLE[code](clean()).reset_index(drop=True)
    wide = frame.pivot(index="respondent_id", columns="item_id", values="response")
    for given in (frame, frame.rename(columns={"response": "correct"}), wide, wide.reset_index()):
        assert codes(examine(given)) == codes(examine(table(frame)))


def test_raw_answers_in_a_data_frame_are_graded_by_a_frame_of_keys() -> None:
    expected = examine(table(answers()), items=items())
    keys = pd.DataFrame({"key": KEYS}, index=[f"item{k + 1}" for k in range(M)])
    wide = answers().pivot(index="respondent_id", columns="item_id", values="answer")
    for given in (answers(), wide, answers().assign(answer=lambda long: long["answer"].str.upper())):
        found = examine(given, items=keys, grading=irtbench.GradingSettings(normalise=("casefold",)))
        assert found.findings == expected.findings == ()
        assert found.summary.content == "answer"
        assert found.table().empty


def test_a_text_among_responses_is_named() -> None:
    frame = clean().astype({"response": object})
    frame.loc[1, "response"] = "right"
    named = f"respondent {frame['respondent_id'][1]}, item {frame['item_id'][1]}: expected a number .* got 'right'"
    is_refused(named, examine, frame)


def test_every_trial_is_looked_at() -> None:
    items = irtbench.ItemParameters.from_difficulty(np.ones(4), [-1.0, 0.0, 0.5, 1.0])
    responses = irtbench.simulate_responses(np.linspace(-2, 2, 60), items, rng=np.random.default_rng(3), trials=5)
    for given in (responses, responses.to_long()):
        found = examine(given)
        assert found.summary.n_responses == 60 * 4 * 5
        assert found.finding("few_answers") is None  # four items, but twenty responses each
        assert {command.command for command in found.commands if command.works} >= {"fit", "compare", "score"}
        # how much is known of an item's slope goes by who answered it, not by how often
        assert found.prior_reason.startswith("60 responses to the median item")


def test_a_column_named_unlike_the_items_is_named(tmp_path: Path) -> None:
    names = [*(f"q{j}" for j in range(6)), "left"]
    wide = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (30, 7)), columns=names).rename_axis("who")

    def odd(columns: list[str]) -> irtbench.Finding | None:
        wide[columns].to_csv(tmp_path / "wide.csv")
        return examine(read_responses(tmp_path / "wide.csv")).finding("odd_names")

    found = odd(names)
    assert found is not None
    assert found.examples == ("left",)
    assert odd(names[:-1]) is None
    assert odd(["q0", "q1", "left"]) is None  # too few to be the rule


@pytest.mark.parametrize(("n", "prior"), [(40, "hierarchical"), (120, "weak"), (400, "none")])
def test_a_few_whole_numbers_are_grades_and_what_takes_them_is_named(n: int, prior: str) -> None:
    scores = pd.DataFrame(np.random.default_rng(1).integers(1, 6, (n, 6)), columns=list("abcdef"))
    wide = scores.rename_axis("respondent_id").reset_index()
    long = wide.melt("respondent_id", var_name="item_id", value_name="score")
    found = examine(long)
    assert [finding.code for finding in found.findings] == ["grades"]
    works = {advice.command: (advice.works, advice.why) for advice in found.commands}
    assert works["fit"] == (True, "--model grm (or gpcm, pcm, rsm)")
    assert all(works[command][0] for command in ("build", "dimensions", "crowd screen"))
    assert (found.prior, found.summary.proportion_correct) == (prior, None)
    assert examine(long, threshold=3).finding("grades") is None
    assert examine(long.assign(score=long["score"] / 2)).finding("finer_scores") is not None
    as_answers = examine(long.rename(columns={"score": "answer"}))
    assert {advice.command: advice.why for advice in as_answers.commands}["fit"].startswith("if they are grades")


def test_a_study_file_of_grades_has_their_model(tmp_path: Path) -> None:
    scores = pd.DataFrame(np.random.default_rng(1).integers(0, 4, (60, 5)), columns=list("abcde"))
    scores = scores.rename_axis("respondent_id")
    scores.reset_index().melt("respondent_id", var_name="item_id", value_name="score").to_csv(
        tmp_path / "grades.csv", index=False
    )
    run("init grades.csv --yes -o study.toml", cwd=tmp_path)
    assert irtbench.read_study(tmp_path / "study.toml").grades == "grm"
    words = scores.map(["poor", "fair", "good", "great"].__getitem__)
    words.iloc[::3, 1:] = None
    words.to_csv(tmp_path / "words.csv.gz")
    given = "words.csv.gz --levels poor,fair,good,great"
    found = run(f"doctor {given} --json", cwd=tmp_path).json
    assert (found["n_responses"], found["prior"]) == (220, "hierarchical")
    assert "40 responses to the median item" in found["prior_reason"]
    run(f"init {given} --yes -o words.toml", cwd=tmp_path)
    study = irtbench.read_study(tmp_path / "words.toml")
    assert (study.grades, study.data.levels) == ("grm", ("poor", "fair", "good", "great"))
