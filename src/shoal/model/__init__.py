"""The words every station shares: values and pure rules, no I/O.

A newcomer reads `request`, `outcome` and `failure` first: what is fetched, what can become of it, and why.
"""
