"""What outputs are called."""

import pytest

from shoal.sinks.names import name_of


def test_a_database_that_is_named_by_options_is_told_from_others() -> None:
    first, second = (f"postgresql:///shop?host=127.0.0.{host}&port=5432&table=t" for host in (1, 2))
    assert name_of(first) == "postgresql:///shop?host=127.0.0.1&port=5432&table=t"
    assert name_of(first) != name_of(second)


@pytest.mark.parametrize("way", ["password=hunter2", "sslmode=disable", "connect_timeout=3"])
def test_the_way_to_a_database_is_no_part_of_its_name(way: str) -> None:
    output = "postgresql:///shop?host=/run/postgresql&table=t"
    assert name_of(f"{output}&{way}") == name_of(output)
    assert "hunter2" not in name_of(f"{output}&{way}")
