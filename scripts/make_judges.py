"""Simulate the grades of the tutorial *A judge's grades*: data/judges/grades.csv.gz.

    python scripts/make_judges.py

Twelve models answer sixty prompts; each answer is graded from 1 to 5 by two of four judges. One judge is severe, one
lenient, one favours models of its own family, four prompts separate nobody, and the judges of an answer share what they
see in it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

MODELS, PROMPTS, FLAT = 12, 60, (7, 21, 38, 55)
JUDGES = {"judge-a": 0.0, "judge-b": 0.9, "judge-c": -0.8, "judge-d": 0.1}
STEPS, OWN, SHARED = np.array([-2.0, -0.7, 0.6, 2.0]), 0.7, 0.5


def main() -> None:
    """Write the table."""
    rng, rows = np.random.default_rng(12), []
    ability, difficulty = np.linspace(-1.4, 1.4, MODELS), rng.normal(0, 0.6, PROMPTS)
    for model in range(MODELS):
        family = "north" if model % 3 else "south"
        for prompt in range(PROMPTS):
            slope = 0.0 if prompt in FLAT else 1.3
            seen = slope * ability[model] + SHARED * rng.normal() - difficulty[prompt]
            for judge in rng.choice(list(JUDGES), 2, replace=False):
                favour = OWN * (judge == "judge-d" and family == "south")
                z = seen + favour - JUDGES[judge] + rng.logistic()
                grade = 1 + int((z > STEPS).sum())
                rows.append((f"model-{model + 1:02d}", f"prompt-{prompt + 1:02d}", judge, grade, family))
    table = pd.DataFrame(rows, columns=["model", "prompt", "judge", "grade", "family"])
    folder = Path(__file__).parents[1] / "data" / "judges"
    folder.mkdir(exist_ok=True)
    table.to_csv(folder / "grades.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})


if __name__ == "__main__":
    main()
