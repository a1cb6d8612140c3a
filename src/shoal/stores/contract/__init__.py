"""The contract of a store: what services, engine and worker may ask of one, whatever keeps its data.

    store         `Store`, its `Capabilities` and its parts: crawls, workers, outputs
    changes       `StoreChanges`: what may be changed from outside a running crawl
    pages         `CrawlPages`: the archived pages of a crawl
    fleet         `Fleet`: what only a store with `capabilities.shared` has
    crawl_record  a crawl as it was submitted
    heartbeat     what a worker reports about itself
    footprint     what deleting a crawl removes, and what stays
    checks        findings about the health of a store

`shoal.stores.open.open_store` chooses the backend.
"""
