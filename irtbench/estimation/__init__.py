"""From a response matrix to item parameters with their uncertainty."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
