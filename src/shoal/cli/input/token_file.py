"""The file of API tokens: where `shoal serve` and `shoal token` look for it."""

import os
from pathlib import Path
from typing import Annotated

from shoal.cli.input.options import option

VARIABLE = "SHOAL_TOKEN_FILE"
DEFAULT = "shoal-tokens.json"

TokenFile = Annotated[
    str | None,
    option("--token-file", "FILE", "The file of tokens.", default=f"{VARIABLE}, else {DEFAULT}"),
]


def token_path(flag: str | None) -> Path:
    return Path(flag or os.environ.get(VARIABLE) or DEFAULT)
