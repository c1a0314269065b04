"""Several responses of one respondent to one item: refused, kept, or reduced as the user says, never silently."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.data.readers import read_answers, read_responses
from irtbench.data.readers.trials import join_items, reduce_trials

NAN = float("nan")
REPEATED = pd.DataFrame(
    {"respondent_id": ["r", "r", "r", "s"], "item_id": "a", "response": [1.0, 0.0, 1.0, NAN],
     "trial": ["10", "1", "2", "1"], "task": ["t", "t", "t", "u"]}
)  # fmt: skip


@pytest.mark.parametrize(
    ("trials", "threshold", "expected"),
    [("first", None, [0, NAN]), ("last", None, [1, NAN]), ("mean", 2 / 3, [1, NAN]), ("mean", 0.7, [0, NAN])],
)
def test_each_reduction_is_what_it_says(trials, threshold, expected):
    reduced = reduce_trials(REPEATED, trials, threshold=threshold)
    np.testing.assert_array_equal(reduced["response"], expected)
    assert list(reduced["respondent_id"]) == ["r", "s"]
    assert list(reduced["task"]) == ["t", "u"]
    assert "trial" not in reduced
    # a mean needs its threshold, and answers have none
    is_refused("the mean of several responses needs a threshold", reduce_trials, REPEATED, "mean")
    answers = REPEATED.rename(columns={"response": "answer"})
    is_refused("raw answers have no majority", reduce_trials, answers, "majority")
    is_refused("trials: expected 'error', 'keep', 'first', 'last', 'mean'", reduce_trials, REPEATED, "best")


rows = st.lists(
    st.tuples(st.sampled_from("rs"), st.sampled_from("ab"), st.sampled_from([0.0, 1.0])), min_size=1, max_size=12
)


@settings(max_examples=15)
@given(rows)
def test_reductions_agree_with_counting(rows):
    table = pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"])
    table["trial"] = [str(k) for k in range(len(rows))]
    counted: dict[tuple[str, str], list[float]] = {}
    for respondent, item, response in rows:
        counted.setdefault((respondent, item), []).append(response)
    expected = {
        "first": lambda x: x[0],
        "last": lambda x: x[-1],
        "any": max,
        "majority": lambda x: float(2 * sum(x) > len(x)),
        "mean": lambda x: float(sum(x) / len(x) >= 0.5),
    }
    for trials, rule in expected.items():
        reduced = reduce_trials(table, trials, threshold=0.5)
        found = {(r, i): x for r, i, x in reduced[["respondent_id", "item_id", "response"]].itertuples(index=False)}
        assert found == {pair: rule(responses) for pair, responses in counted.items()}


def test_the_mean_is_that_of_the_scores_not_of_what_passed(tmp_path):
    head = '{"evaluation_id": "e", "model_id": "m", "evaluation_name": "t", "sample_id": "s", "input": {}, '
    lines = [
        f'{head}"evaluation": {{"score": {score}}}, "metadata": {{"epoch": {k}}}}}\n'
        for k, score in enumerate((0.9, 0.2, 0.2))
    ]
    (tmp_path / "t.jsonl").write_text("".join(lines))
    # mean .433: below .5, though the first alone is above; two of three are below, too
    for trials, threshold, expected in (("mean", 0.5, 0), ("mean", 0.4, 1), ("any", 0.5, 1)):
        found = read_responses(tmp_path / "t.jsonl", trials=trials, threshold=threshold)
        assert list(found.frame["response"]) == [expected]
    path = tmp_path / "t.csv"
    path.write_text("respondent_id,item_id,response,trial\nr,a,9,1\nr,a,2,2\nr,a,2,3\nr,b,5,1\n")  # means 13/3 and 5
    for trials, threshold, both in (("mean", 4.4, [0, 1]), ("mean", 4.3, [1, 1]), ("majority", 4.3, [0, 1])):
        assert list(read_responses(path, trials=trials, threshold=threshold).frame["response"]) == both
    path.write_text("who,a,b\nr,9,2\ns,4,5\n")
    assert list(read_responses(path, trials="mean", threshold=4.5).frame["response"]) == [1, 0, 0, 1]


def test_occasions_of_a_long_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("respondent_id,item_id,answer,rater,wave\nr,a,yes,x,1\nr,a,no,x,2\nr,a,no,y,1\n")
    assert list(read_answers(path, trials="keep").frame["trial"]) == ["1/x", "2/x", "1/y"]  # it takes both
    assert list(read_answers(path, trials="first").frame["answer"]) == ["yes"]
    path.write_text("id,item,resp,wave\n1,a,1,1\n1,a,0,2\n1,b,,1\n")
    assert list(read_responses(path, trials="last").frame["response"].fillna(-1)) == [0, -1]
    is_refused(r"several trials of a pair: \(1, a\)", read_responses, path)
    path.write_text("respondent_id,item_id,response,wave\nr,a,1,1\nr,b,0,2\n")
    assert "trial" not in read_responses(path).frame  # nothing is repeated


def test_items_by_name_and_by_hash():
    table = pd.DataFrame({"respondent_id": ["r", "r", "s"], "item_id": ["a", "b", "a"], "item_hash": ["x", "y", "y"]})
    is_refused("t: items of one name and different content: a; join by 'hash'", join_items, table, None, "t")
    with pytest.warns(UserWarning, match="different content: a$"):
        assert list(join_items(table, "id", "t")["item_id"]) == ["a", "b", "a"]
    with pytest.warns(UserWarning, match="different content: a; one content under several names: b = a"):
        assert list(join_items(table, "hash", "t")["item_id"]) == ["x", "y", "y"]
    gap = table.assign(item_hash=pd.Series(["x", None, "x"], dtype=object))
    is_refused("cannot be joined by hash: none for b", join_items, gap, "hash", "t")
    is_refused("the file has no content to hash", join_items, table.drop(columns="item_hash"), "hash", "t")
    is_refused("join: expected 'id' or 'hash' but got 'name'", join_items, table, "name", "t")
