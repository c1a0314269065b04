"""From a response pattern and a bank to ability and human percentile."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
