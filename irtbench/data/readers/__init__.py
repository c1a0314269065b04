"""One file for each outside format; the only places that know foreign column names."""
