"""What the sample sites of a Pyro model say of its items: the prior density with its derivatives.

A model is traced once; from then on the densities of its sites are evaluated directly, at any items. Normal, flat, Beta
(of c, on the scale of its logit) and bivariate normal densities have their derivatives in closed form; those of any
other density of independent values come from automatic differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide.initialization import InitMessenger
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.pyro_model.collapsed import CollapsedLogistic
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
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.tensors import (
    COMMON_SLOPE,
    GUESSING,
    INTERCEPT,
    LINEAR,
    SLOPES,
    ItemTensors,
    NodeTensors,
    SharedParameters,
)

#: A Pyro model of items: a function of rows and nodes, perhaps with options such as those of `logistic_model`.
ItemModel = Callable[..., Any]

#: Columns of `ItemTensors` that a site's values fill; of other sites the model says it.
COLUMNS = {
    "slope": SLOPES,
    "log_slope": SLOPES,
    "intercept": slice(INTERCEPT, GUESSING),
    "difficulty": slice(INTERCEPT, GUESSING),
    "log_slope_and_intercept": LINEAR,
    "guessing_logit": slice(GUESSING, None),
}
OF_LOGARITHM = ("log_slope", "log_slope_and_intercept")


@dataclass(frozen=True)
class ItemPrior:
    """Prior densities of the items' parameters, as the model's sample sites state them.

    Parameters
    ----------
    densities
        The density of each item site, without its independent dimensions.
    entries
        Which entries of the matrix of parameters the values of a site are, in their order, shape (n_items, width); of
        sites whose values are single items'.
    fixed
        The items' parameters where they are not estimated: c, slopes that are zero, known ones; elsewhere no meaning.
    slope_sign
        Sign of each slope where the model draws log |a|, shape (n_items,); None elsewhere.
    shared
        What parameters are made of that are not an item's own; None where all are.
    on_logits
        Whether asymptotes are logits in the matrix too.
    """

    densities: Mapping[str, dist.TorchDistribution]
    entries: Mapping[str, Tensor]
    fixed: ItemTensors
    slope_sign: Tensor | None = field(default=None, kw_only=True)
    shared: SharedParameters | None = field(default=None, kw_only=True)
    on_logits: bool = field(default=False, kw_only=True)

    @cached_property
    def free(self) -> Tensor:
        """Which parameters are estimated, the items' own or not, shape (n_items, width)."""
        found = torch.zeros_like(self.fixed.matrix, dtype=torch.bool)
        for where in self.entries.values():
            found |= where
        return found if self.shared is None else found | self.shared.made

    @property
    def guessing_free(self) -> Tensor:
        """Where c itself is a parameter that is estimated, shape (n_items,)."""
        where = self.entries.get("guessing_logit")
        if where is None or self.on_logits:
            return torch.zeros(len(self.fixed), dtype=torch.bool, device=self.fixed.intercept.device)
        return where[:, GUESSING]

    @property
    def difficulty_drawn(self) -> Tensor | None:
        """Items of which the model draws the difficulty, shape (n_items,); None for none."""
        return self.entries["difficulty"].any(dim=1) if "difficulty" in self.entries else None

    @property
    def guessing_is_flat(self) -> bool:
        """Whether no density keeps c from its bounds 0 and 1."""
        return is_flat(self.densities.get("guessing_logit"))

    @property
    def slope_is_flat(self) -> bool:
        """Whether no density keeps slopes from growing."""
        named = self.densities.get("slope", self.densities.get(COMMON_SLOPE))
        return not {*OF_LOGARITHM} & set(self.densities) and is_flat(named)

    @property
    def one_slope(self) -> bool:
        """Whether the model draws one slope for all items."""
        return COMMON_SLOPE in self.densities

    @property
    def by_theta(self) -> bool:
        """Whether slopes by theta are 1, and difficulties minus the intercepts."""
        return self.shared is not None and self.shared.unit_slopes

    def values_of(self, items: ItemTensors) -> dict[str, Tensor]:
        """Values of the item sites at these items, in the order of the sites."""
        values = {COMMON_SLOPE: self.shared.nearest(items.linear)} if self.shared is not None and self.one_slope else {}
        matrix = items.matrix
        return values | {name: self._value(name, matrix) for name in self.densities if name not in values}

    def _value(self, name: str, matrix: Tensor) -> Tensor:
        """That of a site whose values are single items'."""
        own = matrix[self.entries[name]].reshape(self.densities[name].shape())
        match name:
            case "log_slope":
                return own.abs().log()
            case "log_slope_and_intercept":
                return torch.stack([own[:, 0].abs().log(), own[:, 1]], dim=1)
            case "difficulty":
                return difficulty_of(matrix[self.difficulty_drawn, 0], own, by_theta=self.by_theta)
            case "guessing_logit" if not self.on_logits:
                return torch.logit(own)
        return own

    def items_of(self, values: Mapping[str, Tensor]) -> ItemTensors:
        """Items at these values of the item sites."""
        matrix = self.fixed.matrix
        if self.shared is not None and self.one_slope:
            matrix = torch.cat([self.shared.at(values[COMMON_SLOPE]), matrix[:, -1:]], dim=1)
        for name, where in self.entries.items():
            own = values[name]
            if name == "log_slope":
                own = signed_slope(own, self.slope_sign)
            elif name == "log_slope_and_intercept":
                own = torch.cat([signed_slope(own[:, 0], self.slope_sign), own[:, 1:]], dim=1)
            elif name == "guessing_logit" and not self.on_logits:
                own = torch.sigmoid(own)
            matrix = matrix.masked_scatter(where, own)
        if (drawn := self.difficulty_drawn) is not None:
            own = intercept_of(matrix[drawn, 0], values["difficulty"], by_theta=self.by_theta)
            matrix = matrix.masked_scatter(self.entries["difficulty"], own)
        return ItemTensors.from_matrix(matrix)

    @cached_property
    def informative(self) -> Mapping[str, dist.TorchDistribution]:
        """The densities that are not the same everywhere."""
        return {name: density for name, density in self.densities.items() if not is_flat(density)}

    def log_density(self, items: ItemTensors) -> Tensor:
        """Log prior density on the scale of the model's sites: of a, d or log |a|, d, and of logit c."""
        total = items.intercept.new_zeros(())
        values = self.values_of(items) if self.informative else {}
        for name, density in self.informative.items():
            if name == "log_slope_and_intercept":
                excess, precision = self._hierarchy(items)
                scale = 0.5 * torch.logdet(precision) - math.log(2 * math.pi)
                total = total + len(excess) * scale - 0.5 * ((excess @ precision) * excess).sum()
            else:
                total = total + log_densities(density, values[name]).sum()
        return total

    def derivatives(self, items: ItemTensors, *, by_logit: bool, positive: bool = True) -> tuple[Tensor, Tensor]:
        """Gradient of the log prior density, shape (n_items, width), and its negative Hessian, item by item.

        The last column is logit c (`by_logit`) or c itself; the density is that of logit c either way. A `positive`
        Hessian leaves out what may make it indefinite (the curvature of log |a|, tails that are not log-concave), as a
        step needs it.
        """
        matrix = items.matrix
        gradient, curvature = torch.zeros_like(matrix), torch.zeros_like(matrix)
        values = self.values_of(items) if self.informative else {}
        for name in self.informative:
            if name in ("difficulty", "log_slope_and_intercept"):
                continue
            first, second = (part.flatten() for part in density_derivatives(self.densities[name], values[name]))
            if name == COMMON_SLOPE:  # in equal parts, whose sum is the shared parameter's
                assert self.shared is not None
                gradient[:, 0], curvature[:, 0] = self.shared.in_parts(first), self.shared.in_parts(second)
                continue
            where = self.entries[name]
            of_c = name == "guessing_logit" and not (by_logit or self.on_logits)
            if of_c or name == "log_slope":
                x = matrix[where]
                rate = 1 / (x * (1 - x)) if of_c else 1 / x
                bend = (2 * x - 1) * rate**2 if of_c else -(rate**2)
                without = second * rate**2
                second = without - first * bend
                if of_c or positive:
                    second = torch.where(second > 0, second, without)
                first = first * rate
            gradient[where], curvature[where] = first, second
        information = torch.diag_embed(curvature.clamp(min=0) if positive else curvature)
        if "difficulty" in self.informative:
            drawn, linear = self.difficulty_drawn, slice(2)
            first, second = density_derivatives(self.densities["difficulty"], values["difficulty"])
            by_items, curved = by_slope_and_intercept(
                matrix[drawn, 0], matrix[drawn, 1], first, second, by_theta=self.by_theta, positive=positive
            )
            gradient[drawn, linear] += by_items
            information[drawn, linear, linear] += curved
        if "log_slope_and_intercept" in self.informative:
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
        mean = values.mean(dim=0) if pair.loc.requires_grad else pair.loc.reshape(-1, 2)[0]
        return values - mean, self._precision

    @cached_property
    def _precision(self) -> Tensor:
        return torch.linalg.inv(self.densities["log_slope_and_intercept"].covariance_matrix.reshape(-1, 2, 2)[0])


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
    responses = observed_sites(trace)
    if len(responses) != 1:
        raise NotImplementedError(
            f"the model draws {len(responses)} response matrices from CollapsedLogistic; expected one"
        )
    row, infer = responses[0]["fn"], responses[0]["infer"]
    sites = (*COLUMNS, COMMON_SLOPE)
    unknown = set[str]() if row.on_logits else set(drawn) - set(sites)  # items in categories have sites of any names
    if (not drawn and infer.get(KNOWN) is None) or unknown:
        raise NotImplementedError(f"the model draws {', '.join(drawn)}; expected some of {', '.join(sites)} alone")
    items, shared = row.items, next((site["infer"][SHARED] for site in drawn.values() if SHARED in site["infer"]), None)
    entries = {
        name: entries_of(name, site["infer"].get(FILLS), items.matrix)
        for name, site in drawn.items()
        if SHARED not in site["infer"]
    }
    fixed = ItemTensors.from_matrix(items.matrix.detach())
    if (given := infer.get(FIXED_GUESSING)) is not None:
        estimated = entries.get("guessing_logit")
        fixed = replace(fixed, guessing=given if estimated is None else given.where(~estimated[:, -1], fixed.guessing))
    prior = ItemPrior(
        {name: inside(dist.Independent, site["fn"]) for name, site in drawn.items()},
        entries,
        fixed,
        slope_sign=items.slope[:, 0].detach().sign() if {*OF_LOGARITHM} & set(drawn) else None,
        shared=shared,
        on_logits=row.on_logits,
    )
    return prior, row


def entries_of(name: str, fills: Tensor | None, like: Tensor) -> Tensor:
    """Which entries of a matrix of parameters a site fills: all of its columns, those of some items, or as it says."""
    if fills is not None and fills.shape == like.shape:
        return fills
    found = torch.zeros_like(like, dtype=torch.bool)
    columns = found[:, COLUMNS[name]]
    columns[:] = True if fills is None else fills.view(len(fills), -1)
    return found


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


def observed_sites(trace: poutine.Trace) -> list[dict[str, Any]]:
    """The sites of rows in a trace of a model, one for each response matrix."""
    unmasked = ((inside(dist.MaskedDistribution, site.get("fn")), site) for site in trace.nodes.values())
    return [site for density, site in unmasked if isinstance(density, CollapsedLogistic)]


def inside(wrapper: type[dist.Distribution], density: Any) -> Any:
    """The density that ``.mask()`` was called on, or ``.to_event()``: that of each single draw."""
    while isinstance(density, wrapper):
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
