"""Arguments and variables that are not UTF-8: refused before they reach a store, a URL or a message."""

import os
from collections.abc import Mapping, Sequence

from shoal.model.configuration import ENVIRONMENT
from shoal.model.errors import Misconfigured


def require_utf8(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise `Misconfigured` that says which text has bytes that are not UTF-8, without the text itself.

    Python passes such bytes on as lone surrogates, which cannot be stored or sent.
    """
    for number, argument in enumerate(arguments, 1):
        if not _is_utf8(argument):
            raise Misconfigured(f"argument {number} is not UTF-8: rename the file, or correct the text")
    for name, value in environ.items():
        if name.startswith(ENVIRONMENT) and not _is_utf8(name + value):
            shown = name if _is_utf8(name) else "a variable"
            raise Misconfigured(f"environment: {shown} is not UTF-8")
    try:
        folder = os.getcwd()
    except OSError as error:
        raise Misconfigured(f"the current folder: {error.strerror}") from None
    if not _is_utf8(folder):
        raise Misconfigured("the name of the current folder is not UTF-8: run the command elsewhere")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
