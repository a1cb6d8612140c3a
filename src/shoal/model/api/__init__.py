"""The messages of the HTTP API: what `shoal serve` reads and writes, and what `shoal.Client` returns.

New fields get defaults: an older client reads the answers of a newer server.
"""
