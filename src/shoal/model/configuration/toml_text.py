"""Parse TOML from a file of the user, with every fault of the text as one kind of error."""

import re
import tomllib
from typing import Any

from shoal.model.errors import Rejected

# The parser takes time quadratic in the parts of a dotted key.
_LONG_KEY = re.compile(r"[\w\"'-](?:[ \t]*\.[ \t]*[\w\"'-]+){64}")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tree; raise `Rejected` with the reason and, where it is known, the place."""
    if _LONG_KEY.search(text):
        raise Rejected("not valid TOML: a key has more than 64 parts")
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # some editors begin a file with it
    except tomllib.TOMLDecodeError as error:
        raise Rejected(f"not valid TOML: {error}") from None
    except RecursionError:
        raise Rejected("not valid TOML: tables or lists are nested too deep") from None
    except ValueError:  # int() of a text with thousands of digits
        raise Rejected("not valid TOML: a number has too many digits") from None
