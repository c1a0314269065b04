"""What fits models and tests hypotheses about them: guessing, dimensions, item bias, dependence."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
