"""Answers in, response matrix out: readers, items, grading, screening."""
