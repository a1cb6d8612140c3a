"""What outputs are called: in checkpoints, in messages, to one another."""

from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

STDOUT = "-"
_DATABASES = ("postgres", "postgresql")
_WHICH = ("host", "port", "dbname", "table")  # options that say which output it is, and not how to get there


def is_database(output: str) -> bool:
    """Say whether an output is a database server's and no file of this machine."""
    return output.partition("://")[0] in _DATABASES and "://" in output


def shown(output: str) -> str:
    """Spell an output as it was given, but for a password."""
    return name_of(output) if is_database(output) else output


def name_of(output: str) -> str:
    """Name an output: the same for the same one, however it was spelled, and never with a password in it."""
    if output == STDOUT:
        return output
    if not is_database(output):
        return str(Path(output).absolute().resolve())
    address = urlsplit(output)
    user, _, place = address.netloc.rpartition("@")
    user = user.partition(":")[0]
    options = [(key, value) for key, value in parse_qsl(address.query) if key in _WHICH]
    netloc = f"{user}@{place}" if user else place
    named = f"postgresql://{netloc}{address.path}"
    return f"{named}?{urlencode(options, safe='/,.')}" if options else named
