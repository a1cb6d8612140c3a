"""`shoal.run`, `shoal.arun` and `shoal.stream`."""

from collections.abc import Mapping
from os import PathLike

from shoal.python_api.plan import MEMORY, Outputs, SpiderLike, Urls, plan_run
from shoal.python_api.progress import open_progress
from shoal.python_api.result import Result
from shoal.python_api.running import RunningCrawl
from shoal.python_api.stream import Stream

BUFFER_ITEMS = 1000


def run(
    spider: SpiderLike,
    *,
    store: str | PathLike[str] = MEMORY,
    out: Outputs = (),
    crawl: str = "",
    start: Urls = (),
    sitemaps: Urls = (),
    fresh: bool = False,
    progress: bool | None = None,
    settings: Mapping[str, object] | None = None,
    **options: object,
) -> Result:
    """Run a crawl until it is finished, and return its result.

    Works in scripts, tests and notebooks, also while an event loop runs. The same call on the same store
    resumes a crawl that was interrupted.

    Args:
        spider: a `Spider`, also one of this script or notebook; a spider file (`"books.py"`);
            `"module:name"`; or a URL, for one record per page.
        store: `"memory:"`, which keeps nothing but the result; a folder; or the address of a fleet's Redis.
        out: files or databases that get the items, besides the result.
        crawl: the name of the crawl. Default: the spider's name.
        start: URLs to start from instead of the spider's.
        sitemaps: sitemaps and feeds to start from as well.
        fresh: delete what this crawl has done before in the store, and replace its outputs.
        progress: show progress. Default: in notebooks only.
        settings: settings outside of `[crawl]` by their key: `{"retry.max_retries": 0}`.
        options: settings of `[crawl]`, such as `max_pages=100`, `rate=1` or `depth=2`. They override the
            environment (`SHOAL_CRAWL_RATE`), and that the spider's. `shoal.toml` is not read.

    Ctrl-C stops the crawl cleanly before `KeyboardInterrupt` is raised. Raises the errors of `shoal.errors`;
    what web servers do is part of the result and not an error.

    Example:

        result = shoal.run(spider, max_pages=100)
        print(result.items[0], result.counts)
    """
    plan = plan_run(
        spider,
        store=store,
        out=out,
        crawl=crawl,
        start=start,
        sitemaps=sitemaps,
        fresh=fresh,
        settings=settings,
        options=options,
    )
    view = open_progress(progress)
    result = RunningCrawl(plan).wait(view)
    view.close(str(result))
    return result


async def arun(
    spider: SpiderLike,
    *,
    store: str | PathLike[str] = MEMORY,
    out: Outputs = (),
    crawl: str = "",
    start: Urls = (),
    sitemaps: Urls = (),
    fresh: bool = False,
    progress: bool | None = None,
    settings: Mapping[str, object] | None = None,
    **options: object,
) -> Result:
    """Do what `run` does without blocking the event loop.

    Cancelling stops the crawl cleanly before `CancelledError` is raised.
    """
    plan = plan_run(
        spider,
        store=store,
        out=out,
        crawl=crawl,
        start=start,
        sitemaps=sitemaps,
        fresh=fresh,
        settings=settings,
        options=options,
    )
    view = open_progress(progress)
    result = await RunningCrawl(plan).wait_async(view)
    view.close(str(result))
    return result


def stream(
    spider: SpiderLike,
    *,
    store: str | PathLike[str] = MEMORY,
    out: Outputs = (),
    crawl: str = "",
    start: Urls = (),
    sitemaps: Urls = (),
    fresh: bool = False,
    progress: bool | None = None,
    buffer: int = BUFFER_ITEMS,
    settings: Mapping[str, object] | None = None,
    **options: object,
) -> Stream:
    """Return the items of a crawl one by one while it runs, for `async for` and `for`.

    The arguments are those of `run`. While more than `buffer` items wait to be taken, the crawl fetches
    nothing further. Leaving the loop stops the crawl cleanly; on a store that outlives the run, the same call
    resumes it and continues after the last item that was taken.

    Example:

        async for item in shoal.stream(spider, store="books-data"):
            await save(item)
    """
    plan = plan_run(
        spider,
        store=store,
        out=out,
        crawl=crawl,
        start=start,
        sitemaps=sitemaps,
        fresh=fresh,
        settings=settings,
        options=options,
    )
    return Stream(plan, buffer=buffer, progress=progress)
