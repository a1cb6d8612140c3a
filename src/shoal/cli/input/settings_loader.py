"""Settings in layers: defaults, then `shoal.toml`, then `SHOAL_*` variables, then flags."""

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from shoal.model.configuration.configure import configure, from_environment, from_tree, parse_setting
from shoal.model.configuration.toml_text import parse_toml
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.exits.exit import has_password
from shoal.model.settings import Settings
from shoal.services.store_address import check_address

log = logging.getLogger(__name__)

FILE = "shoal.toml"
SWITCHES = frozenset({"SHOAL_DEBUG"})  # variables that are not settings
_MAX_FILE_BYTES = 1 << 20


class LoadedSettings(msgspec.Struct, frozen=True):
    settings: Settings
    overrides: frozenset[str]  # settings of [crawl] that the user has set: they beat the spider's
    typed: frozenset[str] = frozenset()  # of those, the ones that a flag has set


def load_settings(flags: Mapping[str, object], *, config: str | None = None) -> LoadedSettings:
    """Merge the layers of this process; raise `Misconfigured` for the first value that is not valid."""
    if isinstance(exits := flags.get("proxies.list"), list) and any(map(has_password, exits)):
        log.warning("proxies.password_visible", extra={"instead": "--proxy FILE, or SHOAL_PROXY_LIST"})
    return merge_layers(flags, environ=os.environ, file=_find(config))


def chosen_store(flag: str | None, *, config: str | None) -> str:
    """Return the address of the store, for a command that needs no other setting."""
    return load_settings({} if flag is None else {"store": flag}, config=config).settings.store


def merge_layers(
    flags: Mapping[str, object], *, environ: Mapping[str, str], file: Path | None
) -> LoadedSettings:
    """Build the settings; flags beat the environment, which beats the file."""
    given = [
        *(from_tree(_read(file), file.name) if file else ()),
        *from_environment(environ, besides=SWITCHES),
        *(parse_setting(key, value, flag_of(key)) for key, value in flags.items()),
    ]
    crawl = (one.key.partition("crawl.")[2] for one in given)
    settings = configure(given)
    check_address(settings.store)
    typed = (key.partition("crawl.")[2] for key in flags)
    return LoadedSettings(
        settings, frozenset(name for name in crawl if name), frozenset(name for name in typed if name)
    )


def flag_of(key: str) -> str:
    """Return the flag that sets a key: `crawl.max_pages` is `--max-pages`."""
    if key == "worker.allow_outputs":
        return "--allow-output"  # repeatable: each names one
    if key == "proxies.list":
        return "--proxy"
    return "--" + key.rpartition(".")[2].replace("_", "-")


def _find(config: str | None) -> Path | None:
    if config is not None:
        # Not any file that happens to be valid TOML: items of a crawl can be made to look like settings.
        if not config.endswith(".toml"):
            raise Misconfigured(f"--config {config}: the name of a settings file ends with .toml")
        return Path(config)
    return Path(FILE) if Path(FILE).exists() else None


def _read(file: Path) -> dict[str, object]:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise Misconfigured(f"{file}: cannot be read: not a file")
        if found.st_size > _MAX_FILE_BYTES:
            raise Misconfigured(f"{file}: larger than {_MAX_FILE_BYTES >> 20} MiB: not a settings file")
        return parse_toml(file.read_text("utf-8"))
    except OSError as error:
        raise Misconfigured(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Misconfigured(f"{file}: not valid TOML: it is not UTF-8") from None
    except ValueError:  # a NUL in the name
        raise Misconfigured("--config: not the name of a file") from None
    except Rejected as error:
        raise Misconfigured(f"{file}: {error}") from None
