"""Dead letters in the embedded store: replaying them, parsing their pages again, purging them."""

from collections.abc import Collection

from shoal.frontier.rules import band, parsed_again
from shoal.frontier.sqlite.owner import Owner
from shoal.frontier.sqlite.reader import select_dead
from shoal.frontier.sqlite.state import ParsingPage
from shoal.model.failure import FailureClass


class SqliteDeadLetters:
    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def replay(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, first accepted first; an archived page that was at fault is parsed again."""
        owner, state = self._owner, self._owner.state
        within = state.crawl(crawl)
        selection, params = select_dead(within.id, classes=classes, host=host, fingerprints=fingerprints)
        with owner.changing() as changes:
            letters = owner.database.execute(
                "SELECT dead.id, fp, priority, kind, page IS NOT NULL, host.name, pool"  # noqa: S608
                f" FROM {selection} ORDER BY dead.id LIMIT ?",
                (*params, -1 if limit is None else limit),
            ).fetchall()
            counts, now = within.counts, owner.now()
            for id, fp, priority, kind, archived, host_name, pool in letters:
                failure_class = FailureClass(kind)
                counts.revive(failure_class)
                if parsed_again(failure_class, archived=bool(archived)):
                    counts.parsing += 1
                    within.parsing[fp] = ParsingPage(id, 0, taken=False)
                    changes.reparsed.append((id,))
                else:
                    counts.waiting += 1
                    state.scheduler.push(within.lanes[(host_name, pool)], band(priority, 0), id, now)
                    changes.revived.append((id,))
            changes.crawls.add(within)
            changes.sweep = True  # a replayed request gets back the id that it had before
        return len(letters)

    async def purge(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Delete dead letters, first accepted first. Their requests stay dead and seen."""
        owner = self._owner
        within = owner.state.crawl(crawl)
        selection, params = select_dead(within.id, classes=classes, host=host, fingerprints=fingerprints)
        with owner.changing() as changes:
            letters = owner.database.execute(
                f"SELECT dead.id FROM {selection} ORDER BY dead.id LIMIT ?",  # noqa: S608
                (*params, -1 if limit is None else limit),
            ).fetchall()
            changes.purged += [(within.id, id) for [id] in letters]
        return len(letters)
