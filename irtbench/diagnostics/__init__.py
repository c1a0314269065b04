"""Does the fitted model describe the data: items, pairs of items, the whole, persons."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
