"""The command line as a user meets it: files and columns of the contract, and one line for what is wrong."""

import json
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run, run_program

ITEMS = [
    "item_id", "model", "discrimination", "difficulty", "guessing", "intercept", "se_discrimination", "se_difficulty",
    "se_guessing", "se_intercept", "n_responses", "proportion_correct",
]  # fmt: skip
FIT = [
    "log_likelihood", "aic", "bic", "sabic", "n_parameters", "n_respondents", "n_items", "n_responses", "model",
    "prior", "quadrature", "converged", "stopped_because", "steps", "seconds", "seed", "versions",
]  # fmt: skip
ITEM_FIT = ["item_id", "s_x2", "df", "p", "p_adjusted", "rmsea", "infit", "outfit", "n_respondents"]
DEPENDENCE = ["item_1", "item_2", "x2", "df", "p", "p_adjusted", "cramers_v", "g2", "q3", "n_respondents"]
GLOBAL = ["m2", "df", "p", "rmsea", "rmsea_lower", "rmsea_upper", "srmsr", "tli", "cfi"]
CLASSICAL = [
    "item_id", "n", "proportion_correct", "item_total", "item_rest", "biserial", "discrimination_index",
    "alpha_if_dropped",
]  # fmt: skip
RELIABILITY = ["alpha", "alpha_lower", "alpha_upper", "omega", "marginal", "empirical"]
INFORMATION = ["theta", "information", "se", "reliability"]
PRUNING = ["round", "item_id", "reason", "statistic", "value", "p", "p_adjusted"]
SCORES = [
    "respondent_id", "scale", "n_items", "n_correct", "accuracy", "theta", "se", "theta_lower", "theta_upper",
    "percentile", "percentile_lower", "percentile_upper", "percentile_empirical", "person_fit", "method", "flags",
    "percentile_flags",
]  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study of answers, with one reversed item, and its results in `out`."""
    folder = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(0)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 10), rng.normal(0, 1, 10))
    responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    long = responses.to_long()
    long["answer"] = np.where((long["response"] == 1) ^ (long["item_id"] == "item10"), "yes", "no")
    long[["respondent_id", "item_id", "answer"]].to_csv(folder / "answers.csv", index=False)
    long[["respondent_id", "item_id", "response"]].to_csv(folder / "responses.csv", index=False)
    pd.DataFrame({"item_id": items.item_ids, "key": "yes"}).to_csv(folder / "items.csv", index=False)
    system = long[long["respondent_id"] == "r3"].assign(respondent_id="model")
    system[["respondent_id", "item_id", "answer"]].to_csv(folder / "system.csv", index=False)
    (folder / "study.toml").write_text(
        '[data]\nanswers = "answers.csv"\nitems = "items.csv"\n[score]\nsystems = ["system.csv"]\n'
        '[pruning]\nbootstrap_samples = 19\n[model]\nby_item = { item1 = "3pl", item2 = 0.2 }\n'
    )
    run(f"build {folder}/study.toml -o {folder}/out --quiet")
    return folder


def test_build_writes_the_files_of_the_contract(study: Path) -> None:
    out = study / "out"
    expected = (
        "bank.json items.csv methods.md pruning.csv report.html respondents.csv rounds_items.csv "
        "rounds_pairs.csv scores.csv study.json summary.json"
    )
    assert sorted(file.name for file in out.iterdir()) == expected.split()
    assert list(pd.read_csv(out / "items.csv"))[: len(ITEMS)] == ITEMS
    assert list(pd.read_csv(out / "pruning.csv"))[: len(PRUNING)] == PRUNING
    assert list(pd.read_csv(out / "scores.csv"))[: len(SCORES)] == SCORES
    assert list(pd.read_csv(out / "respondents.csv"))[:3] == ["respondent_id", "kept", "reason"]
    removed = pd.read_csv(out / "pruning.csv").set_index("item_id")["reason"]
    assert removed["item10"] == "negative_slope"
    assert json.loads((out / "summary.json").read_text())["n_items_kept"] == 10 - len(removed)
    assert json.loads((out / "bank.json").read_text())["schema_version"] == 4


def test_score_gives_a_system_the_score_that_build_gave_it(study: Path) -> None:
    built = pd.read_csv(study / "out" / "scores.csv")
    built = built[built["role"] == "system"]
    # the bank grades answers by its own key; item10 was pruned, so the system's file has an item too many
    run(f"score {study}/out/bank.json {study}/system.csv --unknown-items ignore -o {study}/scored.csv --quiet")
    scored = pd.read_csv(study / "scored.csv")
    assert list(scored) == SCORES
    assert scored["theta"].to_list() == pytest.approx(built["theta"].to_list(), abs=1e-9)
    as_json = run(f"score {study}/out/bank.json {study}/system.csv --unknown-items ignore --json").json
    assert as_json[0]["theta"] == pytest.approx(scored["theta"][0], abs=1e-9)


def test_fit_and_diagnose_write_the_files_of_the_contract(study: Path) -> None:
    run(f"fit {study}/responses.csv -o {study}/fit --prior none --quiet")
    run(f"convert {study}/responses.csv -o {study}/long.csv --quiet")
    given, items = irtbench.read(study / "responses.csv"), pd.read_csv(study / "fit" / "items.csv")
    assert list(items) == ITEMS
    # what a result's table gives is what the command writes
    pd.testing.assert_frame_equal(items, irtbench.fit_model(given).table(), check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_csv(study / "long.csv"), given.table(), check_dtype=False)
    assert list(json.loads((study / "fit" / "fit.json").read_text()))[: len(FIT)] == FIT
    assert list(pd.read_csv(study / "fit" / "scores.csv"))[: len(SCORES)] == SCORES
    run(f"items diagnose {study}/responses.csv --items {study}/fit/items.csv -o {study}/diag --quiet")
    assert list(pd.read_csv(study / "diag" / "item_fit.csv")) == ITEM_FIT
    assert list(pd.read_csv(study / "diag" / "local_dependence.csv"))[: len(DEPENDENCE)] == DEPENDENCE
    assert list(json.loads((study / "diag" / "global_fit.json").read_text()))[: len(GLOBAL)] == GLOBAL
    assert len(pd.read_csv(study / "diag" / "person_fit.csv")) == 300
    assert list(pd.read_csv(study / "diag" / "classical.csv"))[: len(CLASSICAL)] == CLASSICAL
    assert list(json.loads((study / "diag" / "reliability.json").read_text()))[: len(RELIABILITY)] == RELIABILITY
    assert list(pd.read_csv(study / "diag" / "test_information.csv"))[: len(INFORMATION)] == INFORMATION


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no signal of a closed terminal here")
@pytest.mark.parametrize("ignored", [True, False])
def test_a_closed_terminal_stops_a_run_unless_it_was_started_to_go_on(ignored: bool) -> None:
    program = (
        "import os, signal\nfrom irtbench.cli import main as command\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        "def work(*names):\n    os.kill(os.getpid(), signal.SIGHUP)\n    print('went on')\n    raise SystemExit(0)\n"
        "command.application = work\ncommand.main()\n"
    )
    done = run_program(program)
    assert ("went on" in done.stdout) == ignored
    assert done.returncode == (0 if ignored else 128 + signal.SIGHUP)
    assert done.stderr == ("" if ignored else "irtbench: stopped by SIGHUP\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals here")
def test_a_library_that_does_not_let_go_is_ended_and_nothing_stays(tmp_path: Path) -> None:
    program = (
        "import os, signal, time\nfrom pathlib import Path\n"
        "from irtbench.cli import main as command\nfrom irtbench.cli.result_files import output_folder\n"
        "command.MOST_SECONDS = 0.2\n"
        "def work(*names):\n"
        "    with output_folder(Path('made/out')) as folder:\n"
        "        (folder / 'half').write_text('half')\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        while True:\n            try:\n                time.sleep(60)\n"
        "            except BaseException:\n                pass\n"
        "command.application = work\ncommand.main()\n"
    )
    done = run_program(program, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "irtbench: stopped by SIGTERM\n")
    assert list(tmp_path.iterdir()) == []


def test_an_unconverged_fit_says_so_and_exits_with_one(tmp_path: Path) -> None:
    # a and b answered alike by everyone: no finite slopes
    rows = "".join(f"r{k},{x},{x},{y}\n" for k, (x, y) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)] * 25))
    (tmp_path / "wide.csv").write_text("respondent_id,a,b,c\n" + rows)
    command = "fit wide.csv -o out --prior none"
    assert "NOT CONVERGED" in run(command, cwd=tmp_path, status=1).out
    assert not json.loads((tmp_path / "out" / "fit.json").read_text())["converged"]
    assert "irtbench: not converged:" in run(f"{command} -q", cwd=tmp_path, status=1).err
    run(f"{command} --allow-unconverged -q", cwd=tmp_path)
    run("fit wide.csv -o out -q", cwd=tmp_path)  # by the prior that suits


def test_the_model_of_single_items_can_be_chosen(study: Path) -> None:
    models = pd.read_csv(study / "out" / "items.csv").set_index("item_id")["model"]
    (study / "models.csv").write_text("item_id,model,guessing\nitem1,3pl,\nitem2,2pl_fixed_guessing,0.2\n")
    run("fit responses.csv --by-item models.csv -o fit_by_item --quiet", cwd=study)
    again = pd.read_csv(study / "fit_by_item" / "items.csv").set_index("item_id")["model"]
    for found in (models, again):
        assert found[["item1", "item2", "item3"]].tolist() == ["3pl", "2pl_fixed_guessing", "2pl"]


def test_a_server_that_another_waits_for_ends_no_process_and_a_command_imports_no_other(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, threading\nfrom irtbench.cli.main import WAITING, main\n"
        "threading.Thread(target=threading.Event().wait, name=WAITING, daemon=True).start()\n"
        f"sys.argv = ['irtbench', 'doctor', {str(tmp_path / 'no.csv')!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    print('went on', stop.code)\n"
        "assert not {'irtbench.cli.bias', 'irtbench.analysis.item_bias'} & set(sys.modules)\n"
    )
    done = run_program(program)
    assert (done.returncode, done.stdout) == (0, "went on 2\n")


def test_what_the_system_says_of_a_file_is_one_line_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(*names: str) -> None:
        raise OSError(28, "No space left on device", "scores.csv")

    monkeypatch.setattr("builders.commands_here.built", work)
    assert run("fit a.csv", status=2).err == "irtbench: scores.csv: No space left on device\n"
