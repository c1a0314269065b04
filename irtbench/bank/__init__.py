"""A calibrated scale, the people it was measured on, and the document that keeps them."""
