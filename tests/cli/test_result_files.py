"""Results are complete or absent, together or not at all, and what is not theirs stays."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.answered_banks import make_scale
from builders.command_line import refused, run
from builders.valid_inputs import write_valid_inputs
from irtbench.cli.result_files import output_file, output_folder, unfinished_folder
from irtbench.data.input_error import InputError
from irtbench.models.curves import simulate_responses
from irtbench.study.fitted_scale import FittedScale, RightOrWrong

FILES = ("a.csv", "b.csv", "extra.csv")


def write(target: Path, *names: str, text: str) -> None:
    with output_folder(target, files=FILES) as folder:
        for name in names:
            (folder / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_what_is_no_result_and_the_working_folder_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_by_both() -> None:
        with output_folder(tmp_path, files=FILES) as folder:
            (folder / "own.csv").write_text("new")  # none of those named before
            (tmp_path / "own.csv").mkdir()

    with pytest.raises(InputError, match=r"own\.csv: is a folder"):
        made_by_both()
    assert os.listdir(tmp_path) == ["own.csv"]
    out, own = tmp_path / "out", tmp_path / "own.csv"
    (own / "extra.csv").write_text("mine")  # which has the name of a result
    write(own, "a.csv", text="new")
    assert contents(own) == {"a.csv": "new", "extra.csv": "mine"}
    write(out, "a.csv", text="old")
    monkeypatch.chdir(out)
    write(Path("."), "a.csv", text="new")
    assert contents(Path(".")) == {"a.csv": "new"}
    assert sorted(os.listdir(tmp_path)) == ["out", "own.csv"]


def test_what_a_killed_run_left_is_removed_and_what_another_run_works_in_is_not(tmp_path: Path) -> None:
    (tmp_path / ".out.abcdefgh.part").mkdir()
    (tmp_path / ".out.abcdefgh.part" / "a.csv").write_text("half")
    (tmp_path / ".out.mine").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".out.abcdefgi.part").symlink_to("elsewhere")
    with output_folder(tmp_path / "out") as first:
        (first / "a.csv").write_text("first")
        write(tmp_path / "out", "a.csv", text="second")
        assert (first / "a.csv").read_text() == "first"
    assert contents(tmp_path / "out") == {"a.csv": "first"}
    assert sorted(os.listdir(tmp_path)) == [".out.abcdefgi.part", ".out.mine", "elsewhere", "out"]


def test_links_are_followed_to_folders_and_replaced_as_files(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", "a.csv", text="new")
    assert contents(tmp_path / "real") == {"a.csv": "new"}
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "s.csv").symlink_to("theirs")
    with output_file(tmp_path / "s.csv") as file:
        file.write_text("new")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "s.csv").read_text() == "new"


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "a.csv").mkdir(parents=True)
    with pytest.raises(InputError, match="is a folder; expected a file of this name"):
        write(tmp_path / "out", "a.csv", text="new")
    with pytest.raises(InputError, match="is a folder; expected a file"), output_file(tmp_path / "out"):
        pass
    with pytest.raises(InputError, match="is no plain file"), output_file(Path("/dev/null")):
        pass


def test_an_unfinished_folder_has_one_user_at_a_time(tmp_path: Path) -> None:
    with unfinished_folder(tmp_path / "out") as first:
        with unfinished_folder(tmp_path / "out") as second:
            assert second is None
        (first / "step.json").write_text("{}")
    assert (tmp_path / ".out.unfinished" / "step.json").exists()
    with unfinished_folder(tmp_path / "other"):
        pass
    assert os.listdir(tmp_path) == [".out.unfinished"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("drawn_files")
def test_names_cannot_drive_terminals_pages_figures_or_spreadsheets(tmp_path: Path) -> None:
    write_valid_inputs(tmp_path)
    names = ["$\\q$", "\x1b[31mred", "=1+1", "_x", "\u202eabc"]
    header, row, *_ = (tmp_path / "wide.csv").read_text().splitlines()
    lines = [",".join([name, *row.split(",")[1:]]) for name in names]
    (tmp_path / "wide.csv").write_text("\n".join([header, *lines]) + "\n")
    ended = run("evaluate breakdown wide.csv --items items.csv --type type -o out", cwd=tmp_path)
    assert "\x1b[31m" not in ended.out
    assert "\u202e" not in ended.out
    for figure in (tmp_path / "out").glob("*.svg"):
        assert "\x1b" not in figure.read_text()
    assert "\n=1+1," not in (tmp_path / "out" / "breakdown.csv").read_text()
    ended = run("score bank.json wide.csv --json", cwd=tmp_path)
    assert "\x1b" not in ended.out


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Valid inputs, and a finished study of them in ``st``."""
    folder = tmp_path_factory.mktemp("studied")
    write_valid_inputs(folder)
    run("build study.toml -o st -q", cwd=folder)
    return folder


def test_a_finished_study_is_replaced_by_its_own_build_alone(studied: Path) -> None:
    before = {file.name: file.read_bytes() for file in (studied / "st").iterdir()}
    (studied / "other.csv").write_bytes((studied / "answers.csv").read_bytes())
    text = (studied / "study.toml").read_text().replace("A study", "Another").replace("answers.csv", "other.csv")
    (studied / "other.toml").write_text(text)
    for words in (
        "fit responses.csv -o st",
        "score bank.json systems.csv -o st/scores.csv",
        "build other.toml -o st",
        "crowd sample corpus.csv -o st",
    ):
        refused(words, "-q", cwd=studied, saying="holds a finished study")
    assert {file.name: file.read_bytes() for file in (studied / "st").iterdir()} == before
    run("build study.toml -o st -q", cwd=studied)
    shutil.copytree(studied / "st", studied / "copy")
    run("fit responses.csv -o copy -q --overwrite", cwd=studied)
    assert (studied / "copy" / "fit.json").exists()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no pipes by name here")
def test_what_comes_from_a_pipe_is_read(studied: Path) -> None:
    reads, writes = os.pipe()
    os.write(writes, (studied / "systems.csv").read_bytes())
    os.close(writes)
    try:
        run(f"score bank.json /dev/fd/{reads} -o p.csv -q", cwd=studied)
    finally:
        os.close(reads)
    run("score bank.json systems.csv -o q.csv -q", cwd=studied)
    assert (studied / "p.csv").read_bytes() == (studied / "q.csv").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="no such permissions here")
@pytest.mark.parametrize(("mask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644)])
def test_results_have_the_permissions_that_were_asked_for(tmp_path: Path, mask: int, folder: int, file: int) -> None:
    before = os.umask(mask)
    try:
        with output_folder(tmp_path / "out") as inner:
            (inner / "a.csv").write_text("a")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == folder
    assert (tmp_path / "out" / "a.csv").stat().st_mode & 0o777 == file


@pytest.mark.parametrize("slope", [1.0, 150.0])
def test_a_fit_that_nobody_could_be_scored_on_writes_all_but_the_bank(
    slope: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = RightOrWrong.fit

    def fit_of_a_steep_item(self: RightOrWrong, *given: Any, **keywords: Any) -> FittedScale:
        found = fit(self, *given, **keywords)
        assert found.scale is not None
        a = np.where(np.arange(4) == 2, slope, found.scale.items.discrimination)
        return replace(found, scale=replace(found.scale, items=replace(found.scale.items, discrimination=a)))

    monkeypatch.setattr(RightOrWrong, "fit", fit_of_a_steep_item)
    answers = simulate_responses(np.linspace(-2, 2, 200), make_scale("q", 4).items, rng=np.random.default_rng(1))
    answers.table().to_csv(tmp_path / "r.csv", index=False)
    ended = run("fit r.csv -o out", cwd=tmp_path, status=None)
    assert (tmp_path / "out" / "bank.json").exists() == (slope < 2)
    assert (tmp_path / "out" / "items.csv").exists()
    assert ("no bank.json is written" in ended.out + ended.err) == (slope > 2)


# --- the page of a study again, from what build left behind


def test_the_page_comes_out_the_same(studied: Path, tmp_path: Path) -> None:
    out = shutil.copytree(studied / "st", tmp_path / "without data")
    page = out / "report.html"
    first = page.read_bytes()
    page.unlink()
    for _ in range(2):
        assert run("report", out).out == f"written to {page}\n"
        assert page.read_bytes() == first
        page.write_text("an older page")
    assert run("report", out, "-o", tmp_path / "p.html", "--json").json["report"] == str(tmp_path / "p.html")
    assert (tmp_path / "p.html").read_bytes() == first
    refused("report", out, "-o", out / "study.json", saying="is an input of this command")


@pytest.mark.slow
def test_the_figures_come_out_the_same(tmp_path: Path) -> None:
    write_valid_inputs(tmp_path)
    built, again = tmp_path / "built", tmp_path / "again"
    run(f"build study.toml -o out --figures {built} -q", cwd=tmp_path)
    run(f"report {tmp_path}/out --figures {again} -q")
    names = {file.name for file in built.iterdir()}
    assert len(names) > 10
    assert {file.name for file in again.iterdir()} == names
    for name in names:
        assert (again / name).read_bytes() == (built / name).read_bytes()


def test_the_record_is_strict_json_without_paths(studied: Path) -> None:
    text = (studied / "st" / "study.json").read_text(encoding="utf-8")
    record = json.loads(text, parse_constant=pytest.fail)
    assert (record["format"], record["version"]) == ("irtbench study", 1)
    assert record["study"]["settings"]["path"] == "study.toml"
    assert str(studied) not in text


@pytest.mark.parametrize(
    ("text", "saying"),
    [
        (None, "No such file or directory; expected a folder that irtbench build wrote; build it again"),
        ("{", "is no JSON"),
        ('{"format": "irtbench study", "version": 99}', "holds no study of version 1"),
        ("[]", "holds no study of version 1"),
        ('{"format": "irtbench study", "version": 1}', "is damaged (KeyError: 'study')"),
        ('{"format": "irtbench study", "version": 1, "study": {"scales": []}}', "is damaged"),
    ],
)
def test_a_folder_without_a_whole_record_is_one_line(tmp_path: Path, text: str | None, saying: str) -> None:
    if text is not None:
        (tmp_path / "study.json").write_text(text)
    refused(f"report {tmp_path}", saying=saying)
    assert not (tmp_path / "report.html").exists()
    run(f"report {tmp_path}/nowhere", status=2)


@pytest.mark.parametrize(
    ("hashed", "saying"), [("hash", "not what was written"), ("", "expected an array but got dict")]
)
def test_a_record_that_was_changed_is_one_line(studied: Path, tmp_path: Path, hashed: str, saying: str) -> None:
    text = (studied / "st" / "study.json").read_text(encoding="utf-8")
    text = text.replace('"dtype":"int64"', '"type":"int64"', 1).replace('"hash":', f'"{hashed}":')
    (tmp_path / "study.json").write_text(text, encoding="utf-8")
    refused(f"report {tmp_path}", saying=f"is damaged ({'ValueError' if hashed else 'TypeError'}: {saying})")
