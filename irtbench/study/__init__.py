"""The whole procedure, a file a step."""
