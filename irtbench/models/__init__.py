"""The item response model: NumPy functions of known parameters, and the Pyro model that is fitted."""
