"""Small valid inputs for every command, and the arguments that read them."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from builders.simulated import simulated
from irtbench.bank.bank import ItemBank, save_bank
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.models.parameter_table import parameter_table

#: Arguments of each command, and the files among them that can be damaged; every result goes into out/.
READING = {
    "build": ("build study.toml -o out -q", "study.toml answers.csv items.csv systems.csv"),
    "convert": ("convert answers.csv -o out/long.csv -q", "answers.csv"),
    "fit": ("fit responses.csv -o out -q", "responses.csv"),
    "items diagnose": (
        "items diagnose responses.csv --items parameters.csv -o out -q --bootstrap 0",
        "responses.csv parameters.csv",
    ),
    "crowd keys": ("crowd keys answers.csv --items items.csv -o out -q", "answers.csv items.csv"),
    "items show": ("items show bank.json --items items.csv -o out -q", "bank.json items.csv"),
    "items difficulty": (
        "items difficulty responses.csv --features features.csv -o out -q --model rasch",
        "responses.csv features.csv",
    ),
    "link": ("link bank.json --items parameters.csv -o out -q", "bank.json parameters.csv"),
    "link --extend": ("link --extend parameters.csv more.csv -o out -q --prior weak", "parameters.csv more.csv"),
    "items bias": (
        "items bias responses.csv --groups groups.csv -o out -q --method logistic",
        "responses.csv groups.csv",
    ),
    "dimensions": ("dimensions responses.csv -o out -q --factors 0 --samples 2", "responses.csv"),
    "score": ("score bank.json systems.csv -o out/scores.csv -q", "bank.json systems.csv"),
    "compare": ("compare wide.csv --bank bank.json --item-error none -o out -q", "wide.csv bank.json"),
    "predict": ("predict bank.json wide.csv -o out/prediction.csv -q", "bank.json wide.csv"),
    "form adapt": ("form adapt bank.json --replay wide.csv -o out/path.csv -q", "bank.json wide.csv"),
    "form assemble": (
        "form assemble bank.json --items items.csv --limit type=x:1..2 --length 3 -o out -q",
        "bank.json items.csv",
    ),
    "crowd plan": ("crowd plan --pilot parameters.csv --respondents 100 -o out -q", "parameters.csv"),
    "crowd sample": (
        "crowd sample corpus.csv --annotations label* --agreement 3/3 --per-label 1 --text {text} --sheets mturk "
        "--booklets 2 -o out -q",
        "corpus.csv",
    ),
    "crowd screen": (
        "crowd screen timed.csv --items items.csv --fast-quantile 0.01 --min-effort 0.1 --max-pattern 40 "
        "--min-approval 0.5 --min-agreement 0.01 -o out -q",
        "timed.csv items.csv",
    ),
    "crowd agree": ("crowd agree answers.csv --items items.csv -o out -q", "answers.csv items.csv"),
    "evaluate breakdown": ("evaluate breakdown wide.csv --items items.csv --type type -o out -q", "wide.csv items.csv"),
    "evaluate consistency": (
        "evaluate consistency wide.csv --items twins.csv --twin-of twin_of -o out -q",
        "wide.csv twins.csv",
    ),
    "evaluate calibration": ("evaluate calibration predictions.csv -o out -q --samples 20", "predictions.csv"),
    "evaluate human-bound": ("evaluate human-bound responses.csv --other-counts share -o out -q", "responses.csv"),
    "crowd raters": ("crowd raters ratings.csv -o out -q", "ratings.csv"),
    "evaluate artifacts": ("evaluate artifacts choices.csv -o out -q --folds 2 --repeats 1", "choices.csv"),
}
COMMANDS_READING = {name: (line.split(), tuple(files.split())) for name, (line, files) in READING.items()}

STUDY = """[study]
title = "A study"
[data]
answers = "answers.csv"
items = "items.csv"
[model]
max_steps = 60
[pruning]
preset = "none"
[score]
systems = ["systems.csv"]
"""


def write_ratings(file: Path) -> None:
    """Write scores 0 to 2 of 40 respondents on 3 items by 3 judges, the last of them severe."""
    rng = np.random.default_rng(5)
    rows = pd.MultiIndex.from_product([range(40), range(3), range(3)]).to_frame(index=False).to_numpy()
    z = rng.normal(0, 1.3, 40)[rows[:, 0]] - np.array([-0.6, 0.0, 1.2])[rows[:, 2]] + rng.logistic(size=len(rows))
    names = [[f"{word}{k}" for k in column] for word, column in zip(("system", "task", "judge"), rows.T, strict=True)]
    table = dict(zip(("respondent_id", "item_id", "rater_id"), names, strict=True))
    pd.DataFrame(table | {"score": np.digitize(z, [-0.5, 0.8])}).to_csv(file, index=False)


def write_valid_inputs(folder: Path) -> None:
    """Write every file that `COMMANDS_READING` names."""
    for name, content in contents().items():
        (folder / name).write_bytes(content)


@cache
def contents() -> dict[str, bytes]:
    """What is in each file, made once."""
    with TemporaryDirectory() as made:
        _make(Path(made))
        return {file.name: file.read_bytes() for file in Path(made).iterdir()}


def _make(folder: Path) -> None:
    write_ratings(folder / "ratings.csv")
    responses, items, theta = simulated(60, 8, seed=3)
    names = list(responses.item_ids)
    keys = ["yes" if k % 2 else "no" for k in range(len(names))]
    long = responses.to_long()
    right = long["item_id"].map(dict(zip(names, keys, strict=True)))
    more = long["item_id"].replace({names[-1]: "new item"})
    long.assign(item_id=more)[["respondent_id", "item_id", "response"]].to_csv(folder / "more.csv", index=False)
    long["answer"] = np.where(long["response"] == 1, right, right.map({"yes": "no", "no": "yes"}))
    long[["respondent_id", "item_id", "response"]].to_csv(folder / "responses.csv", index=False)
    long[["respondent_id", "item_id", "answer"]].to_csv(folder / "answers.csv", index=False)
    timed = long[["respondent_id", "item_id", "answer"]].assign(
        seconds=5 + np.arange(len(long)) % 7, approval_rate="98%"
    )
    timed.to_csv(folder / "timed.csv", index=False)
    corpus = {f"label{k}": keys for k in range(3)} | {"text": [f"text of {name}" for name in names]}
    pd.DataFrame({"item_id": names} | corpus).to_csv(folder / "corpus.csv", index=False)
    systems = long[long["respondent_id"].isin(["r3", "r5"])]
    systems[["respondent_id", "item_id", "answer"]].to_csv(folder / "systems.csv", index=False)
    wide = pd.DataFrame(responses.values[:3].astype(int), columns=names)
    wide.insert(0, "system", ["a", "b", "c"])
    wide.to_csv(folder / "wide.csv", index=False)
    table = pd.DataFrame({"item_id": names, "key": keys, "type": ["x", "y"] * (len(names) // 2)})
    table.to_csv(folder / "items.csv", index=False)
    pd.DataFrame({"item_id": names, "length": np.arange(len(names)) % 5}).to_csv(folder / "features.csv", index=False)
    half = len(names) // 2
    twins = pd.DataFrame({"item_id": names, "twin_of": [""] * half + names[:half]})
    twins.to_csv(folder / "twins.csv", index=False)
    groups = pd.DataFrame({"respondent_id": responses.respondent_ids, "group": ["one", "two"] * 30})
    groups.to_csv(folder / "groups.csv", index=False)
    parameter_table(items, responses).to_csv(folder / "parameters.csv", index=False)
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60).round(3)
    predictions = pd.DataFrame({"probability": p, "label": (rng.uniform(size=60) < p).astype(int)})
    predictions.to_csv(folder / "predictions.csv", index=False)
    choices = pd.DataFrame(
        {
            "item_id": [f"q{k}" for k in range(24)],
            "option_A": [f"the {'red' if k % 2 else 'blue'} house number {k}" for k in range(24)],
            "option_B": [f"a {'tall' if k % 3 else 'small'} tree number {k}" for k in range(24)],
            "gold": ["A" if k % 2 else "B" for k in range(24)],
        }
    )
    choices.to_csv(folder / "choices.csv", index=False)
    details = replace(ItemTable.plain(names), key=tuple(keys))
    save_bank(ItemBank((Scale("all", items, details, norms=Norms(theta)),)), folder / "bank.json")
    (folder / "study.toml").write_text(STUDY)
