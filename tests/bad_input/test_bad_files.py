"""A table of bad files: which command, what it ends with, and what it says."""

import gzip
import io
import shutil
from pathlib import Path

import pandas as pd
import pytest

from builders.commands_here import run_main
from builders.valid_inputs import COMMANDS_READING, STUDY
from irtbench.data.readers import table as tables

PARQUET = io.BytesIO()
pd.DataFrame({"respondent_id": ["a"] * 9, "item_id": list("abcdefghi"), "response": 1}).to_parquet(PARQUET)

#: What may be wrong with any table, and what is said of it.
BAD_TABLES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\n\t\n", "the file is empty"),
    "header only": (b"respondent_id,item_id,response\n", "no rows below the header"),
    "no text": (b"\x00\x01\x02\x03" * 50, "no text"),
    "nul in the text": (b"a,b\nx\x00,1\n", "no text"),
    "latin-1": ("id,name\n1,é\n".encode("latin-1"), "expected UTF-8 text but got byte 0xe9"),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "it seems to be UTF-16"),
    "utf-16 without a mark": ("a,b\n1,2\n".encode("utf-16-le"), "it seems to be UTF-16"),
    "utf-16 the other way": ("a,b\n1,2\n".encode("utf-16-be"), "it seems to be UTF-16"),
    "a spreadsheet": (b"PK\x03\x04" + b"x" * 60, "a zip archive or a spreadsheet"),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "expected 2 fields but got 3"),
    "a quote that stays open": (b'a,b\n1,2\n3,"4\n', "(line 3): a quote opens here and is never closed"),
    "a repeated column": (b"a,a\n1,2\n", "a is repeated"),
    "two columns without a name": (b"a,,\n1,2,3\n", "unique but '' is repeated"),
    "a line above the header": (b"my study\na,b\n1,2\n", "row 1 (line 2): expected 1 field but got 2"),
    "gzip cut off": (gzip.compress(b"a,b\n" * 500)[:-9], "damaged gzip file"),
    "gzip damaged": (gzip.compress(b"a,b\n1,2\n")[:10] + b"\xff" * 20, "damaged gzip file"),
    "parquet cut off": (PARQUET.getvalue()[:-30], "damaged Parquet file"),
    # the head of the first page: what is written over values alone, no reader of Parquet can see
    "parquet flipped": (PARQUET.getvalue()[:4] + b"\xff" * 40 + PARQUET.getvalue()[44:], "file "),
    "parquet by name": (b"PAR1", "damaged Parquet file"),
    "many columns": (b"a," + b",".join(b"c%d" % k for k in range(100_001)) + b"\n", "100002 columns; expected at most"),
}

READING = [(name, file) for name, (_, files) in COMMANDS_READING.items() for file in files
           if file.endswith(".csv")]  # fmt: skip


def refused_here(inputs: Path, file: str, content: bytes, arguments: list[str], saying: str) -> None:
    """The command with this file damaged ends with status 2, one line that says so, and nothing written."""
    whole = (inputs / file).read_bytes() if (inputs / file).exists() else None
    (inputs / file).write_bytes(content)
    before = {path: path.read_bytes() for path in inputs.iterdir()}
    try:
        ended = run_main(*arguments, cwd=inputs)
        assert ended.status == 2, ended
        assert len(ended.lines) == 1, ended.err
        assert ended.lines[0].startswith("irtbench: ")
        assert saying in ended.lines[0], ended.lines[0]
        assert {path: path.read_bytes() for path in inputs.iterdir()} == before
    finally:
        for path in set(inputs.iterdir()) - before.keys():  # of a failure: it is not the next test's
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if whole is None:
            (inputs / file).unlink()
        else:
            (inputs / file).write_bytes(whole)


@pytest.mark.parametrize(("command", "file"), READING, ids=[f"{c} {f}" for c, f in READING])
def test_a_bad_table_is_named(inputs: Path, command: str, file: str) -> None:
    """Tables are read in one place: of what may be wrong each file has a part, and all together have all."""
    for content, saying in list(BAD_TABLES.values())[READING.index((command, file)) % 9 :: 9]:
        refused_here(inputs, file, content, COMMANDS_READING[command][0], saying)


@pytest.mark.parametrize(("command", "file"), READING, ids=[f"{c} {f}" for c, f in READING])
def test_a_missing_file_and_a_folder_are_named(inputs: Path, command: str, file: str) -> None:
    there, away = inputs / file, inputs / "away"
    there.rename(away)
    try:
        for is_folder in (False, True):
            if is_folder:
                there.mkdir()
            ended = run_main(*COMMANDS_READING[command][0], cwd=inputs)
            assert (ended.status, len(ended.lines)) == (2, 1), ended
            assert file in ended.lines[0]
        there.rmdir()
    finally:
        away.rename(there)


GRADES = '[data]\nanswers = "answers.csv"\ncontent = "responses"\nlevels = ["no", "yes"]\n'


@pytest.fixture
def nothing_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.study.run.study_scale", lambda *_: pytest.fail("a scale was fitted"))


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        ("[data", "not valid TOML"),
        ("\x00", "not valid TOML"),
        ("[data]\nanswers = 1999-99-99\n", "not valid TOML"),
        ("a = " + "[" * 5000, "not valid TOML"),
        ("data = 3\n", "expected a table [data]"),
        ("[dta]\n", "[dta]: unknown table"),
        ("[score]\n", "[data]: missing"),
        (STUDY + "systms = []\n", "score.systms: unknown key"),
        (STUDY.replace("max_steps", "max_step"), "model.max_step: unknown key"),
        (STUDY.replace("max_steps = 60", "n_nodes = 1000000"), "expected a number in [11, 2001]"),
        (STUDY.replace("max_steps = 60", "guessing = 1.5"), "model.guessing"),
        (STUDY.replace('"none"', '"nne"'), "pruning.preset: expected one of"),
        (STUDY.replace('"none"', "[]"), "pruning.preset: expected one of"),
        (STUDY.replace('"none"', "{}"), "pruning.preset: expected one of"),
        (STUDY + 'norm_weight = "respondent_id"\n', "column respondent_id names"),
        (STUDY.replace("[pruning]", '[pruning]\nexclude = [{item = "item1", reason = "x"}]'), "pruning.exclude.0.item"),
        (STUDY.replace("[pruning]", '[pruning]\nprotect = ["no such"]'), "unknown item no such"),
        (STUDY.replace("[pruning]", "[pruning]\nbootstrap_samples = -4"), "bootstrap_samples"),
        (STUDY.replace("[model]", '[model]\nby_item = {nobody = "3pl"}'), "unknown item nobody"),
        (STUDY.replace("systems.csv", "nothing.csv"), "score.systems: no such file"),
        (STUDY.replace("items.csv", "nothing.csv"), "data.items: no such file"),
        (STUDY.replace('items = "items.csv"\n', ""), "data.items: missing"),
        (STUDY + 'norm_group = {country = "de"}\n', "country"),
        (STUDY + "level = 1\n", "score.level"),
        (STUDY + 'item_error = "draw"\n[screening]\nattention_share = 2\n', "screening.attention_share"),
        (STUDY.replace("max_steps = 60", "standard_errors = false") + 'item_error = "draw"\n', "score.item_error"),
        (STUDY + "[published.scales.nosuch]\nn_kept = 3\n", "published.scales: unknown scale nosuch"),
        (STUDY + "[published.agreement]\nfleis_kappa = 0.3\n", "agreement.fleis_kappa: unknown statistic"),
        (STUDY + '[published.scales.all]\nkept = 3\n', "published.scales.all.kept: unknown key"),
        ("[data]\n", "data.answers: missing"),
        (STUDY.replace("answers.csv", "absent.csv"), "data.answers: no such file"),
        (STUDY.replace("[model]", 'respondents = "no.csv"\n[model]'), "data.respondents: no such file"),
        (STUDY.replace("[pruning]", '[pruning]\nitem_fit_alpha = "high"'), "number"),
        (STUDY.replace("[model]", '[model]\nkind = "4pl"'), "2pl or 3pl but got 4pl"),
        (STUDY + 'method = "eap_sum"\nitem_error = "delta"\n', "score: item_error delta is not defined"),
        (STUDY + 'norm = "normal"\nnorm_group = { x = "y" }\n', "score: the normal norm is about"),
        (STUDY + 'norm_group = { x = "y", z = "w" }\n', "norm_group must name one column"),
        (STUDY + "[forms]\nlenght = 4\n", "forms.lenght: unknown key; expected one of length, se"),
        (STUDY + "[forms]\nlength = 4\nse = 0.3\n", "forms: expected one of length, se, reliability but got length"),
        (STUDY + "[forms]\nlength = 4.5\n", "forms.length: expected a whole number but got 4.5"),
        (STUDY + '[forms]\nlength = 4\nlimits = [{ column = "topic" }]\n', "forms.limits.0.value: missing"),
        (GRADES + '[model]\nkind = "nominal"\n', "model.kind"),
        (GRADES + '[model]\nkind = "grm"\nguessing = 0.2\n', "model"),
        (GRADES + '[model]\nkind = "pcm"\nprior = "hierarchical"\n', "model.prior"),
        (GRADES + '[model]\nkind = "grm"\n[pruning]\npreset = "lalor2016"\n', "compare_factors"),
        (GRADES + '[model]\nkind = "grm"\n[screening]\nchance_level = 0.25\n', "chance_level"),
        (GRADES, "data.levels"),
    ],
)  # fmt: skip
def test_a_bad_study_is_refused_before_anything_is_fitted(
    inputs: Path, change: str, saying: str, nothing_is_fitted: None
) -> None:
    refused_here(inputs, "study.toml", change.encode(), COMMANDS_READING["build"][0], saying)


@pytest.mark.parametrize(
    ("content", "saying"),
    [
        (b"respondent_id,item_id,answer\ns,other,yes\n", "none of its items is one of the study's"),
        (b"respondent_id,item_id,response\ns,item1,1\n", "answers were wanted but it holds responses"),
        (b"respondent_id,item_id,answer\ns,item1,1\ns,item2,0\n", "no answer is the key of any item: 0, 1"),
        (b"respondent_id,item_id,answer\ns,item1,yes\ns,item1,no\n", "duplicate"),
        (b"respondent_id,item_id,answer\ns,item1,yes\ns,item2,Yes\n", 'grading.normalise = ["strip", "casefold"]'),
        (b"respondent_id,item_id,answer\ns,item1,yes\ns,item2,perhaps\n", "1 of 2 answers are neither key nor option"),
    ],
)
def test_bad_systems_are_refused_before_anything_is_fitted(
    inputs: Path, content: bytes, saying: str, nothing_is_fitted: None
) -> None:
    refused_here(inputs, "systems.csv", content, COMMANDS_READING["build"][0], saying)


@pytest.mark.parametrize("command", ["fit", "dimensions", "items bias"])
def test_everybody_right_is_said(inputs: Path, command: str) -> None:
    rows = (inputs / "responses.csv").read_bytes().replace(b",0\n", b",1\n")
    refused_here(inputs, "responses.csv", rows, COMMANDS_READING[command][0], "right by some and wrong by others")


def test_a_table_too_large_is_refused_before_it_is_read(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_BYTES", 2**20)
    bomb = gzip.compress(b"respondent_id,item_id,response\n" + b"a,b,1\n" * 300_000)
    assert len(bomb) < 20_000
    refused_here(inputs, "responses.csv", bomb, COMMANDS_READING["fit"][0], "holds more than 1 MiB of text")
    plain = b"respondent_id,item_id,response\n" + b"a,b,1\n" * 300_000
    refused_here(inputs, "responses.csv", plain, COMMANDS_READING["fit"][0], "holds more than 1 MiB of text")
    monkeypatch.setattr(tables, "MOST_FIELDS", 20)
    refused_here(inputs, "responses.csv", PARQUET.getvalue(), COMMANDS_READING["fit"][0], "9 rows of 3 columns")
