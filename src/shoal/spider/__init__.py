"""What a user writes, and how it is run on one page.

    spider      Spider: start, routes, options
    page        Page: what a handler is given
    failed      FailedRequest: what an `on_error` hook is given
    selector    CSS, XPath and regular expressions on a page, with parsel's meaning
    links       where a page leads
    canonical   the address that a page calls its own
    ranking     which links go first when nobody says
    items       what a handler yields, made into JSON
    models      items checked against a dataclass, struct or pydantic model
    listing     the handler of sitemaps and feeds
    plain       the spiders that need no code
    declared    spiders in TOML
    source      where a spider comes from; loading it, describing it
    run         one page through one spider

A handler is a plain function of a page: no I/O, no clock, no state. That is what lets a page be parsed again
from the archive, years later or after a crash, with the same result. User code is loaded and run in parse
children only; the rest of Shoal knows a spider by its `SpiderDescription`.
"""
