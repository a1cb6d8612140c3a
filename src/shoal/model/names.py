"""Names of crawls and spiders: part of file names, log lines and screens, so only printable text."""

from shoal.model.errors import Misconfigured

MAX_NAME_CHARS = 200


def name_fault(name: object) -> str:
    """Return what is wrong with the name of a crawl or spider; empty: nothing."""
    if not isinstance(name, str) or not name.strip():
        return "must be a non-empty string"
    if len(name) > MAX_NAME_CHARS:
        return f"is longer than {MAX_NAME_CHARS} characters"
    if not name.isprintable():  # control characters, direction overrides, zero-width characters, surrogates
        return "has characters that cannot be printed"
    return ""


def check_name(name: str, what: str) -> str:
    """Return a name; raise `Misconfigured` that says what is wrong with it, without the name itself."""
    if fault := name_fault(name):
        raise Misconfigured(f"{what} {fault}: choose another with --crawl NAME")
    return name
