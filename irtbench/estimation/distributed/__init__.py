"""Many processes, each with some of the respondents: torch.distributed under torchrun."""
