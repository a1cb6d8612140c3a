"""What only a fleet needs: any number of workers, on any number of machines, beside one shared store.

    submit ──▶ the store ──▶ worker ──▶ joining ──▶ crawl, once for each crawl that has work
                             │
                             ├─ deliveries   pages that others have fetched, from the bus
                             ├─ outputs      those that this worker was elected to write
                             └─ endpoint     how it is, over HTTP; `metrics` for Prometheus

`together` submits a crawl and works on it in the same process. `local` is a whole fleet on this machine: a
server of its own (`private_store`) and worker processes that are replaced when they die (`crew`), none of
which outlives it (`companion`).

What workers know of one another is in the store (`shoal.stores.redis`).
"""
