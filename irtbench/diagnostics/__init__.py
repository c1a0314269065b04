"""Does the fitted model describe the data: items, pairs of items, the whole, persons."""
