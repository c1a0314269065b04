"""The accuracy of systems on a whole benchmark from 10 to 100 of its items, for systems like those known and stronger.

    python scripts/predict_benchmark.py DATA [DATA ...] [--items 10 30 50 100] [--splits stronger random] [--known 0.7]
        [--forms random accuracy information stratified] [--draws 10] [--by-prefix] [--seed 1]

Each DATA is a table of 0/1 responses, wide (a row a system after its name) or long (respondent_id, item_id, correct),
or a folder of such tables. In the split ``stronger`` the weakest systems, 70% of all or what --known says, are known
and the strongest 30% new; in ``random`` 30% drawn at random are new. The known build the bank (2PL, prior weak, or
hierarchical where items outnumber systems; one scale, or with --by-prefix one for each beginning of an item's id up
to a dot), on which forms are chosen. The new answer a form alone. Forms: drawn at random, 10 times or --draws; best for
accuracy by the known systems (`assemble --for accuracy --learn-from`); the items of most information, in all or in each
stratum of the share right.

Printed are mean absolute errors of the accuracy on all items: of the share right of the form (plain), of a ridge
regression across items on the known systems' responses with the mean residual of the items answered (AIPW; Robins
et al., 1994, as the study arXiv 2506.07673 recommends it), of `predict_accuracy` with the bank alone and with a
correction learnt from the known; the share of 95% intervals that cover, their mean width, and the share of systems told
to lie beyond those known.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import irtbench

RIDGE = 0.5  # penalty of AIPW's regression, per system known
MEASURES = ("plain", "AIPW", "bank", "cover", "width", "learnt", "learnt cover", "learnt width", "beyond")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--items", type=int, nargs="+", default=[10, 30, 50, 100])
    parser.add_argument(
        "--forms", nargs="+", default=["random"], choices=["random", "accuracy", "information", "stratified"]
    )
    parser.add_argument("--splits", nargs="+", default=["stronger", "random"], choices=["stronger", "random"])
    parser.add_argument("--known", type=float, default=0.7)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--by-prefix", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    files = [file for path in arguments.data for file in (sorted(path.glob("*.csv.gz")) if path.is_dir() else [path])]
    print("| set | split | items | form | " + " | ".join(MEASURES) + " |")
    print("|" + "---|" * (4 + len(MEASURES)), flush=True)
    rows = []
    for file in files:
        responses = read(file)
        for split in arguments.splits:
            rng = np.random.default_rng(arguments.seed)
            known, new = parted(responses, split, arguments.known, rng)
            began = time.monotonic()
            bank = fitted(known, arguments.by_prefix)
            print(f"<!-- {file.name}, {split}: fitted in {time.monotonic() - began:.0f} s -->", flush=True)
            for n in arguments.items:
                for kind in arguments.forms:
                    draws = arguments.draws if kind == "random" else 1
                    forms = [choose(bank, known, n, kind, rng) for _ in range(draws)]
                    found = np.mean([measure(bank, known, new, form) for form in forms], axis=0)
                    name = file.parent.name if file.name == "responses.csv.gz" else file.name.split(".")[0]
                    row = {"set": name, "split": split, "items": n, "form": kind} | dict(
                        zip(MEASURES, found, strict=True)
                    )
                    rows.append(row)
                    show(row)
    means = pd.DataFrame(rows).groupby(["split", "items", "form"], sort=False)[list(MEASURES)].mean().reset_index()
    for row in means.to_dict("records"):
        show({"set": "mean of sets"} | row)


def show(row: dict[str, object]) -> None:
    """A row of the table in Markdown."""
    cells = [row["set"], row["split"], row["items"], row["form"], *(f"{row[name]:.4f}" for name in MEASURES)]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def read(file: Path) -> irtbench.ResponseMatrix:
    """Complete responses."""
    table = pd.read_csv(file)
    if "item_id" in table:
        return irtbench.ResponseMatrix.from_long(table.rename(columns={"correct": "response"}))
    names, items = table.iloc[:, 0].astype(str), table.iloc[:, 1:]
    return irtbench.ResponseMatrix(items.to_numpy(np.float64), tuple(names), tuple(items.columns))


def parted(
    responses: irtbench.ResponseMatrix, split: str, share: float, rng: np.random.Generator
) -> tuple[irtbench.ResponseMatrix, irtbench.ResponseMatrix]:
    """Systems known and new."""
    n = responses.n_respondents
    order = np.argsort(responses.values.mean(axis=1), kind="stable") if split == "stronger" else rng.permutation(n)
    place = np.empty(n)
    place[order] = np.arange(n)
    n_new = round(0.3 * n)
    return responses.select_respondents(place < min(share * n, n - n_new)), responses.select_respondents(
        place >= n - n_new
    )


def fitted(known: irtbench.ResponseMatrix, by_prefix: bool) -> tuple[irtbench.Scale, ...]:
    """Scales of all items: they are what is to be predicted, so none is dropped."""
    parts: dict[str, list[str]] = {}
    for item in known.item_ids:
        parts.setdefault(item.split(".")[0] if by_prefix else "all", []).append(item)
    scales = []
    for name, ids in parts.items():
        prior = "hierarchical" if len(ids) > known.n_respondents else "weak"
        items = irtbench.fit_model(known.select_items(ids), prior=prior, standard_errors=False).items
        scales.append(irtbench.Scale(name, items, irtbench.ItemTable.plain(items.item_ids)))
    return tuple(scales)


def choose(
    bank: tuple[irtbench.Scale, ...], known: irtbench.ResponseMatrix, n: int, kind: str, rng: np.random.Generator
) -> list[str]:
    """The items of a form; each scale has its share of those of most information, all or in strata."""
    if kind == "random":
        return list(rng.choice(known.item_ids, n, replace=False))
    if kind == "accuracy":
        found = irtbench.assemble_forms(irtbench.ItemBank(bank), length=n, objective="accuracy", known=known)
        return list(found.forms[0])
    form: list[str] = []
    for k, scale in enumerate(bank):
        ids = scale.items.item_ids
        share = n - len(form) if k == len(bank) - 1 else round(n * len(ids) / known.n_items)
        theta = np.linspace(-3, 3, 61)
        mean = np.exp(-(theta**2) / 2) @ irtbench.information(theta, scale.items)
        if kind == "information":
            chosen = np.argsort(-mean)[:share]
        else:
            strata = np.array_split(np.argsort(known.select_items(ids).proportion_correct()), share)
            chosen = np.array([part[np.argmax(mean[part])] for part in strata])
        form += [ids[j] for j in chosen]
    return form


def measure(
    bank: tuple[irtbench.Scale, ...], known: irtbench.ResponseMatrix, new: irtbench.ResponseMatrix, form: list[str]
) -> list[float]:
    """What MEASURES says of one form."""
    truth, answered = new.values.mean(axis=1), new.select_items(form)
    place = {item: k for k, item in enumerate(known.item_ids)}
    predicted = aipw(known.values, new.values, np.array([place[item] for item in form]))
    found = [float(np.abs(share - truth).mean()) for share in (answered.values.mean(axis=1), predicted)]
    alone = irtbench.predict_accuracy(bank, answered)
    learnt = irtbench.predict_accuracy(bank, answered, correction=irtbench.learn_correction(bank, known, form))
    for one in (alone, learnt):
        found.append(float(np.abs(one.accuracy - truth).mean()))
        found.append(float(((one.lower <= truth) & (truth <= one.upper)).mean()))
        found.append(float((one.upper - one.lower).mean()))
    return [*found, float(np.mean([word != "no" for word in alone.beyond_known]))]


def aipw(known: NDArray[np.float64], new: NDArray[np.float64], form: NDArray[np.intp]) -> NDArray[np.float64]:
    """Ridge regression of a system's responses on those of the known, across the items of the form, intercept free."""
    centred = known - known.mean(axis=1, keepdims=True)
    kernel = centred[:, form].T @ centred / len(known)
    inverse = np.linalg.inv(kernel[:, form] + RIDGE * np.eye(len(form)))
    seen = new[:, form].T
    level = inverse.sum(axis=0) @ seen / inverse.sum()
    residual = seen - level
    predicted = kernel.T @ (inverse @ residual) + level
    rest = np.setdiff1d(np.arange(known.shape[1]), form)
    share: NDArray[np.float64] = (seen.sum(axis=0) + predicted[rest].sum(axis=0)) / known.shape[1]
    return share


if __name__ == "__main__":
    main()
