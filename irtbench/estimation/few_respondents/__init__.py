"""Few respondents: priors learnt from the items, items integrated out."""
