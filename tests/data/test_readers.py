"""Readers: what is in the file, all of it and nothing guessed; and errors that say where."""

import csv
import gzip
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.data.readers import holds_responses, read_answers, read_items, read_responses, read_table
from irtbench.data.readers.encode import encode_scores
from irtbench.data.readers.large_table import LargeTable, opened_table
from irtbench.data.readers.recognise import read_scores
from irtbench.data.readers.table import row_place


@pytest.fixture
def write(tmp_path):
    """Write text to a file and give its path."""

    def write_text(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write_text


WIDE = {"format": "wide"}


def rows_of(table):
    return [tuple(row) for row in table.frame.itertuples(index=False)]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_separator_line_ends_and_byte_order_mark_are_no_part_of_the_text(write, separator, line_end, mark):
    text = line_end.join(separator.join(row) for row in (("a", "b"), ("01", "NA"), ("1.0", " 4"))) + line_end
    assert read_table(write(mark + text.encode())).to_dict("list") == {"a": ["01", "1.0"], "b": ["NA", " 4"]}


def test_kind_is_known_by_content_not_by_name(write, tmp_path):
    frame = pd.DataFrame({"id": ["01", "NA"], "x": ["", "é"]})
    plain = frame.to_csv(index=False).encode()
    frame.to_parquet(tmp_path / "misnamed.csv")
    for path in (write(plain), write(gzip.compress(plain, mtime=0), "zipped.csv"), tmp_path / "misnamed.csv"):
        pd.testing.assert_frame_equal(read_table(path), frame, check_dtype=False)


def test_parquet_values_become_the_text_a_csv_would_hold(tmp_path):
    columns = {
        "whole": (pd.array([1, None], dtype="Int64"), ["1", ""]),
        "half": ([0.5, 2.0], ["0.5", "2"]),
        "truth": ([True, False], ["true", "false"]),
        "name": (pd.Categorical(["b", "a"]), ["b", "a"]),
        "gap": (["x", None], ["x", ""]),
    }
    path = tmp_path / "t.parquet"
    pd.DataFrame({name: values for name, (values, _) in columns.items()}).to_parquet(path, index=False)
    assert read_table(path).to_dict("list") == {name: text for name, (_, text) in columns.items()}
    pd.DataFrame({"id": ["a"], "list": [[1, 2]]}).to_parquet(path)
    is_refused(r"t\.parquet, column list: expected text or numbers but it holds list", read_table, path)


text_field = st.text(st.characters(codec="utf-8", exclude_characters="\r\0", exclude_categories=("Cs",)), max_size=6)


@given(st.lists(st.tuples(text_field, text_field, st.sampled_from(["x", "y"])), min_size=1, max_size=5))
def test_any_text_written_as_csv_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("first", "second", "third"), *rows])
    assert [tuple(row) for row in read_table(path).itertuples(index=False)] == rows


def test_row_and_line_differ_by_skipped_lines_and_breaks_in_quotes_wherever_they_are(write):
    # lines: 1 header, 2-3 row 1, 4 empty, 5 row 2
    path = write('a,b\n"x\ny",1\n\nz,2\n')
    assert row_place(path, 0) == f"file {path}, row 1 (line 2)"
    assert row_place(path, 1) == f"file {path}, row 2 (line 5)"
    # 3 MB, more than the parser takes in one block
    frame = read_table(write("a,b\n" + '"first line\nsecond line","x,y"\n' * 100_000))
    assert len(frame) == 100_000
    assert (frame["a"] == "first line\nsecond line").all()


def in_parts(path):
    """The rows of a table that is read as a large one."""
    table = opened_table(path)
    return [row for part in table.rows(table.names, rows=2) for row in part.batch.to_pylist()]


@pytest.mark.parametrize("read", [read_table, in_parts])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('item_id,answer\nc01,"entail\n', 2),
        ('item_id,answer\nc01,"entail', 2),
        ('item_id,answer\nc01,"en""tail""\n', 2),
        ('item_id,answer\n\n"c\n01","a\nb\n', 4),
        ('item_id,answer\n"c01,entail\nc02,entail\n', 2),
        ('item_id,"answer\nc01,entail\n', 1),
        ('item_id,answer\nc01,entail\nc02,"x' + "\nc03,entail" * 500_000, 3),  # more than a block, and a field of csv
    ],
    ids=["last field", "no line end", "quotes in it", "lines in fields above", "another field", "header", "long"],
)
def test_a_quote_that_stays_open_is_named_by_its_line(write, read, pack, text, line):
    path = write(pack(text.encode()))
    limit = csv.field_size_limit()
    is_refused(rf"^file {re.escape(str(path))} \(line {line}\): a quote opens here and is never", read, path)
    assert csv.field_size_limit() == limit
    # nor is any row read of a quote that swallows the rest
    table = opened_table(write('a,b\n1,"2\n3,4\n'))
    is_refused("a quote opens here and is never closed", lambda: next(table.rows(["b"], rows=9)))


@pytest.mark.parametrize("last", ['"entail"', '"""entail"""', '""""""', '5" tall', '"a\nb"', ""])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_a_last_field_whose_quotes_are_closed_is_read(write, last, end):
    path = write(f"a,b,c\n1,2,3\n1,{last},{last}{end}")
    expected = [list(row.values()) for row in in_parts(path)]
    assert read_table(path).to_numpy().tolist() == expected
    assert len(expected) == 2


@pytest.mark.parametrize("above", ["", "sep=;\r\n"])
def test_what_spreadsheets_write_around_a_table_is_no_part_of_it(write, above):
    path = write(f"{above}a;b\r\n1;x\r\n2;\r\n")
    with path.open("a", newline="") as file:
        file.write(";\r\n;;\r\n")
    assert read_table(path).to_numpy().tolist() == [["1", "x"], ["2", ""]]
    assert row_place(path, 1) == f"file {path}, row 2 (line {3 + bool(above)})"
    assert in_parts(path) == [{"a": "1", "b": "x"}, {"a": "2", "b": ""}]
    # a large one may begin with empty lines and have lines in its header
    assert in_parts(write("\n\nid,x\n1,2\n")) == [{"id": "1", "x": "2"}]
    assert in_parts(write('id,"x\ny"\n1,2\n')) == [{"id": "1", "x\ny": "2"}]


@pytest.mark.parametrize("read", [read_table, in_parts])
@pytest.mark.parametrize(
    ("content", "saying"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        ("a,b\n1,2\n".encode("utf-16"), "seems to be UTF-16"),
        (b"PK\x03\x04 a,b", "is a zip archive or a spreadsheet"),
        (b"a,b\n1,\x00\n", "is no text"),
        (b' {"a": 1}', "holds JSON; expected a table"),
        (b'[\n  {"item": 1}\n]', "holds JSON; expected a table"),
        (b"a,a\n1,2\n", "column names must be unique but a is repeated; expected each once"),
    ],
)
def test_what_is_no_table_is_refused_in_the_same_words_whatever_its_size(write, read, content, saying):
    is_refused(saying, read, write(content))


def test_the_apostrophe_before_a_formula_is_of_text_files_alone(tmp_path):
    frame = pd.DataFrame({"respondent_id": ["'=q", "=q"], "item_id": "i1", "answer": ["'-x", "y"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for read in (lambda path: read_table(path).to_dict("records"), in_parts):
        assert [row["answer"] for row in read(tmp_path / "a.csv")] == ["-x", "y"]
        assert [row["respondent_id"] for row in read(tmp_path / "a.parquet")] == ["'=q", "=q"]
    coded = next(opened_table(tmp_path / "a.csv").rows(["respondent_id"], rows=9, coded=["respondent_id"]))
    assert coded.cells("respondent_id").names().to_pylist() == ["=q", "=q"]
    assert len(coded.cells("respondent_id").names().dictionary) == 1


def test_grades_are_the_same_however_they_are_written_in_a_small_table_and_a_large_one(tmp_path):
    grades = pd.DataFrame({"respondent_id": ["a", "b", "c"], "item_id": "i1", "score": ["Poor", " fair", "good"]})
    grades.to_csv(tmp_path / "g.csv", index=False)
    grades.to_parquet(tmp_path / "g.parquet")
    large, levels = LargeTable.open(tmp_path / "g.parquet"), ["poor", "fair", "good"]
    assert read_scores(tmp_path / "g.csv", levels=levels)["i1"].tolist() == levels
    assert encode_scores(large, tmp_path / "cache", levels).n_by_level.tolist() == [[1, 1, 1]]
    for alike in (["poor", "Poor"], ["1", "1.0"]):
        is_refused("^levels must be unique but .* is repeated", read_scores, tmp_path / "g.csv", levels=alike)
        is_refused("^levels must be unique but .* is repeated", encode_scores, large, tmp_path / "cache", alike)
    grades.assign(score=["Poor", "", "good"]).to_csv(tmp_path / "gap.csv", index=False)
    assert read_answers(tmp_path / "gap.csv", levels=levels).frame["answer"].fillna("").tolist() == ["poor", "", "good"]


@pytest.mark.parametrize(
    "header",
    ["respondent_id,item_id,response", "respondent_id,item_id,correct", "id,item,resp", "jj,ii,y",
     "model,item_id,score", "worker,task,score"],
)  # fmt: skip
def test_responses_under_any_known_names(write, header):
    table = read_responses(write(f"{header}\nb,2,1\na,2,0\na,01,\na,3,-1\na,4,NA\na,5,TRUE\n"))
    assert table.format == "long"
    assert list(table.frame) == ["respondent_id", "item_id", "response"]
    assert list(table.frame["respondent_id"]) == ["b", "a", "a", "a", "a", "a"]
    assert list(table.frame["item_id"]) == ["2", "2", "01", "3", "4", "5"]
    np.testing.assert_array_equal(table.frame["response"], [1, 0, np.nan, np.nan, np.nan, 1])


@pytest.mark.parametrize(
    "header", ["task,worker,label", "item_id,respondent_id,answer", "item,id,label", "ii,jj,answer"]
)
def test_answers_under_any_known_names(write, header):
    table = read_answers(write(f"{header}\nq1,w1,yes\nq1,w2,\nq2,w1,NA\nq2,w2,-1\n"))
    assert rows_of(table)[0] == ("w1", "q1", "yes")
    assert list(table.frame["answer"].isna()) == [False, True, True, False]  # -1 is an answer like any other


def test_answer_and_response_of_one_file_are_not_confused(write):
    # 'response' is the raw answer here and happens to be coded 1 and 0
    path = write("respondent_id,item_id,response,correct\nr,a,1,0\nr,b,0,1\n")
    assert list(read_responses(path).frame["response"]) == [0, 1]
    assert list(read_answers(path, columns={"answer": "response"}).frame["answer"]) == ["1", "0"]
    # 'label' next to 'answer' is the item's label
    path = write("respondent_id,item_id,label,answer\nr,a,neutral,yes\n")
    assert list(read_answers(path).frame["answer"]) == ["yes"]


def test_columns_named_by_the_caller_win_over_recognised_ones(write):
    path = write("who,item_id,what,resp,score,rt,cov_age\nx,1,q,0,1,2.5,30\n")
    columns = {"respondent_id": "who", "item_id": "what", "response": "score"}
    table = read_responses(path, columns=columns)
    assert table.columns == {**columns, "seconds": "rt"}
    # item_id is one of our names but was not chosen: it must not be there with the chosen one
    assert list(table.frame) == ["respondent_id", "item_id", "response", "seconds", "resp", "cov_age"]
    assert rows_of(table) == [("x", "q", 1.0, 2.5, "0", "30")]


def test_threshold_grades_at_least_it_as_correct_and_keeps_missing(write):
    path = write("id,item,resp\nr,a,.49\nr,b,.5\nr,c,3\nr,d,\nr,e,-1\n")
    responses = read_responses(path, threshold=0.5).frame["response"]
    np.testing.assert_array_equal(responses, [0, 1, 1, np.nan, np.nan])


LONG = "respondent_id,item_id,correct\nr,a,1\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (LONG, {"columns": {"response": "gold"}}, "column 'gold' missing; it has: respondent_id, item_id, correct"),
        (LONG, {"columns": {"colour": "correct"}}, "unknown name colour; expected some of respondent_id"),
        ("a,b\n1,2\n", {"format": "long"}, "no columns of respondents and items"),
        ("respondent_id,item_id,other\nr,a,1\n", {}, "no responses; expected a column correct or response"),
        (LONG.replace("correct", "label"), {}, "responses were wanted but it holds answers (column 'label')"),
        ("id,item,resp\nr,a,1\n,b,1\n", {}, "row 2 (line 3), column id: expected a name but it is empty"),
        ("id,item,resp\nr, ,1\n", {}, "row 1 (line 2), column item: expected a name but it is empty"),
        ("id,item,resp\nr,a,yes\n", {}, "row 1 (line 2), column resp: expected a number but got 'yes'"),
        ("id,item,resp\nr,a,0.5\n", {}, "row 1 (line 2), column resp: expected 1, 0 or missing but got '0.5'"),
        ("id,item,resp\nr,a,-2\n", {}, "row 1 (line 2), column resp: expected 1, 0 or missing but got '-2'"),
        ("id,item,resp,rt\nr,a,1,fast\n", {}, "row 1 (line 2), column rt: expected a number but got 'fast'"),
        ("id,item,resp,rt\nr,a,1,-3\n", {}, "row 1 (line 2), column rt: expected at least 0 seconds but got -3"),
        ("who,q1,q2\nann,1,0\nbob,1,7\n", WIDE, "row 2 (line 3), column q2: expected 1, 0 or missing but got '7'"),
        ("who,q1\nann,1\nann,0\n", WIDE, "column who: respondents must be unique but ann is repeated"),
        ("who,q1\nann,1\n,0\n", WIDE, "row 2 (line 3), column who: expected a name but it is empty"),
        ("who,q1,\nann,1,0\n", WIDE, "expected a named column for each item besides 'who'"),
        ("who,what,score\ns1,q1,1\ns1,q2,0\n", {}, "neither a long table"),
        ("only\na\nb\n", {}, "neither a long table"),
        # a wide table with a respondent twice is not called something else
        ("respondent_id,q1,q2\ns1,1,1\ns1,0,1\ns2,0,0\n", {}, "column respondent_id: s1 is there more than once"),
        ("respondent_id,q1,q2\ns1,1,1\ns2,0,2\n", {}, "got '2'; say from which score on one is right"),
    ],
)
def test_wrong_tables_are_refused(write, text, options, message):
    is_refused(re.escape(message), read_responses, write(text), **options)


def test_wide_answers_leave_empty_cells_out(write):
    table = read_answers(write("name,q1,q2\nann,yes,\nbob,NA,-1\n"))
    assert rows_of(table) == [("ann", "q1", "yes"), ("bob", "q2", "-1")]
    is_refused("every cell is empty", read_answers, write("who,q1\nann,\nbob,NA\n"))
    is_refused(r"answers were wanted but it holds responses \(column 'correct'\)", read_answers, write(LONG))


def test_transposed_table_warns_and_an_ordinary_one_does_not(write):
    named = write("item_id,ann,bob,cid\nx,1,0,1\ny,0,0,1\n")
    is_refused("a row for each item", read_responses, named)
    with pytest.warns(UserWarning, match="looks transposed"):
        read_responses(named, format="wide")
    with pytest.warns(UserWarning, match="looks transposed"):
        read_responses(write(",ann,bob,cid\nq1,1,0,1\nq2,0,0,1\n"))
    read_responses(write("system,q1,q2,q3\ngpt,1,0,1\nllama,0,0,1\n"))  # warnings are errors here


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("respondent_id,item_id,label,correct\nr,a,yes,1\n", True),
        ("respondent_id,item_id,label\nr,a,1\n", False),
        ("who,q1,q2\nann,1,-1\nbob,TRUE,0.0\n", True),
        ("who,q1,q2\nann,1,0\nbob,1,l\n", True),  # a slip for read_responses to report
        ("who,q1,q2\nann,yes,0\nbob,no,\n", False),
        ("who,q1\nann,\n", False),
    ],
)
def test_responses_are_distinguished_from_answers(write, text, expected):
    assert holds_responses(write(text)) is expected


def test_items_by_their_usual_names(write):
    items = read_items(write("item_id,gold,question,item_family,attention\n1,yes,Why?,t1,0\n01,,,,true\n"))
    found = items.item_ids, items.key, items.text, items.group, items.attention, items.label
    assert found == (("1", "01"), ("yes", None), ("Why?", None), ("t1", None), (False, True), (None, None))
    # an item may be called what means nothing in other columns
    items = read_items(write("item_id,key,label\nNA,yes,NA\nnan,no,a\n"))
    assert (items.item_ids, items.key, items.label) == (("NA", "nan"), ("yes", "no"), (None, "a"))


def test_items_by_columns_named_and_rows_chosen(real_data):
    path = real_data / "lalor2016_snli" / "items.csv"
    items = read_items(path, columns={"label": "gold"}, where={"set": "5gs"})
    sizes = {label: len(members) for label, members in items.scales().items()}
    assert sizes == dict.fromkeys(("contradiction", "entailment", "neutral"), 30)
    assert items.key == items.label
    assert all(label[0] == item[-1] for label, item in zip(items.label, items.item_ids, strict=True))  # PROVENANCE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"key": "right"}}, "column 'right' missing; it has: item_id, set, attention"),
        ({"columns": {"colour": "set"}}, "unknown name colour; expected some of item_id, key"),
        ({"where": {"form": "1"}}, "column 'form' missing"),
        ({"where": {"set": "z"}}, "no item with set = z"),
        ({"where": {"set": "a"}}, "row 3 (line 4), column item_id: item names must be unique but 'x' is repeated"),
        ({"where": {"set": "b"}}, "row 4 (line 5), column item_id: expected a name but it is empty"),
        ({"where": {"set": "c"}}, "row 5 (line 6), column attention: expected a number but got 'maybe'"),
    ],
)
def test_wrong_items_are_refused(write, options, message):
    path = write("item_id,set,attention\nx,a,0\ny,d,1\nx,a,0\n,b,0\nz,c,maybe\n")
    is_refused(re.escape(message), read_items, path, **options)
    assert read_items(path, where={"set": "d"}).attention_items == ("y",)  # faults of other rows do not matter
