"""What the frontier costs on Redis, and what it is worth: `python -m bench.fleet`, or `make bench-frontier`.

`cost` counts the server's CPU time and bytes per URL, `memory` what spilling saves, `line` sets the frontier
beside three designs that are often seen when one host holds the best part of the queue, `loops` lets a
thousand workers lease at once, `idle` counts what a fleet without work asks for, and `full` fills a server to
its limit. Each has a private server on this machine. CPU time and bytes are the figures that count, and not
wall-clock time on a shared machine.
"""
