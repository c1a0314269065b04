"""Wide tables of survey tools: what they write next to the answers is never an item."""

import logging
import warnings

import pytest

from builders.command_line import refused
from builders.refusals import is_refused
from irtbench.data.readers import holds_responses, read_answers, read_responses
from irtbench.data.readers.item_table import read_features, read_items, read_testlets
from irtbench.data.readers.recognise import read
from irtbench.data.readers.respondents import read_groups
from irtbench.models.parameter_table import read_item_priors

METADATA = [
    "StartDate", "EndDate", "Status", "IPAddress", "Progress", "Duration (in seconds)", "Finished", "RecordedDate",
    "ResponseId",
]  # fmt: skip


def qualtrics(n_items=93, labels=False, last="1"):
    """An export of a survey with as many items: 9 columns next to them, of which Status and Finished hold 0 and 1."""
    names = [*METADATA, *(f"Q{k}" for k in range(1, n_items + 1))]
    rows = []
    if labels:
        rows += [[f"text of {name}" for name in names], ['"{""ImportId"":""' + name + '""}"' for name in names]]
    for k in range(4):
        own = ["2026-11-01", "2026-11-01", "0", "1.2.3.4", "100", "300", "1", "2026-11-01", f"R_{k}"]
        rows.append(own + [str(int((k + j) % 3 > 0)) for j in range(n_items)])
    rows[-3][-1] = last
    return "\n".join(",".join(row) for row in [names, *rows]) + "\n"


@pytest.mark.parametrize("labels", [False, True])
def test_a_survey_of_93_items_has_93_items(write, labels):
    path = write("survey.csv", qualtrics(labels=labels))
    with pytest.warns(UserWarning, match="left out as no items: column StartDate, EndDate, Status, IPAddress"):
        table = read_responses(path)
    assert table.columns == {"respondent_id": "ResponseId"}
    assert (table.frame["item_id"].nunique(), table.frame["response"].notna().all()) == (93, True)
    assert set(table.frame["respondent_id"]) == {"R_0", "R_1", "R_2", "R_3"}
    ((reason, n),) = table.left_out.items()
    assert n == 8
    assert "Duration (in seconds)" in reason
    assert holds_responses(path)
    with pytest.warns(UserWarning, match="no items"):
        assert read_answers(path).frame["item_id"].nunique() == 93
    if labels:  # errors below their rows name the place in the file
        path = write("wrong.csv", qualtrics(labels=True, n_items=3, last="7"))
        with pytest.warns(UserWarning, match="no items"):
            is_refused(r"row 4 \(line 5\), column Q3: expected 1, 0 or missing", read_responses, path)


def test_items_are_chosen_by_pattern_and_columns_excluded_without_a_warning(write):
    path = write("t.csv", "who,age,Q1,Q2,group\nann,31,1,0,1\nbob,25,0,1,0\n")
    chosen = read_responses(path, items="Q*")
    assert list(chosen.frame["item_id"].unique()) == ["Q1", "Q2"]
    assert chosen.left_out == {"columns that are no items: age, group": 2}
    assert list(read_responses(path, exclude=["age", "gr*"]).frame["item_id"].unique()) == ["Q1", "Q2"]
    with pytest.warns(UserWarning, match="left out as no items: column age, group "):
        assert list(read_responses(path).frame["item_id"].unique()) == ["Q1", "Q2"]
    is_refused(r"no column matches 'X\*'; it has: age, Q1, Q2, group", read_responses, path, items="X*")
    is_refused("no column matches 'sex'", read_responses, path, exclude=["sex"])


def test_a_slip_in_an_item_is_an_error_and_not_a_lost_item_and_a_missing_column_has_its_line(write) -> None:
    path = write("t.csv", "who,q1,q2\nann,1,0\nbob,1,l\ncid,0,1\n")
    is_refused(r"row 2 \(line 3\), column q2: expected a number but got 'l'", read_responses, path)
    path = write("t.csv", "who,q1,q2\nann,1,0\nbob,1,7\ncid,0,1\n")
    is_refused("column q2: expected 1, 0 or missing but got '7'", read_responses, path, items="q*")
    file = write("raw.csv", "WorkerId,HITId,zz\nann,h1,1\nann,h2,0\n")
    wanted = "--column respondent_id=WorkerId --column item_id=HITId --column answer=NAME"
    refused("doctor raw.csv", saying=wanted, cwd=file.parent)
    file = write("raw.csv", "who,HITId,zz\nann,h1,1\nann,h2,0\n")
    is_refused("--column respondent_id=NAME --column item_id=HITId", read_responses, file, format="long")


def test_columns_about_respondents_are_no_items(write):
    names = [f"q{k}" for k in range(1, 7)]
    rows = "\n".join(f"r{i},{','.join(str((i + k) % 2) for k in range(6))},{i % 2},1,{i % 2}" for i in range(4))
    path = write("t.csv", f"who,{','.join(names)},Native_Speaker,cov_student,left_handed\n{rows}\n")
    with pytest.warns(UserWarning, match="left out as no items: column Native_Speaker, cov_student"):
        assert list(read_responses(path).frame["item_id"].unique()) == [*names, "left_handed"]
    asked = read_responses(path, exclude=["left_handed, Native*,cov_student"])
    assert list(asked.frame["item_id"].unique()) == names
    # answers too: what a person is belongs to no item
    answers = write("a.csv", "who,q1,q2,age,gender\nann,yes,no,31,f\nbob,no,no,25,m\n")
    with pytest.warns(UserWarning, match="column age, gender"):
        assert list(read_answers(answers).frame["item_id"].unique()) == ["q1", "q2"]


def test_what_was_taken_is_printed_as_options(write, caplog: pytest.LogCaptureFixture) -> None:
    file = write("raw.csv", "WorkerId,HITId,Answer.label,text\nann,h1,yes,a\nbob,h1,no,a\n")
    with caplog.at_level(logging.WARNING):
        frame = read(file, content="answers").frame
    assert list(frame.columns) == ["respondent_id", "item_id", "answer", "text"]
    options = "--column respondent_id=WorkerId --column item_id=HITId --column answer=Answer.label"
    assert f"columns taken by their names: {options}" in caplog.text
    caplog.clear()
    named = {"respondent_id": "WorkerId", "item_id": "HITId", "answer": "Answer.label"}
    assert read(file, content="answers", columns=named).frame.equals(frame)
    assert not caplog.text


def test_tables_of_items_and_people_have_them_too(write) -> None:
    file = write("t.csv", "Question ID,key,passage,length\nq1,a,p,1\nq2,b,p,3\n")
    assert read_items(file).item_ids == ("q1", "q2")
    assert read_testlets(file, "passage") == {"q1": "p", "q2": "p"}
    assert read_features(file, columns=("length",)).item_ids == ("q1", "q2")
    assert read_groups(write("t.csv", "annotator,group\nann,x\n")) == {"ann": "x"}
    assert read_groups(write("t.csv", "WorkerId,sex\nann,f\n")) == {"ann": "f"}
    assert read_item_priors(write("t.csv", "question_id,mean,sd\nq1,0,1\n")) == {"q1": (0.0, 1.0)}


@pytest.mark.parametrize(
    "header",
    ["q1,q2,respondent_id", "respondent_id,q1,q2", ",q1,q2", "q1,q2,__index_level_0__", "row,q1,respondent_id,q2"],
)
def test_respondents_are_named_by_our_column_wherever_it_is_and_by_an_index(write, header):
    of_name = {"q1": "10", "q2": "01", "row": "78"}
    rows = [",".join(of_name.get(name, ("ann", "bob"))[k] for name in header.split(",")) for k in (0, 1)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no items: column row")
        frame = read_responses(write("wide.csv", "\n".join([header, *rows]))).frame
    assert frame.to_numpy().tolist() == [["ann", "q1", 1], ["ann", "q2", 0], ["bob", "q1", 0], ["bob", "q2", 1]]


def test_row_numbers_are_no_item_and_a_table_without_names_is_refused_with_what_names_them(write):
    """As pandas and R write them: with row names, which the page on mirt says, or without them."""
    with pytest.warns(UserWarning, match="left out as no items: column ''"):
        frame = read_responses(write("wide.csv", ",respondent_id,q1\n0,ann,1\n1,bob,0\n")).frame
    assert frame.to_numpy().tolist() == [["ann", "q1", 1], ["bob", "q1", 0]]
    assert holds_responses(write("named.csv", '"","q1","q2"\n"1",1,0\n"2",1,1\n"3",0,1\n'))
    unnamed = write("unnamed.csv", '"q1","q2"\n1,0\n1,1\n0,1\n')
    is_refused("a first column with a name for each row", read_responses, unnamed)
