"""A worker that dies of one page, with all pages that it holds: `mortal_worker.py fetch|parse URL worker ...`.

No page is known that does so. This changes the product from outside: when the page is to be fetched, or to be
parsed, the whole process group is killed.
"""

import os
import signal
import sys
from typing import Any

from shoal.cli.main import main
from shoal.fetch.contract import Attempt
from shoal.fetch.fetcher import HttpFetcher
from shoal.model.outcome import Lease
from shoal.model.page import ParseTask
from shoal.parse.pool import ParsePool


def mortal(deed: str, poison: str) -> None:
    """Kill this process when it fetches or parses the poison page."""
    attempt, submit = HttpFetcher.attempt, ParsePool.submit

    async def attempt_or_die(fetcher: HttpFetcher, lease: Lease, **known: Any) -> Attempt:
        if (deed, lease.request.url) == ("fetch", poison):
            os.killpg(0, signal.SIGKILL)
        return await attempt(fetcher, lease, **known)

    def submit_or_die(pool: ParsePool, task: ParseTask, on_answer: Any) -> None:
        if (deed, task.url) == ("parse", poison):
            os.killpg(0, signal.SIGKILL)
        submit(pool, task, on_answer)

    HttpFetcher.attempt = attempt_or_die  # type: ignore[method-assign,assignment]
    ParsePool.submit = submit_or_die  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    mortal(*sys.argv[1:3])
    del sys.argv[1:3]
    main()
