"""Changing a store from outside the crawls that run on it.

    steer     pauses crawls, paces and pauses hosts: directly where nobody has the store, else by asking
    control   the socket on which a crawl that has the store is asked, and the closed set of commands
    letters   dead letters: chosen and read at any time, put back or thrown away while nobody has the store
    forget    removes a crawl from its store, for good, while nobody works on it

Nobody has a fleet's store: it is changed directly, and its workers look again.
"""
