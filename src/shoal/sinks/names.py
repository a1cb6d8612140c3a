"""Names of outputs: in checkpoints, in the store and in messages, never with a password."""

import re
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

STDOUT = "-"
PART = re.compile(r"part-(\d{5,9})\.parquet")  # a file of an output that is a folder
HIDDEN_PART = re.compile(r"\.rows-\d{5,9}\.jsonl|\.draft\.parquet")  # what it is made from
_ALIASES = {"postgres": "postgresql"}
# The options of an address that say which output it is. All others say how to reach it and may be secret.
_POSTGRES_OPTIONS = frozenset({"host", "port", "dbname", "table"})
_OPTIONS = _POSTGRES_OPTIONS | {"bucket", "collection", "database", "index", "prefix", "schema", "topic"}


def is_address(output: str) -> bool:
    """Return whether an output is an address (`scheme://...`) and not a path."""
    return "://" in output


def is_part(name: str) -> bool:
    """Return whether a file in an output that is a folder is one that a sink writes there."""
    return bool(PART.fullmatch(name) or HIDDEN_PART.fullmatch(name))


def parts_folder(path: Path) -> Path:
    """Return the folder with the rows of a Parquet file whose run has not ended."""
    return path.with_name(f"{path.name}.parts")


def public_name(output: str) -> str:
    """Return an output as the operator spelled it, without passwords and connection options."""
    return canonical_name(output) if is_address(output) else output


def keep_slash(output: str, path: str) -> str:
    """Return a path with a slash at its end if `output` has one: it says that a folder is meant."""
    return f"{path}/" if output.endswith("/") and not path.endswith("/") else path


def canonical_name(output: str) -> str:
    """Return the name of an output: the same for every spelling of it, and without passwords."""
    if output == STDOUT:
        return output
    if not is_address(output):
        return keep_slash(output, str(Path(output).absolute().resolve()))
    address = urlsplit(output)
    scheme = _ALIASES.get(address.scheme, address.scheme)
    kept = _POSTGRES_OPTIONS if scheme == "postgresql" else _OPTIONS
    user, _, place = address.netloc.rpartition("@")
    user = user.partition(":")[0]
    options = [(key, value) for key, value in parse_qsl(address.query) if key in kept]
    netloc = f"{user}@{place}" if user else place
    named = f"{scheme}://{netloc}{address.path}"
    return f"{named}?{urlencode(options, safe='/,.')}" if options else named
