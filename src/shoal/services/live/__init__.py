"""What `shoal serve` knows of a store at any moment, so that no request of a page has to scan it.

One sampler reads the store for all pages, every two seconds and with bounded effort. Pages read its results.

    pipeline    the stages with depth, rate and lag; which one stalls and why. Pure
    history     figures over time, in two rings of fixed size. Pure
    attempts    the latest rows of the fetch log: latency, failures, hosts, links between hosts. Pure
    log_tail    new rows of fetch logs, each read once
    sampler     reads a store again and again; `LiveStore` is what pages ask
    past        figures of the whole fetch log, computed in the background
    searches    the history of one URL, found in the background
    lines, lists, speeds    what lists show, and how fast a store works
    items       the newest items of an output, and a search in them
    archived    a page as it was archived, without anything that could act
"""
