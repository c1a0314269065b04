"""Pyro's SVI: the driver, guides, the posterior of the items."""
