"""Chains of yearly links: is the line back to the first year's scale as well known as its standard errors say?

Every year has a new crowd and a new form that shares items with the last one. Its calibration is linked to the bank
of the year before, which lies on the first year's scale already. The true line is known from the simulation: the crowd
of a year is N(m, s^2) where the first is N(0, 1), so that A = s and B = m. Beside the errors that the banks carry stand
those of links taken as independent, each with the whole covariances of its two calibrations.

With --anchored N ... no chain but one step, for a first crowd of N people each: the new form is fitted beside the
common items of the bank as anchors, and what is to be covered is the second crowd's mean and standard deviation in the
first population, and b and a of the new items; with anchors as known, by the covariance of each, by their joint one.

With --release links are made as the command makes them, without common items that seem to have drifted; none has.

Scores: people of the first population answer the last form. What their intervals are to cover is ability on the first
year's scale as it was fitted, in standard deviations from the mean of its respondents.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd

import irtbench

Z = 1.959964


def crowd_of(year: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and standard deviation of ability of a year's crowd, about the first one's."""
    return (0.0, 1.0) if year == 0 else (float(rng.normal(0.2, 0.3)), float(rng.uniform(0.85, 1.2)))


def items_of(names: list[str], bank: dict[str, tuple[float, float]], model: str) -> irtbench.ItemParameters:
    """The true items of a form: of slope 1 for Rasch, with a lower asymptote of .2 for the 3PL."""
    a, b = np.array([bank[name] for name in names]).T
    guessing = 0.2 if model == "3pl" else 0.0
    return irtbench.ItemParameters.from_difficulty(
        np.ones_like(a) if model == "rasch" else a, b, guessing, item_ids=names
    )


def fitted_scale(
    form: irtbench.ItemParameters, theta: np.ndarray, rng: np.random.Generator, arguments: argparse.Namespace
) -> irtbench.Scale:
    """The scale that a crowd's responses to a form give."""
    responses = irtbench.simulate_responses(theta, form, rng=rng, missing=arguments.missing)
    fitted = irtbench.fit_model(
        responses, model=arguments.model, population=arguments.population, prior=arguments.prior
    )
    details = irtbench.ItemTable.plain(form.item_ids)
    density = fitted.estimated_population
    return irtbench.Scale("all", fitted.items, details, population=density, joint_error=fitted.joint_error)


def chain(arguments: argparse.Namespace, rng: np.random.Generator) -> list[dict[str, float]]:
    """One chain: a row a year."""
    new_items = arguments.items - arguments.common
    bank: dict[str, tuple[float, float]] = {}
    names: list[str] = []
    rows: list[dict[str, float]] = []
    independent = np.zeros((2, 2))
    for year in range(arguments.years + 1):
        mean, sd = crowd_of(year, rng)
        kept = [] if year == 0 else sorted(rng.choice(names, size=arguments.common, replace=False))
        fresh = [f"y{year}i{k}" for k in range(arguments.items if year == 0 else new_items)]
        bank |= {
            name: (
                float(rng.lognormal(0.2, 0.3)),
                float(mean + (rng.exponential() - 1 if arguments.skewed else rng.uniform(-1.7, 1.7))),
            )
            for name in fresh
        }
        names = [*kept, *fresh]
        if arguments.ability == "normal":
            theta = rng.normal(mean, sd, size=arguments.people)
        else:  # chi-square with 4 degrees of freedom, as it is or mirrored
            away = (rng.chisquare(4, size=arguments.people) - 4) / np.sqrt(8)
            theta = mean + sd * (away if arguments.ability == "right" else -away)
        form = items_of(names, bank, arguments.model)
        scale = fitted_scale(form, theta, rng, arguments)
        if year == 0:
            linked, own, zero, unit = scale, scale, theta.mean(), theta.std()
            unit = 1.0 if arguments.model == "rasch" else unit  # slopes of 1 fix it
            continue
        common = irtbench.find_drift(linked.items, scale.items).kept if arguments.release else None
        link = irtbench.link_scales(linked, scale, common=common)
        # the same link as if the old bank's items had no errors but those of its own calibration, turned
        alone = irtbench.link_scales(own, scale) if year > 1 else link
        turn = np.eye(2) if year == 1 else np.array([[linked.line.slope, 0], [0, linked.line.slope]])
        pull = np.eye(2) if year == 1 else np.array([[alone.slope, 0], [alone.intercept, 1]])
        independent = turn @ alone.covariance @ turn.T + pull @ independent @ pull.T
        linked, own = irtbench.linked_scale(linked, scale, link), scale
        row = {"year": year, "a": link.slope - (1.0 if arguments.model == "rasch" else sd), "b": link.intercept - mean}
        errors = np.sqrt(np.einsum("jaja->aj", linked.joint_error.covariance))
        row["slopes"] = float((np.abs(linked.items.discrimination - form.discrimination) <= Z * errors[0]).mean())
        row["intercepts"] = float((np.abs(linked.items.intercept - form.intercept) <= Z * errors[1]).mean())
        row["lost"] = float(len(link.item_ids) < arguments.common)
        row |= {"se_a": link.se_slope, "se_b": link.se_intercept}
        row |= dict(zip(("alone_a", "alone_b"), np.sqrt(np.diagonal(independent)), strict=True))
        if year in (1, arguments.years):
            people = rng.normal(size=arguments.scored)
            answers = irtbench.simulate_responses(people, form, rng=rng)
            true = (people - zero) / unit
            for name, bank_scale in (("with", linked), ("without", replace(linked, line=None))):
                scores = irtbench.score_responses(bank_scale, answers)
                inside = (scores["theta_lower"] < true) & (true < scores["theta_upper"])
                row[f"scores_{name}"] = float(inside.mean())
        rows.append(row)
    return rows


def anchored(arguments: argparse.Namespace, n_bank: int, rng: np.random.Generator) -> dict[str, list[float]] | None:
    """Whether mean, sd, b and a of new items are covered, by how the anchors' error is carried; None if not fitted."""
    n_old = arguments.items
    names = [f"i{k}" for k in range(2 * n_old - arguments.common)]
    bank = {name: (float(rng.lognormal(0.2, 0.3)), float(rng.normal())) for name in names}
    old, new = (items_of(part, bank, arguments.model) for part in (names[:n_old], names[n_old - arguments.common :]))
    mean, sd = crowd_of(1, rng)
    scale = fitted_scale(old, rng.normal(size=n_bank), rng, arguments)
    answers = irtbench.simulate_responses(
        rng.normal(mean, sd, arguments.people), new, rng=rng, missing=arguments.missing
    )
    known = replace(scale.items, covariance=None)
    found = {}
    for how, anchors in (("as known", known), ("of each", scale.items), ("joint", scale)):
        fitted = irtbench.fit_model(answers, model=arguments.model, anchors=anchors)
        if not fitted.converged:
            return None
        own = fitted.items.select(names[n_old:])
        errors, truth, moments = own.standard_errors(), new.select(names[n_old:]), fitted.population
        away = [abs(moments[name] - true) / moments[f"se_{name}"] for name, true in (("mean", mean), ("sd", sd))]
        b = np.abs(own.difficulty - truth.difficulty) < Z * errors["difficulty"]
        a = np.abs(own.discrimination - truth.discrimination) < Z * errors["discrimination"]
        found[how] = [*(float(z < Z) for z in away), float(b.mean()), float(a.mean()), moments["se_mean"]]
    return found


def print_anchored(arguments: argparse.Namespace) -> None:
    """Coverage beside anchors, a row for each size of the bank's crowd and way of carrying the anchors' error."""
    rng = np.random.default_rng(arguments.seed)
    print(
        "| bank | anchors' error | pairs | mean | sd | new b | new a | standard error of the mean |\n"
        + "|---" * 8
        + "|"
    )
    for n_bank in arguments.anchored:
        pairs = [pair for _ in range(arguments.chains) if (pair := anchored(arguments, n_bank, rng)) is not None]
        for how in ("as known", "of each", "joint"):
            shares = np.mean([pair[how] for pair in pairs], axis=0)
            cells = " | ".join(f"{share:.3f}".lstrip("0") for share in shares)
            print(f"| {n_bank:,} | {how} | {len(pairs)} | {cells} |", flush=True)


def main() -> None:
    """Run the chains and print coverage by year."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--years", type=int, default=10)
    parser.add_argument("--people", type=int, default=800, help="of a year's crowd")
    parser.add_argument("--items", type=int, default=24, help="of a year's form")
    parser.add_argument("--common", type=int, default=10, help="of them, shared with the year before")
    parser.add_argument("--scored", type=int, default=100, help="people who answer the last form")
    parser.add_argument("--model", choices=["rasch", "2pl", "3pl"], default="2pl")
    parser.add_argument("--missing", type=float, default=0.0, help="share of the responses that are missing")
    parser.add_argument("--population", choices=["normal", "estimated"], default="normal")
    parser.add_argument("--prior", choices=["none", "weak"], help="of the items")
    parser.add_argument(
        "--skewed", action="store_true", help="difficulties exponential, not even, about the crowd's mean"
    )
    parser.add_argument("--ability", choices=["normal", "left", "right"], default="normal", help="which tail is long")
    parser.add_argument("--release", action="store_true", help="leave out common items that seem to have drifted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anchored", type=int, nargs="*", help="people of a first crowd, whose items are anchors")
    arguments = parser.parse_args()
    if arguments.anchored:
        print_anchored(arguments)
        return
    rng = np.random.default_rng(arguments.seed)
    found = pd.DataFrame([row for _ in range(arguments.chains) for row in chain(arguments, rng)])
    for line in ("a", "b"):
        found[f"covered_{line}"] = found[line].abs() < Z * found[f"se_{line}"]
        found[f"alone_covered_{line}"] = found[line].abs() < Z * found[f"alone_{line}"]
    by_year = found.groupby("year")
    table = by_year.mean().drop(columns=["a", "b"]).assign(
        bias_a=by_year["a"].mean(), bias_b=by_year["b"].mean(), sd_a=by_year["a"].std(), sd_b=by_year["b"].std()
    )  # fmt: skip
    columns = [f"{what}_{line}" for line in "ab" for what in ("bias", "sd", "se", "alone", "covered", "alone_covered")]
    scores = [name for name in table if name.startswith("scores_")]
    print(table[[*columns, *scores, "slopes", "intercepts", "lost"]].round(3).to_string())


if __name__ == "__main__":
    main()
