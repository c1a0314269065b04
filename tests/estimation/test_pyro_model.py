"""Every fit is Pyro's: its sample sites are what is fitted, its SVI takes the steps, and nothing is left behind."""

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor
from torch.nn.functional import logsigmoid

from builders.by_hand import NODES, counts_of, demand_a_maximum, integral, log_p
from builders.problem import make_problem
from builders.simulated import drawn
from irtbench import FitSettings, FittedModel, Priors, ResponseMatrix, fit_factors, fit_model
from irtbench.analysis.model_comparison import guessing_test
from irtbench.estimation import fit
from irtbench.estimation.driver import own_parameters
from irtbench.estimation.marginal.fisher_scoring import DeltaELBO, FisherScoring, delta_guide, find_mode
from irtbench.estimation.marginal.problem import Evaluation, Problem
from irtbench.estimation.status import Stop
from irtbench.estimation.variational.item_posterior import fit_posterior
from irtbench.estimation.variational.loss import MarginalELBO
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.model import FILLS
from irtbench.models.pyro_model.rows import DenseRows
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

KINDS: dict[str, dict[str, Any]] = {
    "2pl": {},
    "3pl": {"kind": "3pl"},
    "hierarchical": {"prior": "hierarchical"},
    "population": {"population": "estimated", "tolerance": 1e-3},
    "adam": {"optimiser": "adam", "max_steps": 1},
}
# ---- what is fitted is what the model says


NARROW = dist.StudentT(torch.tensor(3.0).double(), 1.0, 0.3)


def narrow_slopes(rows: Tensor | DenseRows, nodes: NodeTensors, **options: Any) -> None:
    """The usual model, but slopes are Student's t with 3 degrees of freedom, a density that has no closed form here."""
    n_items = rows.n_items if isinstance(rows, DenseRows) else rows.shape[1]
    slope = pyro.sample("slope", NARROW.expand((n_items, 1)).to_event(2))
    flat = dist.ImproperUniform(dist.constraints.real, (n_items,), ())
    intercept = pyro.sample("intercept", flat.to_event(1))
    with pyro.plate("respondents", len(rows)):
        pyro.sample("responses", CollapsedLogistic(slope, intercept, None, nodes), obs=rows)


@pytest.mark.parametrize("optimiser", ["fisher_scoring", "adam"])
def test_a_prior_changed_in_the_model_alone_changes_the_fit(monkeypatch: pytest.MonkeyPatch, optimiser: str) -> None:
    responses = drawn(300, 5)
    before = fit_model(responses)
    monkeypatch.setattr(fit, "logistic_model", narrow_slopes)
    fitted = fit_model(responses, FitSettings(optimiser=optimiser))  # type: ignore[arg-type]
    assert fitted.converged
    counts, weights = counts_of(responses.values), torch.softmax(-(NODES[:, 0] ** 2) / 2, dim=0)

    def log_posterior(values: Tensor) -> Tensor:
        a, d = values.view(2, -1)
        x = torch.stack([a, d, torch.zeros_like(a), torch.ones_like(a)], dim=1)
        return integral(counts, log_p("logistic", x, NODES), weights).sum() + NARROW.log_prob(a).sum()

    items, errors = fitted.items, fitted.items.standard_errors()
    at = torch.from_numpy(np.concatenate([items.discrimination, items.intercept]))
    own = np.concatenate([errors["discrimination"], errors["intercept"]])
    demand_a_maximum(log_posterior, at, own, within=1e-3 if optimiser == "fisher_scoring" else 0.02, rtol=1e-3)
    assert np.abs(items.discrimination - before.items.discrimination).max() > 0.1


# ---- Fisher scoring is an optimiser like others


def three_pl(rows: Tensor, nodes: NodeTensors) -> None:
    """Some items guessed, each site with a density of its own."""
    n_items = len(GUESSED)
    one = nodes.theta.new_tensor(1.0)
    slope = pyro.sample("slope", dist.StudentT(4 * one, one, 0.5).expand((n_items, 1)).to_event(2))
    intercept = pyro.sample("intercept", dist.Normal(0 * one, 2.0).expand((n_items,)).to_event(1))
    density = dist.Normal(-1.4 * one, 0.25).expand((int(GUESSED.sum()),)).to_event(1)
    logit = pyro.sample("guessing_logit", density, infer={FILLS: GUESSED})
    log_c = torch.full((n_items,), -torch.inf, dtype=torch.float64).masked_scatter(GUESSED, logsigmoid(logit))
    with pyro.plate("respondents", len(rows)):
        pyro.sample("responses", CollapsedLogistic(slope, intercept, log_c, nodes), obs=rows)


GUESSED = torch.tensor([True, False, True, False, False])
START = {
    "slope": torch.ones(5, 1, dtype=torch.float64),
    "intercept": torch.tensor([0.5, 0.0, -1.5, 0.0, 0.5], dtype=torch.float64),
    "guessing_logit": torch.full((2,), -1.0, dtype=torch.float64),
}


def dense(n: int, missing: float = 0.0) -> tuple[Tensor, NodeTensors]:
    problem = make_problem(drawn(n, 5, missing=missing))
    assert isinstance(problem.rows, DenseRows)
    return problem.rows.values, problem.nodes


@pytest.mark.parametrize("whose", ["ours", "pyro's"])
def test_fisher_scoring_goes_with_any_delta_guide_in_a_bare_loop(whose: str) -> None:
    """It ends where the gradient of Pyro's own loss is none."""
    rows_and_nodes = dense(300, 0.1)
    with pyro.get_param_store().scope():
        guide = delta_guide(START) if whose == "ours" else AutoDelta(three_pl, init_loc_fn=init_to_value(values=START))
        loss = DeltaELBO()
        optimiser = FisherScoring(loss)
        svi = SVI(three_pl, guide, optimiser, loss)
        losses = [svi.step(*rows_and_nodes) for _ in range(30)]
        assert optimiser.status.stop is Stop.CONVERGED
        assert optimiser.status.steps < 20
        parameters = [parameter for _, parameter in pyro.get_param_store().named_parameters()]
        for parameter in parameters:
            parameter.grad = None
        expected = Trace_ELBO().loss_and_grads(three_pl, guide, *rows_and_nodes)
        gradients_there = [float(parameter.grad.abs().max()) for parameter in parameters]
    assert losses[-1] == pytest.approx(expected, abs=1e-8)
    assert losses[-1] == pytest.approx(min(losses), abs=1e-8)
    assert losses[-1] < losses[0] - 1
    assert len(gradients_there) == len(START)
    assert max(gradients_there) < 1e-3  # standard errors are below 1: as near to the maximum as a thousandth of one


def test_fisher_scoring_refuses_a_guide_that_is_no_point() -> None:
    with pyro.get_param_store().scope():
        loss = DeltaELBO()
        svi = SVI(three_pl, AutoNormal(three_pl), FisherScoring(loss), loss)
        with pytest.raises(NotImplementedError, match="needs a Delta guide"):
            svi.step(*dense(300))


# ---- the loss is Pyro's


def gradients(loss: Any, model: Callable[..., Any], guide: Any, rows: Tensor, nodes: NodeTensors) -> Any:
    for parameter in guide.parameters():
        parameter.grad = None
    torch.manual_seed(4)  # of the guide's draws and the minibatch
    value = loss.loss_and_grads(model, guide, rows, nodes)
    torch.manual_seed(4)
    alone = loss.loss(model, guide, rows, nodes)
    found = {name: parameter.grad.clone() for name, parameter in guide.named_parameters()}
    return value, alone, found


def with_masks(rows: Tensor, nodes: NodeTensors, *, mask: Tensor | bool) -> None:
    """A model of one's own: some slopes without a density, some respondents left out, one in either way of Pyro."""
    like = nodes.theta.new_zeros
    with poutine.mask(mask=torch.arange(5) > 1), pyro.plate("items", 5):
        slope = pyro.sample("slope", dist.Normal(like(5, 1) + 1, 0.5).to_event(1))
    intercept = pyro.sample("intercept", dist.Normal(like(5), 2.0).to_event(1))
    with pyro.plate("respondents", len(rows)), poutine.mask(mask=mask):
        row = CollapsedLogistic(slope, intercept, None, nodes).mask(torch.arange(len(rows)) != 7)
        pyro.sample("responses", row, obs=rows)


MODELS: dict[str, Callable[[], Callable[..., Any]]] = {
    "2pl": lambda: make_problem(drawn(200, 5), Priors.named("weak")).model,
    "3pl, some c fixed": lambda: (
        make_problem(
            drawn(200, 5), Priors.named("weak"), free=[True, False, True, False, False], fixed=[0.0, 0.2, 0.0, 0.0, 0.1]
        ).model
    ),
    "minibatch": lambda: partial(make_problem(drawn(200, 5), Priors.named("weak"), free=True).model, batch_size=40),
    "hierarchy": lambda: make_problem(drawn(200, 5), Priors.named("hierarchical")).model,
    "masked": lambda: partial(with_masks, mask=torch.arange(200) % 3 > 0),
    "nobody": lambda: partial(with_masks, mask=False),
    "scaled": lambda: poutine.scale(make_problem(drawn(200, 5), Priors.named("weak")).model, scale=0.3),
}


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("whose", ["delta", "normal"])
def test_the_marginal_elbo_is_pyros_in_value_and_gradient(name: str, missing: float, whose: str) -> None:
    model, (rows, nodes) = MODELS[name](), dense(200, missing)
    assert bool((rows == -1).any()) == (missing > 0)
    with pyro.get_param_store().scope():
        torch.manual_seed(1)
        guide = AutoDelta(model) if whose == "delta" else AutoNormal(model, init_scale=0.2)
        guide(rows, nodes)
        particles = 1 if whose == "delta" else 2
        ours = gradients(MarginalELBO(num_particles=particles), model, guide, rows, nodes)
        pyros = gradients(Trace_ELBO(num_particles=particles), model, guide, rows, nodes)
    assert ours[0] == pytest.approx(pyros[0], rel=1e-10)
    assert ours[1] == pytest.approx(pyros[1], rel=1e-10)
    assert ours[0] == pytest.approx(ours[1], rel=1e-10)
    assert set(ours[2]) == set(pyros[2])
    for parameter, gradient in pyros[2].items():
        assert float(gradient.abs().max()) > 1e-3
        torch.testing.assert_close(ours[2][parameter], gradient, atol=1e-8, rtol=1e-8)


def test_masks_that_mean_nothing_here_are_refused() -> None:
    rows, nodes = dense(200)
    guide = delta_guide({"slope": torch.ones(5, 1).double(), "intercept": torch.zeros(5).double()})
    with own_parameters():
        with pytest.raises(NotImplementedError, match=r"site responses: a mask of shape \(200, 200\); expected one of"):
            MarginalELBO().loss(partial(with_masks, mask=torch.eye(200).bool()), guide, rows, nodes)
        for model in (partial(with_masks, mask=True), MODELS["scaled"]()):
            with pytest.raises(NotImplementedError, match="is masked or scaled, which goes with MarginalELBO alone"):
                DeltaELBO().loss(model, guide, rows, nodes)


# ---- nothing is left behind, and fits do not meet


def posterior(responses: ResponseMatrix) -> object:
    problem = make_problem(responses, Priors.named("weak"))
    return fit_posterior(problem, find_mode(problem).items, "normal", seed=1, n_particles=1, max_steps=200)


CALLS: dict[str, Callable[[], object]] = {
    **{kind: partial(fit_model, drawn(150, 6), FitSettings(**options)) for kind, options in KINDS.items()},
    "factors": lambda: fit_factors(drawn(200, 6), 2, tolerance=0.05),
    "guessing": lambda: guessing_test(drawn(200, 4)),
    "posterior": lambda: posterior(drawn(100, 3)),
}


def state() -> tuple[Any, ...]:
    store = pyro.get_param_store()
    flags = torch.is_grad_enabled(), torch.get_num_threads(), pyro.poutine.runtime._PYRO_STACK[:]
    checks = dist.torch_distribution.torch.distributions.Distribution._validate_args
    seeds = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    return {name: value.tolist() for name, value in store.items()}, seeds, flags, checks


@pytest.mark.parametrize("call", [pytest.param(c, marks=pytest.mark.slow if c == "posterior" else ()) for c in CALLS])
@pytest.mark.parametrize("fails", [False, True])
def test_parameters_random_numbers_and_settings_are_as_before(
    monkeypatch: pytest.MonkeyPatch, call: str, fails: bool
) -> None:
    with pyro.get_param_store().scope():
        pyro.param("slope_point", torch.tensor([3.0]))  # of the caller, by the name that fits use
        pyro.param("hierarchy_mean", torch.tensor([5.0]))
        before = state()
        if fails:
            calls, row = 0, Problem.row

            def broken(self: Problem, items: ItemTensors) -> CollapsedLogistic:
                nonlocal calls
                calls += 1
                if calls == 3:
                    raise RuntimeError("broken on purpose")
                return row(self, items)

            monkeypatch.setattr(Problem, "row", broken)
            with pytest.raises(RuntimeError, match="broken on purpose"):
                CALLS[call]()
        else:
            CALLS[call]()
        assert state() == before


def same(one: FittedModel, other: FittedModel) -> bool:
    pairs = ((getattr(x.items, name) for x in (one, other)) for name in ("discrimination", "intercept", "guessing"))
    return all(np.array_equal(a, b) for a, b in pairs) and one.log_likelihood == other.log_likelihood


@pytest.mark.parametrize("inner_kind", ["hierarchical", "adam"])
def test_a_fit_within_a_fit_meets_nothing_of_it(monkeypatch: pytest.MonkeyPatch, inner_kind: str) -> None:
    outer_data, inner_data = drawn(200, 6), drawn(100, 5)
    settings = FitSettings(kind="3pl"), FitSettings(**KINDS[inner_kind])
    alone = fit_model(outer_data, settings[0]), fit_model(inner_data, settings[1])
    nested: list[FittedModel] = []
    evaluate, calls = Problem.evaluate, 0

    def with_a_fit_inside(self: Problem, items: ItemTensors) -> Evaluation:
        nonlocal calls
        calls += 1
        if calls == 4:
            nested.append(fit_model(inner_data, settings[1]))
        return evaluate(self, items)

    monkeypatch.setattr(Problem, "evaluate", with_a_fit_inside)
    outer = fit_model(outer_data, settings[0])
    assert len(nested) == 1
    assert same(outer, alone[0])
    assert same(nested[0], alone[1])


def test_fits_in_two_threads_take_turns() -> None:
    data = [drawn(150, 5), drawn(120, 7)]
    alone = [fit_model(responses) for responses in data]
    found: dict[tuple[int, int], FittedModel] = {}

    def several(k: int) -> None:
        for time in range(4):
            found[k, time] = fit_model(data[k])

    threads = [threading.Thread(target=several, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8  # none ended with an error
    assert all(same(fitted, alone[k]) for (k, _), fitted in found.items())
