"""Benchmarks. `python -m bench` is the published one; the other modules each measure one station.

The published one crawls one site with Shoal and with its peers, in turns. Every figure that counts is a
ratio to runs of the minimal crawler (`minimal`) directly before and after, because the speed of a machine
drifts. The server is nginx on one core; the crawler has the other.
"""
