"""What fits models and tests hypotheses about them: guessing, dimensions, item bias, dependence."""
