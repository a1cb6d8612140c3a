"""Using the archived pages and the items of a crawl again, without a single request.

    reparse        parse archived pages with a changed spider, and compare the items
    export         write items in another format, or pages as one WARC file
    diff           what changed between two parses of the same pages
    atomic_output  an output that is replaced as a whole or not at all
    choice         which crawl is meant

The crawl does not change: results go to separate outputs.
"""
