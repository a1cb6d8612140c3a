"""Decide what a command does to a crawl: a pure function of the stored crawl and the typed command.

In this order, and the first that applies: a crawl that does not exist begins; `--fresh` and a crawl without a
single page begin a new generation; a command that belongs to another crawl is refused; `--again` begins a new
generation unless the last one was interrupted; wider limits reopen what they had left out; start URLs that
never succeeded are tried again; what is left is fetched; and otherwise there is nothing to do.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from shoal.engine.runs.facts import CommandFacts, CrawlFacts, RunFlags


class RunAction(StrEnum):
    BEGIN = "begin"  # a new crawl
    RENEW = "new generation"  # every URL is fetched again
    REFUSE = "refuse"
    EXTEND = "extend"  # wider limits, or more start URLs
    RETRY = "retry"  # start URLs that never succeeded
    RESUME = "resume"
    NOTHING = "nothing to do"


class Reopening(StrEnum):
    """A limit that is wider than it was."""

    DEPTH = "--depth"
    FOLLOW = "--follow"
    HOSTS = "hosts"
    PER_HOST = "links.per_host"
    ROBOTS = "--no-robots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    action: RunAction
    reason: str  # one line
    ways: tuple[str, ...] = ()  # what to type next, one line each
    notes: tuple[str, ...] = ()  # what else the user should know
    reopen: frozenset[Reopening] = frozenset()  # links of archived pages are judged again
    retry_start: bool = False  # start URLs among the dead letters are replayed
    retry_refused: bool = False  # so are addresses that are allowed now
    discards: int = 0  # pages of the generation that ends


def decide(crawl: str, stored: CrawlFacts | None, typed: CommandFacts, flags: RunFlags) -> Decision:
    """Return what a command does to the crawl of that name; `stored` is None if it does not exist."""
    name = shlex.quote(crawl)
    if stored is None:
        return Decision(action=RunAction.BEGIN, reason=f"crawl {crawl} is new")
    if flags.fresh:
        return _renew(stored, f"--fresh: crawl {crawl} starts again")
    if stored.barren:
        return _renew(stored, f"crawl {crawl} has no page yet: it starts again")
    known = stored.command
    if known is not None and (other := _other_command(crawl, known, typed, flags)) is not None:
        return other
    begun = bool(flags.again_after) and stored.began >= flags.again_after
    if flags.again and not begun and not is_interrupted(stored, typed):
        return _renew(stored, f"--again: every page of crawl {crawl} is fetched again")
    options = f"--crawl {name}{flags.store_option}"
    notes = tuple(_notes(options, stored, known, typed))
    reopen = frozenset(_wider(known, typed)) if known is not None else frozenset()
    refused = bool(stored.dead_refused and typed.allow_private and not (known and known.allow_private))
    if reopen and stored.live and (stored.in_progress or (stored.waiting and not stored.paused)):
        return _wait_until_idle(crawl, name, reopen, flags)
    base = Decision(
        action=RunAction.RESUME,
        reason=f"crawl {crawl} is not finished: {stored.open:,} requests are left",
        notes=notes,
        reopen=reopen,
        retry_start=bool(stored.dead_start),
        retry_refused=refused,
    )
    more = _more_start(known, typed)
    if reopen or more or refused:
        reason = _extension(crawl, reopen, more=more, refused=refused)
        return replace(base, action=RunAction.EXTEND, reason=reason)
    if stored.dead_start:
        starts = "1 start URL" if stored.dead_start == 1 else f"{stored.dead_start:,} start URLs"
        reason = f"{starts} of crawl {crawl} never succeeded: trying again"
        return replace(base, action=RunAction.RETRY, reason=reason)
    if stored.open and not _at_limit(stored, typed):
        return base
    if stored.unwritten or stored.unfinished or stored.unpublished:
        return replace(base, reason=f"items of crawl {crawl} are still to be written")
    return Decision(
        action=RunAction.NOTHING,
        reason=f"Nothing to do: crawl {crawl} {_state(stored, typed)}",
        ways=tuple(_ways(options, stored, known, typed)),
        notes=notes,
    )


def _wait_until_idle(crawl: str, name: str, reopen: frozenset[Reopening], flags: RunFlags) -> Decision:
    pause, resume = (f"shoal {verb} {name}{flags.store_option}" for verb in ("pause", "resume"))
    return Decision(
        action=RunAction.REFUSE,
        reason=(
            f"crawl {crawl} is running: wider limits ({_names(reopen)}) reopen links of all its pages,"
            " which needs a crawl that stands still"
        ),
        ways=(
            f"{pause}   (then this command again, then: {resume})",
            "wait until it has finished, then this command again",
        ),
    )


def is_interrupted(stored: CrawlFacts, typed: CommandFacts) -> bool:
    """Return whether the last run ended before its work did; one that reached --max-pages is complete."""
    return bool(stored.unwritten) or stored.unfinished or (bool(stored.open) and not _at_limit(stored, typed))


def _at_limit(stored: CrawlFacts, typed: CommandFacts) -> bool:
    return bool(typed.max_pages) and stored.pages >= typed.max_pages


def _renew(stored: CrawlFacts, reason: str) -> Decision:
    return Decision(action=RunAction.RENEW, reason=reason, discards=stored.done)


def _other_command(crawl: str, known: CommandFacts, typed: CommandFacts, flags: RunFlags) -> Decision | None:
    """Return the refusal of a command that would mix another crawl into this one; None: it is the same."""
    ways = [
        "--crawl NAME   (a separate crawl, beside this one)",
        f"--fresh   (throw away what crawl {crawl} has, and start with this command)",
    ]
    if (known.spider == "") != (typed.spider == ""):
        what = f"was started {_with(known.spider)}, and this command runs {_with(typed.spider)}"
    elif known.spider != typed.spider and known.version != typed.version:
        what = f"belongs to the spider {known.spider}, and this is {typed.spider} with the same name"
    elif not typed.spider and known.fields != typed.fields:
        what = f"writes records with {_fields(known)}, and this command would add some with {_fields(typed)}"
    elif not typed.spider and not flags.named and _different_start(known, typed):
        what = f"started at {_first(known.start)}, and this command starts at {_first(typed.start)}"
    elif (
        typed.follow_typed and not _follow_wider(known.follow, typed.follow) and known.follow != typed.follow
    ):
        what = (
            f"follows {known.follow!r}, and this command follows {typed.follow!r}"
            if known.follow
            else (f"follows every link, and this command only {typed.follow!r}")
        )
        if known.follow:
            ways.insert(0, f"--follow '{known.follow}|{typed.follow}'   (follow both, in this crawl)")
    else:
        return None
    return Decision(
        action=RunAction.REFUSE, reason=f"this is another command: crawl {crawl} {what}", ways=tuple(ways)
    )


def _with(spider: str) -> str:
    return f"with the spider {spider}" if spider else "without a spider"


def _fields(facts: CommandFacts) -> str:
    names = ", ".join(name for name, _ in facts.fields)
    return f"the fields {names}" if names else "url, title, status and so on"


def _first(urls: tuple[str, ...]) -> str:
    return urls[0] if urls else "other URLs"


def _different_start(known: CommandFacts, typed: CommandFacts) -> bool:
    """Return whether a command without a spider leaves start URLs out: those belong to another command."""
    if known.start_digest == typed.start_digest or known.listed or typed.listed:
        return False
    return not set(known.start) <= set(typed.start)


def _more_start(known: CommandFacts | None, typed: CommandFacts) -> bool:
    """Return whether there may be start URLs that the crawl does not know."""
    if known is None or typed.listed:
        return True
    return known.start_digest != typed.start_digest and not set(typed.start) <= set(known.start)


def _wider(known: CommandFacts, typed: CommandFacts) -> Iterator[Reopening]:
    if known.depth is not None and (typed.depth is None or typed.depth > known.depth):
        yield Reopening.DEPTH
    if known.follow and known.follow != typed.follow:  # a narrower one that was typed is refused before
        yield Reopening.FOLLOW
    if not known.any_host and (typed.any_host or not set(typed.hosts) <= set(known.hosts)):
        yield Reopening.HOSTS
    if known.per_host and (not typed.per_host or typed.per_host > known.per_host):
        yield Reopening.PER_HOST
    if known.robots and not typed.robots:
        yield Reopening.ROBOTS


def _follow_wider(known: str, typed: str) -> bool:
    """Return whether one expression surely matches all that the other does: it is one of its alternatives."""
    return bool(known) and (
        not typed or known in typed.split("|") or set(known.split("|")) < set(typed.split("|"))
    )


def _extension(crawl: str, reopen: frozenset[Reopening], *, more: bool, refused: bool) -> str:
    why = []
    if reopen:
        why.append(f"wider limits ({_names(reopen)}): links of its archived pages are judged again")
    if more:
        why.append("start URLs are added")
    if refused:
        why.append("--allow-private: addresses that were refused are tried again")
    return f"crawl {crawl} is extended: {'; '.join(why)}"


def _names(reopen: frozenset[Reopening]) -> str:
    return ", ".join(sorted(reopen))


def _notes(
    options: str, stored: CrawlFacts, known: CommandFacts | None, typed: CommandFacts
) -> Iterator[str]:
    if known is None:
        return
    if known.version != typed.version and stored.done:
        yield (
            f"the spider has changed since {stored.done:,} pages:"
            f" shoal reparse {typed.spider} {options} --commit --out FILE writes them anew"
        )
    if stored.done and (added := sorted(set(typed.outputs) - set(known.outputs))):
        yield (
            f"{', '.join(added)} is new: it gets the items of pages that are still to be fetched;"
            f" shoal export {options} --out FILE writes the items of all pages"
        )
    if stored.open and typed.depth is not None and (known.depth is None or typed.depth < known.depth):
        yield f"--depth {typed.depth} is less than before: what is queued already is fetched all the same"


def _state(stored: CrawlFacts, typed: CommandFacts) -> str:
    figures = f"{stored.done:,} pages" + (f", {stored.dead:,} given up" if stored.dead else "")
    if not stored.open:
        return f"is complete ({figures})"
    return f"has reached --max-pages {typed.max_pages} ({figures}; {stored.open:,} requests wait)"


def _ways(options: str, stored: CrawlFacts, known: CommandFacts | None, typed: CommandFacts) -> Iterator[str]:
    if stored.open:
        yield "a larger --max-pages   (continues)"
    if stored.held:
        which = options.removeprefix("--crawl ")
        yield f"shoal release {which}   (queues {stored.held:,} URLs that are held back)"
    if stored.dead:
        yield f"shoal dlq replay {options}   (tries again what was given up)"
    if known is not None and known.version != typed.version:
        reparse = f"shoal reparse {typed.spider} {options} --commit --out FILE"
        yield f"{reparse}   (the changed spider on the same pages)"
    yield "the same command with --again   (fetches all pages again; outputs are replaced when that succeeds)"
    yield f"shoal export {options} --out FILE   (writes its items to another file)"
