"""The pages of `docs/reference/` that are made from the code.

Settings, failure classes, exit codes, and what is done about a store that fails.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from docs.making.api import api
from typer.core import TyperGroup

from shoal.cli.app import command
from shoal.cli.input.settings_loader import flag_of
from shoal.cli.process.exit_codes import MEANING
from shoal.model.adaptive_delay import WEIGHTS, signal_of
from shoal.model.configuration.configure import DESCRIPTIONS, TYPES, VARIABLES
from shoal.model.configuration.setting_ranges import RANGES
from shoal.model.exits.faults import DOUBT_S, FAULTS, HOSTS_IN_A_ROW, MAX_DOUBT_S, PROVEN_S
from shoal.model.failure import CONSEQUENCE, POLICY, Action, Failure, FailureClass, FailurePolicy
from shoal.model.settings import HostSettings, Settings
from shoal.redis_client.errors import (
    BY_TEXT,
    LOST,
    NO_CERTIFICATE,
    NO_REDIS,
    NO_TLS,
    TABLE,
    TIMEOUT,
    UNSYNCED,
    Remedy,
)

FOLDER = Path(__file__).parents[1] / "reference"

_MADE = "<!-- Made by `make docs` from {}: change it there. -->"
_TYPES = {bool: "yes or no", int: "whole number", float: "number", str: "text"}

_SETTINGS = """
# Settings

Everything works without settings. Each source overrides those before it:

1. the defaults below,
2. the spider's own options, for those of `[crawl]`: `shoal.Spider("books", ..., rate=1.0)`,
3. `shoal.toml` in the current folder, or the file that `--config` names,
4. `SHOAL_*` variables,
5. flags.

A key such as `crawl.max_pages` is `max_pages` under `[crawl]` in the file. An unknown key or an invalid value
is an error that names the key, where it was set, and what is allowed.

```toml
store = "/data/shop"

[crawl]
rate = 1.0
max_pages = 100_000

[crawl.headers]
Accept-Language = "en"

[hosts."slow.example"]
rate = 0.2
```

`SHOAL_DEBUG=1` is not a setting: it prints the traceback of any error. The flags are those of
[`shoal crawl`](../commands/crawl.md); other commands take those that make sense there.
"""

_FAILURES = """
# Failure classes

Every failed attempt has one of these classes, and the class decides what happens next. The same words are in
`shoal status`, `shoal dlq list`, `shoal trace`, logs and `--json`. The set is closed: there is no "other".

A retry waits `retry.base` to the power of the attempt, in seconds, with 25 % jitter, and its priority drops
by one. *Weight* says how much it counts when the host is
[slowed down](../blocks.md#how-a-host-is-slowed-down)
(`[slowdown]` in the [settings](settings.md)).
"""

_EXITS = """
# Exit codes

The same for every command.
"""

_AFTER_EXITS = """
A start URL that cannot be reached is retried like any other, then given up: the crawl exits with 10 and
says why. So does a crawl without any page because all its URLs are gone, or excluded by robots.txt.
"""

_STORE = """
# When the store of a fleet fails

Errors that a Redis server may return, and what Shoal does. Every call can be repeated without harm, so most
are: until `patience_s` of the DSN has passed (30 s), after which a command exits with
[code](exit-codes.md) 4; a serving worker retries without limit. Until the store answers
again, no request leaves. Any other error counts as a bug in Shoal and ends the command with a
traceback.
"""


_FAULTS = f"""## Through a proxy: who is charged

From `src/shoal/model/exits/faults.py`. What fails between us and an [exit](../proxies.md) is the fault of the
exit, and so is what fails before the target has answered through it. A URL that is not charged waits
and keeps its attempts.

Where no one can tell an exit that fails from a target that does, no one is charged at first;
the exit is after {DOUBT_S:g} s without any answer through it. The URL is charged if the exit has brought an
answer since the URL met the fault before; at once if its host never answered, the exit did within
{PROVEN_S:g} s, and fewer than {HOSTS_IN_A_ROW} hosts have failed since;
if its host was charged so before and has not answered since;
and always after {MAX_DOUBT_S / 3600:g} hours."""


def pages() -> dict[Path, str]:
    """Make every page of the reference that is made."""
    return {
        FOLDER / "settings.md": _page("src/shoal/model/settings.py", _SETTINGS, *settings()),
        FOLDER / "failures.md": _page("src/shoal/model/failure.py", _FAILURES, *failures(), *exit_faults()),
        FOLDER / "store-failures.md": _page("src/shoal/redis_client/errors.py", _STORE, *store_failures()),
        FOLDER / "exit-codes.md": _page(
            "src/shoal/cli/process/exit_codes.py", _EXITS, *exits(), _AFTER_EXITS
        ),
        FOLDER / "api.md": _page("the docstrings of `shoal` and `shoal.testing`", *api()),
    }


def _page(origin: str, head: str, *rest: str) -> str:
    return "\n\n".join([_MADE.format(origin), head.strip(), *(part.strip() for part in rest)]) + "\n"


def settings() -> Iterator[str]:
    """Yield a table per section of `shoal.toml`."""
    whole = Settings()
    alone = [key for key in TYPES if "." not in key]
    yield _settings_table(alone)
    for section in fields(whole):
        group = getattr(whole, section.name)
        if is_dataclass(group):
            yield f"## [{section.name}]\n\n{type(group).__doc__}"
            yield _settings_table([f"{section.name}.{one.name}" for one in fields(group)])
    names = ", ".join(f"`{one.name}`" for one in fields(HostSettings))
    yield f'## [hosts."NAME"]\n\n{HostSettings.__doc__}\n\nKeys: {names}.'


def _settings_table(keys: Iterable[str]) -> str:
    known = flags()
    return _table(
        ("key", "what it does", "type", "default", "flag", "variable"),
        (
            (
                f"`{key}`",
                DESCRIPTIONS[key],
                f"{kind_of(TYPES[key])}{f', {RANGES[key]}' if key in RANGES else ''}",
                default_of(key),
                f"`{known[key]}`" if key in known else "",
                f"`{VARIABLES[key]}`" if key in VARIABLES else "",
            )
            for key in keys
        ),
    )


@cache  # it takes 0.1 s, and each section asks
def flags() -> Mapping[str, str]:
    """Find the flag of `shoal crawl` for each key that has one."""
    crawl = command("crawl")
    assert isinstance(crawl, TyperGroup)
    options = {flag: one for one in crawl.commands["crawl"].params for flag in one.opts}
    return {
        key: " ".join((*options[flag].opts, *options[flag].secondary_opts))
        for key in TYPES
        if (flag := flag_of(key)) in options and key.partition(".")[0] in ("store", "crawl")
    }


def kind_of(hint: Any) -> str:
    """Name a type for people."""
    plain = next((one for one in get_args(hint) if one is not NoneType), hint) if _optional(hint) else hint
    if get_origin(plain) is tuple:
        return "list"
    return "table" if get_origin(plain) is Mapping else _TYPES[plain]


def _optional(hint: Any) -> bool:
    return NoneType in get_args(hint)


def default_of(key: str) -> str:
    """Return a default as `shoal.toml` would spell it; empty if there is no default."""
    value: object = Settings()
    for name in key.split("."):
        value = getattr(value, name)
    match value:
        case None | "" | {} | ():
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case int() if value >= 10_000:
            return f"`{value:_}`"
        case _:
            return f"`{value}`"


def failures() -> Iterator[str]:
    """Yield a table of the failure classes per action."""
    for action, consequence in CONSEQUENCE.items():
        rows = [(kind.value, policy) for kind, policy in POLICY.items() if policy.action is action]
        yield f"## {consequence[0].upper()}{consequence[1:]}"
        yield _table(
            ("class", "when", "retries", "weight"),
            (
                (f"`{name}`", policy.when, _retries(policy), _weight(FailureClass(name)))
                for name, policy in rows
            ),
        )


def _weight(kind: FailureClass) -> str:
    if kind is FailureClass.TARGET_ERROR:
        return "0.5; 503: 1"
    signal = signal_of(Failure(kind, ""))
    return f"{WEIGHTS[signal]:g}" if signal else ""


def _retries(policy: FailurePolicy) -> str:
    match policy.action:
        case Action.RETRY:
            return "`retry.max_retries`" if policy.retries is None else f"{policy.retries}"
        case Action.REST_HOST:
            return "`retry.max_rests`"
        case _:
            return ""


def store_failures() -> Iterator[str]:
    """Yield a table of the errors of a store per remedy."""
    ours = (LOST, TIMEOUT, UNSYNCED, NO_CERTIFICATE, NO_REDIS, NO_TLS)
    rows = {name if name in ours else f"`{name}`": row for name, row in (TABLE | BY_TEXT).items()}
    for remedy in Remedy:
        yield f"## {remedy.value[0].upper()}{remedy.value[1:]}"
        yield _table(
            ("answer", "the server"),
            ((name, row.meaning) for name, row in rows.items() if row.remedy is remedy),
        )


def exit_faults() -> Iterator[str]:
    """Yield the table of what can go wrong on the way through an exit."""
    yield _FAULTS
    yield _table(
        ("what happens", "who is charged", "then"),
        ((row.when, row.charged.value, row.then) for row in FAULTS.values()),
    )


def exits() -> Iterator[str]:
    yield _table(("code", "meaning"), ((f"{code}", meaning) for code, meaning in MEANING.items()))


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table, without the columns that nothing is in."""
    columns = [column for column in zip(heading, *rows, strict=True) if any(column[1:])]
    names, *cells = zip(*columns, strict=True)
    lines = [names, ["---"] * len(names), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
