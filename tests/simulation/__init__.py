"""Whole crawls in one process under virtual time, with faults drawn from a seed.

The engine, the workers, both frontiers (SQLite, and the Lua scripts on a real Valkey), the outputs and the archive
are those of the product. Simulated are the clock, the event loop's order, threads, the web, parse processes,
the network to the store, and the death of a process. `python -m tests.simulation --help` says how to run it.

`clock` must be imported before anything of `shoal`, because many modules bind `time.monotonic` when they are
imported. For that reason no test imports this package: tests run the command.
"""
