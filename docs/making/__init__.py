"""Generated parts of the documentation: the reference, and what commands print.

`make docs` rewrites them. Tests compare, so a page that has become wrong fails the build.
"""
