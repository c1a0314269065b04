"""Results as tables, figures and one self-contained page."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
