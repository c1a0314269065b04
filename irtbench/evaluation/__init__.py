"""Statistics on answers and graded outcomes that know nothing of item response theory."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
