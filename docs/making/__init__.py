"""Makes what the documentation shows of the code: the reference, and what commands print.

`make docs` writes all of it anew. Tests compare, so a page that is no longer true fails the build.
"""
