"""Values of environment variables that spiders may see, kept out of records and logs. Pure.

A spider may put such a value into the headers of its crawl. The record of a submitted crawl then has a
placeholder instead, and every worker fills in the value of its environment.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings

MIN_CHARS = 6  # a shorter value is no secret, and would be found in harmless text

_PLACEHOLDER = re.compile(r"\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}")

Secrets = Mapping[str, str]
"""Values by the name of their variable."""


def visible_secrets(names: Collection[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that spiders may see and whose values are long enough to be secrets."""
    return {name: value for name in names if len(value := environment.get(name, "")) >= MIN_CHARS}


def hide_secrets(settings: Settings, secrets: Secrets) -> Settings:
    """Return settings in whose headers values are replaced by placeholders."""
    return _map_headers(settings, lambda text: hide_in(text, secrets))


def reveal_secrets(settings: Settings, names: Collection[str], environment: Mapping[str, str]) -> Settings:
    """Return settings with the values of this machine; raise `Misconfigured` if one is not available."""

    def reveal(found: re.Match[str]) -> str:
        name = found[1]
        if name not in names or name not in environment:
            raise Misconfigured(
                f"the crawl needs the environment variable {name}: set it where this worker runs, and add it"
                f" to parse.environment"
            )
        return environment[name]

    return _map_headers(settings, lambda text: _PLACEHOLDER.sub(reveal, text))


def refuse_stored_secrets(packed: bytes, secrets: Secrets) -> None:
    """Raise `Misconfigured` if a value would be stored with the crawl."""
    for name, value in secrets.items():
        if value.encode("utf-8", "surrogateescape") in packed:
            raise Misconfigured(
                f"the value of {name} would be stored with the crawl, where every worker can read it: pass it"
                " in headers, or in the Request of a handler"
            )


def hide_in(text: str, secrets: Secrets) -> str:
    """Return text in which values are replaced by the placeholders of their variables."""
    for name, value in secrets.items():
        text = text.replace(value, f"${{secret:{name}}}")
    return text


def _map_headers(settings: Settings, change: Callable[[str], str]) -> Settings:
    crawl = replace(
        settings.crawl, headers={name: change(value) for name, value in settings.crawl.headers.items()}
    )
    hosts = {
        host: replace(block, headers={name: change(value) for name, value in block.headers.items()})
        for host, block in settings.hosts.items()
    }
    return replace(settings, crawl=crawl, hosts=hosts)
