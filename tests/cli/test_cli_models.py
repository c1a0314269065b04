"""``irtbench fit`` with the models that items share parameters in, and what the other commands make of its files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """800 people of mean .5 and standard deviation 1.5 on 14 items of slope 1."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(11)
    items = irtbench.ItemParameters.from_difficulty(
        [1.0] * 14, np.linspace(-2, 2, 14), item_ids=[f"q{k:02d}" for k in range(14)]
    )
    drawn = irtbench.simulate_responses(rng.normal(0.5, 1.5, 800), items, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    items.select(items.item_ids[:5]).table().to_csv(folder / "known.csv", index=False)
    return folder


def test_rasch_from_fit_to_score(folder: Path) -> None:
    out = folder / "rasch"
    said = run(f"fit {folder}/responses.csv -o {out} --model rasch").out
    assert "ability of these respondents: mean 0.000 (0.000), standard deviation 1." in said
    found = json.loads((out / "fit.json").read_text())
    assert (found["model"], found["n_parameters"]) == ("rasch", 15)
    items = pd.read_csv(out / "items.csv")
    assert set(items["model"]) == {"rasch"}
    assert (items["population_sd"] == found["population_sd"]).all()
    assert abs(found["population_sd"] - 1.5) < 4 * found["population_se_sd"]
    # theta is on the scale of the items: its spread and its error make the population's
    scores = pd.read_csv(out / "scores.csv")
    assert np.sqrt(scores["theta"].var() + (scores["se"] ** 2).mean()) == pytest.approx(
        found["population_sd"], rel=0.03
    )
    assert scores["percentile"].mean() == pytest.approx(50, abs=2)
    said = run(f"score {out}/bank.json {folder}/responses.csv -o {folder}/again.csv").out
    assert "mean and standard deviation of the crowd are 0.00 and 1." in said
    np.testing.assert_allclose(pd.read_csv(folder / "again.csv")["theta"], scores["theta"])
    for given in (out / "bank.json", out / "items.csv"):
        run(f"items {given} -o {folder}/read -q")
        table = pd.read_csv(folder / "read" / "score_table.csv")
        # the number right is sufficient in a Rasch model: the same ability as by the responses
        by_score = scores.groupby("n_correct")["theta"].mean()
        np.testing.assert_allclose(table.set_index("score")["theta"].loc[by_score.index], by_score, atol=1e-3)


def test_diagnose_reads_the_population_beside_the_items(folder: Path) -> None:
    reports = {}
    for model in ("rasch", "1pl"):
        run(f"fit responses.csv -o fit_{model} --model {model} -q", cwd=folder)
        run(f"diagnose responses.csv --items fit_{model}/items.csv -o d_{model} --bootstrap 19 -q", cwd=folder)
        out = folder / f"d_{model}"
        reports[model] = (
            json.loads((out / "global_fit.json").read_text()),
            pd.read_csv(out / "item_fit.csv"),
            pd.read_csv(out / "local_dependence.csv"),
            json.loads((out / "reliability.json").read_text()),
            pd.read_csv(out / "infit_outfit.csv"),
        )
    one, other = reports.values()
    # one model on two scales
    assert one[0]["df"] == other[0]["df"] == 14 * 15 // 2 - 15
    assert one[0]["m2"] == pytest.approx(other[0]["m2"], rel=1e-3)
    np.testing.assert_allclose(one[1]["s_x2"], other[1]["s_x2"], rtol=2e-3)
    np.testing.assert_allclose(one[2]["x2"], other[2]["x2"], rtol=1e-2, atol=1e-3)
    assert one[3]["marginal"] == pytest.approx(other[3]["marginal"], abs=1e-3)
    np.testing.assert_allclose(one[4]["infit"], other[4]["infit"], atol=1e-3)
    # the items were drawn from the model
    assert (one[1]["p_adjusted"] > 0.01).all()
    assert one[0]["rmsea"] < 0.03


def test_anchors_keep_their_parameters_and_bring_their_scale(folder: Path) -> None:
    out = folder / "anchored"
    said = run(f"fit {folder}/responses.csv -o {out} --anchors {folder}/known.csv").out
    assert "ability of these respondents: mean 0." in said
    found = json.loads((out / "fit.json").read_text())
    assert abs(found["population_mean"] - 0.5) < 4 * found["population_se_mean"]
    assert abs(found["population_sd"] - 1.5) < 4 * found["population_se_sd"]
    items = pd.read_csv(out / "items.csv")
    assert items["model"].tolist() == ["fixed"] * 5 + ["2pl"] * 9
    known = pd.read_csv(folder / "known.csv")
    np.testing.assert_array_equal(items["difficulty"][:5], known["difficulty"])
    z = (items["difficulty"][5:] - np.linspace(-2, 2, 14)[5:]) / items["se_difficulty"][5:]
    assert np.abs(z).max() < 4
    run("diagnose responses.csv --items anchored/items.csv -o d --bootstrap 0 -q", cwd=folder)
    assert json.loads((folder / "d" / "global_fit.json").read_text())["df"] == 105 - 20
    refused("items diagnose responses.csv --items anchored/items.csv -o d2",
            saying="items fitted with anchors are not refitted", cwd=folder)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "5pl"], "'5pl' is not one of 'rasch', '1pl', '2pl', '3pl', '4pl'"),
        (["--model", "rasch", "--prior", "hierarchical"], "expected none or weak"),
        (["--model", "1pl", "--prior", "weak", "--anchors", "known.csv"], "go without a prior of slopes"),
        (["--factors", "2", "--anchors", "known.csv"], "several abilities go with"),
        (["--anchors", "responses.csv"], "column 'discrimination' missing"),
    ],
)
def test_what_does_not_go_together_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    refused("fit responses.csv -o none", *arguments, saying=said, cwd=folder)
    assert not (folder / "none").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rasch", "1pl"])
def test_a_study_of_a_common_slope(folder: Path, kind: str) -> None:
    long = pd.read_csv(folder / "responses.csv")
    answers = long.assign(answer=long["response"].map({1: "yes", 0: "no"})).drop(columns="response")
    answers.to_csv(folder / "answers.csv", index=False)
    pd.DataFrame({"item_id": long["item_id"].unique(), "key": "yes"}).to_csv(folder / "items.csv", index=False)
    study = folder / f"{kind}.toml"
    study.write_text(
        f'[study]\ntitle = "x"\n[data]\nanswers = "answers.csv"\nitems = "items.csv"\n[model]\nkind = "{kind}"\n'
    )
    run(f"build {study} -o {folder}/built_{kind} -q")
    (scale,) = irtbench.load_bank(folder / f"built_{kind}" / "bank.json").scales
    assert set(scale.items.model) == {kind}
    assert (scale.population is not None) == (kind == "rasch")
    rounds = pd.read_csv(folder / f"built_{kind}" / "rounds_items.csv")
    slope = rounds["discrimination"] * (scale.population.deviation if scale.population is not None else 1.0)
    first = rounds["round"] == rounds["round"].max()
    np.testing.assert_allclose(rounds["communality"][first], (slope**2 / (slope**2 + 1.702**2))[first], atol=1e-3)


@pytest.mark.parametrize(
    ("n_respondents", "n_items", "prior", "why"),
    [(12, 30, "hierarchical", "items outnumber 12 respondents"), (90, 10, "weak", "90 responses to the median item"),
     (400, 10, "none", "")],
)  # fmt: skip
def test_fit_takes_the_prior_that_suits_and_says_why(
    tmp_path: Path, n_respondents: int, n_items: int, prior: str, why: str
) -> None:
    rng = np.random.default_rng(3)
    items = irtbench.ItemParameters.from_difficulty([1.2] * n_items, np.linspace(-1.2, 1.2, n_items))
    irtbench.simulate_responses(rng.normal(size=n_respondents), items, rng=rng).to_long().to_csv(
        tmp_path / "r.csv", index=False
    )
    said = run(f"fit {tmp_path}/r.csv -o {tmp_path}/out").out
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["prior"].startswith(prior)
    assert why in " ".join(said.split())
    assert ("--prior says otherwise" in said) == bool(why)
    assert "discrimination (se)" in said
    own = run(f"fit {tmp_path}/r.csv -o {tmp_path}/own --prior {prior}").out
    assert "says otherwise" not in own
