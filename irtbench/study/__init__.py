"""The whole procedure, a file a step."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
