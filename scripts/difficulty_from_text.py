"""How much of an item's difficulty plain features of its text explain.

    python scripts/difficulty_from_text.py DATA

DATA holds the folders snow2008_rte (800 pairs of text and hypothesis, ten crowd workers each) and openllm_leaderboard
(338 questions, 1,000 systems). Features are counted here from the texts: words, shared words, negations, numbers.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.analysis.explained_difficulty import ExplainedDifficulty, explain_difficulty
from irtbench.analysis.explained_responses import explain_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model

NEGATION = re.compile(r"\b(?:no|not|never|none|nobody|nothing|without|except|least|\w+n't)\b", re.IGNORECASE)


def words(text: str) -> list[str]:
    """The words of a text in small letters."""
    return re.findall(r"\w+", text.lower())


def features_of_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Features of text and hypothesis, a row an item."""
    rows = []
    for row in table.itertuples():
        first, second = words(str(row.text)), words(str(row.hypothesis))
        rows.append(
            {
                "item_id": str(row.item_id),
                "log_words_text": np.log1p(len(first)),
                "log_words_hypothesis": np.log1p(len(second)),
                "overlap": len(set(first) & set(second)) / max(len(set(second)), 1),
                "negation": float(bool(NEGATION.search(f"{row.text} {row.hypothesis}"))),
                "number_in_hypothesis": float(bool(re.search(r"\d", str(row.hypothesis)))),
                "entailed": float(row.gold == 1),
            }
        )
    return pd.DataFrame(rows)


def features_of_questions(table: pd.DataFrame) -> pd.DataFrame:
    """Features of single questions, a row an item."""
    texts = table["question"].astype(str)
    return pd.DataFrame(
        {
            "item_id": table["item_id"].astype(str),
            "benchmark": table["benchmark"],
            "log_words": [np.log1p(len(words(text))) for text in texts],
            "negation": [float(bool(NEGATION.search(text))) for text in texts],
            "digits": [float(bool(re.search(r"\d", text))) for text in texts],
            "letters_a_word": [np.mean([len(word) for word in words(text)] or [0]) for text in texts],
        }
    )


def of_estimates(responses: ResponseMatrix, features: pd.DataFrame, rng: np.random.Generator) -> ExplainedDifficulty:
    """Items first, then the regression of those that have a difficulty to speak of."""
    p = responses.proportion_correct()
    varied = [item for item, share in zip(responses.item_ids, p, strict=True) if 0 < share < 1]
    fitted = fit_model(responses.select_items(varied), model="2pl", prior="weak")
    slopes = fitted.items.discrimination > 0.3
    items = fitted.items.select([item for item, there in zip(fitted.items.item_ids, slopes, strict=True) if there])
    return explain_difficulty(items, features, population=fitted.quadrature, rng=rng)


def of_answers(responses: ResponseMatrix, features: pd.DataFrame, rng: np.random.Generator) -> ExplainedDifficulty:
    """Items and regression at once: ten answers an item know no difficulty of their own, and no slope."""
    return explain_responses(responses, features, model="rasch", rng=rng)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    for folder, of, explained in (
        ("snow2008_rte", features_of_pairs, of_answers),
        ("openllm_leaderboard", features_of_questions, of_estimates),
    ):
        answers = next((data / folder).glob("responses.csv*"))
        table = pd.read_csv(answers, dtype={"item_id": str}).rename(columns={"correct": "response"})
        responses = ResponseMatrix.from_long(table[["respondent_id", "item_id", "response"]])
        found = explained(responses, of(pd.read_csv(data / folder / "items.csv")), np.random.default_rng(1))
        print(f"\n{folder}: {found.in_short()}")
        print(f"difficulty sd {found.total_sd:.2f}, unexplained {found.residual_sd:.2f}", flush=True)
        print(found.table().round(3).to_string(index=False))


if __name__ == "__main__":
    main()
