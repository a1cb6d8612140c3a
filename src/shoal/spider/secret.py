"""`shoal.secret`: read an environment variable that the operator lets spiders see."""

import os

from shoal.model.errors import Misconfigured


def secret(name: str) -> str:
    """Return the value of an environment variable, such as a key of an API.

    A spider sees only variables that the operator lists in `parse.environment`. In a fleet each worker
    supplies its own value. Values are not stored with the crawl, and are replaced in logs. Raises
    `Misconfigured` if the variable is not visible.
    """
    value = os.environ.get(name)
    if value is None:
        raise Misconfigured(
            f"the environment variable {name} is not visible to the spider: set it where the crawl runs, and"
            f" allow it in shoal.toml, [parse] environment = [{name!r}], or SHOAL_PARSE_ENVIRONMENT={name}"
        )
    return value
