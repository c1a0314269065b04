"""Marginal likelihood: E step, M step, acceleration, observed information, populations."""
