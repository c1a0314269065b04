"""From a response pattern and a bank to ability and human percentile."""
