"""Which cases are crawled together, what is tested elsewhere, and what is not there yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.hostile import beyond, http, network, pages, robots, sitemaps, tls, urls
from tests.hostile.case import Case
from tests.hostile.crawling import USUAL, Terms


@dataclass(frozen=True, slots=True)
class Group:
    cases: Sequence[Case]
    terms: Terms = USUAL

    @property
    def cut(self) -> list[Case]:
        return [case for case in self.cases if not case.slow]


GROUPS: Mapping[str, Group] = {
    "web": Group([*network.CASES, *http.CASES, *tls.CASES, *urls.CASES, *sitemaps.CASES]),
    "beyond": Group(beyond.CASES),
    "pages": Group([*pages.CASES, *beyond.PAGES]),
    "robots": Group([*robots.CASES, *beyond.ROBOTS], Terms(robots=True)),
    "crowd": Group(network.CROWDED, Terms(concurrency=1000, first_byte=1.0)),
    "crashes": Group([pages.crashing(3000)], Terms(budget=4000)),
}


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A kind of attack with a separate test."""

    row: str
    what: str
    ends: str
    test: str  # file::name


ELSEWHERE = [
    Elsewhere(
        "N11",
        "100,000 names, each with more addresses than are kept",
        "no more than 32 MiB of answers are remembered",
        "tests/unit/fetch/http/test_dns.py::test_N11_the_answers_for_a_hundred_thousand_hosts_stay_small",
    ),
    Elsewhere(
        "C05",
        "a cookie file that is missing, empty, of 1 GiB, or no file",
        "refused with the reason; one that everybody can read: a warning with the remedy",
        "tests/unit/fetch/test_given_cookies.py::test_C05_a_file_that_is_not_a_cookie_file_is_refused",
    ),
    Elsewhere(
        "C06",
        "one bad seed among a thousand",
        "named, nothing touched",
        "tests/e2e/test_bad_input.py::test_one_bad_seed_among_many_is_named_and_nothing_is_touched",
    ),
    Elsewhere(
        "C07",
        "a spider that cannot be loaded",
        "refused with file and line, nothing touched",
        "tests/e2e/test_bad_input.py::test_a_spider_that_cannot_be_loaded_is_named_with_the_line",
    ),
    Elsewhere(
        "C08",
        "a crawl that resumes with a changed spider",
        "every page knows the version that parsed it",
        "tests/e2e/test_cli_trace.py::test_C08_a_page_knows_the_version_of_the_spider_that_parsed_it",
    ),
    Elsewhere(
        "C09",
        "places that cannot be written",
        "refused before anything is fetched",
        "tests/e2e/test_bad_input.py::test_an_unwritable_output_is_reported_before_anything_is_fetched",
    ),
    Elsewhere(
        "L01",
        "signals, once and twice",
        "drains, or stops at once; nothing lost",
        "tests/e2e/test_cli_signals.py::test_a_second_signal_stops_at_once_and_still_loses_nothing",
    ),
    Elsewhere(
        "L02",
        "a full disk",
        "ends with code 4, nothing lost",
        "tests/e2e/test_bad_input.py::test_a_full_disk_ends_the_crawl_and_loses_nothing",
    ),
    Elsewhere(
        "L03",
        "two crawls on one store",
        "the second is refused",
        "tests/e2e/test_bad_input.py::test_two_processes_cannot_crawl_into_one_store",
    ),
    Elsewhere(
        "L06",
        "no terminal, another locale, another time zone",
        "the same bytes",
        "tests/e2e/test_cli_crawl.py::test_locale_and_time_zone_do_not_change_the_items",
    ),
    Elsewhere(
        "L07",
        "`dlq replay` and `dlq purge` of everything",
        "asks, or needs `--yes`",
        "tests/e2e/test_cli_dlq.py::test_a_letter_is_shown_exported_and_deleted",
    ),
    Elsewhere(
        "E02",
        "quotes, commas, line breaks and NUL in fields",
        "read back as they were",
        "src/shoal/testing/contracts/sink.py::test_odd_text_is_stored",
    ),
    Elsewhere(
        "E03",
        "a new field in the middle of a CSV file",
        "a new file, no shifted column",
        "tests/unit/sinks/test_csv.py::test_a_new_field_starts_a_file_with_a_wider_header",
    ),
    Elsewhere(
        "E06",
        "a flipped bit in the archive",
        "noticed, never parsed",
        "tests/unit/archive/test_reader.py::test_every_flipped_bit_is_detected",
    ),
    Elsewhere(
        "E08",
        "PostgreSQL: NUL, bytes that are no text, markup too deep, deadlocks, serialization failures",
        "spelled, rejected with the reason, or tried again; the other items are stored",
        "tests/integration/sinks/test_postgres.py::test_a_row_that_cannot_be_stored_does_not_block_the_others",
    ),
]
