"""Items of any models with their categories as columns, and a respondent's row of them as one Pyro distribution.

Every category of an item but the first has a column, 1 where it was the response; of a right-or-wrong item that is the
number of right responses. The log-likelihood of a row at a node is then the sum over columns of log(P_k / P_0), and
over items that were answered of log P_0: two matrix products, whatever the models.

Items of one passage, or a pair of twins, go together more than ability explains. In the bifactor model an item has a
slope on a general ability, which all items share, and one on the specific ability of its testlet,

    z = a_0 theta_0 + a_s theta_s,

all abilities independent and standard normal. Given the general ability testlets are independent of each other, so that
the integral over all abilities is one over the general ability of a product of integrals over one specific ability each
(Gibbons & Hedeker, 1992; Cai, 2010): it costs what two abilities cost, however many testlets there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.autograd.functional import jacobian
from torch.nn.functional import softplus

from irtbench.models.item_models.item_model import ItemModel, Maths, Role
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.collapsed import CollapsedLogistic, CollapsedScales
from irtbench.models.pyro_model.model import (
    FILLS,
    KNOWN,
    DifficultyPrior,
    guessing_density,
    intercept_of,
    normal_or_flat,
)
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

MOST_ALIKE = 64  # items at once: what is made of them at all nodes stays in the processor's cache
SOFT = 50.0  # beyond which log(1 + exp(z)) is z
TORCH = Maths(
    exp=torch.exp,
    log1p=torch.log1p,
    log_sigmoid=lambda z: -softplus(-z, threshold=SOFT),
    cumulative=lambda x: torch.cumsum(x, dim=-2),
    log_sum=lambda x: torch.logsumexp(x, dim=-2, keepdim=True),
    join=lambda parts: torch.cat(list(parts), dim=-2),
    stack=lambda parts: torch.stack(list(parts), dim=-3),
)


def gradient(value: Tensor, *by: Tensor, again: bool = False) -> tuple[Tensor, ...]:
    """Derivatives of a number; `again` where they are differentiated in turn."""
    return torch.autograd.grad(value, by, retain_graph=True, create_graph=again, materialize_grads=True)


@dataclass(frozen=True)
class Alike:
    """Items of one model and as many categories.

    Parameters
    ----------
    model, n_categories
        Of each.
    items
        Their positions, shape (n_alike,).
    columns
        Of their categories but the first, shape (n_alike, n_categories - 1).
    n_parameters
        Of each.
    """

    model: ItemModel
    n_categories: int
    items: Tensor
    columns: Tensor
    n_parameters: int

    def log_probabilities(self, x: Tensor, theta: Tensor) -> Tensor:
        """Of each category, shape (n_alike, n_categories, n_nodes), at x of shape (n_items, width)."""
        return self.model.log_probabilities(self.own(x)[:, :, None], theta, TORCH)

    def own(self, x: Tensor) -> Tensor:
        """Their rows of parameters, shape (n_alike, n_parameters)."""
        return x[self.items, : self.n_parameters]

    def derivatives(self, x: Tensor, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, and their derivatives by each parameter and by each ability.

        Shapes (n_alike, n_categories, n_nodes), (n_alike, n_parameters, n_categories, n_nodes), and so of abilities.
        """
        own = self.own(x)[:, :, None]
        closed = self.model.derivatives(own, theta, TORCH)
        if closed is not None:
            return closed

        n_alike, n_nodes = len(own), theta.shape[1]
        with torch.enable_grad():  # of parameters and abilities at every node, each of which enters there alone
            at = own.expand(-1, -1, n_nodes).clone().requires_grad_()
            along = theta[:, None, None].expand(-1, n_alike, 1, -1).clone().requires_grad_()
            log_p = self.model.log_probabilities(at, along, TORCH)
            each = [gradient(log_p[:, k].sum(), at, along) for k in range(self.n_categories)]
        by_x, by_theta = (torch.stack(part) for part in zip(*each, strict=True))
        return log_p.detach(), by_x.permute(1, 2, 0, 3), by_theta[:, :, :, 0].permute(2, 1, 0, 3)

    def curvature(self, x: Tensor, theta: Tensor, r: Tensor) -> Tensor:
        """Minus the second derivatives of the sum of r log P, r of each category at each node, by pairs of parameters.

        Shape (n_alike, n_parameters, n_parameters).
        """

        def first(at: Tensor) -> Tensor:
            expected = (r * self.model.log_probabilities(at, theta, TORCH)).sum()
            return gradient(expected, at, again=True)[0].sum(dim=0)[:, 0]

        return -jacobian(first, self.own(x)[:, :, None])[..., 0].transpose(0, 1)

    def natural_by_parameters(self, x: Tensor, n_abilities: int) -> Tensor:
        """Derivatives of the parameters as they are read by these, shape (n_alike, n_parameters, n_parameters)."""

        def natural(at: Tensor) -> Tensor:
            return self.model.natural(at, n_abilities, TORCH).sum(dim=0)[:, 0]

        return jacobian(natural, self.own(x)[:, :, None])[..., 0].transpose(0, 1)

    def expected(self, n: Tensor, r: Tensor | None) -> Tensor:
        """Expected numbers in every category at each node, of those of items and of columns."""
        assert r is not None
        later = r[self.columns]
        return torch.cat([n[self.items, None] - later.sum(dim=1, keepdim=True), later], dim=1)


@dataclass(frozen=True)
class CategoryItems:
    """The items of a scale: a model and a number of categories each.

    Parameters
    ----------
    models, n_categories
        Of each item.
    n_abilities
        How many abilities their slopes are by.
    device
        Where tensors are.
    n_scales
        Number of scales that they are of, each of as many, one after the other. Scales of fewer categories than others
        have columns of no item behind theirs.
    least_width, least_columns
        Of a row of parameters and of the columns of a scale, though these items need no more.
    """

    models: Sequence[ItemModel]
    n_categories: Sequence[int]
    n_abilities: int
    device: torch.device
    n_scales: int = 1
    least_width: int = 0
    least_columns: int = 0

    def __len__(self) -> int:
        return len(self.models)

    @cached_property
    def _kinds(self) -> tuple[dict[tuple[ItemModel, int], int], Tensor]:
        """Models with their numbers of categories, numbered, and which of these each item is, shape (n_items,)."""
        kinds: dict[tuple[ItemModel, int], int] = {}
        which = [kinds.setdefault(pair, len(kinds)) for pair in zip(self.models, self.n_categories, strict=True)]
        return kinds, torch.tensor(which, device=self.device)

    @cached_property
    def roles(self) -> tuple[tuple[Role, ...], ...]:
        """Of the parameters of each kind of items."""
        return tuple(tuple(role for _, role in model.parameters(k, self.n_abilities)) for model, k in self._kinds[0])

    @cached_property
    def width(self) -> int:
        """The most parameters of an item; rows of others are filled up with zeros."""
        return max(self.least_width, *map(len, self.roles))

    def where(self, role: Role) -> Tensor:
        """Which parameters have this role, shape (n_items, width)."""
        rows = [[own == role for own in roles] + [False] * (self.width - len(roles)) for roles in self.roles]
        return torch.tensor(rows, device=self.device)[self._kinds[1]]

    @cached_property
    def free(self) -> Tensor:
        """Which entries are parameters, shape (n_items, width)."""
        n = torch.tensor([len(roles) for roles in self.roles], device=self.device)[self._kinds[1]]
        return torch.arange(self.width, device=self.device) < n[:, None]

    @cached_property
    def _later(self) -> tuple[Tensor, Tensor]:
        """Number of each item's columns, and the first of them, shape (n_items,) each."""
        n = torch.tensor(self.n_categories, device=self.device).view(self.n_scales, -1) - 1
        of_scales = torch.arange(self.n_scales, device=self.device)[:, None] * (self.n_columns // self.n_scales)
        return n.flatten(), (of_scales + n.cumsum(dim=1) - n).flatten()

    @property
    def item_of_column(self) -> Tensor:
        """Shape (n_columns,)."""
        return self.columns[0]

    @cached_property
    def columns(self) -> tuple[Tensor, Tensor]:
        """Item and category, 1, 2, ..., of each column, shape (n_columns,) each; -1 and 0 of those of no item."""
        n, first = self._later
        item = torch.arange(len(self), device=self.device).repeat_interleave(n)
        category = torch.arange(1, len(item) + 1, device=self.device) - (n.cumsum(dim=0) - n)[item]
        found = torch.tensor([[-1], [0]], device=self.device).repeat(1, self.n_columns)
        found[:, first[item] + category - 1] = torch.stack([item, category])
        return found[0], found[1]

    @cached_property
    def n_columns(self) -> int:
        """Number of columns of all scales."""
        own = torch.tensor(self.n_categories).view(self.n_scales, -1) - 1
        return self.n_scales * max(self.least_columns, int(own.sum(dim=1).max()))

    @cached_property
    def column_scores(self) -> Tensor:
        """Categories as shares of the highest of their item, shape (n_columns,)."""
        return self.columns[1] / self._later[0].to(torch.float64)[self.item_of_column]

    @cached_property
    def parts(self) -> tuple[Alike, ...]:
        """Items of one model and as many categories together."""
        kinds, which = self._kinds
        found = []
        for ((model, k), number), roles in zip(kinds.items(), self.roles, strict=True):
            for items in torch.nonzero(which == number)[:, 0].split(MOST_ALIKE):
                columns = self._later[1][items, None] + torch.arange(k - 1, device=self.device)
                found.append(Alike(model, k, items, columns, len(roles)))
        return tuple(found)

    def log_odds(self, x: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """log(P_k / P_0) of columns, shape (n_columns, n_nodes), and log P_0 of items, shape (n_items, n_nodes)."""
        odds = x.new_zeros(self.n_columns, theta.shape[1])
        base = x.new_zeros(len(self), theta.shape[1])
        for part in self.parts:
            log_p = part.log_probabilities(x, theta)
            odds[part.columns] = log_p[:, 1:] - log_p[:, :1]
            base[part.items] = log_p[:, 0]
        return odds, base

    def natural(self, x: Tensor) -> Tensor:
        """Parameters as they are read, shape (n_items, width)."""
        found = torch.zeros_like(x)
        for part in self.parts:
            at = part.model.natural(part.own(x)[:, :, None], self.n_abilities, TORCH)[:, :, 0]
            found[part.items[:, None], torch.arange(part.n_parameters, device=x.device)] = at
        return found


class CollapsedCategories(CollapsedLogistic):
    """A respondent's row of responses in categories, ability integrated out.

    Parameters
    ----------
    x
        Parameters, shape (n_items, width).
    items
        Whose they are.
    nodes
        The population of abilities.
    """

    def __init__(self, x: Tensor, items: CategoryItems, nodes: NodeTensors) -> None:
        self.nodes, self.items_given, self.x, self.theta = nodes, items, x, None
        odds, base = items.log_odds(x, nodes.theta.T)
        self.log_odds, self.log_q = odds.to(nodes.dtype), base.to(nodes.dtype)
        self.log_guessing = torch.zeros((), dtype=x.dtype)  # log odds are not linear in theta
        dist.TorchDistribution.__init__(self, torch.Size(), torch.Size((len(items),)), validate_args=False)

    support = constraints.independent(constraints.real, 1)
    on_logits = True

    @property
    def items(self) -> ItemTensors:
        """The parameters as rows of a matrix, whatever they are."""
        return ItemTensors.from_matrix(self.x)

    def moved(self, difference: Tensor, nodes: NodeTensors) -> CollapsedCategories:
        """The same with another population, and items whose parameters differ by so much, (n_items, width)."""
        return CollapsedCategories(self.x + difference, self.items_given, nodes)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw complete rows of categories 0, 1, ...: an ability from the nodes, then each response given it."""
        shape = torch.Size(sample_shape) + self.batch_shape
        node = torch.distributions.Categorical(logits=self.nodes.log_weights).sample(shape)
        return self.drawn_at(node[..., None].expand(*shape, len(self.items_given)))

    def drawn_at(self, node: Tensor) -> Tensor:
        """Responses to each item at a node each, shape (..., n_items)."""
        item = self.items_given.item_of_column
        p = (self.log_odds + self.log_q[item]).exp()[torch.arange(len(item), device=item.device), node[..., item]]
        chance, drawn = torch.rand(node.shape, dtype=p.dtype, device=p.device), torch.zeros_like(node)
        for part in self.items_given.parts:
            at_least = p[..., part.columns].flip(-1).cumsum(dim=-1)
            drawn[..., part.items] = (chance[..., part.items, None] < at_least).sum(dim=-1)
        return drawn.to(torch.int8)


class ScalesInCategories(CollapsedScales):
    """Rows of responses in categories to scales, one population of ability for all.

    Parameters
    ----------
    x, items, nodes
        As of `CollapsedCategories`.
    present
        Which of the items a scale has, shape (n_scales, n_items).
    """

    def __init__(self, x: Tensor, items: CategoryItems, nodes: NodeTensors, present: Tensor) -> None:
        odds, base = items.log_odds(x, nodes.theta.T)
        base = base * present.flatten()[:, None]
        self.nodes, self.theta, self.item_of_column = nodes, None, items.item_of_column
        self.log_odds, self.log_q = (part.unflatten(0, (len(present), -1)).to(nodes.dtype) for part in (odds, base))
        dist.TorchDistribution.__init__(self, present.shape[:1], present.shape[1:], validate_args=False)

    def largest_exponent(self) -> float:
        """By each item's least likely category."""
        log_p, item = self.log_q.flatten(0, 1), self.item_of_column.clamp(min=0)[:, None]
        of_columns = log_p.gather(0, item.expand(-1, log_p.shape[1])) + self.log_odds.flatten(0, 1)
        lowest = log_p.scatter_reduce(0, item.expand_as(of_columns), of_columns, "amin").view_as(self.log_q)
        return float(-lowest.sum(dim=1).min() - self.nodes.log_weights.min())


def category_model(
    rows: ResponseRows,
    nodes: NodeTensors,
    *,
    items: CategoryItems,
    priors: Priors,
    known: Tensor | None = None,
    difficulty: DifficultyPrior | None = None,
    row: Callable[[Tensor, CategoryItems, NodeTensors], CollapsedCategories] = CollapsedCategories,
) -> None:
    """Parameters of each role drawn from its prior, and rows of responses from `CollapsedCategories`, or such.

    The sites are ``slope``, ``intercept``, ``gap`` (flat: of the distances of a graded item's intercepts),
    ``guessing_logit``, ``upper_logit`` and ``dispersion_logit``, whichever the items have, and ``difficulty`` of items
    of right and wrong that have a prior of it in place of one of the intercept. `known` are parameters that no site
    draws, NaN where one does, shape (n_items, width).
    """
    x = nodes.theta.new_zeros(len(items), items.width)
    drawn = torch.ones_like(items.free) if known is None else known.isnan()
    if known is not None:
        x = torch.where(drawn, x, known)
    by_difficulty = torch.zeros_like(drawn)
    if difficulty is not None:
        by_difficulty = items.where("intercept") & drawn & difficulty.chosen[:, None]
    for role, site in SITES.items():
        where = items.where(role) & drawn & ~by_difficulty
        if bool(where.any()):
            density = density_of(role, priors, nodes.theta.new_zeros(int(where.sum())))
            x = x.masked_scatter(where, pyro.sample(site, density.to_event(1), infer={FILLS: where}))
    if difficulty is not None:
        b = pyro.sample("difficulty", difficulty.density.to_event(1), infer={FILLS: by_difficulty})
        x = x.masked_scatter(by_difficulty, intercept_of(x[difficulty.chosen, 0], b, by_theta=False))
    with pyro.plate("respondents", rows.n_respondents):
        pyro.sample("responses", row(x, items, nodes), obs=rows, infer={KNOWN: known})


SITES: Mapping[Role, str] = {
    "slope": "slope",
    "intercept": "intercept",
    "gap": "gap",
    "guessing": "guessing_logit",
    "upper": "upper_logit",
    "dispersion": "dispersion_logit",
}


def density_of(role: Role, priors: Priors, like: Tensor) -> dist.TorchDistribution:
    """The prior of parameters of this role."""
    if role in ("guessing", "upper"):
        return guessing_density(priors.guessing if role == "guessing" else priors.upper, like)
    return normal_or_flat({"slope": priors.slope, "intercept": priors.intercept}.get(role), like)


ALONE = -1  # the testlet of an item that is in none
GENERAL, SPECIFIC = 0, 1  # columns of slopes and of nodes


@dataclass(frozen=True)
class ItemGroups:
    """Which items are of one testlet.

    Parameters
    ----------
    of_item
        Number of each item's testlet, 0, 1, ..., or `ALONE`, shape (n_items,).
    """

    of_item: Tensor

    @cached_property
    def members(self) -> tuple[Tensor, ...]:
        """Positions of each testlet's items."""
        return tuple(torch.nonzero(self.of_item == k)[:, 0] for k in range(int(self.of_item.max()) + 1))

    @cached_property
    def alone(self) -> Tensor:
        """Positions of the items in no testlet."""
        return torch.nonzero(self.of_item == ALONE)[:, 0]

    def __len__(self) -> int:
        return len(self.members)

    def to(self, device: torch.device) -> ItemGroups:
        """The same on a device."""
        return ItemGroups(self.of_item.to(device))


@dataclass(frozen=True)
class BifactorNodes(NodeTensors):
    """A grid over the general ability and any one specific ability: all of the latter at one node of the former."""

    n_specific: int = 1
    divisible: ClassVar[bool] = False

    @classmethod
    def grid(cls, general: Tensor, specific: Tensor) -> Self:
        """Every pair of equally spaced nodes on both axes, weighted by the standard normal density."""
        weights = [torch.log_softmax(-0.5 * axis**2, dim=0) for axis in (general, specific)]
        log_weights = (weights[0][:, None] + weights[1]).flatten()
        return cls(torch.cartesian_prod(general, specific), log_weights, n_specific=len(specific))

    @property
    def n_general(self) -> int:
        """Number of nodes of the general ability."""
        return len(self.theta) // self.n_specific

    @property
    def general(self) -> Tensor:
        """Nodes of the general ability, shape (n_general,)."""
        return self.theta[:: self.n_specific, GENERAL]

    @cached_property
    def log_general(self) -> Tensor:
        """Log-weights of the general ability, shape (n_general,)."""
        return self.log_weights.reshape(self.n_general, -1).logsumexp(dim=1)

    @cached_property
    def log_specific(self) -> Tensor:
        """Log-weights of a specific ability, shape (n_specific,)."""
        return self.log_weights.reshape(self.n_general, -1).logsumexp(dim=0)


class CollapsedBifactor(CollapsedCategories):
    """A respondent's row of responses, general and specific abilities integrated out.

    log p(x) = log sum_q w_q prod_s sum_r v_r prod_{j in s} P_j(x_j | q, r),

    missing factors left out; an item in no testlet is a factor of the outer sum alone.

    Parameters
    ----------
    x
        Parameters, the general and the specific slope first, shape (n_items, width); the specific slope of an item in
        no testlet is 0.
    items
        Whose they are.
    nodes
        Of the general ability and of any specific one.
    testlets
        Which items are of one testlet.
    """

    nodes: BifactorNodes

    def __init__(self, x: Tensor, items: CategoryItems, nodes: BifactorNodes, testlets: ItemGroups) -> None:
        super().__init__(x, items, nodes)
        self.testlets = testlets
        of_columns = testlets.of_item[items.item_of_column]
        self.columns = tuple(torch.nonzero(of_columns == k)[:, 0] for k in range(len(testlets)))
        self.columns_alone = torch.nonzero(of_columns == ALONE)[:, 0]

    def within(self, testlet: int, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Log of specific weight times likelihood of a testlet's responses, shape (n_rows, n_general, n_specific)."""
        members, columns, nodes = self.testlets.members[testlet], self.columns[testlet], self.nodes
        log_q = self.log_q[members]
        rest = nodes.log_specific.repeat(nodes.n_general).to(nodes.dtype)
        rest = rest + (log_q.sum(dim=0) if observed is None else observed[:, members] @ log_q)
        found = torch.addmm(rest, correct[:, columns], self.log_odds[columns])
        return found.reshape(len(found), -1, nodes.n_specific)

    def outside(self, correct: Tensor, observed: Tensor | None) -> Tensor:
        """Log of general weight times likelihood of the items in no testlet, shape (n_rows, n_general)."""
        alone, columns, nodes = self.testlets.alone, self.columns_alone, self.nodes
        log_q, log_odds = self.log_q[alone, :: nodes.n_specific], self.log_odds[columns, :: nodes.n_specific]
        rest = nodes.log_general.to(nodes.dtype)
        rest = rest + (log_q.sum(dim=0) if observed is None else observed[:, alone] @ log_q)
        return torch.addmm(rest, correct[:, columns], log_odds)

    def log_shape(self, correct: Tensor, observed: Tensor | None, *, out: Tensor | None = None) -> Tensor:
        """Log of weight times likelihood at each node of the general ability, shape (n_rows, n_general)."""
        total = self.outside(correct, observed)
        for testlet in range(len(self.testlets)):
            total += self.within(testlet, correct, observed).logsumexp(dim=2)
        return total if out is None else out.copy_(total)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw complete rows: abilities from the nodes, then each response given them."""
        shape = torch.Size(sample_shape) + self.batch_shape
        draw = torch.distributions.Categorical
        general = draw(logits=self.nodes.log_general).sample(shape)
        specific = draw(logits=self.nodes.log_specific).sample((*shape, len(self.testlets) + 1))
        node = general[..., None] * self.nodes.n_specific + specific[..., self.testlets.of_item]
        return self.drawn_at(node)
