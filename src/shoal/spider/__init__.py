"""The spider API, and running a spider on one page.

    spider            Spider: start URLs, handlers, options
    page              Page: the argument of a handler
    failed            FailedRequest: the argument of an `on_error` hook
    items, models     items as JSON; items checked against a dataclass, struct or pydantic model
    feed_handler      handler for sitemaps and feeds, part of every spider
    builtin_spiders   spiders that need no code
    toml_spider       spiders written in TOML
    source            loading a spider from a file or module, and describing it
    run               run a spider on one page

    html/             CSS, XPath, links, canonical URLs
    text/             character encodings, content types, dates
    feeds/            sitemaps, RSS, Atom
    metadata/         JSON-LD, Open Graph, microdata, articles

A handler is a plain function of a page: no I/O, no clock, no state. That is why a page can be parsed again
from the archive, years later or after a crash, with the same result. User code is loaded and run in parse
children only; the rest of Shoal knows a spider by its `SpiderDescription`.
"""
