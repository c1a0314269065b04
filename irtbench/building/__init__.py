"""From fitted items to an item bank: pruning, and the bank's file."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
