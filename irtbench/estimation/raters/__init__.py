"""Many scales fitted at once: rows, counts, steps and standard errors batched over scales."""
