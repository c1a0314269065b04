"""Samples as lm-evaluation-harness logs them."""

import json
from pathlib import Path

from irtbench.data.responses import ResponseMatrix


def write_logs(responses: ResponseMatrix, rows: range, folder: Path) -> None:
    """A folder a system, under two filters and two metrics, of which acc is right; keys are no and yes by turns."""
    for row in rows:
        lines = []
        for k, (item, right) in enumerate(zip(responses.item_ids, responses.values[row], strict=True)):
            key, answer = ("no", "yes")[k % 2], ("no", "yes")[(k + (right == 0)) % 2]
            lines += [
                {
                    "doc_id": item, "doc": {"q": item}, "target": key, "resps": [[answer]], "filtered_resps": [answer],
                    "filter": name, "metrics": ["acc", "acc_norm"], "acc": right, "acc_norm": 0.0, "doc_hash": f"h{k}",
                }
                for name in ("strict", "loose")
            ]  # fmt: skip
        place = folder / responses.respondent_ids[row]
        place.mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (place / "samples_t_2026-11-21T23-55-05.942347.jsonl").write_text(text)
