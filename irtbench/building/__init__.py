"""From fitted items to an item bank: pruning, and the bank's file."""
