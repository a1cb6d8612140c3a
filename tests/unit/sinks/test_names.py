"""Names of outputs."""

import pytest

from shoal.sinks.names import canonical_name, public_name


def test_databases_that_differ_in_an_option_have_different_names() -> None:
    first, second = (f"postgresql:///shop?host=127.0.0.{host}&port=5432&table=t" for host in (1, 2))
    assert canonical_name(first) == "postgresql:///shop?host=127.0.0.1&port=5432&table=t"
    assert canonical_name(first) != canonical_name(second)


@pytest.mark.parametrize("option", ["password=hunter2", "sslmode=disable", "connect_timeout=3"])
def test_connection_options_are_not_part_of_a_name(option: str) -> None:
    output = "postgresql:///shop?host=/run/postgresql&table=t"
    assert canonical_name(f"{output}&{option}") == canonical_name(output)
    assert "hunter2" not in canonical_name(f"{output}&{option}")


@pytest.mark.parametrize("name", [canonical_name, public_name])
def test_the_name_of_any_address_has_no_secrets(name: object) -> None:
    assert callable(name)
    assert name("mydb://me:hunter2@host:1/shop?index=books&api_key=hunter2") == (
        "mydb://me@host:1/shop?index=books"
    )


def test_a_file_is_shown_as_the_operator_spelled_it() -> None:
    assert public_name("items/../a.jsonl") == "items/../a.jsonl"
