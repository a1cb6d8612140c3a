"""Reading a store. Nothing here changes one, and all of it works while a crawl runs.

status         the crawls of a store; of a shared store, its stages and workers, too
bottlenecks    why nothing happens
status_json    the same as JSON
monitor        the state of a store over time
trace          the history of one URL
logged         the same from the fetch log, for a store that has forgotten it
urls           the URLs of a crawl by state
verify         proof that nothing was lost and nothing doubled
plan           how long a crawl takes, from its own numbers; `capacity` and `volume` have the arithmetic
try_page       one URL through fetch and handler, without a store; `one_page` fetches it
snapshots      the state of a store in messages of bounded size, for the HTTP API
store_metrics  the figures of a store for Prometheus
finished       whether a crawl has finished
level_figures  what pages took at each level of fetching
"""
