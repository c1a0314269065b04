"""A study of grades: a table to a bank, with screening, pruning by the fit of categories, and systems scored."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import irtbench
from builders.command_line import run

LEVELS = ["poor", "fair", "good", "great"]
N, N_ITEMS, N_CLICKERS = 160, 12, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """160 people's labels on 15 items: q12 of no slope, q13 much like q00, q14 of one category; ten clickers."""
    folder, rng = tmp_path_factory.mktemp("grades"), np.random.default_rng(11)
    theta, b = rng.normal(size=(N, 1, 1)), np.array([-1.2, 0.0, 1.1]) + rng.normal(0, 0.4, (N_ITEMS, 1))
    codes = (2.2 * (theta - b) + rng.logistic(size=(N, N_ITEMS, 1)) > 0).sum(axis=2)
    flat, again = rng.integers(0, 4, (N, 1)), np.where(rng.random((N, 1)) < 0.7, codes[:, :1], codes[:, 1:2])
    codes = np.hstack([codes, flat, again, np.full((N, 1), 2)])
    codes[-N_CLICKERS:, :N_ITEMS] = rng.integers(0, 4, (N_CLICKERS, N_ITEMS))
    names = [f"q{j:02d}" for j in range(codes.shape[1])]
    wide = pd.DataFrame(np.array(LEVELS)[codes], [f"r{i:03d}" for i in range(N)], names).rename_axis("respondent_id")
    wide.to_csv(folder / "grades.csv")
    wide.head(3).rename("system-{}".format).to_csv(folder / "systems.csv")
    (folder / "study.toml").write_text(
        '[data]\nanswers = "grades.csv"\ncontent = "responses"\nlevels = ["poor", "fair", "good", "great"]\n'
        '[model]\nkind = "grm"\n[scales]\nby = "none"\n[screening]\nperson_fit_p = 0.01\n'
        '[study]\nscreening_effect = true\n[pruning]\nlocal_dependence_p = "chi_square"\n'
        '[score]\nsystems = ["systems.csv"]\n'
    )
    run("build", folder / "study.toml", "-o", folder / "built")
    return folder


def test_planted_items_leave_for_their_reason(folder: Path) -> None:
    removed = pd.read_csv(folder / "built/pruning.csv").set_index("item_id")
    assert set(removed.index) == {"q12", "q14", *({"q00", "q13"} & set(removed.index))}
    assert removed.loc["q12", "reason"] in ("low_communality", "negative_slope")
    assert (removed.loc["q14", "reason"], removed.loc["q14", "note"]) == ("excluded", "all scores are good")
    dependent = removed[removed["reason"] == "local_dependence"]
    assert len(dependent) == 1
    assert dependent["note"].iloc[0] in ("depends on q00", "depends on q13")


def test_clickers_are_unlike_the_model_and_nearly_nobody_else(folder: Path) -> None:
    people = pd.read_csv(folder / "built/respondents.csv")
    left_out = people["reason"] == "unlike the model"
    assert left_out[-N_CLICKERS:].sum() >= N_CLICKERS / 2
    assert left_out[:-N_CLICKERS].sum() <= 8
    assert (people["n_responses"] == N_ITEMS + 3).all()  # answers, not points
    given = pd.read_csv(folder / "grades.csv", index_col=0).map(LEVELS.index)
    np.testing.assert_array_equal(people["n_correct"], (given - given.min()).sum(axis=1))
    effect = pd.read_csv(folder / "built/screening_effect.csv")
    assert [*effect["stage"]] == ["before", "after"]
    assert effect.loc[0, "n_responses"] == N * (N_ITEMS + 3)
    kept = given.loc[people.loc[people["kept"], "respondent_id"], [f"q{j:02d}" for j in range(14)]]
    alone = irtbench.fit_categories(kept, "grm", prior="weak").table().set_index("item_id")  # as of fewer than 300
    items = pd.read_csv(folder / "built/items_effect.csv").set_index("item_id").loc[alone.index]
    np.testing.assert_allclose(items["discrimination_after"], alone["discrimination"], rtol=1e-3)


def test_the_bank_is_that_of_a_fit_to_those_kept(folder: Path) -> None:
    bank = irtbench.load_bank(folder / "built/bank.json", categories=True)
    items, people = bank.scales[0].items, pd.read_csv(folder / "built/respondents.csv")
    given = pd.read_csv(folder / "grades.csv", index_col=0).loc[people.loc[people["kept"], "respondent_id"]]
    fitted = irtbench.fit_categories(given[list(items.item_ids)], "grm", levels=LEVELS, prior="weak")
    assert items.categories is not None
    np.testing.assert_allclose(items.categories.parameters, fitted.parameters, atol=1e-9)
    assert set(items.categories.categories) == {tuple(LEVELS)}
    scores = pd.read_csv(folder / "built/scores.csv").set_index("respondent_id")
    again = irtbench.score_responses(bank, given[list(items.item_ids)]).set_index("respondent_id")
    np.testing.assert_allclose(scores.loc[again.index, "theta"], again["theta"], atol=1e-9)
    systems = scores[scores["role"] == "system"]
    np.testing.assert_allclose(systems["theta"], again["theta"].iloc[:3], atol=1e-9)
    items_csv = pd.read_csv(folder / "built/items.csv")
    assert (items_csv["n_responses"] == len(given)).all()  # a grade is one response, of several points


def test_the_page_and_the_methods_name_the_model_and_the_page_is_made_again(folder: Path) -> None:
    methods, page = (folder / "built/methods.md").read_text(), (folder / "built/report.html").read_bytes()
    assert "graded response model (Samejima, 1969)" in methods
    assert "two-parameter" not in methods
    run("report", folder / "built", "-o", folder / "again.html")
    assert (folder / "again.html").read_bytes() == page


@pytest.mark.slow
def test_a_table_of_grades_is_built_without_a_study_file(folder: Path, tmp_path: Path) -> None:
    given = pd.read_csv(folder / "grades.csv", index_col=0).iloc[:-N_CLICKERS]
    given.mask(np.random.default_rng(2).random(given.shape) < 0.1).to_csv(tmp_path / "grades.csv")
    run("build grades.csv --model pcm -o out --levels", ",".join(LEVELS), cwd=tmp_path)
    found = json.loads((tmp_path / "out/summary.json").read_text())
    removed = pd.read_csv(tmp_path / "out/pruning.csv").set_index("item_id")
    assert (found["title"], found["scales"][0]["rejected"]) == ("grades", None)
    assert {"q12", "q14"} < set(removed.index)  # the flat one of one common slope is dependent on others
    assert {"q00", "q13"} & set(removed.index)
    assert len(removed) <= 4
    slopes = irtbench.load_bank(tmp_path / "out/bank.json", categories=True).scales[0].items.discrimination
    assert np.ptp(slopes) < 1e-9


def study_of(
    folder: Path, codes: NDArray[np.generic], model: str, more: str = "", rules: str = 'preset = "none"'
) -> irtbench.Study:
    """Of these grades by a graded model, without pruning but by other rules."""
    columns = [f"q{j}" for j in range(codes.shape[1])]
    pd.DataFrame(codes, columns=columns).rename_axis("respondent_id").to_csv(folder / "grades.csv")
    (folder / "study.toml").write_text(
        f'[data]\nanswers = "grades.csv"\ncontent = "responses"\n[model]\nkind = "grm"\n{model}\n'
        f'[scales]\nby = "none"\n{more}\n[pruning]\n{rules}\n'
    )
    return irtbench.run_study(irtbench.read_study(folder / "study.toml"))


@pytest.mark.parametrize(("wanted", "n_samples"), [("chi_square", 0), ("bootstrap", 19)])
def test_pairs_of_grades_leave_by_the_p_asked_for(tmp_path: Path, wanted: str, n_samples: int) -> None:
    rng = np.random.default_rng(4)
    codes = (1.5 * rng.normal(size=(150, 1, 1)) + rng.logistic(size=(150, 5, 1)) > [-1.0, 1.0]).sum(axis=2)
    codes[:, 1] = np.where(rng.random(150) < 0.7, codes[:, 0], codes[:, 1])
    rules = f'order = ["local_dependence"]\nbootstrap_samples = 19\nlocal_dependence_p = "{wanted}"'
    pruning = study_of(tmp_path, codes, "", rules=rules).scales[0].pruning
    assert pruning.rounds[0].local_dependence.bootstrap_samples == n_samples
    assert pruning.removals[0].item_id in ("q0", "q1")


def categories_of(study: irtbench.Study) -> irtbench.CategoryParameters:
    assert study.bank is not None
    known = study.bank.scales[0].items.categories
    assert known is not None
    return known


def test_categories_that_screening_empties_are_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = (1.5 * rng.normal(size=(120, 1, 1)) + rng.logistic(size=(120, 5, 1)) > [-1.0, 1.0]).sum(axis=2) * 1.0
    codes[0] = [7.0] + [np.nan] * 4  # the one who gave a 7 answered nothing else
    study = study_of(tmp_path, codes, "", "[screening]\nmin_responses = 2")
    assert set(categories_of(study).categories) == {(0, 1, 2)}
    assert study.screening.reason[0] == "too few responses"  # of one grade, whatever its points


@pytest.mark.filterwarnings("ignore:item fit:RuntimeWarning")
def test_a_prior_learnt_from_the_grades_of_few(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    codes = (1.5 * rng.normal(size=(16, 1, 1)) + rng.logistic(size=(16, 4, 1)) > [-1.0, 1.0]).sum(axis=2)
    study = study_of(tmp_path, codes, 'prior = "hierarchical"')
    alone = irtbench.fit_categories(pd.read_csv(tmp_path / "grades.csv", index_col=0), "grm", prior="hierarchical")
    np.testing.assert_allclose(categories_of(study).parameters, alone.items.parameters, atol=1e-9)
