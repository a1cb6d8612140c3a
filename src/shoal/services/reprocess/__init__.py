"""What a crawl has gathered, and what is done with it afterwards, without a single request.

    kept, fleet_holdings ──▶ holdings ──▶ reparse, export ──▶ draft
    pages and items of       whichever    parsed again, or    an output that is there
    a folder, of a fleet     it is        in another form     all at once or not at all

A folder's store lists its pages, each with its items. That of a fleet forgets them; there they are found by
going through the archive. The crawl stays as it is: results go to outputs of their own. How they differ from
what the crawl has written is told by `differences`.
"""
