"""A calibrated scale, the people it was measured on, and the document that keeps them."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
