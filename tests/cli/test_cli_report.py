"""``irtbench report``: the page of a study again, to the last byte, from what build left behind."""

import json
import shutil
from pathlib import Path

import pytest

from builders.command_line import refused, run
from builders.valid_inputs import write_valid_inputs


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that build wrote; the data are gone."""
    folder = tmp_path_factory.mktemp("built")
    data = tmp_path_factory.mktemp("data")
    write_valid_inputs(data)
    run(f"build study.toml -o {folder}/out -q", cwd=data)
    shutil.rmtree(data)
    return folder


def test_the_page_comes_out_the_same(built: Path, tmp_path: Path) -> None:
    page = built / "out" / "report.html"
    first = page.read_bytes()
    for before in (None, "an older page"):
        if before is None:
            page.unlink()
        else:
            page.write_text(before)
        assert run(f"report {built}/out").out == f"written to {page}\n"
        assert page.read_bytes() == first
    assert run(f"report {built}/out -o {tmp_path}/p.html --json").json["report"] == str(tmp_path / "p.html")
    assert (tmp_path / "p.html").read_bytes() == first


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


def test_the_record_is_strict_json_without_paths(built: Path) -> None:
    text = (built / "out" / "study.json").read_text(encoding="utf-8")

    def refuse(name: str) -> None:
        raise AssertionError(name)

    record = json.loads(text, parse_constant=refuse)
    assert (record["format"], record["version"]) == ("irtbench study", 1)
    assert record["study"]["settings"]["path"] == "study.toml"
    assert str(built.parent) not in text


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
def test_a_record_that_was_changed_is_one_line(built: Path, tmp_path: Path, hashed: str, saying: str) -> None:
    text = (built / "out" / "study.json").read_text(encoding="utf-8")
    text = text.replace('"dtype":"int64"', '"type":"int64"', 1).replace('"hash":', f'"{hashed}":')
    (tmp_path / "study.json").write_text(text, encoding="utf-8")
    refused(f"report {tmp_path}", saying=f"is damaged ({'ValueError' if hashed else 'TypeError'}: {saying})")


def test_the_record_is_not_written_over(built: Path) -> None:
    refused(f"report {built}/out -o {built}/out/study.json", saying="is an input of this command")
