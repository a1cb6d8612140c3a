"""The PostgreSQL sink: one row per key in a table; see `sink` for what it guarantees."""
