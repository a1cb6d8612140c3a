"""Whatever only looks: nothing here changes a store, and all of it works while a crawl runs.

    status, fleet_status   the crawls of a store at one instant; of a fleet, its stages and workers, too
    overview               the same again and again, for whoever watches
    trace                  the whole story of one URL
    verify, fleet_verify   proof that nothing was lost and nothing doubled
    measure, capacity      a crawl's own numbers, and what they say of how long it will take
    one_page               a page of the web as a crawl would get it, without a store

Stores are of two kinds. Where the frontier's contract is enough, both are asked alike, through
`shoal.stores.access`. What goes further for a fleet is in modules of its own, imported only at the address
of one: what they need is an extra.
"""
