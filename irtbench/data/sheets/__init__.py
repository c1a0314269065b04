"""What is uploaded to crowd platforms: a file each, the counterparts of the readers of what comes back."""
