"""``irtbench build`` of responses too large for memory: all are screened and fitted, items leave by a sample."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run
from builders.parquet_folder import long_frame, wide_frame, write_parts
from builders.torchrun import as_torchrun
from builders.two_scales import RULES, item_table, responses, study
from irtbench.cli import large
from irtbench.data import response_blocks
from irtbench.data.readers import large_table, table_blocks
from irtbench.data.response_blocks import draw_respondents


def make_everything_large(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(large, "MOST_FIELDS", 0)
    patch.setattr(large_table, "ROWS_OF_PART", 200)
    patch.setattr(response_blocks, "ROWS", 131)
    patch.setattr(table_blocks, "ROWS_READ", 997)
    patch.setattr("irtbench.data.stored_responses.StoredResponses.at_once", 177)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    make_everything_large(monkeypatch)


def build(file: Path, output: Path, *options: object) -> str:
    ended = run(f"build {file} -o {output}", *options)
    # people screened at the chance level leave abilities cut off below, which may look like guessing
    warned = [line for line in ended.err.splitlines() if "warning" in line]
    assert [line for line in warned if "guessing" not in line and "follows ability" not in line] == []
    assert not list(output.parent.glob(".*"))
    return ended.out


def read(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / name)


def assert_same_bank(found: Path, expected: Path) -> None:
    here, there = (irtbench.load_bank(folder / "bank.json") for folder in (found, expected))
    assert [scale.name for scale in here.scales] == [scale.name for scale in there.scales]
    for one, other in zip(here.scales, there.scales, strict=True):
        assert one.items.item_ids == other.items.item_ids
        assert vars(one.details) == vars(other.details)
        for name in ("discrimination", "intercept", "covariance"):
            np.testing.assert_allclose(getattr(one.items, name), getattr(other.items, name), rtol=1e-8, atol=1e-10)
        for name in ("theta", "standard_error"):  # kept to four decimals
            here_sorted, there_sorted = (np.sort(getattr(norms, name)) for norms in (one.norms, other.norms))
            np.testing.assert_allclose(here_sorted, there_sorted, atol=1.01e-4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with responses in both layouts, and the table of items."""
    folder = tmp_path_factory.mktemp("study")
    item_table(folder)
    whole = responses()
    write_parts(wide_frame(whole), folder / "wide")
    write_parts(long_frame(whole, shuffled=1), folder / "long")
    system = whole.to_long()[lambda rows: rows["respondent_id"] == "r0007"].assign(respondent_id="machine")
    system.to_csv(folder / "system.csv", index=False)
    return folder


SYSTEM = '[score]\nsystems = ["system.csv"]'


@pytest.fixture(scope="module")
def both(data: Path) -> Path:
    """The same folder with `memory` and `disk`, the study built of the wide table in memory and from disk."""
    build(study(data, "wide", more=SYSTEM), data / "memory", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        make_everything_large(patch)
        patch.setattr("irtbench.study.study_data.read_study_table", lambda *_: pytest.fail("read whole"))
        build(study(data, "wide", more=SYSTEM), data / "disk", "--quiet")
    return data


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["wide", "long"])
def test_with_everybody_in_the_sample_it_is_the_study_in_memory(
    layout: str, both: Path, tmp_path: Path, everything_is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, expected = both / "disk", both / "memory"
    if layout == "long":
        monkeypatch.setattr("irtbench.study.study_data.read_study_table", lambda *_: pytest.fail("read whole"))
        found = tmp_path / "out"
        build(study(both, layout, more=SYSTEM), found, "--quiet")
    assert sorted(os.listdir(found)) == sorted(os.listdir(expected))
    assert_same_bank(found, expected)
    for name in ("items.csv", "pruning.csv", "rounds_items.csv", "rounds_pairs.csv"):
        pd.testing.assert_frame_equal(read(found, name), read(expected, name), rtol=1e-8, atol=1e-10)
    people, others = (read(folder, "respondents.csv").set_index("respondent_id") for folder in (found, expected))
    if layout == "long":  # which says nothing of who answered nothing, and has the others by name
        others = others.drop("r0040")
    pd.testing.assert_frame_equal(people.loc[others.index], others)
    assert list(people.index)[-1] == ("r0040" if layout == "wide" else "r1699")
    scores, others = (read(folder, "scores.csv").set_index(["respondent_id", "scale"]) for folder in (found, expected))
    assert list(scores.columns) == list(others.columns)
    assert set(scores.index) == set(others.index)
    scores = scores.loc[others.index]
    for name in ("n_items", "n_correct", "method", "role"):
        assert (scores[name] == others[name]).all()
    np.testing.assert_allclose(scores["theta"], others["theta"], atol=1e-4)
    np.testing.assert_allclose(scores["percentile"], others["percentile"], atol=0.02)
    machine = scores.xs("machine").drop(columns=["flags", "percentile_flags", "method", "role"])
    np.testing.assert_allclose(machine, others.xs("machine")[machine.columns], rtol=1e-6, atol=1e-4)
    one, other = (json.loads((folder / "summary.json").read_text()) for folder in (found, expected))
    assert "sampled_from" not in one
    assert one["n_respondents"] == other["n_respondents"] - (layout == "long")
    for name in ("n_respondents_kept", "n_items", "n_items_kept", "converged"):
        assert one[name] == other[name]
    run("report", found, "-o", tmp_path / "again.html")


@pytest.mark.slow
def test_a_sample_decides_what_leaves_and_all_are_fitted(
    data: Path, tmp_path: Path, everything_is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removals are those of the sample built alone, and the bank is the fit of the items left to everybody."""
    file = study(data, "wide")
    said = build(file, tmp_path / "out", "--sample", 1000)
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    kept = found["n_respondents_kept"]
    assert (found["sampled_from"], found["sample_seed"]) == (kept, 3)
    assert f"1000 respondents, drawn at random of {kept} (seed 3)" in " ".join(said.split())
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"drawn at random (seed 3) of the {kept:,} kept" in page
    n_fits = sum(scale["rounds"] + 1 for scale in found["scales"])  # and the one to all
    assert f"All {n_fits} fits converged" in page
    assert page.count(">all respondents<") == len(found["scales"])
    run(f"report {tmp_path}/out -o {tmp_path}/again.html")
    assert (tmp_path / "again.html").read_text() == page
    monkeypatch.undo()
    build(file, tmp_path / "memory", "--sample", 1000, "--quiet")
    assert_same_bank(tmp_path / "out", tmp_path / "memory")
    pruning, scores, people = (read(tmp_path / "out", f"{name}.csv") for name in ("pruning", "scores", "respondents"))
    pd.testing.assert_frame_equal(pruning, read(tmp_path / "memory", "pruning.csv"))
    names = people[people["kept"]]["respondent_id"].to_numpy()
    assert len(scores) == len(read(tmp_path / "memory", "scores.csv")) == 2 * kept
    assert list(scores["respondent_id"][::2]) == list(names)
    whole = responses()
    _, places = draw_respondents(kept, 1000, 3)
    write_parts(wide_frame(whole.select_respondents(np.isin(whole.respondent_ids, names[places]))), tmp_path / "some")
    item_table(tmp_path)
    build(study(tmp_path, "some"), tmp_path / "alone", "--quiet")
    assert "item4" in set(pruning["item_id"])
    for name in ("pruning.csv", "rounds_items.csv"):
        pd.testing.assert_frame_equal(read(tmp_path / "out", name), read(tmp_path / "alone", name))
    everybody = whole.select_respondents(np.isin(whole.respondent_ids, names))
    for scale in irtbench.load_bank(tmp_path / "out" / "bank.json").scales:
        fitted = irtbench.fit_model(everybody.select_items(scale.items.item_ids))
        for name in ("discrimination", "difficulty"):
            np.testing.assert_allclose(getattr(scale.items, name), getattr(fitted.items, name), atol=1e-4)


@pytest.mark.slow
def test_what_is_known_of_respondents_is_known_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approval, norm groups, weights and margins are those of the study in memory; so are person fit and idle items.

    They stand in a table beside, and in the long table.
    """
    whole = responses()
    people = pd.DataFrame({"respondent_id": whole.respondent_ids})
    people["approval_rate"] = [0.9 if k % 20 == 0 else 0.99 for k in range(len(people))]
    people["country"] = ["de" if k % 3 else "fr" for k in range(len(people))]
    people["w"] = [1 + k % 4 for k in range(len(people))]
    people.to_csv(tmp_path / "people.csv", index=False)
    item_table(tmp_path, more=1)
    write_parts(wide_frame(whole), tmp_path / "wide")
    write_parts(long_frame(whole, shuffled=1).merge(people), tmp_path / "long")
    rules = RULES.replace("min_responses = 6", "min_responses = 6\nmin_approval = 0.95\nperson_fit_p = 0.05")
    rules = rules.replace("[pruning]", '[pruning]\npreset = "none"')  # what leaves by its fit is the same: see above
    score = (
        '[score]\nnorm_groups = ["country"]\nnorm_weight = "w"\n[score.norm_margins]\ncountry = { de = 0.5, fr = 0.5 }'
    )

    def built(layout: str, out: str) -> Path:
        beside = 'respondents = "people.csv"' if layout == "wide" else ""
        build(study(tmp_path, layout, data=beside, rules=rules, more=score), tmp_path / out, "--quiet")
        return tmp_path / out

    memory = built("wide", "memory")
    others = read(memory, "respondents.csv").set_index("respondent_id")
    monkeypatch.setattr(large, "MOST_FIELDS", 0)
    monkeypatch.setattr("irtbench.study.study_data.read_study_table", lambda *_: pytest.fail("read whole"))
    monkeypatch.setattr("irtbench.data.stored_responses.StoredResponses.at_once", 177)
    for layout in ("wide", "long"):
        out = built(layout, layout + "-disk")
        assert_same_bank(out, memory)
        found = read(out, "respondents.csv").set_index("respondent_id")
        assert set(others.index) - set(found.index) == ({"r0040"} if layout == "long" else set())  # without a response
        pd.testing.assert_frame_equal(found, others.loc[found.index], rtol=1e-8, atol=1e-10)
        assert (found["reason"] == "low approval rate").sum() > 50
        assert (found["reason"] == "unlike the model").sum() > 10
        assert "unasked0" in set(read(out, "pruning.csv")["item_id"])
        for scales in zip(*(irtbench.load_bank(folder / "bank.json").scales for folder in (out, memory)), strict=True):
            # a long table is encoded in the order of names
            here, there = [
                pd.DataFrame({"theta": of.norms.theta, "w": of.norms.weights, **of.norms.groups}).sort_values(
                    ["country", "w", "theta"], ignore_index=True
                )
                for of in scales
            ]
            pd.testing.assert_frame_equal(here, there, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of responses shuffled among respondents, to which little can be fitted
def test_what_screening_changes_and_a_control_are_of_a_sample(
    data: Path, tmp_path: Path, everything_is_large: None
) -> None:
    file = study(data, "wide")
    plain = file.read_text()
    asked = plain.replace("seed = 3", "seed = 3\nscreening_effect = true")
    file.write_text(asked.replace("[pruning]", '[pruning]\npreset = "none"'))
    build(file, tmp_path / "out", "--sample", 1000, "--quiet")
    file.write_text(plain)
    effect = read(tmp_path / "out", "screening_effect.csv").set_index(["scale", "stage"])["n_respondents"]
    assert effect["all", "before"] == 1000 > effect["all", "after"]
    run(f"build {file} -o {tmp_path}/control --control --sample 1000")
    found = json.loads((tmp_path / "control" / "control.json").read_text())
    assert found["n_scales_found"] == 0
    assert found["sampled_from"] > 1000


def test_what_needs_memory_is_refused_where_it_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item_table(tmp_path)
    folder = write_parts(wide_frame(responses()), tmp_path / "wide")
    memory = fsspec.filesystem("memory")
    for part in folder.iterdir():
        memory.pipe(f"/studies/build/{part.name}", part.read_bytes())
    key, rules = "model.prior = hierarchical", '[model]\nprior = "hierarchical"'
    saying = f"memory://studies/build: {key} goes with a table on this machine"
    refused("build", study(tmp_path, "memory://studies/build", rules=rules), "-o", tmp_path / "out", saying=saying)
    monkeypatch.setattr(large, "MOST_FIELDS", 0)
    monkeypatch.setattr("irtbench.data.readers.table.MOST_FIELDS", 10_000)
    monkeypatch.setattr("irtbench.study.examination.BYTES_PER_CELL", 10**9)
    saying = f"{key} needs all responses in memory, about 32300 GB"
    refused("build", study(tmp_path, "wide", rules=rules), "-o", tmp_path / "out", saying=saying)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("min_seconds = 2", "screening: min_seconds is set but no seconds are given"),
        ("max_straight_line = 5", "screening: max_straight_line is set but no raw answers are given"),
        ("min_responses = 99", "screening: nobody is left of 1700 respondents: 1 no response, 1699 too few responses"),
        ("", "responses: unknown item item1"),
    ],
)
def test_rules_that_cannot_be_asked_are_refused_as_in_memory(
    rule: str, words: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = study(data, "wide", rules=f"[screening]\n{rule}\n")
    if not rule:
        pd.read_csv(data / "items.csv").iloc[1:].to_csv(data / "fewer.csv", index=False)
        file.write_text(file.read_text().replace("items.csv", "fewer.csv"))
    for fields in (10**9, 0):
        monkeypatch.setattr(large, "MOST_FIELDS", fields)
        refused(f"build {file} -o {tmp_path}/out --quiet", saying=words)
        assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on(
    both: Path, tmp_path: Path, everything_is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while it encodes, it encodes the rest; then at the scores, it neither encodes nor fits anew."""
    file, whole = study(both, "wide", more=SYSTEM), both / "disk"
    read, rows = [], irtbench.LargeTable.rows

    def counted(self: irtbench.LargeTable, *given: Any, **named: Any) -> Iterator[Any]:
        read.append(named.get("part"))
        if len(read) == 5:
            raise KeyboardInterrupt
        return rows(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(irtbench.LargeTable, "rows", counted)
        run(f"build {file} -o {tmp_path}/out --quiet", status=130)
        before, read[:] = len(read), [""] * 5
        patch.setattr("irtbench.scoring.bulk.score_matrix", stopped)
        run(f"build {file} -o {tmp_path}/out --quiet", status=130)
    assert before == 5
    assert len(read) - 5 == 10 - 3  # the layout and those of nine parts that were not finished
    assert not (tmp_path / "out").exists()
    assert (tmp_path / ".out.unfinished" / "encoded" / "responses.bin").exists()
    with monkeypatch.context() as patch:
        patch.setattr(irtbench.LargeTable, "rows", lambda *_, **__: pytest.fail("encoded again"))
        patch.setattr("irtbench.study.study_data.fit_model", lambda *_, **__: pytest.fail("fitted again"))
        build(file, tmp_path / "out", "--quiet")
    for name in ("items.csv", "scores.csv", "respondents.csv", "pruning.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (whole / name).read_bytes()


def stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_part_of_the_items_is_built_alone(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = '[screening]\nmin_responses = 5\n[pruning]\npreset = "none"\n'
    file = study(data, "long", data='where = { label = "two" }', rules=rules)
    build(file, tmp_path / "memory", "--quiet")
    monkeypatch.setattr(large, "MOST_FIELDS", 0)
    build(file, tmp_path / "out", "--quiet")
    assert_same_bank(tmp_path / "out", tmp_path / "memory")
    people, others = (read(tmp_path / name, "respondents.csv").set_index("respondent_id") for name in ("out", "memory"))
    pd.testing.assert_frame_equal(people.loc[others.index], others)
    file = study(data, "long", data='item_columns = { item_id = "item_id" }', rules=rules)
    table = pd.read_csv(data / "items.csv")
    table.iloc[1:].to_csv(tmp_path / "fewer.csv", index=False)
    file.write_text(file.read_text().replace('"items.csv"', f'"{tmp_path / "fewer.csv"}"'))
    refused(f"build {file} -o {tmp_path}/no --quiet", saying="responses: unknown item item1")


@pytest.mark.slow
def test_a_cache_is_used_again(
    data: Path, tmp_path: Path, everything_is_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    run(f"fit {data}/wide -o {tmp_path}/fit --cache {cache} --quiet")
    with monkeypatch.context() as patch:
        patch.setattr(irtbench.LargeTable, "rows", lambda *_, **__: pytest.fail("encoded again"))
        build(study(data, "wide", rules='[pruning]\npreset = "none"\n'), tmp_path / "out", "--cache", cache, "--quiet")


@pytest.mark.slow
def test_two_processes_build_what_one_builds(data: Path, tmp_path: Path) -> None:
    """Under torchrun."""
    rules = '[screening]\nmin_responses = 6\n[pruning]\nmin_items = 4\nlocal_dependence_p = "chi_square"\n'
    given = ("build", study(data, "wide", rules=rules, more=SYSTEM), "--sample", 1000, "--quiet", "-o")
    by_two = as_torchrun(2, *given, tmp_path / "two", "--cache", tmp_path / "cache")
    alone = as_torchrun(1, *given, tmp_path / "alone")
    assert (alone.status, alone.lines) == (0, [])
    assert (by_two.status, by_two.out, by_two.lines) == (0, "", [])
    assert {line.split()[1] for line in by_two.faults if int(line.split()[3])} == {"0", "1"}  # both have read
    found, expected = tmp_path / "two", tmp_path / "alone"
    assert sorted(os.listdir(found)) == sorted(os.listdir(expected))
    for file in expected.glob("*.csv"):
        pd.testing.assert_frame_equal(read(found, file.name), read(expected, file.name), rtol=1e-6, atol=1e-6)
    assert_same_bank(found, expected)
    assert json.loads((found / "summary.json").read_text())["sampled_from"] > 1000
    (folder,) = (tmp_path / "cache").iterdir()
    assert not {file.name for file in folder.iterdir()} & {"passes", "scores", "places.npy", "bank.json"}
