"""Whether this machine and a store are fit for a crawl: facts are gathered first, then judged.

Gathering changes nothing, and contacts nothing on the network but a shared store. Judging is pure, so that
every finding can be tested without a machine that has the problem.
"""
