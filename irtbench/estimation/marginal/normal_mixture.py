"""A density of ability as a mixture of normal ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST_DEVIATION = 0.3  # of a component: narrower ones make steps of items' curves where items are few
EM_STEPS = 20
LEAST_SHARE = 1e-6
MOST_WIDENINGS, ROUNDING = 50, 1e-9


@dataclass(frozen=True)
class NormalMixture:
    """sum_k share_k N(mean_k, deviation_k^2), shapes (n_components,) each.

    A component adds three parameters; location and scale of the whole are those of theta, mean 0 and standard deviation
    1, so that k components have 3 (k - 1).
    """

    share: Tensor
    mean: Tensor
    deviation: Tensor

    @classmethod
    def slices(cls, n_components: int, device: torch.device) -> NormalMixture:
        """The standard normal density cut into slices of equal mass, each with its mean, as a place to start from."""
        ends = torch.linspace(0, 1, n_components + 1, dtype=torch.float64, device=device)
        height = torch.exp(-0.5 * torch.special.ndtri(ends).square()) / math.sqrt(2 * math.pi)
        mean = -n_components * height.diff()
        deviation = (1 - mean.square().mean()).sqrt().expand(n_components)
        return cls(torch.full_like(mean, 1 / n_components), mean, deviation)

    @property
    def n_parameters(self) -> int:
        """Number of parameters besides location and scale."""
        return 3 * (len(self.share) - 1)

    @property
    def coordinates(self) -> Tensor:
        """Logarithms of shares, means and logarithms of standard deviations, shape (3 n_components,)."""
        return torch.cat([self.share.log(), self.mean, self.deviation.log()])

    @classmethod
    def at(cls, coordinates: Tensor) -> NormalMixture:
        """The mixture with these coordinates."""
        log_share, mean, log_deviation = coordinates.chunk(3)
        return cls(torch.softmax(log_share, dim=0), mean, log_deviation.exp())

    def log_components(self, theta: Tensor) -> Tensor:
        """Log of share times density up to a constant, shape (n_theta, n_components)."""
        z = (theta[:, None] - self.mean) / self.deviation
        return (self.share / self.deviation).log() - z.square() / 2

    def log_weights(self, theta: Tensor) -> Tensor:
        """Logarithm of the mass at each node, shape (n_nodes,)."""
        return torch.log_softmax(torch.logsumexp(self.log_components(theta), dim=1), dim=0)

    def fitted_to(self, theta: Tensor, respondents: Tensor) -> NormalMixture:
        """Steps of EM (Dempster, Laird & Rubin, 1977) on expected numbers of respondents at nodes."""
        mixture = self
        for _ in range(EM_STEPS):
            mine = torch.softmax(mixture.log_components(theta), dim=1) * respondents[:, None]
            total = mine.sum(dim=0).clamp(min=LEAST_SHARE * float(respondents.sum()))
            mean = (mine * theta[:, None]).sum(dim=0) / total
            variance = (mine * (theta[:, None] - mean).square()).sum(dim=0) / total
            mixture = NormalMixture(total / total.sum(), mean, variance.sqrt().clamp(min=LEAST_DEVIATION))
        return mixture

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of the whole."""
        mean = float(self.share @ self.mean)
        return mean, float(self.share @ (self.deviation.square() + (self.mean - mean).square())) ** 0.5

    def standardised(self) -> tuple[NormalMixture, float, float]:
        """The density of (theta - mean) / deviation, with the mean and the standard deviation of theta.

        There no component is narrower than may be: narrower ones are widened first, and the whole with them.
        """
        wide = self
        for _ in range(MOST_WIDENINGS):
            mean, deviation = wide.moments
            if float(wide.deviation.min()) >= LEAST_DEVIATION * deviation * (1 - ROUNDING):
                break
            wide = NormalMixture(self.share, self.mean, wide.deviation.clamp(min=LEAST_DEVIATION * deviation))
        return NormalMixture(self.share, (self.mean - mean) / deviation, wide.deviation / deviation), mean, deviation
