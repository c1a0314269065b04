"""Items by the names under which evaluation harnesses run them: the readers' item ids taken apart again.

The readers name an item ``task/name``: of lm-evaluation-harness the name is the document's index in its task, of
inspect_ai the sample's id, of HELM the instance's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first

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
        Names of tasks that an item id may begin with; otherwise the task is what stands before the last slash.

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
