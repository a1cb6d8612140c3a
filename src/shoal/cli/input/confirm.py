"""Asking before something is changed that cannot be changed back."""

import sys

from shoal.model.errors import Misconfigured


def require_yes(question: str, *, yes: bool) -> None:
    """Ask on the terminal; where there is none, only `--yes` will do. Raises unless the answer is yes."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Misconfigured(f"{question} Nobody is there to be asked: say --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Misconfigured("not confirmed: nothing was changed")
