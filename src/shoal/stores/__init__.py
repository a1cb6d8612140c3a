"""Stores: where the frontier and everything else that survives a restart is kept.

    open       open a store by its address; the only place that knows the kinds of store
    contract   what a store offers, and the values that cross this boundary
    folder     the embedded store: a folder that one process owns
    redis      the store that a fleet shares: Redis or Valkey

Callers ask a store for its `capabilities`, and never which kind it is.
"""
