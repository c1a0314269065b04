"""Commands on tables at addresses: no credential is written or printed, and no host is asked that nobody meant."""

import contextlib
import hashlib
import io
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pandas as pd
import pytest

import irtbench
from builders.answered_banks import make_scale
from builders.command_line import refused, run, run_program
from builders.commands_here import Ended
from builders.parquet_folder import wide_frame
from builders.simulated import drawn
from builders.two_scales import item_table, responses, study
from irtbench.cli import main, output
from irtbench.data.readers import file_systems

USER, PASSWORD, TOKEN, FRAGMENT = "AKIAEXAMPLEUSER", "wJalrXUtnFEMI", "8f5c1e07d2bb", "access_token_77"
ADDRESS = f"memory://{USER}:{PASSWORD}@studies/{{}}.parquet?X-Amz-Signature={TOKEN}#{FRAGMENT}"
Store = Any  # a file system of fsspec, which has no types


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store whose files are called as the whole address, credentials included, and progress that is shown at once."""
    monkeypatch.setattr(output, "SILENT_SECONDS", 0.01)
    memory = fsspec.filesystem("memory")
    yield memory
    memory.store.clear()


def put(store: Store, name: str, frame: pd.DataFrame) -> str:
    content, address = io.BytesIO(), ADDRESS.format(name)
    frame.to_parquet(content, index=False)
    store.pipe(address.removeprefix("memory:/"), content.getvalue())
    return address


def assert_told_nowhere(ended: Ended, folder: Path, *, but: tuple[str, ...] = ()) -> None:
    """No part of the credentials is in what was printed, nor in the names or bytes of the files beneath the folder."""
    said = {"standard output": ended.out.encode(), "standard error": ended.err.encode()}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in but]
    said |= {str(file): str(file.relative_to(folder)).encode() + file.read_bytes() for file in files}
    for place, content in said.items():
        for secret in (USER, PASSWORD, TOKEN, FRAGMENT, "X-Amz"):
            assert secret.encode() not in content, f"{secret} in {place}: {content[-400:]!r}"


def test_no_credential_is_written_or_printed_where_all_goes_well(store: Store, tmp_path: Path) -> None:
    address, cache = put(store, "fitted", wide_frame(drawn(150, 5))), tmp_path / "cache"
    for command in (
        ("fit -o fit", address, "--cache", cache),
        ("items diagnose --bootstrap 0 --items fit/items.csv -o told", address, "--cache", cache),
        ("score fit/bank.json -o scores.csv --json", address),
        ("convert -o long.csv", address),
        ("doctor", address),
        ("init --yes -o made/study.toml", address),
    ):
        ended = run(*command, cwd=tmp_path)
        assert "[" in ended.err or "o" in command.split()[0]  # progress was shown by what takes time
        assert_told_nowhere(ended, tmp_path)
    assert '"memory://studies/fitted.parquet"' in (tmp_path / "fit" / "bank.json").read_text()


def test_every_command_reads_what_is_at_an_address_as_from_the_disk(store: Store, tmp_path: Path) -> None:
    frame, said = wide_frame(drawn(30, 5)), list[list[str]]()
    frame.to_parquet(tmp_path / "here.parquet", index=False)
    address = put(store, "there", frame)
    for place in (tmp_path / "here.parquet", address):
        run("convert -o long.csv --overwrite", place, cwd=tmp_path)
        told = run("doctor", place).out
        run(f"init --yes -o made/{len(said)}.toml", place, cwd=tmp_path)
        said.append([(tmp_path / "long.csv").read_text(), told.partition(": ")[2]])
    assert said[0] == said[1]
    assert told.startswith("memory://studies/there.parquet: wide, 30 respondents x 5 items")
    assert 'answers = "memory://studies/there.parquet"' in (tmp_path / "made" / "1.toml").read_text()
    frame.loc[7, "item2"] = 3
    wrong = "file memory://studies/wrong.parquet, row 8, column item2: expected 1, 0 or missing but got '3'"
    refused("convert -o no.csv", put(store, "wrong", frame), cwd=tmp_path, saying=wrong)


def test_a_study_keeps_no_credential_of_its_answers(store: Store, tmp_path: Path) -> None:
    item_table(tmp_path)
    file = study(
        tmp_path, put(store, "built", wide_frame(responses().part(0, 400))), rules='[pruning]\npreset = "none"'
    )
    ended = run(f"build {file} -o {tmp_path}/out --cache {tmp_path}/cache --allow-unconverged")
    assert_told_nowhere(ended, tmp_path, but=("study.toml",))
    for name in ("bank.json", "report.html", "summary.json", "study.json"):
        assert (tmp_path / "out" / name).is_file()
    assert "memory://studies/built.parquet" in (tmp_path / "out" / "bank.json").read_text()


@pytest.mark.parametrize(
    "command",
    ["fit", "score", "diagnose", "convert", "doctor", "screen", "agree", "dimensions", "fit --posterior normal"],
)
def test_no_credential_is_printed_where_there_is_nothing(command: str, store: Store, tmp_path: Path) -> None:
    irtbench.save_bank(irtbench.ItemBank((make_scale("one", 6),)), tmp_path / "bank.json")
    name, *options = command.split()
    bank = [tmp_path / "bank.json"] if name == "score" else []
    ended = run(name, *bank, ADDRESS.format("gone"), "-o", tmp_path / "out.csv", *options, status=2)
    assert len(ended.lines) == 1
    assert_told_nowhere(ended, tmp_path)


def test_no_credential_is_in_what_a_library_says(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its error, in its warning, in an error that nobody foresaw, in the traceback, in one of the table."""
    wrong = wide_frame(drawn(90, 4)).astype({"item3": "float64"})
    wrong.loc[71, "item3"] = 2
    ended = run("fit", put(store, "wrong", wrong), "-o", tmp_path / "a", status=None)
    assert (ended.status, "studies/wrong.parquet, row 72, column item3" in ended.err) == (2, True)
    assert_told_nowhere(ended, tmp_path)
    address = put(store, "right", wide_frame(drawn(90, 4)))

    def fail(self: object, path: str, *given: object, **options: object) -> None:
        raise ConnectionError(f"GET https://{USER}:{PASSWORD}@host{path}: the key {USER} with {PASSWORD} is not known")

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "info", fail)
        ended = run("fit", address, "-o", tmp_path / "b", status=None)
    assert (ended.status, "the key *** with *** is not known" in ended.err) == (2, True)
    assert_told_nowhere(ended, tmp_path)

    def unforeseen(*given: object, **options: object) -> None:
        raise RuntimeError(f"at {address} with {PASSWORD}")

    for shown in ("", "1"):
        with monkeypatch.context() as patch:
            patch.setenv(main.SHOW_TRACEBACK, shown)
            patch.setattr("irtbench.data.readers.encode.encode_table", unforeseen)
            ended = run("fit", address, "-o", tmp_path / "c", status=None)
        assert (ended.status, "RuntimeError: at memory://studies/right.parquet with ***" in ended.err) == (1, True)
        assert_told_nowhere(ended, tmp_path)


def test_an_option_that_is_wrong_does_not_print_the_address_next_to_it(tmp_path: Path) -> None:
    for words in (("fit", "a.csv", ADDRESS.format("x")), ("fit", ADDRESS.format("x"), "-o"), (ADDRESS.format("x"),)):
        assert_told_nowhere(run(*words, status=2), tmp_path)


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ("github://org:repo@main/x.parquet", "--allow-address github://main/"),
        ("ftp://me:pass@127.0.0.1:1/x.parquet", "--allow-address ftp://127.0.0.1:1/"),
        ("zip://x.parquet::memory://a.zip", "an address within an address"),
        ("memory://x.parquet::http://127.0.0.1:1/x", "an address within an address"),
        ("reference:///x", "--allow-address reference://x/"),
        ("reference:///x --allow-address reference://", "cannot be"),
        ("zip:///x --allow-address zip://", "cannot be"),
        ("dvc://x --allow-address dvc://", "cannot be"),
    ],
)
def test_an_address_that_is_not_meant_or_cannot_be_read_is_one_line(words: str, saying: str, tmp_path: Path) -> None:
    refused(f"fit -o {tmp_path}/out {words}", saying=saying)
    assert "pass" not in run(f"fit -o {tmp_path}/out {words}", status=2).err


@pytest.mark.parametrize(
    ("address", "allows"),
    [
        ("http://127.0.0.1:1/d/x.parquet", "http://127.0.0.1:1/"),
        ("s3://bucket/x.parquet?scheme=http&endpoint_override=127.0.0.1:1", "s3://127.0.0.1:1/"),
        ("s3://bucket/x.parquet?endpoint%5Foverride=127.0.0.1:1", "s3://127.0.0.1:1/"),
        ("abfs://data@account.dfs.core.windows.net/x.parquet", "abfs://data@account.dfs.core.windows.net/"),
        ("sftp://127.0.0.1:1/x.parquet", "sftp://127.0.0.1:1/"),
    ],
)
def test_a_study_file_asks_no_host_that_the_command_line_does_not_allow(
    address: str, allows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item_table(tmp_path)
    file = study(tmp_path, address)
    asked: list[str] = []

    def noted(place: str) -> None:
        asked.append(place)
        raise irtbench.InputError("asked")

    monkeypatch.setattr("irtbench.data.readers.large_table.filesystem_of", noted)
    refused(f"build {file} -o {tmp_path}/out", saying=f"--allow-address {allows}")
    assert asked == []
    for other in ("http://127.0.0.1:10/", "http://127.0.0.1:1/e", "s3://bucket/", "s3://127.0.0.1:1/d"):
        run(f"build {file} -o {tmp_path}/out --allow-address", other, status=2)
    assert asked == []
    run(f"build {file} -o {tmp_path}/out --allow-address", allows, status=2)
    assert len(asked) == 1


def test_a_server_that_does_not_answer_ends_the_command(tmp_path: Path) -> None:
    """At once after the time is over: the library, which would go on for a minute, is not waited for."""
    irtbench.save_bank(irtbench.ItemBank((make_scale("one", 6),)), tmp_path / "bank.json")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        query = f"endpoint_override=127.0.0.1:{silent.getsockname()[1]}&scheme=http&region=us-east-1"
        address = f"s3://{USER}:{PASSWORD}@bucket/x.parquet?{query}"
        program = (
            "import sys\nfrom irtbench.data.readers import file_systems\nfile_systems.CONNECTING = 0.3\n"
            f"sys.argv = ['irtbench', 'score', 'bank.json', {address!r}, '-o', 'out.csv', '-q']\n"
            "from irtbench.cli.main import main\nmain()\n"
        )
        began = time.monotonic()
        ended = run_program(program, cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr == "irtbench: s3://bucket/x.parquet: no answer in 0.3 seconds; expected a server that answers\n"
    assert time.monotonic() - began < 30


class OneBucket(BaseHTTPRequestHandler):
    """What S3's protocol needs for files of one bucket, all of them as old as each other."""

    objects: ClassVar[dict[str, bytes]] = {}
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        content = self.objects[self.path.partition("?")[0]]
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1 if last else None]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Last-Modified", "Mon, 02 Nov 2026 10:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def bucket() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), OneBucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"s3://{USER}:{PASSWORD}@bucket/{{}}?endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=r"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_an_object_of_the_same_size_and_time_is_recognised_by_its_tag(bucket: str, tmp_path: Path) -> None:
    address, frame, cache = bucket.format("x.parquet"), wide_frame(drawn(60, 4)), tmp_path / "cache"
    sizes = []
    for one in (frame, frame.assign(item1=1 - frame["item1"]), frame):
        content = io.BytesIO()
        one.to_parquet(content, index=False)
        OneBucket.objects["/bucket/x.parquet"] = content.getvalue()
        sizes.append(len(content.getvalue()))
        found = irtbench.encode_table(irtbench.LargeTable.open(address), cache)
        assert found.n_correct_by_item[0] == one["item1"].sum()
    assert len(set(sizes)) == 1
    assert "etag" in irtbench.LargeTable.open(address).identity["files"][0][2]
    assert USER.encode() not in b"".join(file.read_bytes() for file in cache.iterdir())


def test_the_names_of_waiting_threads_are_known_to_the_command_line() -> None:
    assert main.WAITING == file_systems.WAITING
    with contextlib.suppress(irtbench.InputError):
        file_systems.in_time(lambda: time.sleep(0.2), None, "x", 0.05)
    assert any(thread.name == main.WAITING for thread in threading.enumerate())
    assert run("--version").out
