from shoal.model.configuration.toml_text import parse_toml


def test_a_file_that_begins_as_some_editors_write_it_is_read() -> None:
    assert parse_toml("\ufeff[crawl]\nrate = 3\n") == {"crawl": {"rate": 3}}
