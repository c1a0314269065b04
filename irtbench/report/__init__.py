"""Results as tables, figures and one self-contained page."""
