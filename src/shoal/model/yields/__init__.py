"""What a crawl yields, generation by generation.

    counts    names and records of what is counted: items of a handler, and their filled fields
    rule      whether a generation is in the range of those before

A parse child counts, for each page, its items and the fields that hold something (`spider/item_counts.py`).
The counts are totals of the crawl: they are stored in the step that stores the items, so they are exact after
a kill. At the end of a generation they are compared with those of the generations that were accepted before.
A figure out of their range is a drop: the outputs are not replaced until the operator accepts them, and then
the accepted figures are part of the range.
"""
