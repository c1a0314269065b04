"""Item models, a file each: P(category | theta; parameters), for NumPy arrays and torch tensors alike."""
