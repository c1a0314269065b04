"""Statistics on answers and graded outcomes that know nothing of item response theory."""
