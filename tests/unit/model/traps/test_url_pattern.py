"""Patterns: which URLs count as alike."""

from shoal.model.traps.url_pattern import pattern_of


def test_urls_that_differ_in_numbers_and_query_values_share_a_pattern() -> None:
    assert pattern_of("https://a.test/p/12/x-7?page=3&q=z") == pattern_of("https://a.test/p/9/x-1?page=4&q=y")
    assert pattern_of("https://a.test/p/12?page=3") != pattern_of("https://a.test/p/12?sort=3")
    assert pattern_of("http://a.test/p/1") == "a.test/p/0"
    assert pattern_of("https://a1.test/p/1") != pattern_of("https://a2.test/p/1")
