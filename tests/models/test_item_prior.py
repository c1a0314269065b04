"""The prior that fits use is the model's own: density and derivatives against autograd of the traced log_prob."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.model import FILLS, logistic_model
from irtbench.models.pyro_model.sites import ItemModel, ItemPrior, trace_model
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

N = 5
FREE = torch.tensor([True, False, True, True, False])
PATTERN = torch.tensor([[True, False], [True, True], [False, True], [True, False], [False, True]])
LEARNT = Hierarchy((0.3, -0.2), (0.4, 1.3), 0.35)
SIGN = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def usual(priors: Priors, *, guesses: bool = True, **options: Any) -> ItemModel:
    free = FREE if guesses else torch.zeros(N, dtype=torch.bool)
    fixed = torch.where(free, 0.0, double(0.0, 0.2, 0.0, 0.0, 0.1) if guesses else torch.zeros(N).double())
    return partial(logistic_model, priors=priors, guessing_free=free, guessing_fixed=fixed, **options)


def own(slope: dist.Distribution, intercept: dist.Distribution, guessing: dist.Distribution) -> ItemModel:
    """A model with the same sites and densities of one's own."""

    def model(rows: Tensor, nodes: NodeTensors) -> None:
        a = pyro.sample("slope", slope.expand((N, 1)).to_event(2))
        d = pyro.sample("intercept", intercept.expand((N,)).to_event(1))
        logit = pyro.sample("guessing_logit", guessing.expand((int(FREE.sum()),)).to_event(1), infer={FILLS: FREE})
        log_c = torch.full((N,), -torch.inf, dtype=torch.float64).masked_scatter(FREE, logsigmoid(logit))
        with pyro.plate("respondents", len(rows)):
            pyro.sample("responses", CollapsedLogistic(a, d, log_c, nodes), obs=rows)

    return model


@dataclass(frozen=True)
class Case:
    """A model, its number of abilities, and whether its density is log-concave at the items."""

    model: Callable[[], ItemModel]
    n_factors: int = 1
    hierarchy: bool = False
    concave: bool = True


CASES = {
    "normal and logit-Beta": Case(lambda: usual(Priors.named("weak"))),
    "normal of logit c": Case(lambda: usual(Priors("weak", guessing=GuessingPrior("normal", -1.1, 0.5)))),
    "flat": Case(lambda: usual(Priors.named("none"))),
    "flat slopes, normal intercepts": Case(lambda: usual(Priors("weak", intercept=(0.1, 2.0)), guesses=False)),
    "hierarchy": Case(
        lambda: usual(
            Priors("hierarchical", guessing=GuessingPrior("beta", 5.0, 15.0), hierarchy=LEARNT), slope_sign=SIGN
        ),
        hierarchy=True,
    ),
    "hierarchy with a learnt mean": Case(
        lambda: usual(Priors("hierarchical", hierarchy=LEARNT), guesses=False, slope_sign=SIGN, learn_mean=True),
        hierarchy=True,
    ),
    "zero loadings": Case(lambda: usual(Priors.named("weak"), slopes_free=PATTERN), n_factors=2),
    "two abilities": Case(lambda: usual(Priors.named("weak"), guesses=False), n_factors=2),
    "Student's t, Laplace, normal": Case(
        lambda: own(
            dist.StudentT(double(3.0)[0], double(1.0)[0], double(0.3)[0]),
            dist.Laplace(double(0.2)[0], double(1.5)[0]),
            dist.Normal(double(-1.0)[0], double(0.7)[0]),
        ),
        concave=False,
    ),
    "logistic, Gumbel, Beta of logit c": Case(
        lambda: own(
            dist.TransformedDistribution(dist.Uniform(*double(0.0, 1.0)), [dist.transforms.SigmoidTransform().inv]),
            dist.Gumbel(double(0.0)[0], double(2.0)[0]),
            dist.TransformedDistribution(dist.Beta(*double(5.0, 15.0)), [dist.transforms.SigmoidTransform().inv]),
        )
    ),
}


def some_rows() -> Tensor:
    return torch.randint(0, 2, (12, N), generator=torch.Generator().manual_seed(0))


def nodes_of(n_factors: int) -> NodeTensors:
    theta = torch.linspace(-2, 2, 7, dtype=torch.float64)[:, None].expand(7, n_factors).contiguous()
    return NodeTensors(theta, torch.full((7,), 1 / 7, dtype=torch.float64).log())


def some_matrix(prior: ItemPrior, n_factors: int) -> Tensor:
    """Slopes, intercept and logit c of the items, each where the model has it."""
    generator = torch.Generator().manual_seed(3)
    matrix = 2 * torch.rand(N, n_factors + 2, generator=generator, dtype=torch.float64)
    matrix[:, -2] -= 1.3
    matrix[:, -1] -= 2.5
    matrix[:, :-2] *= prior.free[:, :-2]
    if prior.slope_sign is not None:
        matrix[:, 0] *= prior.slope_sign
    fixed = torch.logit(prior.fixed.guessing)
    matrix[:, -1] = torch.where(prior.guessing_free, matrix[:, -1], fixed)
    return matrix


def model_log_prob(model: ItemModel, prior: ItemPrior, nodes: NodeTensors, matrix: Tensor) -> Tensor:
    """What Pyro says of the model's item sites at these slopes, intercepts and logits of c."""
    slope, intercept, logit = matrix[:, :-2], matrix[:, -2], matrix[:, -1]
    values = {
        "slope": slope if bool(prior.free[:, :-2].all()) else slope[prior.free[:, :-2]],
        "intercept": intercept,
        "log_slope_and_intercept": torch.stack([slope[:, 0].abs().log(), intercept], dim=1),
        "guessing_logit": logit[prior.guessing_free],
    }
    with pyro.get_param_store().scope():
        pair = prior.densities.get("log_slope_and_intercept")
        if pair is not None and pair.loc.requires_grad:  # the mean that maximises the density
            pyro.param("hierarchy_mean", values["log_slope_and_intercept"].detach().mean(dim=0))
        trace = poutine.trace(poutine.condition(model, data=values)).get_trace(some_rows(), nodes)
    trace.compute_log_prob()
    assert set(prior.densities) == {name for name in values if name in trace.nodes}
    total = matrix.new_zeros(()) + 0 * matrix[matrix.isfinite()].sum()
    return total + sum(trace.nodes[name]["log_prob_sum"] for name in prior.densities)


@pytest.mark.parametrize("case", CASES)
def test_density_and_derivatives_are_those_of_the_traced_model(case: str) -> None:
    chosen = CASES[case]
    model, nodes = chosen.model(), nodes_of(chosen.n_factors)
    with pyro.get_param_store().scope():
        prior, _ = trace_model(model, some_rows(), nodes)
    matrix = some_matrix(prior, chosen.n_factors)
    width = chosen.n_factors + 2
    items = ItemTensors(matrix[:, :-2], matrix[:, -2], torch.sigmoid(matrix[:, -1]))
    items = ItemTensors(items.slope, items.intercept, torch.where(FREE, items.guessing, prior.fixed.guessing))
    free = torch.ones(N, width, dtype=torch.bool)
    free[:, -1] = prior.guessing_free
    free[:, :-2] = prior.free[:, :-2]

    def log_prob(values: Tensor) -> Tensor:
        return model_log_prob(model, prior, nodes, matrix.masked_scatter(free, values))

    def derivatives(function: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient, and minus the Hessian's block of each item, zeros where a parameter is fixed."""
        gradient = torch.zeros(N, width, dtype=torch.float64)
        gradient[free] = torch.autograd.functional.jacobian(function, at)
        place = torch.nonzero(free.flatten())[:, 0]
        full = torch.zeros(N * width, N * width, dtype=torch.float64)
        full[place[:, None], place] = -torch.autograd.functional.hessian(function, at)
        each = torch.arange(N)
        return gradient, full.view(N, width, N, width)[each, :, each, :]

    assert float(prior.log_density(items)) == pytest.approx(float(log_prob(matrix[free]).detach()), abs=1e-10)
    gradient, information = derivatives(log_prob, matrix[free])
    found = prior.derivatives(items, by_logit=True, positive=False)
    torch.testing.assert_close(found[0], gradient, atol=1e-10, rtol=1e-9)
    torch.testing.assert_close(found[1], information, atol=1e-9, rtol=1e-9)
    # as a step needs it: the same where that is positive, and never negative
    gradient_of_step, positive = prior.derivatives(items, by_logit=True)
    torch.testing.assert_close(gradient_of_step, gradient, atol=1e-10, rtol=1e-9)
    assert float(torch.linalg.eigvalsh(positive).min()) >= -1e-12
    if chosen.concave and not chosen.hierarchy:
        torch.testing.assert_close(positive, information, atol=1e-9, rtol=1e-9)
    elif not chosen.hierarchy:
        assert float(information.diagonal(dim1=1, dim2=2).min()) < 0
        torch.testing.assert_close(positive, information.clamp(min=0), atol=1e-9, rtol=1e-9)

    # by c itself, the density being that of logit c all the same
    by_c = matrix.clone()
    by_c[:, -1] = items.guessing

    def log_prob_by_c(values: Tensor) -> Tensor:
        full = by_c.masked_scatter(free, values)
        return model_log_prob(model, prior, nodes, torch.cat([full[:, :-1], torch.logit(full[:, -1:])], dim=1))

    gradient, information = derivatives(log_prob_by_c, by_c[free])
    found = prior.derivatives(items, by_logit=False, positive=False)
    torch.testing.assert_close(found[0], gradient, atol=1e-9, rtol=1e-9)
    bends = information[:, -1, -1] > 0  # elsewhere a positive stand-in is taken
    torch.testing.assert_close(found[1][bends], information[bends], atol=1e-8, rtol=1e-9)
    assert (found[1][:, -1, -1] >= 0).all()


def test_values_and_items_there_and_back() -> None:
    for chosen in CASES.values():
        with pyro.get_param_store().scope():
            prior, _ = trace_model(chosen.model(), some_rows(), nodes_of(chosen.n_factors))
        matrix = some_matrix(prior, chosen.n_factors)
        items = ItemTensors(matrix[:, :-2], matrix[:, -2], torch.sigmoid(matrix[:, -1]))
        torch.testing.assert_close(prior.items_of(prior.values_of(items)).matrix, items.matrix)


def test_what_is_not_a_model_of_items_is_refused() -> None:
    def with_more(rows: Tensor, nodes: NodeTensors) -> None:
        usual(Priors.named("weak"))(rows, nodes)
        pyro.sample("more", dist.Normal(0.0, 1.0))

    def twice(rows: Tensor, nodes: NodeTensors) -> None:
        a, d = pyro.sample("slope", dist.Normal(0.0, 1.0).expand((N, 1)).to_event(2)).double(), torch.zeros(N).double()
        for name in ("one", "two"):
            with pyro.plate(f"respondents {name}", len(rows)):
                pyro.sample(name, CollapsedLogistic(a, d, None, nodes), obs=rows)

    with pytest.raises(NotImplementedError, match="expected some of slope, log_slope, intercept, difficulty"):
        trace_model(with_more, some_rows(), nodes_of(1))
    with pytest.raises(NotImplementedError, match="draws 2 response matrices from CollapsedLogistic; expected one"):
        trace_model(twice, some_rows(), nodes_of(1))

    def bound_together(rows: Tensor, nodes: NodeTensors) -> None:
        a = pyro.sample("slope", dist.MultivariateNormal(torch.zeros(N).double(), torch.eye(N).double()))
        d = pyro.sample("intercept", dist.Normal(torch.zeros(N).double(), 1.0).to_event(1))
        with pyro.plate("respondents", len(rows)):
            pyro.sample("responses", CollapsedLogistic(a[:, None], d, None, nodes), obs=rows)

    prior, row = trace_model(bound_together, some_rows(), nodes_of(1))
    with pytest.raises(NotImplementedError, match="independent values"):
        prior.derivatives(row.items, by_logit=True)
