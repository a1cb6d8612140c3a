"""Values and pure rules that all packages share. No I/O.

Read `request`, `outcome` and `failure` first: what is fetched, how an attempt can end, and why one fails.
"""
