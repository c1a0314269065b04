"""A project of Potato (2.12): its configuration and its items."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd


def potato_project(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``potato.yaml`` (in JSON, which is YAML) and ``potato_items.jsonl``.

    Every booklet is a batch of one annotator, who is assigned the next free one on arrival and sees its items in its
    order.
    """
    items = placed.drop_duplicates("item_id")
    groups = [
        {
            "name": f"booklet_{number:04d}",
            "instances": list(placed.loc[placed["booklet"] == number, "item_id"]),
            "max_annotators": 1,
        }
        for number in placed["booklet"].unique().tolist()
    ]
    config = {
        "annotation_task_name": "irtbench",
        "task_dir": ".",
        "output_annotation_dir": "annotation_output/",
        "export_annotation_format": "csv",
        "data_files": ["potato_items.jsonl"],
        "item_properties": {"id_key": "id", "text_key": "text"},
        "user_config": {"allow_all_users": True, "users": []},
        "hide_navbar": True,
        "jumping_to_id_disabled": True,
        "assignment_strategy": "batch",
        "max_annotations_per_item": int(placed["item_id"].value_counts().max()),
        "batch_assignment": {"auto_assign_annotators": True, "groups": groups},
        "annotation_schemes": [
            {
                "annotation_type": "radio",
                "name": "answer",
                "description": question,
                "labels": [{"name": option} for option in options],
            }
        ],
        "site_dir": "default",
    }
    lines = [
        json.dumps({"id": item, "text": text}, ensure_ascii=False)
        for item, text in zip(items["item_id"], items["text"], strict=True)
    ]
    return {
        "potato.yaml": json.dumps(config, indent=2, ensure_ascii=False) + "\n",
        "potato_items.jsonl": "\n".join(lines) + "\n",
    }
