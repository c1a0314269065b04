"""Items for those who ask them: sheets that crowd platforms take, and names by which evaluation harnesses run them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

import pandas as pd

from irtbench.data.harmless_text import guarded, guarded_table
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import name_first


def prolific_datapoints(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``prolific.csv``, ``prolific_schema.json`` and ``prolific_instructions.json``.

    Each participant does one task group, hence one booklet. Only the text is shown: item and position are metadata.
    """
    table = placed[["text", "item_id", "booklet", "position"]].assign(
        item_id=[guarded(item) for item in placed["item_id"]],
        booklet=[f"booklet_{number:04d}" for number in placed["booklet"]],
    )
    schema = {
        "strict": False,
        "fields": {
            "text": {"type": "text", "label": "Text"},
            "item_id": {"type": "metadata"},
            "position": {"type": "metadata"},
            "booklet": {"type": "task_group_id"},
        },
    }
    choice = {
        "type": "multiple_choice",
        "description": question,
        "options": [{"label": option, "value": option} for option in options],
    }
    return {
        "prolific.csv": table.to_csv(index=False, lineterminator="\n"),
        "prolific_schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        "prolific_instructions.json": json.dumps([choice], indent=2, ensure_ascii=False) + "\n",
    }


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


#: Of the page: the form's own script and what it loads, and no other.
POLICY = (
    "default-src 'none'; script-src https://assets.crowd.aws; style-src 'unsafe-inline' https:; font-src https:; "
    "img-src https: data:; media-src https:; connect-src https:; form-action https:; base-uri 'none'"
)


def mturk_hits(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``mturk.csv`` with ``item_id1, text1, item_id2, ...``, and ``mturk.html`` with a field ``q1`` and on for each."""
    rows = []
    for number, own in placed.groupby("booklet", sort=True):
        row: dict[str, object] = {"booklet": number}
        for k, (item, text) in enumerate(zip(own["item_id"], own["text"], strict=True), start=1):
            row |= {f"item_id{k}": item, f"text{k}": _as_html(text)}
        rows.append(row)
    places = int(placed.groupby("booklet").size().max())
    fields = []
    for k in range(1, places + 1):
        buttons = "".join(
            f'<label><input type="radio" name="q{k}" value="{escape(option)}" required> {escape(option)}</label>\n'
            for option in options
        )
        fields.append(f"<fieldset>\n<p>${{text{k}}}</p>\n<p>{escape(question)}</p>\n{buttons}</fieldset>")
    form = (
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>\n<crowd-form>\n'
        + "\n".join(fields)
        + "\n</crowd-form>\n"
    )
    table = guarded_table(pd.DataFrame(rows))
    return {"mturk.csv": table.to_csv(index=False, lineterminator="\n"), "mturk.html": form}


def _as_html(text: str) -> str:
    """The text, its first letter by number where a spreadsheet would take it for a formula: a page shows the letter."""
    return text if guarded(text) == text else f"&#{ord(text[0])};{text[1:]}"


def label_studio_tasks(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``label_studio_0001.json`` and on, in the order of the booklet, and ``label_studio.xml``.

    A booklet is a project with sequential sampling: Label Studio hands all annotators of a project the same order. Its
    tasks get numbers of its own; the item's name is in the data of the task.
    """
    files = {}
    for number in placed["booklet"].unique().tolist():
        rows = placed[placed["booklet"] == number]
        tasks = [
            {"data": {"item_id": item, "text": text}, "meta": {"booklet": number, "position": position}}
            for item, text, position in zip(rows["item_id"], rows["text"], rows["position"].tolist(), strict=True)
        ]
        files[f"label_studio_{number:04d}.json"] = json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"
    choices = "\n".join(f"    <Choice value={quoteattr(option)}/>" for option in options)
    files["label_studio.xml"] = (
        "<View>\n"
        '  <Text name="text" value="$text"/>\n'
        f"  <Header value={quoteattr(question)}/>\n"
        '  <Choices name="answer" toName="text" choice="single" required="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        "</View>\n"
    )
    return files


SheetFormat = Literal["prolific", "label-studio", "potato", "mturk"]

_SHEETS: Mapping[SheetFormat, Callable[[pd.DataFrame, Sequence[str], str], dict[str, str]]] = {
    "prolific": prolific_datapoints,
    "label-studio": label_studio_tasks,
    "potato": potato_project,
    "mturk": mturk_hits,
}


def crowd_sheets(
    booklets: pd.DataFrame,
    texts: Mapping[str, str],
    *,
    format: SheetFormat,
    options: Sequence[str],
    question: str = "Which answer is right?",
) -> dict[str, str]:
    """The files to upload, by name, for booklets in which every item has its place.

    Nothing in them says which items are attention checks, nor what is right.

    Parameters
    ----------
    booklets
        ``booklet, position, item_id`` as made by ``make_booklets``.
    texts
        What people read, for every item of a booklet.
    format
        The platform.
    options
        The answers to choose from, at least two.
    question
        Asked of every item.

    Raises
    ------
    InputError
        If an item has no text, there are fewer than two options, or one is repeated.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> booklets = irtbench.make_booklets(["i1", "i2", "i3"], n_booklets=2, n_each=2, rng=np.random.default_rng(1))
    >>> texts = {"i1": "A dog runs.", "i2": "A cat sleeps.", "i3": "It rains."}
    >>> files = irtbench.crowd_sheets(booklets, texts, format="mturk", options=["yes", "no"])
    >>> list(files)
    ['mturk.csv', 'mturk.html']
    >>> print(files["mturk.csv"].strip())
    booklet,item_id1,text1,item_id2,text2
    1,i2,A cat sleeps.,i3,It rains.
    2,i3,It rains.,i1,A dog runs.
    """
    without = [item for item in pd.unique(booklets["item_id"]) if not texts.get(item, "").strip()]
    refuse_any((
        (without, f"sheets: item {name_first(without)} has no text; expected what people are to read"),
        (len(options) < 2 or len(set(options)) < len(options) or not all(option.strip() for option in options),
         f"sheets: expected at least two different answers to choose from but got {list(options)}"),
    ))  # fmt: skip
    placed = booklets.sort_values(["booklet", "position"], kind="stable", ignore_index=True)
    return _SHEETS[format](placed.assign(text=placed["item_id"].map(texts)), options, question)


HarnessFormat = Literal["lm-eval", "inspect", "helm", "plain"]

_FILES: Mapping[HarnessFormat, str] = {
    "lm-eval": "lm_eval_samples.json",
    "inspect": "inspect_sample_ids.json",
    "helm": "helm_instances.json",
    "plain": "item_ids.txt",
}
#: Which names a harness gives, and what was expected where they are others.
_FITS: Mapping[HarnessFormat, tuple[Callable[[str], bool], str]] = {
    "lm-eval": (lambda name: name.isascii() and name.isdigit(), "task/index, as read from its samples by name"),
    "inspect": (lambda name: bool(name), "task/sample id, as read from its logs by name"),
    "helm": (lambda name: name.startswith("id") and name[2:].isdigit(), "run/id7, as read from its runs"),
    "plain": (lambda name: True, ""),
}


def harness_ids(
    item_ids: Sequence[str], *, formats: Sequence[HarnessFormat] = (), tasks: Sequence[str] = ()
) -> dict[str, str]:
    r"""Files that tell evaluation harnesses which items to run, by their names.

    - ``lm_eval_samples.json``: what ``lm_eval --samples`` takes, the indices of each task, sorted;
    - ``inspect_sample_ids.json``: for each task the ids that ``inspect eval --sample-id`` takes, parted by commas;
    - ``helm_instances.json``: for each run the ids of its instances;
    - ``item_ids.txt``: an id a line.

    Responses that a harness then logs are read under the same item ids.

    Parameters
    ----------
    item_ids
        Items as the readers name them, ``task/name``.
    formats
        The harnesses; none for all that could have given such names.
    tasks
        Names of tasks that an item id may begin with; otherwise the task is what comes before the last slash.

    Raises
    ------
    InputError
        If a harness was asked for that gives no such names.

    Examples
    --------
    >>> import irtbench
    >>> files = irtbench.harness_ids(["arc_easy/12", "boolq/3", "arc_easy/7"], formats=["lm-eval", "plain"])
    >>> print(files["lm_eval_samples.json"].strip())
    {
      "arc_easy": [7, 12],
      "boolq": [3]
    }
    >>> files["item_ids.txt"]
    'arc_easy/12\nboolq/3\narc_easy/7\n'
    """
    known = get_args(HarnessFormat)
    for name in formats:
        if name not in known:
            raise InputError(f"harness: expected one of {', '.join(known)} but got {name}")
    parts = [_taken_apart(item, tasks) for item in item_ids]
    found: dict[str, str] = {}
    for name in formats or known:
        fits, expected = _FITS[name]
        others = [
            item for item, part in zip(item_ids, parts, strict=True) if name != "plain" and not (part and fits(part[1]))
        ]
        if others and name in formats:
            raise InputError(f"harness {name}: item {name_first(others)}: expected {expected}")
        if not others:
            found[_FILES[name]] = _text(name, list(item_ids), [part for part in parts if part])
    return found


def _taken_apart(item: str, tasks: Sequence[str]) -> tuple[str, str] | None:
    """Task and name of an item; None where the id has no task."""
    for task in sorted(tasks, key=len, reverse=True):
        if item.startswith(f"{task}/"):
            return task, item[len(task) + 1 :]
    task, slash, name = item.rpartition("/")
    return (task, name) if slash and task and name else None


def _text(harness: HarnessFormat, item_ids: list[str], parts: list[tuple[str, str]]) -> str:
    if harness == "plain":
        return "".join(f"{item}\n" for item in item_ids)
    by_task: dict[str, list[int] | list[str]] = {}
    for task in dict.fromkeys(task for task, _ in parts):
        names = [name for other, name in parts if other == task]
        by_task[task] = sorted(int(name) for name in names) if harness == "lm-eval" else names
    lines = [f"  {json.dumps(task, ensure_ascii=False)}: {json.dumps(names, ensure_ascii=False)}"
             for task, names in by_task.items()]  # fmt: skip
    return "{\n" + ",\n".join(lines) + "\n}\n"
