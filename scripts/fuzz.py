"""Broken and hostile input by the thousand: every command, its files and options damaged at random, and how it ends.

    python scripts/fuzz.py [--runs N] [--seed S] [--workers N] [--seconds LIMIT] [--kind KIND] [--data DIR]

A run is told by seed and number, and done again by ``--seed S --only NUMBER``, which leaves its folder. Commands run
inside worker processes, where the libraries are loaded already; one that does not end in time is killed with its
worker. A run is well where the command ends with 0; with 1 and a reason; or with 2, one line and no file left; and
where its inputs are as they were.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.csv  # noqa: E402
import pyarrow.parquet  # noqa: E402

from builders.commands_here import run_main  # noqa: E402
from builders.damage import DAMAGES, ODD_FIELDS  # noqa: E402
from builders.valid_inputs import COMMANDS_READING, write_valid_inputs  # noqa: E402

MEMORY = 12 * 2**30  # address space of a worker
LARGEST = 200_000  # bytes of a file of the corpus
HEADER = {"version": 2, "status": "success", "eval": {"model": "m", "task": "t", "created": "2026-01-01"}}
#: Other lines than those of tests, with the files that are damaged.
LINES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "doctor": (["doctor", "answers.csv", "--items", "items.csv"], ("answers.csv", "items.csv")),
    "report": (["report", "st", "-o", "out.html", "-q"], ("st/study.json",)),
    "convert eval": (["convert", "log.eval", "-o", "out/long.csv", "-q"], ("log.eval",)),
    "doctor eval": (["doctor", "log.eval"], ("log.eval",)),
    "convert json": (["convert", "harness.jsonl", "-o", "out/long.csv", "-q"], ("harness.jsonl",)),
    "convert log": (["convert", "log.json", "-o", "out/long.csv", "-q"], ("log.json",)),
    "fit parquet": (["fit", "responses.parquet", "-o", "out", "-q"], ("responses.parquet",)),
    "score parquet": (["score", "bank.json", "systems.parquet", "-o", "out.csv", "-q"], ("systems.parquet",)),
    "doctor parquet": (["doctor", "answers.parquet"], ("answers.parquet",)),
    "items bank": (["items", "show", "bank.json", "-o", "out", "-q"], ("bank.json",)),
    "score norms": (
        ["score", "bank.json", "systems.csv", "-q", "-o", "out.csv", "--norm", "smoothed", "--explain", "out"],
        ("bank.json", "systems.csv"),
    ),
    "items diagnose": (
        ["items", "diagnose", "responses.csv", "-o", "out", "-q", "--bootstrap", "0"],
        ("responses.csv",),
    ),
    "evaluate power": (["evaluate", "power", "--items", "100", "-q"], ()),
    "simulate": (["simulate", "-o", "out", "--respondents", "50", "--items", "6", "-q"], ()),
    "quick": (["compare", "wide.csv", "-q", "-o", "out"], ("wide.csv",)),
}
CASES = COMMANDS_READING | LINES
SLOW = ("build", "dimensions", "crowd keys", "link --extend")  # taken less often

ODD_VALUES: tuple[Any, ...] = (
    None, [], {}, "", 0, -1, 2, 1e308, -1e308, 1e-320, 10**30, 10**400, "\ud800", "x" * 5000, True, [[[[]]]], {"a": {}},
    float("nan"), float("inf"), "1", "=1+1", "\x1b[31m", [1, "a"], 0.5, "2026-01-01", 2**63,
)  # fmt: skip
ODD_TOML = (
    "[]", "{}", "1e999", "nan", "-inf", '""', "true", "9" * 40, "2026-01-01", "[[]]", '"\\ud800"',
    '"' + "x" * 3000 + '"', "-1", "0", "1.5", '["a", 1]', '{a = 1}', '"../../etc/passwd"', "'''", "0x1F",
    "[" * 50 + "]" * 50, '"respondent_id"',
)  # fmt: skip
ODD_WORDS = (
    "", "-1", "0", "nan", "inf", "1e999", "9" * 30, "x" * 5000, "é", "..", "/dev/null", "=", "a=b", "a=", "=b",
    "*", "[", "1.5", "none", "true", "item1", "respondent_id", "answers.csv", "study.toml", "bank.json", "0.5", "1/2",
    "x=1..2", "--", "\x1b[31m", "=1+1",
)  # fmt: skip
TYPES = (
    pa.decimal128(38, 3), pa.date32(), pa.timestamp("ns"), pa.bool_(), pa.float16(), pa.float32(), pa.int8(),
    pa.uint64(),
    pa.binary(), pa.large_string(), pa.duration("s"), pa.time32("s"), pa.null(), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip


@dataclass
class Case:
    """A command line, and files that are not as in the valid inputs."""

    words: list[str]
    files: dict[str, bytes] = field(default_factory=dict)


def write_corpus(folder: Path, data: Path) -> None:
    """Valid inputs of every case, and small files of real data under ``corpus``."""
    write_valid_inputs(folder)
    run_main("build", "study.toml", "-o", "st", "-q", cwd=folder)
    for name in ("responses", "systems", "answers"):
        pa.parquet.write_table(pa.csv.read_csv(folder / f"{name}.csv"), folder / f"{name}.parquet")
    samples = [
        {
            "id": f"q{k}",
            "epoch": 1,
            "input": f"question {k}",
            "target": "A",
            "scores": {"match": {"value": "CI"[k % 2]}},
        }
        for k in range(8)
    ]
    with zipfile.ZipFile(folder / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr("summaries.json", json.dumps(samples))
    (folder / "log.json").write_text(json.dumps(HEADER | {"samples": samples}))
    lines = [
        {"doc_id": k, "doc": {"q": str(k)}, "target": "A", "filtered_resps": ["A"], "acc": float(k % 2),
         "filter": "none", "metrics": ["acc"], "doc_hash": str(k), "prompt_hash": str(k),
         "target_hash": str(k), "resps": [["A"]]}
        for k in range(8)
    ]  # fmt: skip
    (folder / "harness.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "corpus").mkdir()
    for number, file in enumerate(sorted(p for p in data.rglob("*") if p.is_file() and p.stat().st_size < LARGEST)):
        shutil.copyfile(file, folder / "corpus" / f"{number:03d}{''.join(file.suffixes[-2:])}")


def damaged(rng: random.Random, folder: Path, name: str, kind: str) -> bytes:
    """A file of the corpus, damaged in a way of this kind."""
    return DAMAGED[kind](rng, (folder / name).read_bytes(), folder, name)


def by_bytes(rng: random.Random, data: bytes, folder: Path, name: str) -> bytes:
    """Bits, spans, the end; or another file altogether, or one spliced in."""
    how = rng.randrange(6)
    at, to = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + data[to:]
    if how == 2:
        return data[:to] + data[at:]
    if how == 3:
        return data[:at] + rng.choice(ODD_FIELDS) + data[at:]
    other = rng.choice(sorted((folder / "corpus").iterdir())).read_bytes()
    if how == 4:
        return other
    if rng.random() < 0.3:
        return data[:at] + other[: to - at] + data[to:]
    flipped = bytearray(data)
    for _ in range(rng.randint(1, 20)):
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def by_fields(rng: random.Random, data: bytes, folder: Path, name: str) -> bytes:
    """Fields, lines, separators, one damage upon the other."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    for _ in range(rng.randint(1, 3)):
        with suppress(UnicodeDecodeError):  # of what the last damage has left
            data = rng.choice(DAMAGES)(data, numbers) if data else data
    return data


def by_json(rng: random.Random, data: bytes, folder: Path, name: str) -> bytes:
    """Values of a document; a bank has a hash that is right again every other time."""
    lines = name.endswith(".jsonl")
    document = [json.loads(line) for line in data.splitlines()] if lines else json.loads(data)
    if rng.random() < 0.03:
        opening = rng.choice(("[", '{"a":'))
        return (opening * rng.choice((500, 950, 20_000))).encode()
    for _ in range(rng.randint(1, 3)):
        change(rng, document)
    if name == "bank.json" and rng.random() < 0.6 and isinstance(document, dict):
        from pydantic import ValidationError

        from irtbench.bank.schema import BankDocument

        document.pop("content_hash", None)
        try:
            return BankDocument.model_validate(document).to_text().encode(errors="surrogatepass")
        except (ValidationError, ValueError):
            pass
    if lines:
        return "\n".join(map(json.dumps, document)).encode()
    return json.dumps(document).encode()


def change(rng: random.Random, node: Any) -> None:
    """Change something inside an object or a list."""
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            node = inner
            continue
        how = rng.randrange(4)
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, dict):
            node[f"{key}x"] = node.pop(key)
        elif how == 1:
            node.append(inner)
        elif how == 2 and isinstance(inner, int | float) and abs(inner) < 1e300:
            node[key] = rng.choice((-inner, inner * 1e6, inner * 1e-6, 0, inner + 1, 1e300))
        else:
            node[key] = rng.choice(ODD_VALUES)
        return


def by_toml(rng: random.Random, data: bytes, folder: Path, name: str) -> bytes:
    """Values, keys and tables of the study file, and keys that it does not use."""
    from dataclasses import fields

    from irtbench import config
    from irtbench.building.form_wishes import FormWishes
    from irtbench.building.prune_rules import PruneRules
    from irtbench.data.grading import GradingSettings
    from irtbench.data.screening import ScreeningSettings
    from irtbench.estimation.settings import FitSettings

    lines = data.decode().splitlines()
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(lines))
        key, equals, _ = lines[place].partition("=")
        how = rng.randrange(4)
        if how == 0 and equals:
            lines[place] = f"{key}= {rng.choice(ODD_TOML)}"
        elif how == 1:
            del lines[place]
        else:
            tables = {
                "data": config.DataSettings, "screening": ScreeningSettings, "grading": GradingSettings,
                "model": FitSettings, "pruning": PruneRules, "score": config.ScoreSettings,
                "study": config.StudySettings, "published": config.PublishedSettings, "forms": FormWishes,
            }  # fmt: skip
            table = rng.choice(list(tables))
            line = f"{rng.choice([f.name for f in fields(tables[table])])} = {rng.choice(ODD_TOML)}"
            if f"[{table}]" in lines:
                lines.insert(lines.index(f"[{table}]") + 1, line)
            else:
                lines += [f"[{table}]", line]
        lines = lines or [""]
    return ("\n".join(lines) + "\n").encode()


def by_zip(rng: random.Random, data: bytes, folder: Path, name: str) -> bytes:
    """Bytes of an archive, or what its members hold."""
    if rng.random() < 0.6:
        return by_bytes(rng, data, folder, name)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", rng.choice((0, 8, 12, 14))) as new:
        for member in old.namelist():
            held = old.read(member)
            if rng.random() < 0.5:
                held = rng.choice((by_json, by_bytes))(rng, held, folder, member)
            if rng.random() < 0.9:
                new.writestr(member if rng.random() < 0.9 else f"samples/{member}", held)
    return made.getvalue()


def by_parquet(rng: random.Random, data: bytes, folder: Path, name: str) -> bytes:
    """Columns of other types, with nulls, odd values, other names; or bytes."""
    if rng.random() < 0.3:
        return by_bytes(rng, data, folder, name)
    table = pa.parquet.read_table(io.BytesIO(data))
    place = rng.randrange(table.num_columns)
    column, heading = table.column(place), table.column_names[place]
    how = rng.randrange(5)
    try:
        if how == 0:
            column = column.cast(rng.choice(TYPES), safe=False)
        elif how == 1:
            values = column.to_pylist()
            for _ in range(rng.randint(1, 5)):
                values[rng.randrange(len(values))] = None
            column = pa.array(values, column.type)
        elif how == 2:
            values = [str(value) for value in column.to_pylist()]
            values[rng.randrange(len(values))] = rng.choice(ODD_FIELDS).decode(errors="replace") * rng.choice(
                (1, 1, 300)
            )
            column = pa.array(values)
        elif how == 3:
            column = pa.array([[value] for value in column.to_pylist()])
        else:
            heading = rng.choice(("", "item_id", "trial", "n_trials", "answer", "x" * 3000, "respondent_id"))
    except pa.ArrowException:
        return by_bytes(rng, data, folder, name)
    made = io.BytesIO()
    table = table.set_column(place, heading, column)
    pa.parquet.write_table(table, made, row_group_size=rng.choice((1, 10, 10_000)))
    return made.getvalue()


DAMAGED: dict[str, Callable[[random.Random, bytes, Path, str], bytes]] = {
    "bytes": by_bytes, "fields": by_fields, "json": by_json, "toml": by_toml, "zip": by_zip, "parquet": by_parquet,
}  # fmt: skip
ENDINGS = {
    "fields": (".csv",), "json": (".json", ".jsonl"), "toml": (".toml",), "zip": (".eval",), "parquet": (".parquet",),
}  # fmt: skip
KINDS = (*DAMAGED, "options")


def options_of(words: list[str]) -> list[str]:
    """Every option of the command of a line, as it is written."""
    import typer

    from irtbench.cli.main import application, command_in

    name = command_in(words)
    found: Any = typer.main.get_command(application(name))
    for word in name.split():
        found = found.commands[word]
    return [name for option in found.params for name in option.opts if name.startswith("--")]


def by_options(rng: random.Random, words: list[str]) -> list[str]:
    """Options with odd values, words lost, repeated or odd."""
    words = list(words)
    for _ in range(rng.randint(1, 3)):
        how = rng.randrange(5)
        place = rng.randrange(1, len(words)) if len(words) > 1 else 1
        if how < 2:
            words += [rng.choice(options_of(words)), rng.choice(ODD_WORDS)]
        elif how == 2 and len(words) > 1:
            del words[place]
        elif how == 3 and len(words) > 1:
            words[place] = rng.choice(ODD_WORDS)
        else:
            words.insert(place, words[min(place, len(words) - 1)])
    return [word for word in words if word != "--help"]


def case_of(seed: int, number: int, folder: Path, kind: str | None) -> tuple[str, str, Case]:
    """Kind, name and content of a run."""
    rng = random.Random(f"{seed} {number}")
    chosen = kind or rng.choice(KINDS)
    while True:
        name = rng.choice(list(CASES))
        words, files = CASES[name]
        if name in SLOW and rng.random() < 0.7:
            continue
        if chosen == "options":
            return chosen, name, Case(by_options(rng, words))
        fitting = [file for file in files if file.endswith(ENDINGS.get(chosen, ("",)))]
        if fitting:
            file = rng.choice(fitting)
            return chosen, name, Case(list(words), {file: damaged(rng, folder, file, chosen)})


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def ended(case: Case, folder: Path, work: Path) -> tuple[str, str]:
    """How a run ends, and what is to be said of it."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(folder, work, ignore=shutil.ignore_patterns("corpus"))
    for name, data in case.files.items():
        (work / name).write_bytes(data)
    before = contents(work)
    found = run_main(*case.words, cwd=work)
    after = contents(work)
    said = found.err[-300:]
    changed = sorted(name for name in before if after.get(name) != before[name])
    if changed:
        return "changed input", f"{changed}: {said}"
    if "internal error" in found.err or "Traceback" in found.err:
        return "internal error", said
    if found.status not in (0, 1, 2):
        return "other status", f"{found.status}: {said}"
    if found.status == 2 and (left := sorted(set(after) - set(before))):
        return "files left", f"{left[:3]}: {said}"
    if found.status == 2 and len(found.lines) != 1:
        return "not one line", found.err[-600:]
    if found.status == 1 and not found.err.strip() and not found.out.strip():
        return "no reason", "status 1"
    return str(found.status), ""


def serve(folder: Path, kind: str | None) -> None:
    """Do the runs whose seed and number stand on standard input, and answer on standard output, a line each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as work:
        for line in sys.stdin:
            seed, number = json.loads(line)
            chosen, name, case = case_of(seed, number, folder, kind)
            how, said = ended(case, folder, Path(work) / "run")
            print(json.dumps([chosen, name, case.words, how, said]), file=answers, flush=True)


class Worker:
    """A process that does one run after the other."""

    def __init__(self, folder: Path, kind: str | None) -> None:
        self.number, self.began = -1, 0.0
        words = [sys.executable, __file__, "--serve", str(folder), *(["--kind", kind] if kind else [])]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def begin(self, seed: int, number: int) -> None:
        """Have it do a run."""
        assert self.process.stdin is not None
        self.number, self.began = number, time.monotonic()
        self.process.stdin.write(json.dumps([seed, number]) + "\n")
        self.process.stdin.flush()

    def fileno(self) -> int:
        """By which `select` tells that it has answered."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def answer(self) -> str:
        """What it says of its run; empty where it is gone."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()


def main() -> None:
    """Do the runs and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="limit of a run")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--only", type=int, help="do this run again, here, and leave its folder")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder whose small files join the corpus")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.kind)
        return
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        write_corpus(folder, given.data)
        if given.only is not None:
            again(given, folder)
        else:
            sys.exit(fuzz(given, folder) > 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def again(given: argparse.Namespace, folder: Path) -> None:
    """Do one run, and say where its folder is."""
    kind, name, case = case_of(given.seed, given.only, folder, given.kind)
    work = Path(tempfile.mkdtemp(prefix="fuzz-run-")) / "run"
    print(kind, name, case.words, list(case.files), work, sep="\n")
    print(*ended(case, folder, work), sep="\n")


def fuzz(given: argparse.Namespace, folder: Path) -> int:
    """Do all runs; how many were not well."""
    counts: Counter[tuple[str, str]] = Counter()
    workers = [Worker(folder, given.kind) for _ in range(given.workers)]
    numbers = iter(range(given.first, given.first + given.runs))
    idle, busy, wrong, began = list(workers), [], 0, time.monotonic()

    def note(number: int, kind: str, name: str, words: list[str], how: str, said: str) -> None:
        nonlocal wrong
        counts[kind, how] += 1
        if how not in ("0", "1", "2"):
            wrong += 1
            print(json.dumps({"number": number, "kind": kind, "case": name, "words": words, "how": how, "said": said}))
        if sum(counts.values()) % 250 == 0:
            print(f"{sum(counts.values())} runs, {wrong} wrong, {time.monotonic() - began:.0f} s", flush=True)

    while True:
        while idle and (number := next(numbers, None)) is not None:
            worker = idle.pop()
            worker.begin(given.seed, number)
            busy.append(worker)
        if not busy:
            break
        for worker in select.select(list(busy), [], [], 0.5)[0]:
            busy.remove(worker)
            if line := worker.answer():
                note(worker.number, *json.loads(line))
                idle.append(worker)
            else:  # it is gone: killed for memory, or by a fault of a library
                kind, name, case = case_of(given.seed, worker.number, folder, given.kind)
                note(worker.number, kind, name, case.words, "crash", f"status {worker.process.wait()}")
                idle.append(Worker(folder, given.kind))
        for worker in [worker for worker in busy if time.monotonic() - worker.began > given.seconds]:
            busy.remove(worker)
            worker.end()
            kind, name, case = case_of(given.seed, worker.number, folder, given.kind)
            note(worker.number, kind, name, case.words, "hang", f"more than {given.seconds:g} s")
            idle.append(Worker(folder, given.kind))
    for worker in idle:
        worker.end()
    ends = sorted({how for _, how in counts})
    print("| damage | " + " | ".join(ends) + " |")
    for kind in KINDS:
        print(f"| {kind} | " + " | ".join(str(counts[kind, how]) for how in ends) + " |")
    print(f"{sum(counts.values())} runs in {time.monotonic() - began:.0f} s, {wrong} not well")
    return wrong


if __name__ == "__main__":
    main()
