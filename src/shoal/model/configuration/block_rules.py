"""The user's own rules for blocks (`blocked_if`): conditions on status, header, text and elements.

A rule is one line: `text: Access denied`, or several conditions that all have to hold,
`status: 200 and selector: form#captcha`. Elements can be looked for only where the page is parsed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shoal.model.errors import Rejected
from shoal.model.page import Response
from shoal.model.settings import Settings
from shoal.model.url import host_key

_KINDS = "status, header, text and selector"
_AND = re.compile(r"\s+and\s+(?=(?:status|header|text|selector)\s*:)")
_CONDITION = re.compile(r"(status|header|text|selector)\s*:\s*(\S.*)")


@dataclass(frozen=True, slots=True)
class BlockRule:
    source: str  # as it was written
    statuses: frozenset[int] = frozenset()  # empty: any
    headers: tuple[tuple[str, str], ...] = ()  # name, and a part of its value, both in lower case
    texts: tuple[bytes, ...] = ()
    selectors: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.source

    def may_match(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bool:
        """Return whether every condition holds that needs no parsed page."""
        if self.statuses and status not in self.statuses:
            return False
        for name, part in self.headers:
            if not any(one == name and part in value.lower() for one, value in headers):
                return False
        return all(text in body for text in self.texts)


def block_rule(text: str) -> BlockRule:
    """Parse a rule; raise `Rejected` if it is not one."""
    source = text.strip()
    statuses: set[int] = set()
    headers: list[tuple[str, str]] = []
    texts: list[bytes] = []
    selectors: list[str] = []
    for condition in _AND.split(source):
        found = _CONDITION.fullmatch(condition)
        if found is None or "\n" in condition:
            raise Rejected(
                f"{text[:80]!r} is not a rule: use conditions on {_KINDS},"
                " as in 'status: 200 and text: denied'"
            )
        kind, value = found.groups()
        match kind:
            case "status":
                if not re.fullmatch(r"[1-5]\d\d", value):
                    raise Rejected(f"{text[:80]!r}: a status has three digits, as in 'status: 403'")
                statuses.add(int(value))
            case "header":
                name, _, part = value.partition(":")
                headers.append((name.strip().lower(), part.strip().lower()))
            case "text":
                texts.append(value.encode())
            case _:
                selectors.append(value)
    if len(statuses) > 1:
        raise Rejected(f"{text[:80]!r}: a response has one status; write one rule for each")
    return BlockRule(source, frozenset(statuses), tuple(headers), tuple(texts), tuple(selectors))


class BlockRules:
    """The rules of a crawl, and those of single hosts in addition."""

    def __init__(self, crawl: Iterable[str] = (), hosts: Mapping[str, Iterable[str]] | None = None) -> None:
        self._crawl = tuple(map(block_rule, crawl))
        own = {host: tuple(map(block_rule, rules)) for host, rules in (hosts or {}).items()}
        self._hosts = {host: rules for host, rules in own.items() if rules}
        every = [*self._crawl, *(rule for rules in self._hosts.values() for rule in rules)]
        self.selectors = frozenset(selector for rule in every for selector in rule.selectors)
        self._any = bool(every)

    def _of(self, url: str) -> tuple[BlockRule, ...]:
        return self._crawl + self._hosts.get(host_key(url), ()) if self._hosts else self._crawl

    def find(self, response: Response) -> BlockRule | None:
        """Return the rule that a response meets, of those that need no parsed page."""
        if not self._any:
            return None
        for rule in self._of(response.url):
            if not rule.selectors and rule.may_match(response.status, response.headers, response.body):
                return rule
        return None

    def to_check(
        self, url: str, status: int, headers: Sequence[tuple[str, str]], body: bytes
    ) -> tuple[tuple[str, ...], ...]:
        """Return the selectors of each rule that a page meets if it has an element for all of them."""
        if not self.selectors:
            return ()
        return tuple(
            rule.selectors
            for rule in self._of(url)
            if rule.selectors and rule.may_match(status, headers, body)
        )


def block_rules(settings: Settings) -> BlockRules:
    """Return the user's rules for blocks, of the crawl and of single hosts."""
    return BlockRules(
        settings.crawl.blocked_if, {host: block.blocked_if for host, block in settings.hosts.items()}
    )
