"""Planted faults: the simulation must find each within a number of seeds. They test the simulation itself.

A fault is planted in the process of a seed, before anything runs. It changes a method, or the text of a Lua script. A text
that the product no longer has is an error, so that a fault cannot silently become none.
"""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.simulation.plan import FLEET, FOLDER


class Mutant(NamedTuple):
    scenario: str
    budget: int  # seeds, from 1, one of which must fail
    oracle: str  # that fails: a run that another one ends does not count
    plant: Callable[[], None]


def change_source(owner: Any, name: str, *changes: tuple[str, str]) -> None:
    """Replace a method with one whose source is changed."""
    method = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(method))
    for old, new in changes:
        assert old in source, f"{name} no longer has {old!r}"
        source = source.replace(old, new)
    names = dict(inspect.getmodule(method).__dict__)
    exec(compile(source, f"<{name} with a planted fault>", "exec"), names)
    setattr(owner, name, names[name])


def change_script(script: str, *changes: tuple[str, str]) -> None:
    """Change the text of a Lua script, or of a fragment, in every script that contains it."""
    from shoal.frontier.redis import scripts

    real = vars(scripts)["assemble"]

    def assemble(name: str, texts: Sequence[str], **options: Any) -> Any:
        whole = list(texts)
        if script in (name, "fragments"):
            for old, new in changes:
                at = next((n for n, text in enumerate(whole) if old in text), None)
                assert at is not None or script == "fragments", f"{name} no longer has {old!r}"
                if at is not None:
                    whole[at] = whole[at].replace(old, new)
        return real(name, whole, **options)

    vars(scripts)["assemble"] = assemble


# --- promises of the outputs ---------------------------------------------------------------------------------


def settle_appends_without_lease() -> None:
    """The items of a page are passed on although its lease is lost."""
    change_script(
        "settle",
        (
            "  accepted[i] = lease and",
            "  if not lease and items ~= '' then"
            " append_items((parse('>I', ARGV[i + 1])), sub(ARGV[i + 1], 5), items) end\n  accepted[i] = lease and",
        ),
    )
    from shoal.frontier.redis.frontier import RedisFrontier

    async def held(_self: Any, leases: Sequence[Any]) -> list[Any]:
        return list(leases)

    def current(self: Any, settlements: Sequence[Any]) -> Any:
        return list({self._id(one.lease): one for one in settlements}.values()), []

    setattr(RedisFrontier, "held", held)  # noqa: B010
    setattr(RedisFrontier, "_current", current)  # noqa: B010


def position_before_data() -> None:
    """An output stores the position of the writer before the data."""
    from shoal.sinks.fleet.checkpointed import CheckpointedFile

    def flush(self: Any, position: bytes) -> bytes:
        if (last := self.last_flush()) is not None:
            self._store(last.checkpoint, position)
        return self._store(self._sink.flush(), position)  # type: ignore[no-any-return]

    setattr(CheckpointedFile, "flush", flush)  # noqa: B010


def settle_before_flush() -> None:
    """The transaction settles pages before their items are written."""
    from shoal.engine.commit import Committer

    change_source(
        Committer,
        "_commit",
        (
            "        durable = await self._outputs.flush()\n",
            "        await self._store.commit(settled, acknowledged, {}, {})\n"
            "        durable = await self._outputs.flush()\n",
        ),
        ("self._store.commit(settled, acknowledged, durable", "self._store.commit([], [], durable"),
    )


def checkpoint_not_stored() -> None:
    """A commit in a folder does not store how long the outputs are."""
    from shoal.engine.commit import Committer

    change_source(
        Committer,
        "_commit",
        ("acknowledged, durable.checkpoints, durable.crawl_state", "acknowledged, {}, durable.crawl_state"),
    )


def items_dropped_on_settle() -> None:
    """A settlement removes the lease and forgets every tenth page's items."""
    change_script(
        "settle", ("if items ~= '' then append", "if items ~= '' and byte(lease[ID], 5) > 24 then append")
    )


def acknowledged_twice() -> None:
    """A page that was acknowledged stays, so a second acknowledgement passes its items on again."""
    change_script("acknowledge", ("  remove_page(crawl, fp, page)\n", ""))


# --- promises of the frontier --------------------------------------------------------------------------------


def settle_before_links() -> None:
    """A fleet settles a page before the links on it are added."""
    from shoal.frontier.redis.frontier import RedisFrontier

    source = textwrap.dedent(inspect.getsource(RedisFrontier.commit))
    begin, settle = source.index("    new, duplicate = await"), "    stale += await self._settle(current)\n"
    added = source[begin : source.index(settle)]
    change_source(RedisFrontier, "commit", (added + settle, settle + added))


def reclaim_early() -> None:
    """Leases are reclaimed a second before their deadline."""
    change_script(
        "fragments",
        ("tag .. ':lx', '-inf', now, 'LIMIT'", "tag .. ':lx', '-inf', now + 1, 'LIMIT'"),
        ("if deadline_of(record) <= now then", "if deadline_of(record) <= now + 1 then"),
    )


def extend_stores_nothing() -> None:
    """The extension of a lease is promised and not stored."""
    change_script(
        "extend",
        ("  call_with('HSET', batch.key, changed)\n", ""),
        ("  call('ZADD', tag .. ':lx', first, format('%.0f', token))\n", ""),
    )


def held_without_lease() -> None:
    """The frontier of a folder says that every lease is still held."""
    from shoal.frontier.sqlite.frontier import SqliteFrontier

    async def held(_self: Any, leases: Sequence[Any]) -> list[Any]:
        return list(leases)

    setattr(SqliteFrontier, "held", held)  # noqa: B010


def never_extended() -> None:
    """A folder does not extend its leases: a slow page is fetched twice."""
    from shoal.frontier.sqlite.frontier import SqliteFrontier

    async def extend(_self: Any, leases: Sequence[Any], _ttl: float) -> list[Any]:
        return list(leases)

    setattr(SqliteFrontier, "extend", extend)  # noqa: B010


# --- pace ----------------------------------------------------------------------------------------------------


def short_interval() -> None:
    """The gate of a process waits for nine tenths of the interval of a host."""
    from shoal.fetch.gate import SendGate

    change_source(
        SendGate,
        "turn",
        ("host, interval, burst, early)", "host, interval * 0.9, burst, early)"),
    )


def short_ticket() -> None:
    """The store grants turns at a host after nine tenths of its interval."""
    change_script(
        "rate_ticket",
        ("math.max(interval, its_interval) + margin", "0.9 * math.max(interval, its_interval)"),
    )


MUTANTS = {
    mutant.plant.__name__: mutant
    for mutant in (
        Mutant(FLEET, 12, "items", settle_appends_without_lease),
        Mutant(FLEET, 12, "items", position_before_data),
        Mutant(FOLDER, 12, "items", settle_before_flush),
        Mutant(FLEET, 60, "items", settle_before_links),
        Mutant(FLEET, 60, "believers", reclaim_early),
        Mutant(FLEET, 40, "believers", extend_stores_nothing),
        Mutant(FOLDER, 200, "items", held_without_lease),
        Mutant(FOLDER, 12, "items", checkpoint_not_stored),
        Mutant(FLEET, 6, "items", items_dropped_on_settle),
        Mutant(FLEET, 30, "items", acknowledged_twice),
        Mutant(FOLDER, 60, "waste", never_extended),
        Mutant(FOLDER, 12, "pace", short_interval),
        Mutant(FLEET, 6, "pace", short_ticket),
    )
}
