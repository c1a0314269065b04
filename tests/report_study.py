"""A study for tests of the report: names that are markup, a scale that stands and one that must fail, one system."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.drawing import Drawing
from irtbench.report.html import study_page
from irtbench.report.page import render_page
from irtbench.study.results import Study

DRAWN = Drawing.image

SCRIPT = "<script>alert('x')</script> & Co"
N_RESPONDENTS, N_CARELESS = 260, 7
FINE, SPLIT = "fine <i>", "split"
SYSTEM = r"<b>$\frac</b> & $1 系统"  # neither HTML nor mathematics, in letters that the figures' font lacks


def render_report(study: Study) -> str:
    """The page of a study as text."""
    return render_page(study_page(study))


@contextmanager
def drawn() -> Iterator[None]:
    """Pages have their drawings, as elsewhere in the tests they have not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drawing, "image", DRAWN)
        yield


def simulated_files(folder: Path) -> None:
    """Answers, items and one system: a scale with one reversed item, and a scale of two abilities, which must fail."""
    rng = np.random.default_rng(11)
    slopes, difficulties = rng.uniform(1.2, 2.2, 10), np.linspace(-1.5, 1, 10)
    slopes[9] = -1.5
    fine = ItemParameters.from_difficulty(slopes, difficulties, item_ids=[f"f{j}<&>" for j in range(10)])
    halves = [
        ItemParameters.from_difficulty(
            np.full(5, 2.0), np.linspace(-1, 1, 5), item_ids=[f"{half}{j}" for j in range(5)]
        )
        for half in "st"
    ]
    respondents = [f"r{i}" for i in range(N_RESPONDENTS)]
    graded = pd.concat(
        [
            simulate_responses(rng.normal(size=N_RESPONDENTS), items, rng=rng, respondent_ids=respondents).to_long()
            for items in (fine, *halves)
        ]
    )
    checks = pd.DataFrame({"respondent_id": respondents, "item_id": "check", "response": 1})
    checks.loc[: N_CARELESS - 1, "response"] = 0
    graded = pd.concat([graded, checks])
    wrong = rng.choice(["no", "perhaps"], len(graded))
    answers = graded.assign(answer=np.where(graded["response"] == 1, "yes", wrong)).drop(columns="response")
    answers.to_csv(folder / "answers.csv", index=False)
    graded.to_csv(folder / "responses.csv", index=False)
    ids = [*fine.item_ids, *halves[0].item_ids, *halves[1].item_ids, "check"]
    pd.DataFrame(
        {
            "item_id": ids,
            "key": "yes",
            "label": [FINE] * 10 + [SPLIT] * 10 + [""],
            "text": [SCRIPT] + [""] * 20,
            "attention": [0] * 20 + [1],
        }
    ).to_csv(folder / "items.csv", index=False)
    system = pd.DataFrame({"respondent_id": SYSTEM, "item_id": fine.item_ids[:9], "answer": ["yes"] * 6 + ["no"] * 3})
    system.to_csv(folder / "system.csv", index=False)


FULL = """
[study]
title = "A study of <b>bold</b> claims"
description = "First paragraph.\\n\\nSecond <i>paragraph</i>."
seed = 3
[data]
answers = "answers.csv"
items = "items.csv"
[screening]
attention_share = 1.0
[pruning]
bootstrap_samples = 19
[score]
systems = ["system.csv"]
[published]
source = "A paper"
n_given = 21
agreement = { fleiss_kappa = 0.25 }
notes = ["A note <u>on</u> it."]
[published.scales."fine <i>"]
n_kept = 8
difficulty = [-1.5, 1.0]
[published.scales.split]
discrimination = [0.5, 2.5]
"""
PLAIN = """
[data]
answers = "responses.csv"
items = "items.csv"
content = "responses"
where = { label = "split" }
[pruning]
bootstrap_samples = 19
"""
