"""Answers in, response matrix out: readers, items, grading, screening."""

from irtbench.data.exports import exported

__getattr__, __dir__, __all__ = exported(__file__)
