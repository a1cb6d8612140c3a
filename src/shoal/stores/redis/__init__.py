"""The store that a fleet shares: Redis or Valkey, on one server or many.

    store           `RedisStore`: the store as others see it
    crawls          the records of submitted crawls
    workers         heartbeats
    page_quota      the page limit of a crawl, shared out among workers
    site_budget     the requests of a crawl per site
    pages           the archived pages of a crawl
    checks          findings about the servers, for `shoal doctor`
    private_server  a Valkey server for a fleet on one machine

Records and heartbeats are stored in structs that may get new fields: old and new workers run side by side.
"""
