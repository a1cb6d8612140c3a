"""Which cases are crawled together, what is tested elsewhere, and what is not there yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.hostile import beyond, browser, exits, http, network, pages, robots, sitemaps, tls, urls
from tests.hostile.case import Case
from tests.hostile.crawling import BROWSER_MEMORY, USUAL, Terms


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
    # When idle there is no browser: it needs some 200 MiB, and each of four pages at once as much as a page may.
    "browser": Group(
        browser.CASES, Terms(renders=True, room=640 << 20, child_room=BROWSER_MEMORY + (64 << 20))
    ),
    "exits": Group(exits.CASES, Terms(exits=True)),
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
        "B04",
        "a name that leads to a forbidden address once the page has loaded",
        "the egress resolves it, and refuses it",
        "tests/integration/fetch/test_browser_limits.py::test_B04_a_name_that_changes_after_the_page_is_refused",
    ),
    Elsewhere(
        "B06",
        "the renderer or the whole browser is killed",
        "the page is tried again, no process is left",
        "tests/integration/fetch/test_browser_limits.py::"
        "test_a_browser_that_ends_gives_its_pages_back_and_leaves_no_process",
    ),
    Elsewhere(
        "N11",
        "100,000 names, each with more addresses than are kept",
        "no more than 32 MiB of answers are remembered",
        "tests/unit/fetch/http/test_dns.py::test_N11_the_answers_for_a_hundred_thousand_hosts_stay_small",
    ),
    Elsewhere(
        "X11",
        "line breaks in the user name or the password of an exit",
        "refused, without the text",
        "tests/unit/model/exits/test_exit.py::test_a_line_that_cannot_be_used_is_rejected_without_its_text",
    ),
    Elsewhere(
        "X10",
        "a name that means our own network, given to an exit that resolves it",
        "`refused`",
        "tests/integration/fetch/test_exits.py::test_an_exit_outside_gets_the_name_and_nothing_is_looked_up_here",
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
        "one crawl, started twice at once",
        "the second is refused",
        "tests/e2e/test_bad_input.py::test_two_processes_cannot_run_one_crawl",
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
        "the same file with a wider header, no shifted column",
        "tests/unit/sinks/test_csv.py::test_a_new_field_rewrites_the_file_at_once",
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
