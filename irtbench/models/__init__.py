"""The item response model: NumPy functions of known parameters, and the Pyro model that is fitted."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
