"""From a response matrix to item parameters with their uncertainty."""
