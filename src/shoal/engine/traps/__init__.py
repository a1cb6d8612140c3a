"""Links that lead into a trap: endless patterns, near-duplicate and identical pages; counted and dropped."""
