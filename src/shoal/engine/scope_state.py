"""The border of a running crawl: its scope, as it stands."""

from typing import Protocol

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.scope import Scope
from shoal.model.url import host_key


class Children(Protocol):
    """The part of the parse pool that a border needs."""

    def configure(self, scope: Scope) -> None: ...


class ScopeState:
    """What the parse children and redirects keep to; a seed that redirects to another host takes it in."""

    def __init__(self, scope: Scope, children: Children) -> None:
        self._children = children
        self._move(scope)

    @property
    def hosts(self) -> frozenset[str] | None:
        return self._scope.hosts

    def refuse(self, url: str, depth: int) -> FailureClass | None:
        """Judge a redirect's target; one that a seed leads to is where the user wanted to go."""
        if depth == 0:
            self.admit(host_key(url))
        return self._scope.refuse(url, depth)

    def admit(self, *others: str) -> None:
        """Take hosts in."""
        hosts = self._scope.hosts
        if hosts is not None and not hosts.issuperset(others):
            self._move(msgspec.structs.replace(self._scope, hosts=hosts.union(others)))

    def watch(self, pattern: str) -> None:
        """Have every page of a pattern compared with the others."""
        self._move(
            msgspec.structs.replace(self._scope, watched_patterns=self._scope.watched_patterns | {pattern})
        )

    def renew(self) -> None:
        """Make the parse children forget which links they have handed over: some of them were dropped."""
        self._children.configure(self._scope)

    def _move(self, scope: Scope) -> None:
        self._scope = scope
        self._children.configure(scope)
