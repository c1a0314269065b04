"""Speed, accuracy and memory of estimating items: irtbench beside other Python packages, on simulated responses.

    python scripts/benchmark.py [-o results/benchmark]
    python scripts/benchmark.py --sizes 2pl:1000x90 3pl:1000x90 --tools irtbench mirt girth
    python scripts/benchmark.py --device cuda

Every tool fits every size in a process of its own, with the same responses and number of threads. Peers are optional
(PyPI mirt, girth, py-irt, theta-irt, torch-measure): one that is not installed is named and left out. One that another
virtual environment has is found by its interpreter, PYTHON_THETA_IRT=/path/to/python. The folder then holds fits.csv,
benchmark.md and benchmark.svg; docs/benchmark.md says how to read them. A run that was interrupted goes on where it
stopped when it is started again with --resume and the same other options.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_parts import tables
from benchmark_parts.likelihood import log_likelihood_per_response
from benchmark_parts.processes import fit_in_process, whole_processes
from benchmark_parts.simulated import Simulated, simulate
from benchmark_parts.sizes import ON_GPU, ON_PROCESSOR, Size
from benchmark_parts.tools import TOOLS
from numpy.typing import NDArray

WHOLE_PROCESS_SIZE = "2pl:1000x90"
BEGIN, END = "<!-- begin benchmark -->", "<!-- end benchmark -->"  # in the document of --docs


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", help=f"such as 3pl:1000x90; by default {' '.join(ON_PROCESSOR)}")
    parser.add_argument("--tools", nargs="+", choices=list(TOOLS), help="by default all that are installed")
    parser.add_argument("--rounds", type=int, default=1, help="processes of each tool and size, in turns")
    parser.add_argument("--repeats", type=int, default=3, help="fits in each process, of which the median counts")
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds that one fit may take")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2016)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: irtbench alone, larger sizes")
    parser.add_argument("--resume", action="store_true", help="keep the fits already in the folder")
    parser.add_argument("--docs", type=Path, help="a Markdown file that takes the tables between its two markers")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/benchmark"))
    options = parser.parse_args(arguments)
    try:
        sizes = [Size.parse(name) for name in options.sizes or (ON_GPU if options.device == "cuda" else ON_PROCESSOR)]
    except ValueError as error:
        parser.error(str(error))
    if options.repeats < 1 or options.rounds < 1 or options.threads < 1 or options.time_limit <= 0:
        parser.error("--repeats, --rounds, --threads and --time-limit must be positive")
    if options.device == "cuda":
        import torch  # a second that only this device costs

        if not torch.cuda.is_available():
            parser.error("--device cuda: torch sees no GPU")
    options.sizes = list(dict.fromkeys(sizes))
    return options


def lines_to_run(size: Size, options: argparse.Namespace) -> list[str]:
    """Names of the tools that are run for this size."""
    return [
        name
        for name, tool in TOOLS.items()
        if tool.installed
        and size.kind in tool.kinds
        and (options.device == "cpu" or tool.on_gpu)
        and (name in options.tools if options.tools else size.n_responses >= tool.from_responses)
    ]


def rmse(estimate: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Root mean squared error over items; infinite or not a number where an estimate is."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def coverage(estimate: Any, error: Any, truth: NDArray[np.float64]) -> float:
    """Share of estimates no further than 1.96 standard errors from the truth; not a number where there are none."""
    if error is None:
        return float("nan")
    return float(np.mean(np.abs(np.asarray(estimate) - truth) <= 1.96 * np.asarray(error)))


def in_turns(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Several processes as one: the estimates of the last, the times of all.

    A process that is repeated has its first fit left out, with which a compiler may have been busy; ``first_seconds``
    is the median of these.
    """
    last = found[-1]
    if any(one["outcome"] != "fitted" for one in found):
        return next(one for one in found if one["outcome"] != "fitted")
    merged: dict[str, Any] = {"first_seconds": float(np.median([one["seconds"][0] for one in found]))}
    merged["n_fits"] = sum(len(one["seconds"]) for one in found)
    for name in ("seconds", "processor"):
        merged[name] = [taken for one in found for taken in (one[name][1:] or one[name])]
    return last | merged


def row_of(size: Size, name: str, found: dict[str, Any], data: Simulated, time_limit: float) -> dict[str, Any]:
    """One row of fits.csv."""
    row = {"size": size.name, "tool": name, "outcome": found["outcome"], "time_limit": time_limit}
    if found["outcome"] != "fitted":
        return row
    a, b, c = (np.asarray(found[key], dtype=np.float64) for key in ("discrimination", "difficulty", "guessing"))
    return row | {
        "seconds": float(np.median(found["seconds"])),
        "processor_seconds": float(np.median(found["processor"])),
        "first_seconds": found["first_seconds"],
        "n_fits": found["n_fits"],
        "coverage_b": coverage(b, found["se_difficulty"], data.difficulty),
        "coverage_theta": coverage(*(found["theta"] or (None, None)), data.theta[: len((found["theta"] or [[]])[0])]),
        "rmse_a": rmse(a, data.discrimination),
        "rmse_b": rmse(b, data.difficulty),
        "rmse_c": rmse(c, data.guessing) if size.kind == "3pl" else float("nan"),
        "log_likelihood": log_likelihood_per_response(data.values, a, b, c),
        "input_mb": found["input_mb"],
        "fit_mb": found["fit_mb"],
        "gpu_mb": found["gpu_mb"],
        "converged": {True: "yes", False: "no", None: "does not say"}[found["converged"]],
        "said": found["said"],
    }


def run_fits(
    options: argparse.Namespace, rows: list[dict[str, Any]], seconds: dict[str, float] | None, folder: Path
) -> None:
    """Simulate each size, fit it with each tool, and add a row for each fit to ``rows``, saving them as they come."""
    done = {(row["size"], row["tool"]) for row in rows}
    for size in options.sizes:
        names = [name for name in lines_to_run(size, options) if (size.name, name) not in done]
        if not names:
            continue
        data = simulate(size, seed=options.seed)
        with tempfile.TemporaryDirectory() as temporary:
            file = Path(temporary) / "responses.npy"
            np.save(file, data.values)
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
            for _ in range(options.rounds):
                for name in names:
                    job = {
                        "data": str(file),
                        "tool": name,
                        "size": size.name,
                        "device": options.device,
                        "seed": options.seed,
                        "repeats": options.repeats,
                        "threads": options.threads,
                        "time_limit": options.time_limit,
                    }
                    if all(one["outcome"] == "fitted" for one in found[name]):
                        found[name].append(fit_in_process(job, Path(temporary), python=TOOLS[name].python))
            for name in names:
                one = in_turns(found[name])
                rows.append(row_of(size, name, one, data, options.time_limit))
                save(options, rows, seconds, folder)
                taken = f"{rows[-1]['seconds']:.3g} s" if one["outcome"] == "fitted" else one["outcome"]
                print(f"{size.label:>24}  {TOOLS[name].label:<26} {taken}", flush=True)


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """What two parts of one run must have in common."""
    chosen = {key: getattr(options, key) for key in ("repeats", "rounds", "time_limit", "threads", "seed", "device")}
    versions = {tool.distribution: tool.version for tool in TOOLS.values() if tool.installed}
    return chosen | {"versions": versions, "python": platform.python_version(), "cores": os.cpu_count()}


def save(
    options: argparse.Namespace, rows: list[dict[str, Any]], seconds: dict[str, float] | None, folder: Path
) -> None:
    """Write everything known so far."""
    settings = settings_of(options)
    (folder / "run.json").write_text(json.dumps({"settings": settings, "rows": rows, "processes": seconds}, indent=1))
    fits = tables.complete(rows)
    fits.to_csv(folder / "fits.csv", index=False)
    left_out = sorted({tool.distribution for tool in TOOLS.values() if not tool.installed})
    parts = [
        "# Benchmark\n",
        tables.settings_line(settings, left_out),
        tables.fits_markdown(fits),
        "\n## Targets\n",
        tables.targets_markdown(fits),
    ]
    if seconds is not None:
        parts += ["\n## Whole processes, 1,000 x 90 from a CSV file\n", tables.processes_markdown(seconds)]
    (folder / "benchmark.md").write_text("\n".join(parts))
    tables.draw_seconds(fits, folder / "benchmark.svg")


def put_into(document: Path, folder: Path) -> None:
    """Replace what stands between the document's markers by the tables, and lay the figure beside it."""
    before, begins, rest = document.read_text().partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not (begins and ends):
        sys.exit(f"benchmark: {document} has no lines {BEGIN} and {END} to put the tables between")
    written = (folder / "benchmark.md").read_text().partition("\n")[2]
    figure = document.with_suffix(".svg")
    shutil.copyfile(folder / "benchmark.svg", figure)
    image = f"![Seconds of every fit by size]({figure.name})"
    document.write_text(f"{before}{BEGIN}\n{written}\n{image}\n\n{END}{after}")


def main() -> None:
    options = read_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("benchmark: stopped; --resume goes on"))  # and ends the fit
    folder = options.output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    seconds = None
    if options.resume and (folder / "run.json").exists():
        before = json.loads((folder / "run.json").read_text())
        if before["settings"] != settings_of(options):
            sys.exit(
                f"benchmark: {folder / 'run.json'} is of another run: {before['settings']}; expected the same options"
            )
        rows = [row for row in before["rows"] if not row["outcome"].startswith("failed")]
        seconds = before["processes"]
    for name in sorted({tool.distribution for tool in TOOLS.values() if not tool.installed}):
        print(f"left out: {name} is not installed")
    run_fits(options, rows, seconds, folder)
    whole = Size.parse(WHOLE_PROCESS_SIZE)
    if seconds is None and options.device == "cpu" and whole in options.sizes:
        with tempfile.TemporaryDirectory() as temporary:
            values = simulate(whole, seed=options.seed).values
            try:
                seconds = whole_processes(values, Path(temporary), threads=options.threads, repeats=options.repeats)
            except subprocess.CalledProcessError as error:
                sys.exit(f"benchmark: irtbench fit ended with status {error.returncode}; --resume tries it again")
    save(options, rows, seconds, folder)
    print(f"written: {folder}")
    if options.docs is not None:
        put_into(options.docs, folder)
        print(f"written: {options.docs}")


if __name__ == "__main__":
    main()
