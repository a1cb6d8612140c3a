"""A worker process of a fleet: any number of them, on any number of machines, share one store.

    the store ──▶ worker ──▶ crawl_session ──▶ engine, once per crawl that has work (`session_steps` decides)
                   │
                   ├─ deliveries     pages that other workers have fetched, from the bus
                   ├─ output_tasks   the outputs that this worker was elected to write
                   └─ http_endpoint  health over HTTP, and `metrics` for Prometheus

`supervisor` runs the worker processes of a fleet on one machine, and replaces those that die.

What workers know of one another is in the store (`shoal.stores.redis`).
"""
