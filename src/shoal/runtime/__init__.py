"""Where the stations meet: crawls from seeds to sinks, and whatever looks at them or steers them.

`plan` says what to crawl. `wiring` joins the stations for a process that owns its store (`embedded`),
`joining` does it for one worker of a fleet (`worker`). `crawl` runs them, the same for both; `snapshot` is
what can be watched, `verify` proves that nothing was lost.
"""
