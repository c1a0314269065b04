"""What the report says of a system whose answers look like a person's on one scale and not on another."""

import numpy as np
import pandas as pd

from irtbench.report.prose import likeness
from irtbench.scoring.optional_columns import Explanation

LEVELS = ["respondent_id", "scale", "level", "difficulty_from", "difficulty_to", "n_items", "observed", "z"]


def said(**person_fit: float) -> str:
    scores = pd.DataFrame(
        {"respondent_id": "s", "scale": list(person_fit), "n_items": 9, "person_fit": list(person_fit.values())}
    )
    return likeness(scores, Explanation(pd.DataFrame(), pd.DataFrame(columns=LEVELS)), "s")


def test_scales_are_grouped_by_whether_the_answers_look_like_a_persons() -> None:
    assert said(verbs=0.5) == "Its answers look like a person’s of its ability on verbs (lz* 0.50)."
    assert said(verbs=-4.0) == "Its answers do not look like a person’s of its ability on verbs (lz* −4.00)."
    both = said(verbs=0.5, nouns=-4.0, names=np.nan)
    assert "do not look like a person’s of its ability on nouns" in both
    assert ". They look like a person’s on verbs" in both
    assert both.endswith("Person fit is not defined on names.")
