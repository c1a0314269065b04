"""scripts/benchmark.py: its likelihood, its data, its verdicts, and a run of irtbench alone at a tiny size."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import benchmark  # noqa: E402
from benchmark_parts import tables  # noqa: E402
from benchmark_parts.likelihood import log_likelihood_per_response  # noqa: E402
from benchmark_parts.simulated import simulate  # noqa: E402
from benchmark_parts.sizes import Size  # noqa: E402
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


def test_simulated_responses_follow_their_items() -> None:
    """Proportions correct are those of the curves averaged over N(0, 1), with 4 standard errors to spare."""
    data = simulate(Size("3pl", 20_000, 40), seed=5)
    theta = np.linspace(-6, 6, 241)
    weights = norm.pdf(theta) / norm.pdf(theta).sum()
    p = data.guessing + (1 - data.guessing) * expit(
        np.outer(theta, data.discrimination) - data.discrimination * data.difficulty
    )
    assert np.abs(data.values.mean(axis=0) - weights @ p).max() < 4 * np.sqrt(0.25 / 20_000)


def row(
    tool: str, seconds: float, *, rmse: float = 0.1, likelihood: float = -0.5, **other: object
) -> dict[str, object]:
    of_fit = {"seconds": seconds, "rmse_a": rmse, "rmse_b": rmse, "log_likelihood": likelihood, "converged": "yes"}
    return {
        "size": "2pl:1000x90", "tool": tool, "outcome": "fitted", "time_limit": 600.0, "input_mb": 1.0, "fit_mb": 2.0,
    } | of_fit | other  # fmt: skip


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
    # coverage is the share within 1.96 standard errors
    assert benchmark.coverage([0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 0.1, 1.0], np.array([1.9, 3.0, 2.1, 3.0])) == 0.75
    assert np.isnan(benchmark.coverage(None, None, np.zeros(2)))


def test_responses_take_a_byte_each() -> None:
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


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "benchmark.py"), "--tools", "irtbench", "--threads", "1", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.slow
def test_a_run_of_irtbench_alone(tmp_path: Path) -> None:
    given = ("--sizes", "2pl:200x10", "--repeats", "2", "--seed", "7", "-o", str(tmp_path))
    done = run(*given)
    assert done.returncode == 0, done.stderr
    (fit,) = pd.read_csv(tmp_path / "fits.csv").to_dict("records")
    assert (fit["outcome"], fit["converged"], fit["n_fits"], fit["right"]) == ("fitted", "yes", 2, True)
    assert 0 < fit["seconds"] < 60
    assert fit["rmse_a"] < 0.6
    assert "irtbench" in (tmp_path / "benchmark.md").read_text()
    assert (tmp_path / "benchmark.svg").read_text().count("<svg") == 1

    # a second run with --resume fits nothing anew, and refuses what was run otherwise
    first = json.loads((tmp_path / "run.json").read_text())
    assert run(*given, "--resume").returncode == 0
    assert json.loads((tmp_path / "run.json").read_text()) == first
    refused = run(*given, "--resume", "--seed", "8")
    assert refused.returncode != 0
    assert "expected the same options" in refused.stderr


@pytest.mark.slow
def test_a_fit_over_the_time_limit_is_stopped_and_said_so(tmp_path: Path) -> None:
    done = run("--sizes", "2pl:2000x60", "--time-limit", "0.002", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "over 0.002 s" in (tmp_path / "benchmark.md").read_text()
