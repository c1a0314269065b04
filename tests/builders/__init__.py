"""What several tests need: data of known origin, problems, devices, and the command line."""
