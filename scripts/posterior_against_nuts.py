"""Does the variational posterior of the items agree with NUTS? Mode, normal and low-rank guide on simulated data.

    python scripts/posterior_against_nuts.py 2pl
    python scripts/posterior_against_nuts.py 3pl --draws 8000

Responses are simulated, 2PL without a prior or 3PL with the weak one. Pyro's NUTS on the same Pyro model is the judge:
a dense mass matrix learnt in the warm-up, chains started at the mode, none of the guide's coordinates. Each estimate is
compared in mean (difference in NUTS standard deviations) and width (ratio of standard deviations); difficulties b in
their median and half the distance of their 15.9 and 84.1% quantiles, which exist where a slope may be zero too.
docs/uncertainty.md holds the tables this prints.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyro
import torch
from numpy.typing import NDArray
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide.initialization import init_to_value
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.marginal.observed_information import sampling_covariance
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings, ItemModel
from irtbench.estimation.variational.item_posterior import fit_posterior
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.rows import DenseRows
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import normal_grid

GUESSING = 0.2  # of the simulated 3PL items


def simulate(kind: ItemModel, n_respondents: int, n_items: int, seed: int) -> Problem:
    """Responses of normal abilities to items with log-normal slopes and normal difficulties."""
    rng = np.random.default_rng(seed)
    free = kind == "3pl"
    truth = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items), GUESSING if free else 0.0
    )
    responses = simulate_responses(rng.normal(size=n_respondents), truth, rng=rng)
    return problem_of(responses, FitSettings(kind=kind, device="cpu"), normal_grid())


def run_nuts(problem: Problem, mode: ItemTensors, *, chains: int, draws: int, warmup: int, seed: int) -> Tensor:
    """Draws of (a, d, c) of each item, shape (chains, draws, 3, n_items) or (chains, draws, 2, n_items) without c."""
    assert isinstance(problem.rows, DenseRows)
    values = problem.prior.values_of(mode)
    samples = []
    for chain in range(chains):
        pyro.set_rng_seed(seed + chain)
        kernel = NUTS(problem.model, full_mass=True, max_plate_nesting=1, init_strategy=init_to_value(values=values))
        sampler = MCMC(kernel, num_samples=draws, warmup_steps=warmup, disable_progbar=True)
        sampler.run(problem.rows.values, problem.nodes)
        found = sampler.get_samples()
        parts = [found["slope"][..., 0], found["intercept"]]
        if "guessing_logit" in found:
            parts.append(torch.sigmoid(found["guessing_logit"]))
        samples.append(torch.stack(parts, dim=1))
        divergent = len(sampler.diagnostics()["divergences"]["chain 0"])
        print(f"chain {chain + 1}: {draws} draws after {warmup}, {divergent} divergent", flush=True)
    return torch.stack(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("2pl", "3pl"))
    parser.add_argument("--respondents", type=int, default=500)
    parser.add_argument("--items", type=int, default=6)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    problem = simulate(options.kind, options.respondents, options.items, options.seed)
    mode = find_mode(problem)
    if not mode.status.converged:
        raise SystemExit(f"the mode was not found: {mode.status}")
    width = 3 if options.kind == "3pl" else 2

    estimates: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    difficulties: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    covariance, _ = sampling_covariance(problem, mode.items)
    estimates["mode"] = mode.items.matrix.numpy(), np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    point = ItemParameters(
        tuple(map(str, range(options.items))),
        *mode.items.matrix.numpy().T,
        np.zeros(options.items, dtype=np.bool_),
        covariance,
    )
    difficulties["mode"] = point.difficulty, point.standard_errors()["difficulty"]
    for kind in ("normal", "lowrank"):
        began = time.perf_counter()
        try:
            found = fit_posterior(problem, mode.items, kind, seed=options.seed)
        except InputError as error:
            raise SystemExit(str(error)) from error
        seconds = time.perf_counter() - began
        print(
            f"{kind}: ELBO {found.elbo:.2f} +- {found.elbo_error:.2f}, divergence {found.divergence:.2f}, "
            f"{found.steps} steps in {seconds:.1f} s, {found.stopped_because}",
            flush=True,
        )
        estimates[kind] = found.mean, found.standard_deviations
        difficulties[kind] = found.difficulty, found.difficulty_deviation

    began = time.perf_counter()
    draws = run_nuts(
        problem, mode.items, chains=options.chains, draws=options.draws, warmup=options.warmup, seed=options.seed
    )
    mean, sd = draws.mean(dim=(0, 1)), draws.flatten(0, 1).std(dim=0)
    effective = effective_sample_size(draws)
    effective_square = effective_sample_size((draws - mean) ** 2)
    kurtosis = ((draws - mean) ** 4).mean(dim=(0, 1)) / sd**4
    sd_error = ((kurtosis - 1) / (4 * effective_square)).sqrt()  # relative, by the delta method from that of a variance
    print(
        f"NUTS: {time.perf_counter() - began:.0f} s, R-hat at most {float(split_gelman_rubin(draws).max()):.4f}, "
        f"Monte Carlo error at most {float(effective.rsqrt().max()):.3f} sd of a mean, "
        f"{float(sd_error.max()):.1%} of an sd"
    )
    print(
        "\n| parameter | NUTS mean | sd | effective draws | "
        + " | ".join(f"{name}: mean, sd" for name in estimates)
        + " |"
    )
    print("|---|---|---|---|" + "---|" * len(estimates))
    worst = {name: [0.0, 1.0] for name in estimates}
    for k in range(width):
        for j in range(options.items):
            cells = []
            for name, (means, sds) in estimates.items():
                shift = float((means[j, k] - mean[k, j]) / sd[k, j])
                ratio = float(sds[j, k] / sd[k, j])
                cells.append(f"{shift:+.3f}, {ratio:.3f}")
                worst[name][0] = max(worst[name][0], abs(shift))
                worst[name][1] = max(worst[name][1], ratio, key=lambda x: abs(np.log(x)))
            print(
                f"| {'adc'[k]}{j + 1} | {float(mean[k, j]):.3f} | {float(sd[k, j]):.3f} "
                f"| {float(effective[k, j]):.0f} | " + " | ".join(cells) + " |"
            )
    b = (-draws[:, :, 1] / draws[:, :, 0]).flatten(0, 1)
    low, median, high = torch.quantile(b, b.new_tensor([0.158655, 0.5, 0.841345]), dim=0)
    for j in range(options.items):
        deviation = float(high[j] - low[j]) / 2
        cells = [
            f"{(medians[j] - float(median[j])) / deviation:+.3f}, {deviations[j] / deviation:.3f}"
            for medians, deviations in difficulties.values()
        ]
        print(f"| b{j + 1} | {float(median[j]):.3f} | {deviation:.3f} | | " + " | ".join(cells) + " |")
    print("| worst | | | | " + " | ".join(f"{shift:.3f}, {ratio:.3f}" for shift, ratio in worst.values()) + " |")


if __name__ == "__main__":
    main()
