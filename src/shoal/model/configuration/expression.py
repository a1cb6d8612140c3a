"""Regular expressions that users write."""

import re


def compile_expression(text: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return the compiled expression; raise `ValueError` with what is wrong with it."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:  # a{99999999999}, ten thousand brackets
        raise ValueError(f"not a regular expression: {error}") from None
