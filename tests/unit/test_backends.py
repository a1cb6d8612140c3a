"""Backends by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.plugins import install_plugin

from shoal import backends
from shoal.backends import Backends, Builtin
from shoal.model.errors import Misconfigured

GROUP = "shoal.tests"


@pytest.fixture(autouse=True)
def fresh_metadata() -> Iterator[None]:
    backends._installed.cache_clear()
    yield
    backends._installed.cache_clear()


def fruits() -> Backends[str]:
    return Backends(
        GROUP,
        str,
        {
            "digits": Builtin("string:digits"),
            "missing": Builtin("no_such_package.module:NAME", extra="fruit"),
            "broken": Builtin("no_such_package.module:NAME"),
        },
    )


def install(folder: Path, package: str, targets: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    module = package.replace("-", "_")
    site = install_plugin(
        folder, package, {f"{module}.py": f"NAME = {package!r}\nNUMBER = 1\n"}, {GROUP: targets}
    )
    monkeypatch.syspath_prepend(str(site))
    backends._installed.cache_clear()


def test_a_builtin_is_imported_when_it_is_loaded() -> None:
    assert fruits().find("digits") == "digits"
    assert fruits().load("digits", subject="fruit") == "0123456789"


def test_the_error_for_a_missing_package_names_the_extra() -> None:
    with pytest.raises(Misconfigured, match=r"^fruit x: run  pip install 'shoal\[fruit\]'  first$"):
        fruits().load("missing", subject="fruit x")


def test_a_builtin_without_an_extra_must_be_importable() -> None:
    with pytest.raises(ImportError):
        fruits().load("broken", subject="fruit")


def test_an_unknown_name_is_not_found() -> None:
    assert fruits().find("pear", "plum") is None
    assert fruits().names() == ["digits", "missing", "broken"]


def test_an_installed_package_adds_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "added-pear", {"pear": "added_pear:NAME"}, monkeypatch)

    assert fruits().find("plum", "pear") == "pear"
    assert fruits().names()[-1] == "pear"
    assert fruits().load("pear", subject="fruit") == "added-pear"


def test_an_installed_package_cannot_replace_a_builtin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "other-digits", {"digits": "other_digits:NAME"}, monkeypatch)

    assert fruits().load("digits", subject="fruit") == "0123456789"
    assert fruits().names().count("digits") == 1


def test_a_name_of_two_packages_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "first-pear", {"pear": "first_pear:NAME"}, monkeypatch)
    install(tmp_path, "second-pear", {"pear": "second_pear:NAME"}, monkeypatch)

    with pytest.raises(Misconfigured, match="several packages provide 'pear': first-pear, second-pear"):
        fruits().load("pear", subject="fruit")


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "bad-pear", {"pear": "bad_pear:NO_SUCH_NAME"}, monkeypatch)

    with pytest.raises(Misconfigured, match="fruit: the package bad-pear cannot be loaded: AttributeError"):
        fruits().load("pear", subject="fruit")


def test_an_entry_point_of_the_wrong_type_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "number-pear", {"pear": "number_pear:NUMBER"}, monkeypatch)

    with pytest.raises(
        Misconfigured, match=r"the entry point 'pear' in 'shoal.tests' must be a str, not a int"
    ):
        fruits().load("pear", subject="fruit")
