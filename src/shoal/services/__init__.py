"""What commands, a dashboard and other programs call: functions with plain values in and out.

    crawl, submit, worker, local_fleet  run crawls: in this process, on a fleet, with workers on this machine
    inspect                             read a store: status, history of a URL, proof that nothing was lost
    control                             change a store: pauses, the pace of hosts, dead letters, deletion
    reprocess                           parse archived pages again, export items and pages
    analysis                            the fetch log: SQL, reports, link graphs
    alerts, autoscale                   what is wrong and what to do; how many workers a fleet needs
    schedules, webhooks                 crawls that start by themselves; messages to other programs
    live                                the state of a store, kept up to date for the dashboard
    remote, scraping                    submissions, items and single pages for programs, over the HTTP API
    proxies                             the exits of a store: list them, try them, let one rest
    doctor                              check this machine and a store

Services take the address of a store, open it through `shoal.stores.open`, and ask for its capabilities. Each
result type has one function that turns it into JSON, named `..._json`.
"""
