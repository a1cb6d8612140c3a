"""Crawls from a Python program: `shoal.run`, `shoal.arun` and `shoal.stream`; `shoal.Client` for a server.

    run            the three functions
    plan           their arguments as the plan of a crawl
    crawl_thread   a crawl in a thread with an event loop
    stream         the items of a crawl, one by one, while it runs
    result         what a crawl has brought: items, figures, tables
    running        one crawl of a program: its thread, and the output that its items are read from
    client         `shoal.Client`: the HTTP API of `shoal serve`
    progress       progress in a notebook or as lines of text

The caller's process stays the caller's: no signal handler, no logging configuration, no exit. A crawl runs in
a thread with a separate event loop, so it works where a loop is already running, and a caller that computes
for minutes does not delay the crawl. The spider's handlers run in sandboxed parse processes, as everywhere.
"""
