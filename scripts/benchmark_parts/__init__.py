"""The parts of scripts/benchmark.py, one idea a file."""
