"""Several abilities: nodes, starting values, the mode and its information, and blocks that are models of their own."""
