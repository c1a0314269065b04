"""The Pyro model: items and abilities as tensors, the distribution of a row, the model, densities of its sites."""
