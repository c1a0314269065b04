"""Ratings by several raters: ability, items and raters from a long table of ratings (many-facet models)."""
