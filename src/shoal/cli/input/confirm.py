"""Confirmation before a change that cannot be undone."""

import sys

from shoal.cli.views.output import one_line
from shoal.model.errors import Misconfigured


def require_yes(question: str, *, yes: bool) -> None:
    """Return if `yes` is set or the user confirms on the terminal; raise `Misconfigured` otherwise."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Misconfigured(f"{question} Not a terminal: pass --yes to confirm")
    print(f"{one_line(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Misconfigured("not confirmed: nothing was changed")
