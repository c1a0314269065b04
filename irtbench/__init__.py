"""irtbench: from crowd answers to a calibrated evaluation scale, and any system's place on it."""
