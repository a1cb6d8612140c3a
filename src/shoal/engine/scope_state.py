"""The current scope of a running crawl."""

from typing import Protocol

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.scope import Scope
from shoal.model.url import host_key


class Children(Protocol):
    """The part of the parse pool that takes a scope."""

    def configure(self, scope: Scope) -> None: ...


class ScopeState:
    """The scope that parse children and redirects follow; a seed that redirects to another host adds it."""

    def __init__(self, scope: Scope, children: Children) -> None:
        self._children = children
        self._set(scope)

    @property
    def hosts(self) -> frozenset[str] | None:
        return self._scope.hosts

    def refuse(self, url: str, depth: int) -> FailureClass | None:
        """Return the rule that refuses a redirect's target; a seed may redirect to any host."""
        if depth == 0:
            self.admit(host_key(url))
        return self._scope.refuse(url, depth)

    def admit(self, *others: str) -> None:
        """Add hosts to the scope."""
        hosts = self._scope.hosts
        if hosts is not None and not hosts.issuperset(others):
            self._set(msgspec.structs.replace(self._scope, hosts=hosts.union(others)))

    def watch_pattern(self, pattern: str) -> None:
        """Have the parse children hash every page of a URL pattern, to find near-duplicates."""
        watched = self._scope.watched_patterns | {pattern}
        self._set(msgspec.structs.replace(self._scope, watched_patterns=watched))

    def forget_sent_links(self) -> None:
        """Make the parse children send links again that they have sent before: some of them were dropped."""
        self._children.configure(self._scope)

    def _set(self, scope: Scope) -> None:
        self._scope = scope
        self._children.configure(scope)
