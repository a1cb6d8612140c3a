"""The end of dead letters: they wait again, their pages are parsed again, or nobody wants them any more."""

from collections.abc import Collection

from shoal.frontier.rules import band, parsed_again
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.reader import dead_where
from shoal.frontier.sqlite.state import CrawlState, FrontierState, ParsingPage
from shoal.model.failure import FailureClass


def replay(
    state: FrontierState,
    crawl: CrawlState,
    changes: Changes,
    now: float,
    *,
    kinds: Collection[FailureClass],
    host: str,
    fingerprints: Collection[int],
    limit: int | None,
) -> int:
    """Put dead letters back with a clean slate; the ones whose page is kept are only parsed again."""
    chosen, params = dead_where(crawl.id, kinds=kinds, host=host, fingerprints=fingerprints)
    letters = state.database.execute(
        f"SELECT dead.id, fp, priority, kind, page IS NOT NULL, host.name, pool FROM {chosen}"  # noqa: S608
        " ORDER BY dead.id LIMIT ?",
        (*params, -1 if limit is None else limit),
    ).fetchall()
    counts = crawl.counts
    for id, fp, priority, kind, kept, host_name, pool in letters:
        failure = FailureClass(kind)
        counts.revive(failure)
        if parsed_again(failure, kept=bool(kept)):
            counts.parsing += 1
            crawl.parsing[fp] = ParsingPage(id, 0, taken=False)
            changes.reparsed.append((id,))
        else:
            counts.waiting += 1
            state.scheduler.push(crawl.lanes[(host_name, pool)], band(priority, 0), id, now)
            changes.revived.append((id,))
    changes.crawls.add(crawl)
    changes.sweep = True  # a letter that waits again has the id that it had before
    return len(letters)


def purge(
    state: FrontierState,
    crawl: CrawlState,
    changes: Changes,
    *,
    kinds: Collection[FailureClass],
    host: str,
    fingerprints: Collection[int],
    limit: int | None,
) -> int:
    """Throw dead letters away. Their requests stay seen, and counted as dead."""
    chosen, params = dead_where(crawl.id, kinds=kinds, host=host, fingerprints=fingerprints)
    letters = state.database.execute(
        f"SELECT dead.id FROM {chosen} ORDER BY dead.id LIMIT ?",  # noqa: S608
        (*params, -1 if limit is None else limit),
    ).fetchall()
    changes.purged += [(crawl.id, id) for [id] in letters]
    return len(letters)
