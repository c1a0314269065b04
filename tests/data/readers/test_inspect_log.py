"""inspect_ai logs: what its own writer writes, and each trap of the format in the exact layout."""

import json
import re
import sys
import zipfile

import numpy as np
import pytest

from builders.refusals import is_refused
from irtbench.data.readers import holds_responses, read_answers, read_responses
from irtbench.data.responses import ResponseMatrix

zstandard = pytest.importorskip("zstandard", reason="zstandard absent: .eval logs are not written by the tests")

WRITER = """
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

items = MemoryDataset([Sample(id=f"a/{i}", input=f"What is {i}+{i}?", target=str(2 * i)) for i in range(1, 6)])
for name, wrong, form in (("one", "4", "eval"), ("two", "6", "json")):
    def answer(messages, tools, choice, config, wrong=wrong):
        right = str(2 * int(messages[-1].text.split()[-1].split("+")[0]))
        output = ModelOutput.from_content("mockllm/x", "99" if right == wrong else right)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output
    log = eval(
        Task(dataset=items, solver=generate(), scorer=match(), name="sums"),
        model=get_model("mockllm/" + name, custom_outputs=answer), epochs=2, log_dir="logs", display="none",
        log_format=form,
    )[0]
    assert log.status == "success"
"""


def header(**changes):
    spec = {"task": "t", "task_version": 0, "model": "m", "created": "2026-11-01T10:00:00+00:00"}
    return {"version": 2, "status": "success", "eval": spec | changes}


def sample(id, value="C", **changes):
    return {
        "id": id, "epoch": 1, "input": f"question {id}", "target": "4", "metadata": {},
        "scores": {"match": {"value": value, "answer": "4", "explanation": None}}, "working_time": 1.5,
        "completed": True,
    } | changes  # fmt: skip


def write_archive(path, members):
    """A zip archive whose members are compressed with zstandard in several frames, as inspect_ai writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, value in members.items():
            text = json.dumps(value).encode()
            half = len(text) // 2
            compress = zstandard.ZstdCompressor().compress
            archive.writestr(name, compress(text[:half]) + compress(text[half:]))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the method of the local and central headers
        at = data.find(signature)
        while at >= 0:
            data[at + offset : at + offset + 2] = (93).to_bytes(2, "little")
            at = data.find(signature, at + 4)
    path.write_bytes(data)
    return path


@pytest.fixture
def log(tmp_path):
    def write(samples, name="log.eval", form="eval", **changes):
        path = tmp_path / name
        if form == "json":
            path.write_text(json.dumps(header(**changes) | {"samples": samples}, indent=2))
            return path
        return write_archive(path, {"header.json": header(**changes), "summaries.json": samples})

    return write


def test_logs_of_its_own_writer(run_writer):
    folder = run_writer("inspect_ai", WRITER) / "logs"
    table = read_responses(folder, trials="keep")
    assert (table.format, len(table.frame), set(table.frame["trial"])) == ("inspect", 2 * 5 * 2, {"1", "2"})
    wrong = table.frame[table.frame["response"] == 0].sort_values("respondent_id")
    assert wrong["respondent_id"].tolist() == ["mockllm/one"] * 2 + ["mockllm/two"] * 2
    assert wrong["item_id"].tolist() == ["sums/a/2"] * 2 + ["sums/a/3"] * 2
    assert table.frame["item_hash"].nunique() == 5  # an .eval and a .json log agree on the content
    assert (read_answers(folder, trials="first").frame["answer"] == "99").sum() == 2
    matrix = ResponseMatrix.from_long(read_responses(folder, trials="majority").frame)
    np.testing.assert_array_equal(matrix.values, [[1, 0, 1, 1, 1], [1, 1, 0, 1, 1]])


@pytest.mark.parametrize("form", ["eval", "json"])
def test_values_become_scores(log, triples, form):
    table = read_responses(log([sample("a", value="C"), sample(2, value="I"), sample("x/y", value="N"),
                                sample("b", value=True), sample("c", value="1")], form=form))  # fmt: skip
    assert triples(table) == [("m", "t/a", 1), ("m", "t/2", 0), ("m", "t/x/y", 0), ("m", "t/b", 1), ("m", "t/c", 1)]
    assert list(table.frame["seconds"]) == [1.5] * 5
    assert set(table.frame["date"]) == {"2026-11-01T10:00:00+00:00"}
    assert "trial" not in table.frame  # one epoch only


def test_partial_credit_needs_a_threshold_and_several_scorers_are_chosen_from(log):
    path = log([sample("a"), sample("b", value="P")])
    is_refused(r"log\.eval, sample 2: expected a score of 1, 0 or missing but got 0\.5", read_responses, path)
    assert [list(read_responses(path, threshold=t).frame["response"]) for t in (0.5, 0.6)] == [[1, 1], [1, 0]]
    path = log([sample("a", scores={"match": {"value": "C"}, "judge": {"value": {"style": 0, "truth": 1}}})])
    is_refused("sample 1, field scores: several scores: 'match', 'judge:style', 'judge:truth'", read_responses, path)
    assert list(read_responses(path, metric="judge:style").frame["response"]) == [0]
    saying = "no score 'other'; expected one of match, judge:style, judge:truth"
    is_refused(saying, read_responses, path, metric="other")
    path = log([sample("a"), sample("b", scores={"judge": {"value": "I"}})])
    is_refused("sample 2, field scores: several scores: 'match', 'judge'; choose one", read_responses, path)
    assert read_responses(path, metric="match").left_out == {"not scored": 1}


@pytest.mark.parametrize(
    ("samples", "expected", "left_out"),
    [
        ([sample("a", float("nan")), sample("b"), sample("c", scores=None)], [("m", "t/b", 1)], {"not scored": 2}),
        ([sample("a"), sample("b", error="timeout", scores={})], [("m", "t/a", 1)],
         {"the run failed at this sample": 1}),
        ([sample("a", "C"), sample("b"), sample("a", "I")], [("m", "t/b", 1), ("m", "t/a", 0)],
         {"superseded by a later sample of the same id and epoch": 1}),
    ],
    ids=["unscored", "errored", "of one id and epoch the last wins"],
)  # fmt: skip
def test_what_does_not_count_is_left_out_and_counted(log, triples, samples, expected, left_out):
    path = log(samples)
    table = read_responses(path)
    assert (triples(table), table.left_out) == (expected, left_out)
    if "failed" in str(left_out):
        assert list(read_responses(path, errored="wrong").frame["response"]) == [1, 0]
        is_refused("errored: expected 'missing' or 'wrong' but got 'zero'", read_responses, path, errored="zero")


def test_a_log_that_did_not_end_is_read_from_its_journal(tmp_path, triples):
    members = {
        "_journal/start.json": header(),
        "_journal/summaries/2.json": [sample("b", "I")],
        "_journal/summaries/10.json": [sample("a", "I")],  # the tenth comes after the second
        "_journal/summaries/1.json": [sample("a")],
    }
    path = write_archive(tmp_path / "running.eval", members)
    assert triples(read_responses(path)) == [("m", "t/b", 0), ("m", "t/a", 0)]
    # shards of a merged log are not read twice
    members = {"header.json": header(), "summaries.json": [sample("a")]}
    write_archive(tmp_path / "merged" / "run.shards" / "0" / "part.eval", members)
    assert len(read_responses(tmp_path / "merged").frame) == 1
    write_archive(tmp_path / "merged" / "run.eval", members)
    table = read_responses(tmp_path / "merged")
    assert (len(table.frame), table.left_out) == (1, {"files that accompany logs of inspect_ai": 1})


def test_a_folder_is_a_study_and_a_content_under_two_names_clashes(log, tmp_path):
    log([sample("a"), sample("b", value="I")], name="one.eval")
    log([sample("a", value="I"), sample("b")], name="two.json", form="json", model="n")
    (tmp_path / "notes.md").write_text("# notes\n")
    table = read_responses(tmp_path)
    assert set(table.frame["respondent_id"]) == {"m", "n"}
    assert table.left_out == {"files of no known format": 1}
    log([sample("a", input="another question")], name="three.eval", model="o")
    is_refused("items of one name and different content: t/a; join by 'hash'", read_responses, tmp_path)
    with pytest.warns(UserWarning, match="different content: t/a"):
        assert read_responses(tmp_path, join="id").frame["item_id"].nunique() == 2
    with pytest.warns(UserWarning, match="different content: t/a"):
        assert read_responses(tmp_path, join="hash").frame["item_id"].nunique() == 3


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"id": None}, "sample 1, field id: expected a name but it is null"),
        ({"epoch": "x" * 0}, "sample 1, field epoch: expected a name but it is"),
        ({"scores": {"match": {"value": "right"}}}, "field scores.match.value: expected C, I, P, N or a number but"),
        ({"scores": [1]}, "field scores: expected an object but it is [1]"),
    ],
)
def test_wrong_fields_are_named(log, broken, message):
    path = log([sample("a") | broken])
    is_refused(re.escape(f"file {path}, ") + ".*" + re.escape(message), read_responses, path)


def test_a_damaged_member_and_a_log_without_a_model_are_refused(log):
    path = log([sample("a")] * 50)
    data = bytearray(path.read_bytes())
    at = data.find(b"summaries.json") + 40
    data[at : at + 20] = b"\0" * 20
    path.write_bytes(data)
    is_refused(r"damaged member summaries\.json", read_responses, path)
    path = log([sample("a")], model=None)
    is_refused(r"header 1, field eval\.model: expected a name but it is null", read_responses, path)


def test_a_log_holds_responses_takes_no_columns_and_needs_zstandard(log, monkeypatch):
    path = log([sample("a")])
    assert holds_responses(path)
    saying = "columns: response cannot be named for logs of inspect_ai"
    is_refused(saying, read_responses, path, columns={"response": "x"})
    is_refused("does not look like the format lm-eval", read_responses, path, format="lm-eval")
    path = log([sample("a")])
    monkeypatch.setitem(sys.modules, "zstandard", None)
    is_refused(r"compressed with zstandard; install it: pip install 'irtbench\[inspect\]'", read_responses, path)


def test_invalidated_samples_are_left_out(log, tmp_path):
    gone = {"author": "ann", "reason": "wrong key"}
    members = {
        "header.json": header() | {"invalidated": True},
        "summaries.json": [sample("a"), sample("x/b")],  # they do not say which
        "samples/a_epoch_1.json": sample("a") | {"invalidation": None},
        "samples/x/b_epoch_1.json": sample("x/b") | {"invalidation": gone, "store": {}},
    }
    table = read_responses(write_archive(tmp_path / "a.eval", members))
    assert list(table.frame["item_id"]) == ["t/a"]
    assert table.left_out == {"invalidated": 1}
    table = read_responses(log([sample("a"), sample("b", invalidation=gone)], form="json", name="b.json"))
    assert list(table.frame["item_id"]) == ["t/a"]
