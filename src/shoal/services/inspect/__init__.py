"""Reading a store. Nothing here changes one, and all of it works while a crawl runs.

status         the crawls of a store; of a shared store, its stages and workers, too
bottlenecks    why nothing happens
status_json    the same as JSON
monitor        the state of a store over time
trace          the history of one URL
verify         proof that nothing was lost and nothing doubled
plan           how long a crawl takes, from its own numbers; `capacity` has the arithmetic
one_page       fetch one page as a crawl would, without a store
"""
