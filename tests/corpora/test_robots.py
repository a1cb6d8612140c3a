"""robots.txt: Google's own tests, and 4,231 files of real sites read by two parsers.

What the two do not agree on is triaged in `docs/decisions/0005-robots.md`.
"""

import re
import unittest
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from protego import Protego
from tests.corpora.packages import GPYROBOTSTXT, PROTEGO, files
from tests.corpora.trees import WHOLE

from shoal.fetch.robots_txt import parse

AGENTS = ("shoal", "googlebot", "bingbot", "gptbot")
PATHS = ("/", "/index.html", "/search?q=a", "/admin/", "/a/b/c.html?x=1&y=2", "/cgi-bin/x", "/images/a.gif")
MOST_PATHS = 60  # asked of one file
SHARE = 1 if WHOLE else 16  # of the files, one in so many is read by both parsers
_RULE = re.compile(r"(?im)^[ \t]*(?:dis)?allow[ \t]*:[ \t]*(/[!-\"$-~]*)")

GOOGLES_OWN = {
    "test_GoogleOnly_IndexHTMLisDirectory": "an Allow of index.html allows its folder: not in the standard",
    "test_GoogleOnly_LineTooLong": "lines are cut after 16 KB: not in the standard",
    "test_ID_Encoding": "escaped letters differ from letters: the standard has them unescaped first",
    "test_ID_VerifyValidUserAgentsToObey": "asks for a function that we have no use for",
}


class Matcher:
    """Our parser in the place of Google's."""

    def one_agent_allowed_by_robots(self, text: str, agent: str, url: str) -> bool:
        parts = urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        return parse(text.encode(), agent.lower()).allows((parts.path or "/") + query)


def test_googles_tests_pass_but_for_its_own_additions() -> None:
    [(_, source)] = files(GPYROBOTSTXT, "test/test_google_only_system.py")
    names: dict[str, Any] = {"RobotsMatcher": Matcher, "__name__": "google"}
    exec(re.sub(rb"(?m)^from gpyrobotstxt.*$", b"", source), names)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(names["TestGoogleOnlySystem"])
    result = unittest.TestResult()
    suite.run(result)

    failed = {test.id().rpartition(".")[2] for test, _ in (*result.failures, *result.errors)}
    assert failed == set(GOOGLES_OWN)
    assert result.testsRun - len(failed) == 12


def test_no_real_file_is_too_odd_to_be_read() -> None:
    read = 0
    for _, body in files(PROTEGO, "tests/test_data/"):
        rules = parse(body, "shoal")
        assert rules.allows("/robots.txt")
        assert isinstance(rules.allows("/index.html?a=b"), bool)
        read += 1
    assert read == 4231


def test_two_parsers_agree_but_for_known_reasons() -> None:
    asked = 0
    causes: Counter[str] = Counter()
    for name, body in list(files(PROTEGO, "tests/test_data/"))[::SHARE]:
        text = body.decode("utf-8-sig", "replace")  # protego leaves a byte order mark to its caller
        theirs = Protego.parse(text)
        for agent in AGENTS:
            ours = parse(body, agent)
            for path in paths(text):
                asked += 1
                if ours.allows(path) != theirs.can_fetch(f"http://{name}{path}", agent):
                    causes[cause(text, agent, path) or f"unknown: {name} {agent} {path}"] += 1
    print(f"{asked:,} verdicts on robots.txt, {causes.total()} disagreements:", dict(causes))
    assert not [found for found in causes if found.startswith("unknown")]
    assert causes.total() <= asked // 1000


def paths(text: str) -> list[str]:
    """Choose what to ask of a file: some paths that any site may have, and what its own rules are about."""
    asked = dict.fromkeys(PATHS)
    for rule in _RULE.findall(text):
        path = rule.rstrip("$").replace("*", "xyz")
        asked |= dict.fromkeys((path, f"{path}z"))
    return list(asked)[:MOST_PATHS]


def cause(text: str, agent: str, path: str) -> str:
    """Name what protego holds and we do not, where that explains a disagreement; empty: it is not known."""
    agents = {found.lower() for found in re.findall(r"(?im)^[ \t]*user-agent[ \t]*:[ \t]*([^\s#]+)", text)}
    if re.search(rf"(?im)^allow[ \t]*:[ \t]*{re.escape(path)}index\.html?", text):
        return "an Allow of index.html allows its folder"
    if any(found.startswith(f"{agent}/") for found in agents):
        return "a version behind an agent's name makes it another agent"
    if any(agent != found and agent.startswith(found) for found in agents):
        return "the beginning of an agent's name is enough"
    if re.search(r"(?im)^disallow[ \t]*:.*%(?:26|2f|3d|3f)", text) and re.search("[&/=?]", path):
        return "an escaped delimiter in a rule means the delimiter"
    if re.search(rf"(?im)^user-agent[ \t]*:[ \t]*{agent}\s+(?:#.*\s+)*noindex", text):
        return "an unknown line ends the head of a group"
    return ""
