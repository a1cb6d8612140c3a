"""Where the stations meet: one crawl from seeds to sinks, in one process and its parse children.

`plan` says what to crawl, `wiring` joins the stations, `crawl` runs them, `commit` is the one place where
work becomes durable, `snapshot` is what can be watched, `verify` proves that nothing was lost.
"""
