"""All figures of a stated list of commands, kept in a file, and compared with it after the code was changed.

    python scripts/frozen_figures.py keep FILE [--data DIR] [--only NAME ...]
    python scripts/frozen_figures.py compare FILE [--data DIR] [--only NAME ...] [--tolerance 1e-6]

A figure is a number in a CSV or JSON file that a command writes. Compared are numbers relative to 1 or their own size,
and what is not a number as it stands; times taken and versions are left out. The exit status is 1 if any differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
NOT_FIGURES = {"seconds", "versions", "created", "date", "steps", "stopped_because", "last_change", "largest_gradient"}
LSAT, SNLI = "{data}/lsat6/responses.csv", "{data}/lalor2016_snli"
RTE, BOARD = "{data}/snow2008_rte/responses.csv", "{data}/openllm_leaderboard"
AGENTS = "{data}/agent_tasks/swebench_pro"
#: Name and words of each command; OUT is its folder, HERE the folder that all share.
COMMANDS: dict[str, str] = {
    "quickstart": "build {root}/configs/quickstart.toml -o OUT",
    "4gs": "build {root}/configs/lalor2016_4gs.toml -o OUT",
    "5gs": "build {root}/configs/lalor2016_5gs.toml -o OUT",
    "lsat 2pl": f"fit {LSAT} -o OUT",
    "lsat rasch": f"fit {LSAT} -o OUT --model rasch",
    "lsat 1pl": f"fit {LSAT} -o OUT --model 1pl",
    "lsat 3pl": f"fit {LSAT} -o OUT --model 3pl",
    "lsat weak": f"fit {LSAT} -o OUT --prior weak --guessing 0.1",
    "lsat density": f"fit {LSAT} -o OUT --population estimated",
    "lsat two abilities": f"fit {LSAT} -o OUT --factors 2",
    "lsat groups": f"fit {LSAT} -o OUT --groups HERE/groups.csv",
    "lsat disk": "fit HERE/lsat.parquet -o OUT --cache HERE/cache",
    "snli": f"fit {SNLI}/responses_4gs.csv.gz -o OUT --prior weak",
    "snli 3pl": f"fit {SNLI}/responses_4gs.csv.gz -o OUT --model 3pl",
    "snli 4pl": f"fit {SNLI}/responses_4gs.csv.gz -o OUT --model 4pl",
    "snli testlets": f"fit {SNLI}/responses_4gs.csv.gz -o OUT --testlets gold --item-table {SNLI}/items.csv",
    "lsat anchored": f"fit {LSAT} -o OUT --anchors HERE/lsat_2pl/bank.json",
    "snli posterior": f"fit {SNLI}/responses_4gs.csv.gz -o OUT --prior weak --posterior normal --seed 1",
    "snli diagnosed": f"items diagnose {SNLI}/responses_4gs.csv.gz --items HERE/snli/items.csv -o OUT",
    "snli scored": f"score HERE/snli/bank.json {SNLI}/responses_4gs.csv.gz -o OUT/scores.csv",
    "rte few": f"fit {RTE} -o OUT --prior hierarchical",
    "leaderboard": f"fit {BOARD}/responses.csv.gz -o OUT --prior hierarchical",
    "lsat dimensions": f"dimensions {LSAT} -o OUT",
    "lsat bias": f"items bias {LSAT} -o OUT --groups HERE/groups.csv",
    "lsat bias by likelihood": f"items bias {LSAT} -o OUT --groups HERE/groups.csv --method likelihood_ratio",
    "agents difficulty": f"fit {AGENTS}/responses.csv.gz -o OUT --prior hierarchical",
    "lsat bias by logistic": f"items bias {LSAT} -o OUT --groups HERE/groups.csv --method logistic",
    "snli bias": f"items bias {SNLI}/responses_4gs.csv.gz -o OUT --groups HERE/halves.csv --prior weak",
    "snli shifts": "items bias HERE/systems.csv --bank HERE/snli/bank.json -o OUT --control HERE/people.csv "
    "--permutations 3",
    "snli shifts of families": "items bias HERE/systems.csv --bank HERE/snli/bank.json -o OUT "
    "--families HERE/families.csv",
    "lsat linked": "link HERE/lsat_2pl/bank.json HERE/half.csv -o OUT",
    "lsat linked by deviations": "link HERE/lsat_2pl/bank.json HERE/half.csv -o OUT --method mean-sigma --drift keep",
    "snli keys": f"crowd keys {SNLI}/responses_4gs.csv.gz --items {SNLI}/items.csv --where set=4gs -o OUT",
    "rte difficulty": f"items difficulty {RTE} --features HERE/features.csv -o OUT",
    "rte difficulty rasch": f"items difficulty {RTE} --features HERE/features.csv -o OUT --model rasch",
    "snli difficulty of the bank": "items difficulty HERE/snli/bank.json --features HERE/labels.csv -o OUT",
    "rte difficulty shrunk": f"items difficulty {RTE} --features HERE/features.csv -o OUT --shrinkage learnt",
    "lsat two processes": "fit HERE/lsat.parquet -o OUT --cache HERE/cache_of_two",
}
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")
NUMBERS = (int, float)


def main() -> int:
    """Keep, or compare."""
    arguments, kept = parsed(), {}
    if arguments.task == "compare":
        with gzip.open(arguments.file, "rt") as file:
            kept = json.load(file)
        if lacking := [name for name in arguments.only if name not in kept]:
            sys.exit(f"{arguments.file}: nothing kept of {', '.join(lacking)}; expected --only {', '.join(kept)}")
    found = dict(figures_of_commands(arguments.data.resolve(), arguments.only))
    if arguments.task == "compare":
        return max((compared(name, kept[name], own, arguments.tolerance) for name, own in found.items()), default=0)
    with gzip.open(arguments.file, "wt") as file:
        json.dump(found, file)
    return 0


def parsed() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("keep", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS))
    parser.add_argument("--tolerance", type=float, default=1e-6)
    return parser.parse_args()


def figures_of_commands(data: Path, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run each command in a process of its own; its figures, with the status it ended with."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        write_inputs(here, data)
        for name in names:
            out = here / name.replace(" ", "_")
            words = COMMANDS[name].format(data=data, root=ROOT).replace("HERE", str(here)).replace("OUT", str(out))
            out.mkdir(exist_ok="OUT/" in COMMANDS[name]) if "OUT/" in COMMANDS[name] else None
            began = time.perf_counter()
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            several = TORCHRUN if name.endswith("two processes") else ()
            ended = subprocess.run(
                [sys.executable, "-m", *several, "irtbench", *words.split(), "-q"],
                env=environment,
                capture_output=True,
                text=True,
            )
            print(
                f"{name}: {ended.returncode}, {time.perf_counter() - began:.1f} s {ended.stderr.strip()[-200:]}",
                flush=True,
            )
            yield name, {"status": ended.returncode} | dict(figures_in(out))


def write_inputs(here: Path, data: Path) -> None:
    """Groups, a table in Parquet, halves of the people of a study, some of them as systems, and features of items."""
    responses = pd.read_csv(data / "lsat6" / "responses.csv")
    people = responses["respondent_id"].unique()
    groups = ["even" if k % 2 == 0 else "odd" for k in range(len(people))]
    pd.DataFrame({"respondent_id": people, "group": groups}).to_csv(here / "groups.csv", index=False)
    responses.to_parquet(here / "lsat.parquet")
    responses[responses["respondent_id"].isin(people[::2])].to_csv(here / "half.csv", index=False)
    answers = pd.read_csv(data / "lalor2016_snli" / "responses_4gs.csv.gz")
    crowd = answers["respondent_id"].unique()
    halves = ["even" if k % 2 == 0 else "odd" for k in range(len(crowd))]
    pd.DataFrame({"respondent_id": crowd, "group": halves}).to_csv(here / "halves.csv", index=False)
    few = crowd[::80]
    families = [f"f{k // 2}" for k in range(len(few))]
    pd.DataFrame({"respondent_id": few, "group": families}).to_csv(here / "families.csv", index=False)
    for name, some in (("systems", few), ("people", crowd[1::2])):
        answers[answers["respondent_id"].isin(some)].to_csv(here / f"{name}.csv", index=False)
    items = pd.read_csv(data / "lalor2016_snli" / "items.csv")
    labels = pd.get_dummies(items["gold"], drop_first=True, dtype=float).assign(place=items["position_in_label"])
    pd.concat([items["item_id"], labels], axis=1).to_csv(here / "labels.csv", index=False)
    items = pd.read_csv(data / "snow2008_rte" / "items.csv")
    features = {"gold": items["gold"], "text": items["text"].str.len(), "hypothesis": items["hypothesis"].str.len()}
    tasks = pd.get_dummies(items["task"], prefix="task", drop_first=True, dtype=float)
    table = pd.concat([items["item_id"], pd.DataFrame(features), tasks], axis=1)
    table.to_csv(here / "features.csv", index=False)


def figures_in(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every value in the files of a folder, by file, row and column, or by its place in JSON."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".csv":
            table = pd.read_csv(path)
            for column in table.columns:
                for row, value in enumerate(table[column].tolist()):
                    yield f"{name} {column} {row}", value
        elif path.suffix == ".json":
            yield from leaves(json.loads(path.read_text()), name)


def leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """The values of a JSON document, but for times and versions."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in NOT_FIGURES:
                yield from leaves(part, f"{place} {key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from leaves(part, f"{place} {number}")
    else:
        yield place, value


def compared(name: str, kept: dict[str, Any], found: dict[str, Any], tolerance: float) -> int:
    """Print what differs, the largest first; 1 if anything does."""
    lost, new = sorted(set(kept) - set(found)), sorted(set(found) - set(kept))
    apart = {place: distance(kept[place], found[place]) for place in set(kept) & set(found)}
    worst = sorted(((size, place) for place, size in apart.items() if size > tolerance), reverse=True)
    numbers = len(apart) - len(worst)
    print(f"{name}: {numbers} the same, {len(worst)} differ, {len(lost)} lost, {len(new)} new")
    for size, place in worst[:8]:
        print(f"    {place}: {kept[place]} now {found[place]} ({size:.2g})")
    for place in [*lost[:4], *new[:4]]:
        print(f"    {'lost' if place in kept else 'new'}: {place}")
    return int(bool(worst or lost))


def distance(kept: Any, found: Any) -> float:
    """Difference of two numbers relative to 1 or their size; infinite of other things that differ."""
    if isinstance(kept, NUMBERS) and isinstance(found, NUMBERS):
        if kept == found or (math.isnan(kept) and math.isnan(found)):
            return 0.0
        return abs(kept - found) / max(1.0, abs(kept))
    return 0.0 if kept == found else math.inf


if __name__ == "__main__":
    raise SystemExit(main())
