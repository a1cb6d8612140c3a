"""Where the crawls of a shared store may write on this machine, and what of it may be read again.

A crawl's record names its outputs and its archive, and every client of the store can write a record.
So the operator of a machine says which folders and servers crawls may use there. Without that, crawls get
the folder in which the process was started and no server: a worker sends no password to a host that its
operator has not named.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shoal.model.configuration.output_patterns import check_path, is_address, is_below, matches_address
from shoal.model.errors import Misconfigured, Rejected
from shoal.sinks.names import canonical_name
from shoal.stores.contract.crawl_record import LOCAL_FOLDER


@dataclass(frozen=True, slots=True)
class Places:
    patterns: tuple[str, ...] = ()  # empty: the folder that the process was started in

    def check(self, place: str, *, what: str = "output") -> None:
        """Raise `Misconfigured`, with the remedy, for a file, folder or address that is not allowed here."""
        if reason := self.refusal(place, what=what):
            raise Misconfigured(reason)

    def refusal(self, place: str, *, what: str = "output") -> str:
        """Return why a file, folder or address of a crawl is not allowed here; empty: it is allowed."""
        try:
            return self._refuse_address(place, what) if is_address(place) else self._refuse_path(place, what)
        except Rejected as error:
            return f"{what} refused: {error}"

    def may_replace(self, output: str) -> bool:
        """Return whether a crawl may start an output again that exists.

        Where the operator has named no places, only what a fleet has written: otherwise a record could delete
        every file of a known format below the current folder.
        """
        return bool(self.patterns) or os.path.exists(f"{output.rstrip('/')}.shoal")

    def read_refusal(self, output: str) -> str:
        """Return why an output must not be opened to count its items; empty: it may.

        Reading a file changes nothing; connecting to a server sends it a password.
        """
        return self.refusal(output) if is_address(output) else ""

    def _refuse_address(self, address: str, what: str) -> str:
        if any(matches_address(pattern, address) for pattern in self.patterns):
            return ""
        name = canonical_name(address)
        shown = name.partition("?")[0]
        return f"{what} {name}: this machine does not allow it: allow it with --allow-output {shown}"

    def _refuse_path(self, path: str, what: str) -> str:
        check_path(path)
        # Symbolic links are followed first: a link inside of a folder may lead out of it.
        target = os.path.realpath(path)
        folders = [os.path.realpath(pattern) for pattern in self._folders]
        if not any(target == folder or is_below(target, folder) for folder in folders):
            where = f"{path}, which leads to {target}" if target != os.path.normpath(path) else path
            return (
                f"{what} {where}: this machine allows only {', '.join(folders) or 'no folder'}:"
                f" allow it with --allow-output {os.path.dirname(target)}"
            )
        own = os.path.realpath(LOCAL_FOLDER)
        if is_below(target, own) and not any(
            is_below(target, f"{own}/{name}") for name in ("items", "archive")
        ):
            return f"{what} {path}: inside of {own}, where only items/ and archive/ are for crawls"
        return ""

    @property
    def _folders(self) -> list[str]:
        if not self.patterns:
            return [str(Path.cwd())]
        return [pattern for pattern in self.patterns if not is_address(pattern)]


NO_SERVERS = Places()
"""Without any pattern: the current folder."""


def pattern_for(place: str) -> str:
    """Return the pattern that allows exactly this output or location."""
    if not is_address(place):
        return str(Path(place).absolute())
    # Not by `geturl`, which drops the `//` of an address without a host.
    scheme, _, rest = place.partition("://")
    host = urlsplit(place).netloc
    user, at, server = host.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}{at}{server}{rest[len(host) :]}"
