"""What the sample sites of a Pyro model say of its items: the prior density with its derivatives.

A model is traced once; from then on the densities of its sites are evaluated directly, at any items. Normal, flat, Beta
(of c, on the scale of its logit) and bivariate normal densities have their derivatives in closed form; those of any
other density of independent values come from automatic differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide.initialization import InitMessenger
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, LINEAR, SLOPES, ItemTensors
from irtbench.models.pyro_model.model import (
    FILLS,
    FIXED_GUESSING,
    KNOWN,
    SHARED,
    by_slope_and_intercept,
    difficulty_of,
    intercept_of,
    signed_slope,
)
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.shared import COMMON_SLOPE, SPECIFIC_SLOPE, KnownLinear, SharedParameters

#: A Pyro model of items: a function of rows and nodes, perhaps with options such as those of `logistic_model`.
ItemModel = Callable[..., Any]

ITEM_SITES = (
    "slope", "log_slope", "intercept", "difficulty", "log_slope_and_intercept", "guessing_logit", COMMON_SLOPE,
    SPECIFIC_SLOPE,
)  # fmt: skip
SLOPES_OF_LINEAR = slice(None, -1)


@dataclass(frozen=True)
class ItemPrior:
    """Prior densities of the items' parameters, as the model's sample sites state them.

    Parameters
    ----------
    densities
        The density of each item site, without its independent dimensions.
    guessing_free
        Where c is estimated, shape (n_items,).
    fixed
        The items' parameters where they are not estimated: c, slopes that are zero, known ones; elsewhere no meaning.
    slopes_free
        Where slopes are estimated, shape (n_items, n_factors); None for all.
    slope_sign
        Sign of each slope where the model draws log |a|, shape (n_items,); None elsewhere.
    shared
        What slopes and intercepts are made of that are not an item's own; None where all are.
    difficulty_drawn
        Items of which the model draws the difficulty, shape (n_items,); None for none.
    intercepts_free
        Items whose intercepts are estimated, shape (n_items,); None for all.
    """

    densities: Mapping[str, dist.TorchDistribution]
    guessing_free: Tensor
    fixed: ItemTensors
    slopes_free: Tensor | None
    slope_sign: Tensor | None
    shared: SharedParameters | None = field(default=None, kw_only=True)
    difficulty_drawn: Tensor | None = field(default=None, kw_only=True)
    intercepts_free: Tensor | None = field(default=None, kw_only=True)

    @property
    def guessing_is_flat(self) -> bool:
        """Whether no density keeps c from its bounds 0 and 1."""
        return is_flat(self.densities.get("guessing_logit"))

    @property
    def slope_is_flat(self) -> bool:
        """Whether no density keeps slopes from growing."""
        named = self.densities.get("slope", self.densities.get(COMMON_SLOPE))
        of_logarithm = {"log_slope", "log_slope_and_intercept"} & set(self.densities)
        return not of_logarithm and is_flat(named)

    @property
    def by_theta(self) -> bool:
        """Whether slopes by theta are 1, and difficulties minus the intercepts."""
        return self.shared is not None and self.shared.unit_slopes

    @cached_property
    def own_linear(self) -> Tensor:
        """Where slopes and intercepts are estimated and not shared, shape (n_items, n_factors + 1)."""
        if self.shared is not None:
            return self.shared.own
        own = torch.ones_like(self.fixed.linear, dtype=torch.bool)
        for column, free in ((SLOPES_OF_LINEAR, self.slopes_free), (-1, self.intercepts_free)):
            if free is not None:
                own[:, column] = free
        return own

    @cached_property
    def intercepts_drawn(self) -> Tensor:
        """Items of which the model draws the intercept, shape (n_items,)."""
        own = self.own_linear[:, -1]
        return own if self.difficulty_drawn is None else own & ~self.difficulty_drawn

    def values_of(self, items: ItemTensors) -> dict[str, Tensor]:
        """Values of the item sites at these items, in the order of the sites."""
        values = {} if self.shared is None else self.shared.by_site(self.shared.nearest(items.linear))
        return values | {name: self._value(name, items) for name in self.densities if name not in values}

    def _value(self, name: str, items: ItemTensors) -> Tensor:
        """That of a site whose values are single items'."""
        match name:
            case "slope":
                whole = self.slopes_free is None and self.shared is None
                return items.slope if whole else items.slope[self.own_linear[:, :-1]]
            case "log_slope":
                return items.slope[:, 0].abs().log()
            case "log_slope_and_intercept":
                return torch.stack([items.slope[:, 0].abs().log(), items.intercept], dim=1)
            case "intercept":
                return items.intercept[self.intercepts_drawn]
            case "difficulty":
                chosen = self.difficulty_drawn
                return difficulty_of(items.slope[chosen, 0], items.intercept[chosen], by_theta=self.by_theta)
        return torch.logit(items.guessing[self.guessing_free])

    def items_of(self, values: Mapping[str, Tensor]) -> ItemTensors:
        """Items at these values of the item sites."""
        linear = self.fixed.linear if self.shared is None else self.shared.at(self.shared.values_at(values))
        slope, intercept, guessing = linear[:, :-1], linear[:, -1], self.fixed.guessing
        if "log_slope_and_intercept" in values:
            log_slope, intercept = values["log_slope_and_intercept"].unbind(-1)
            slope = signed_slope(log_slope, self.slope_sign)
        elif "log_slope" in values:
            slope = signed_slope(values["log_slope"], self.slope_sign)
        elif "slope" in values:
            slope = slope.masked_scatter(self.own_linear[:, :-1], values["slope"])
        if "intercept" in values:
            intercept = intercept.masked_scatter(self.intercepts_drawn, values["intercept"])
        if (drawn := self.difficulty_drawn) is not None:
            own = intercept_of(slope[drawn, 0], values["difficulty"], by_theta=self.by_theta)
            intercept = intercept.masked_scatter(drawn, own)
        if "guessing_logit" in values:
            guessing = guessing.masked_scatter(self.guessing_free, torch.sigmoid(values["guessing_logit"]))
        return ItemTensors(slope, intercept, guessing)

    def log_density(self, items: ItemTensors) -> Tensor:
        """Log prior density on the scale of the model's sites: of a, d or log |a|, d, and of logit c."""
        total = items.intercept.new_zeros(())
        for name, value in self.values_of(items).items():
            density = self.densities[name]
            if name == "log_slope_and_intercept":
                excess, precision = self._hierarchy(items)
                scale = 0.5 * torch.logdet(precision) - math.log(2 * math.pi)
                total = total + len(excess) * scale - 0.5 * ((excess @ precision) * excess).sum()
            elif not is_flat(density):
                total = total + log_densities(density, value).sum()
        return total

    def derivatives(self, items: ItemTensors, *, by_logit: bool, positive: bool = True) -> tuple[Tensor, Tensor]:
        """Gradient of the log prior density and its negative Hessian, item by item.

        Parameters
        ----------
        items
            Where.
        by_logit
            Whether the last column is logit c, or c itself; the density is that of logit c either way.
        positive
            Whether the Hessian leaves out what may make it indefinite (the curvature of log |a|, tails that are not
            log-concave), as a step needs it.

        Returns
        -------
        gradient
            Shape (n_items, n_factors + 2).
        information
            Shape (n_items, n_factors + 2, n_factors + 2).
        """
        n_items, n_factors = items.slope.shape
        gradient = items.slope.new_zeros(n_items, n_factors + 2)
        curvature = torch.zeros_like(gradient)
        values = self.values_of(items)
        for name, density in self.densities.items():
            if name in ("log_slope", "difficulty", "log_slope_and_intercept") or is_flat(density):
                continue
            first, second = density_derivatives(density, values[name])
            if name == "guessing_logit":
                first, second = _by_guessing(items.guessing[self.guessing_free], first, second, by_logit)
                gradient[self.guessing_free, GUESSING], curvature[self.guessing_free, GUESSING] = first, second
            elif name == COMMON_SLOPE:  # in equal parts, whose sum is the shared parameter's
                assert self.shared is not None
                gradient[:, 0], curvature[:, 0] = self.shared.in_parts(first), self.shared.in_parts(second)
            else:
                slopes = name == "slope"
                column = SLOPES if slopes else slice(INTERCEPT, GUESSING)
                own = self.own_linear[:, :-1] if slopes else self.intercepts_drawn[:, None]
                gradient[:, column].masked_scatter_(own, first)
                curvature[:, column].masked_scatter_(own, second)
        if positive:
            curvature = curvature.clamp(min=0)
        information = torch.diag_embed(curvature)
        if "log_slope" in self.densities:
            first, second = density_derivatives(self.densities["log_slope"], values["log_slope"])
            slope = items.slope[:, 0]
            gradient[:, 0] += first / slope
            information[:, 0, 0] += (second if positive else second + first) / slope**2
        if (drawn := self.difficulty_drawn) is not None:
            first, second = density_derivatives(self.densities["difficulty"], values["difficulty"])
            by_items, curved = by_slope_and_intercept(
                items.slope[drawn, 0], items.intercept[drawn], first, second, by_theta=self.by_theta, positive=positive
            )
            gradient[drawn, LINEAR] += by_items
            information[drawn, LINEAR, LINEAR] += curved
        if "log_slope_and_intercept" in self.densities:
            excess, precision = self._hierarchy(items)
            pull = excess @ precision
            slope = items.slope[:, 0]
            gradient[:, 0] = -pull[:, 0] / slope
            gradient[:, INTERCEPT] = -pull[:, 1]
            information[:, 0, 0] = (precision[0, 0] - (0.0 if positive else pull[:, 0])) / slope**2
            information[:, 0, INTERCEPT] = information[:, INTERCEPT, 0] = precision[0, 1] / slope
            information[:, INTERCEPT, INTERCEPT] = precision[1, 1]
        return gradient, information

    def _hierarchy(self, items: ItemTensors) -> tuple[Tensor, Tensor]:
        """Distances of (log |a|, d) from the mean, shape (n_items, 2), and the precision matrix.

        A mean that the model learns is that of the items, which maximises the density: the gradient by a value is then
        what it would be at a fixed mean.
        """
        pair = self.densities["log_slope_and_intercept"]
        values = self.values_of(items)["log_slope_and_intercept"]
        mean = values.mean(dim=0) if self.learns_mean else pair.loc.reshape(-1, 2)[0]
        return values - mean, self._precision

    @cached_property
    def _precision(self) -> Tensor:
        return torch.linalg.inv(self.densities["log_slope_and_intercept"].covariance_matrix.reshape(-1, 2, 2)[0])

    @property
    def learns_mean(self) -> bool:
        """Whether the mean of (log |a|, d) is a parameter of the model, and not a number."""
        pair = self.densities.get("log_slope_and_intercept")
        return pair is not None and pair.loc.requires_grad


def _by_guessing(c: Tensor, first: Tensor, second: Tensor, by_logit: bool) -> tuple[Tensor, Tensor]:
    """Derivatives by logit c, or by c: dl/dc = l' / (c (1 - c)), and minus the second derivative accordingly."""
    if by_logit:
        return first, second
    rate = c * (1 - c)
    by_c = (second + first * (1 - 2 * c)) / rate**2
    return first / rate, torch.where(by_c > 0, by_c, second / rate**2)


def is_flat(density: dist.TorchDistribution | None) -> bool:
    """Whether a density is the same everywhere."""
    return density is None or isinstance(density, dist.ImproperUniform)


def logit_beta_shapes(density: dist.TorchDistribution) -> tuple[Tensor, Tensor] | None:
    """Shape parameters of a Beta density of c, taken on the scale of logit c; None for any other density."""
    if not isinstance(density, dist.TransformedDistribution) or not isinstance(density.base_dist, dist.Beta):
        return None
    beta = density.base_dist
    return beta.concentration1, beta.concentration0


def log_densities(density: dist.TorchDistribution, value: Tensor) -> Tensor:
    """Log density of each of many independent values."""
    if shapes := logit_beta_shapes(density):
        alpha, beta = shapes
        constant = torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)
        return alpha * logsigmoid(value) + beta * logsigmoid(-value) + constant
    return density.log_prob(value)


def density_derivatives(density: dist.TorchDistribution, value: Tensor) -> tuple[Tensor, Tensor]:
    """First derivative of the log density of each of many independent values, and minus the second.

    Raises
    ------
    NotImplementedError
        If the values are not independent of each other.
    """
    if isinstance(density, dist.Normal):
        precision = density.scale**-2
        return (density.loc - value) * precision, precision.expand_as(value)
    if shapes := logit_beta_shapes(density):
        alpha, beta = shapes
        c = torch.sigmoid(value)
        return alpha - (alpha + beta) * c, (alpha + beta) * c * (1 - c)
    if density.event_shape:
        raise NotImplementedError(f"{type(density).__name__}: expected a density of independent values")
    with torch.enable_grad():
        at = value.detach().requires_grad_()
        (first,) = torch.autograd.grad(density.log_prob(at).sum(), at, create_graph=True)
        second = torch.autograd.grad(first.sum(), at)[0] if first.requires_grad else torch.zeros_like(at)
    return first.detach(), -second


def trace_model(
    model: ItemModel, rows: ResponseRows | Tensor, nodes: NodeTensors
) -> tuple[ItemPrior, CollapsedLogistic]:
    """Run the model once and read its sites: the prior of the items, and the distribution of a row at slopes of zero.

    Raises
    ------
    NotImplementedError
        If the model draws anything but the items (a model of your own then goes with Adam).
    """
    drawn, trace = trace_sites(model, rows, nodes)
    observed = observed_site(trace)
    row = observed["fn"]
    infer = observed["infer"]
    return item_prior(drawn, row.items, infer.get(FIXED_GUESSING), infer.get(KNOWN)), row


def trace_sites(model: ItemModel, rows: Any, nodes: NodeTensors) -> tuple[dict[str, Any], poutine.Trace]:
    """Run a model once with all that it draws at zero: the sites of what it draws, and all of the trace.

    Raises
    ------
    NotImplementedError
        If a site is masked or scaled: its density is then not what the model's prior or likelihood is made of.
    """

    def at_zero(site: dict[str, Any]) -> Tensor:
        return nodes.theta.new_zeros(site["fn"].shape())

    with InitMessenger(at_zero), torch.enable_grad():
        trace = poutine.trace(model).get_trace(rows, nodes)
    drawn = {name: site for name, site in trace.nodes.items() if site["type"] == "sample" and not site["is_observed"]}
    drawn = {name: site for name, site in drawn.items() if not name.startswith("respondents")}
    for name, site in trace.nodes.items():
        if site["type"] == "sample" and not is_whole(site):
            raise NotImplementedError(f"site {name} is masked or scaled, which goes with MarginalELBO alone")
    return drawn, trace


def item_prior(
    drawn: Mapping[str, Any],
    items: ItemTensors,
    fixed_guessing: Tensor | None = None,
    known: KnownLinear | None = None,
) -> ItemPrior:
    """What the item sites of a traced model say, and the items that it was traced with, see `trace_model`.

    `fixed_guessing` is c as it was given where it is fixed; None for that of the items.
    """
    if (not drawn and known is None) or set(drawn) - set(ITEM_SITES):
        raise NotImplementedError(f"the model draws {', '.join(drawn)}; expected some of {', '.join(ITEM_SITES)} alone")
    guessing = drawn.get("guessing_logit")
    free = torch.zeros(len(items), dtype=torch.bool, device=items.intercept.device)
    if guessing is not None:
        free = guessing["infer"].get(FILLS, torch.ones_like(free))
    guessing_given = items.guessing if fixed_guessing is None else fixed_guessing
    fixed = torch.where(free, items.guessing, guessing_given)
    shared = next((site["infer"][SHARED] for site in drawn.values() if SHARED in site["infer"]), None)
    of_logarithm = {"log_slope", "log_slope_and_intercept"}
    slopes_free = drawn["slope"]["infer"].get(FILLS) if "slope" in drawn and shared is None else None
    return ItemPrior(
        densities={name: without_independent(site["fn"]) for name, site in drawn.items()},
        guessing_free=free,
        fixed=ItemTensors(items.slope.detach(), items.intercept.detach(), fixed.detach()),
        slopes_free=slopes_free if known is None else known.free[:, :-1],
        slope_sign=items.slope[:, 0].detach().sign() if of_logarithm & set(drawn) else None,
        shared=shared,
        difficulty_drawn=drawn["difficulty"]["infer"].get(FILLS) if "difficulty" in drawn else None,
        intercepts_free=None if known is None else known.free[:, -1],
    )


def observed_sites(trace: poutine.Trace) -> list[dict[str, Any]]:
    """The sites of rows in a trace of a model, one for each response matrix."""
    return [site for site in trace.nodes.values() if isinstance(without_mask(site.get("fn")), CollapsedLogistic)]


def observed_site(trace: poutine.Trace) -> dict[str, Any]:
    """The same where there is one response matrix."""
    sites = observed_sites(trace)
    if len(sites) != 1:
        raise NotImplementedError(
            f"the model draws {len(sites)} response matrices from CollapsedLogistic; expected one"
        )
    return sites[0]


def without_mask(density: Any) -> Any:
    """The density that ``.mask()`` was called on."""
    while isinstance(density, dist.MaskedDistribution):
        density = density.base_dist
    return density


def mask_of(site: Mapping[str, Any]) -> Tensor | bool:
    """Where a site counts, by `poutine.mask` and by ``.mask()`` of its density together."""
    mask: Tensor | bool = True if site["mask"] is None else site["mask"]
    density = site["fn"]
    while isinstance(density, dist.MaskedDistribution):
        mask = mask & density._mask
        density = density.base_dist
    return mask


def is_whole(site: Mapping[str, Any]) -> bool:
    """Whether a site counts everywhere, and once."""
    return bool(torch.as_tensor(mask_of(site)).all()) and bool((torch.as_tensor(site["scale"]) == 1).all())


def without_independent(density: dist.TorchDistribution) -> dist.TorchDistribution:
    """The density of each single draw."""
    while isinstance(density, dist.Independent):
        density = density.base_dist
    return density
