"""scripts/benchmark.py: its likelihood, its data, its verdicts, and a run of irtbench alone at a tiny size."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from builders.pretended_device import pretended_gpu

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import benchmark  # noqa: E402
from benchmark_parts import one_fit, tables  # noqa: E402
from benchmark_parts.likelihood import log_likelihood_per_response, n_nodes  # noqa: E402
from benchmark_parts.simulated import simulate  # noqa: E402
from benchmark_parts.sizes import ON_GPU, ON_PROCESSOR, Size  # noqa: E402
from benchmark_parts.tools import TOOLS  # noqa: E402


def test_likelihood_is_the_integral() -> None:
    """Against adaptive integration of each row over the normal density."""
    a, b, c = np.array([0.7, 1.5, 2.0]), np.array([-1.0, 0.3, 1.2]), np.array([0.0, 0.2, 0.1])
    values = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]], dtype=np.uint8)

    def integrand(theta: float, row: np.ndarray) -> float:
        p = c + (1 - c) * expit(a * (theta - b))
        return float(norm.pdf(theta) * np.prod(np.where(row == 1, p, 1 - p)))

    expected = sum(np.log(quad(integrand, -8, 8, args=(row,), epsabs=1e-13)[0]) for row in values) / 9
    assert log_likelihood_per_response(values, a, b, c) == pytest.approx(expected, abs=1e-8)


def test_likelihood_lays_more_nodes_where_posteriors_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    data = simulate(Size("2pl", 20, 1_500), seed=3)
    items = data.discrimination, data.difficulty, data.guessing
    needed = n_nodes(*items[:2])
    found = log_likelihood_per_response(data.values, *items)
    monkeypatch.setattr("benchmark_parts.likelihood.n_nodes", lambda a, b: 4 * needed)
    assert needed > 400
    assert log_likelihood_per_response(data.values, *items) == pytest.approx(found, abs=1e-10)


def test_likelihood_of_what_is_no_estimate() -> None:
    values = np.array([[1, 0]], dtype=np.uint8)
    assert np.isnan(log_likelihood_per_response(values, np.array([1.0, np.nan]), np.zeros(2), np.zeros(2)))


def test_simulated_responses_follow_their_items() -> None:
    """Proportions correct are those of the curves averaged over N(0, 1), with 4 standard errors to spare."""
    data = simulate(Size("3pl", 20_000, 40), seed=5)
    theta = np.linspace(-6, 6, 241)
    weights = norm.pdf(theta) / norm.pdf(theta).sum()
    p = data.guessing + (1 - data.guessing) * expit(
        np.outer(theta, data.discrimination) - data.discrimination * data.difficulty
    )
    assert np.abs(data.values.mean(axis=0) - weights @ p).max() < 4 * np.sqrt(0.25 / 20_000)


def test_simulation_is_reproducible_and_leaves_no_constant_item() -> None:
    data, again, other = (simulate(Size("2pl", 12, 200), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(data.values, again.values)
    assert not np.array_equal(data.values, other.values)
    assert set(data.values.min(axis=0)) == {0}
    assert set(data.values.max(axis=0)) == {1}


@pytest.mark.parametrize("name", [*ON_PROCESSOR, *ON_GPU])
def test_sizes_are_read_as_they_are_named(name: str) -> None:
    assert Size.parse(name).name == name


@pytest.mark.parametrize("name", ["1000x90", "4pl:100x10", "2pl:100", "2pl:9x10", "2pl:100x10:weak"])
def test_other_sizes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Size.parse(name)


def row(
    tool: str, seconds: float, *, rmse: float = 0.1, likelihood: float = -0.5, **other: object
) -> dict[str, object]:
    return {
        "size": "2pl:1000x90",
        "tool": tool,
        "outcome": "fitted",
        "time_limit": 600.0,
        "seconds": seconds,
        "rmse_a": rmse,
        "rmse_b": rmse,
        "log_likelihood": likelihood,
        "input_mb": 1.0,
        "fit_mb": 2.0,
        "converged": "yes",
    } | other


def test_a_quick_peer_that_is_wrong_is_not_what_ours_is_compared_with() -> None:
    rows = [
        row("mirt", 0.5, likelihood=-0.5002),  # 2e-4 below the best
        row("girth", 0.6, rmse=0.2),
        row("mirt-61", 2.0, likelihood=-0.50005),
        row("irtbench", 0.1),
    ]
    fits = tables.complete(rows)
    assert fits["tool"].tolist() == ["irtbench", "mirt", "mirt-61", "girth"]
    assert fits["right"].tolist() == [True, False, True, False]
    assert fits["ratio"].tolist() == pytest.approx([1, 5, 20, 6])
    assert "mirt (Python), 61 nodes | 20 | met: 10 wanted" in tables.targets_markdown(fits)


def test_missed_targets_are_called_missed() -> None:
    fits = tables.complete([row("irtbench", 0.1, likelihood=-0.50001), row("mirt", 0.5)])
    said = tables.targets_markdown(fits)
    assert "MISSED: 1.0e-05 below the best" in said
    assert "mirt (Python) | 5.0 | MISSED: 10 wanted" in said


def test_peers_over_the_limit_and_failed_ones_are_in_the_table() -> None:
    fits = tables.complete(
        [
            row("irtbench", 0.1),
            {"size": "2pl:1000x90", "tool": "girth", "outcome": "over 600 s", "time_limit": 600.0},
            {"size": "2pl:1000x90", "tool": "py-irt", "outcome": "failed: ValueError: no", "time_limit": 600.0},
        ]
    )
    said = tables.fits_markdown(fits)
    assert "| girth | over 600 s |" in said
    assert "| py-irt | failed: ValueError: no |" in said
    assert "none within the limit | over 6000 | met" in tables.targets_markdown(fits)


def test_in_a_3pl_without_a_converged_fit_without_prior_the_rmse_decides() -> None:
    rows = [
        row("irtbench", 0.1, likelihood=-0.501),
        row("irtbench-no-prior", 0.1, converged="no", rmse=0.5),
        row("mirt", 1.0, rmse=0.3),
        row("py-irt", 9.0, rmse=0.1, likelihood=-0.51),
    ]
    fits = tables.complete([each | {"size": "3pl:1000x90"} for each in rows])
    assert fits["right"].tolist() == [True, False, False, True]
    assert "MISSED: 1.0e-03 below the best, has a prior | py-irt | 90" in tables.targets_markdown(fits)


def test_a_limit_too_short_to_tell_is_no_verdict() -> None:
    over = {"size": "2pl:1000x90", "tool": "girth", "outcome": "over 5 s", "time_limit": 5.0}
    assert "over 5.0 | not known" in tables.targets_markdown(tables.complete([row("irtbench", 1.0), over]))


def test_memory_on_a_gpu_has_a_column_of_its_own() -> None:
    assert "GPU MB" not in tables.fits_markdown(tables.complete([row("irtbench", 1.0)]))
    assert "| 2 | 77 | yes |" in tables.fits_markdown(tables.complete([row("irtbench", 1.0, gpu_mb=77.0)]))


def test_tables_go_between_the_markers_of_a_document(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"before\n{benchmark.BEGIN}\nold\n{benchmark.END}\nafter\n")
    (tmp_path / "benchmark.md").write_text("# Benchmark\n\nnew\n")
    (tmp_path / "benchmark.svg").write_text("<svg/>")
    for _ in range(2):
        benchmark.put_into(document, tmp_path)
        said = document.read_text()
        assert said.startswith("before\n")
        assert said.endswith("\nafter\n")
        assert said.count("new") == 1
        assert "old" not in said
    assert (tmp_path / "page.svg").exists()
    document.write_text("no markers")
    with pytest.raises(SystemExit, match="no lines"):
        benchmark.put_into(document, tmp_path)


def test_rounds_are_one_fit_without_the_first_of_each_process() -> None:
    one = {"outcome": "fitted", "seconds": [9.0, 1.0, 2.0], "processor": [8.0, 0.5, 0.7]}
    two = {"outcome": "fitted", "seconds": [7.0], "processor": [6.0]}
    merged = benchmark.in_turns([one, two])
    assert merged["seconds"] == [1.0, 2.0, 7.0]  # the only fit of a process is not left out
    assert merged["processor"] == [0.5, 0.7, 6.0]
    assert merged["first_seconds"] == 8.0
    assert merged["n_fits"] == 4
    assert benchmark.in_turns([one, {"outcome": "over 5 s"}]) == {"outcome": "over 5 s"}


def test_coverage_is_the_share_within_1_96_standard_errors() -> None:
    assert benchmark.coverage([0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 0.1, 1.0], np.array([1.9, 3.0, 2.1, 3.0])) == 0.75
    assert np.isnan(benchmark.coverage(None, None, np.zeros(2)))


def test_a_tool_of_another_environment_is_found_by_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = TOOLS["theta-irt"]
    assert tool.python == sys.executable
    monkeypatch.setenv("PYTHON_THETA_IRT", "/elsewhere/bin/python")
    assert tool.python == "/elsewhere/bin/python"
    assert tool.installed


@pytest.mark.slow
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(name, marks=pytest.mark.slow if name != "irtbench-se" else ())
        for name, t in TOOLS.items()
        if t.on_gpu
    ],
)
def test_a_fit_on_a_gpu_is_that_of_the_processor(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmark_parts.tools.MOST_SCORED", 150)
    monkeypatch.setattr("benchmark_parts.one_fit.WARM_UP", (50, 5))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 7e6)
    size = Size("2pl", 200, 10)
    data = simulate(size, seed=1)
    np.save(tmp_path / "responses.npy", data.values)
    job = {
        "data": str(tmp_path / "responses.npy"), "tool": tool, "size": size.name, "seed": 1, "repeats": 1,
        "threads": torch.get_num_threads(), "time_limit": 600.0,
    }  # fmt: skip
    here = one_fit.run(job | {"device": "cpu"})
    with pretended_gpu() as asked:
        there = one_fit.run(job | {"device": "cuda"})
    assert set(asked) == {"cuda"}
    assert there["gpu_mb"] == 7
    for name in ("discrimination", "difficulty"):
        np.testing.assert_allclose(there[name], here[name], rtol=1e-9)
    row = benchmark.row_of(
        size, tool, {"outcome": "fitted"} | benchmark.in_turns([{"outcome": "fitted"} | there]), data, 600
    )
    assert row["converged"] == "yes"
    if tool == "irtbench-se":
        assert len(there["theta"][0]) == 150
        assert row["coverage_theta"] > 0.9


def test_responses_take_a_byte_each(tmp_path: Path) -> None:
    size = Size("2pl", 40_000, 100)
    tracemalloc.start()
    data = simulate(size, seed=1)
    simulated = tracemalloc.get_traced_memory()[1]
    TOOLS["irtbench"].prepare(data.values, size, "cpu", 1)
    prepared = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.values.dtype == np.uint8
    assert simulated < 3 * size.n_responses
    assert prepared < 6 * size.n_responses  # names of respondents included


@pytest.mark.slow
def test_a_run_of_irtbench_alone(tmp_path: Path) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPTS / "benchmark.py"), "--sizes", "2pl:200x10", "--tools", "irtbench"]
        given = ["--repeats", "2", "--threads", "1", "--seed", "7", "-o", str(tmp_path / "out"), *more]
        return subprocess.run([*command, *given], capture_output=True, text=True, check=False, timeout=600)

    done = run()
    assert done.returncode == 0, done.stderr
    (fit,) = pd.read_csv(tmp_path / "out" / "fits.csv").to_dict("records")
    assert fit["outcome"] == "fitted"
    assert fit["converged"] == "yes"
    assert fit["n_fits"] == 2
    assert 0 < fit["seconds"] < 60
    assert fit["rmse_a"] < 0.6
    assert fit["right"]
    assert "irtbench" in (tmp_path / "out" / "benchmark.md").read_text()
    assert (tmp_path / "out" / "benchmark.svg").read_text().count("<svg") == 1

    # a second run with --resume fits nothing anew, and refuses what was run otherwise
    first = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run("--resume").returncode == 0
    assert json.loads((tmp_path / "out" / "run.json").read_text()) == first
    refused = run("--resume", "--seed", "8")
    assert refused.returncode != 0
    assert "expected the same options" in refused.stderr


@pytest.mark.slow
def test_a_fit_over_the_time_limit_is_stopped_and_said_so(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "benchmark.py"), "--sizes", "2pl:2000x60", "--tools", "irtbench"]
    given = ["--time-limit", "0.002", "--threads", "1", "-o", str(tmp_path)]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "over 0.002 s" in (tmp_path / "benchmark.md").read_text()
