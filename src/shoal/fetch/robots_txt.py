"""Parse robots.txt by RFC 9309: which rules apply to us, and whether they allow a path. Pure.

The groups that name our product token apply, exactly and in any case, joined; otherwise those for
`*`. The longest matching rule decides, and Allow wins a tie.

A site cannot make this slow. Parsing is linear in the size of the file, of which the first `max_bytes` are
read. Plain prefixes are sorted and found by bisection; patterns are searched piece by piece without
backtracking, and the number of pieces is bounded. Patterns beyond the bound are cut before their first `*`,
which is stricter, never laxer.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field

MAX_BYTES = 500 * 1024  # RFC 9309: a crawler must parse at least this much; the rest is ignored
MAX_PATTERN_PIECES = 3_000  # of all patterns together: at most 20 ms for the longest URL, usually a few µs

_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_LINE = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(r"[a-zA-Z_-]+")
_COMPATIBLE = re.compile(r"^[^(]*\(compatible;\s*([a-zA-Z_-]+)")
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}|[^!#-;=?-Z\[\]_a-z|~%]|%")
_UNRESERVED = re.compile(r"[0-9A-Za-z._~-]")

# Common misspellings: ignoring them would be impolite.
_AGENT = frozenset({"user-agent", "useragent", "user agent"})
_DISALLOW = frozenset({"disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"})
_DELAY = frozenset({"crawl-delay", "crawldelay", "crawl delay"})
_RULE = _DISALLOW | _DELAY | {"allow"}


@dataclass(slots=True)
class RobotsRules:
    """The rules of a robots.txt that apply to us."""

    delay: float | None = None  # seconds between requests
    sitemaps: tuple[str, ...] = ()
    _prefixes: list[str] = field(default_factory=list)  # sorted
    _allowed: list[bool] = field(default_factory=list)  # whether the prefix at that index allows
    _shorter: list[int] = field(default_factory=list)  # index of the longest prefix of that prefix; -1: none
    _patterns: list[tuple[int, bool, list[str], bool]] = field(default_factory=list)  # longest first

    def allows(self, target: str) -> bool:
        """Return whether the path and query of a canonical URL may be fetched."""
        if not self._prefixes and not self._patterns:
            return True
        path = _literal(_normal(target))
        if path == "/robots.txt":
            return True
        length, allowed = self._longest_prefix(path)
        for size, allow, pieces, anchored in self._patterns:
            if size < length or (size == length and allowed):
                break
            if _matches(path, pieces, anchored):
                return allow
        return allowed

    def _longest_prefix(self, path: str) -> tuple[int, bool]:
        # What sorts between a prefix and the path starts with that prefix as well. So the longest one is the
        # last that sorts before the path, or a prefix of that one.
        at = bisect_right(self._prefixes, path) - 1
        while at >= 0 and not path.startswith(self._prefixes[at]):
            at = self._shorter[at]
        return (len(self._prefixes[at]), self._allowed[at]) if at >= 0 else (-1, True)

    @property
    def weight(self) -> int:
        """Approximate memory use in bytes."""
        return 500 + sum(map(len, self._prefixes)) + 100 * len(self._prefixes) + 500 * len(self._patterns)


ALLOW_ALL = RobotsRules()


def product_token(user_agent: str) -> str:
    """Return the product token of a user agent: the first product, or the one after "compatible;"."""
    found = _COMPATIBLE.match(user_agent) or _TOKEN.match(user_agent)
    return found.group(found.lastindex or 0).lower() if found else ""


def parse(body: bytes, token: str, *, max_bytes: int = MAX_BYTES) -> RobotsRules:
    """Return the rules that apply to `token` (lower case), from the first `max_bytes`."""
    text = body[:max_bytes].decode("utf-8", "replace").removeprefix("\ufeff")
    if _PAGE.match(text):
        return ALLOW_ALL  # an HTML page: most likely the site's "not found"
    ours = _Group()
    everyone = _Group()
    sitemaps: list[str] = []
    is_ours = is_everyones = False  # the groups that the current lines belong to
    open_agents = False  # consecutive user-agent lines start one group together
    lines = _LINE.split(text)
    if len(body) >= max_bytes and lines[-1].lstrip().lower().startswith("allow"):
        del lines[-1]  # it may be cut off, and its beginning would allow more
    for line in lines:
        key, value = _record(line.partition("#")[0])
        if key in _AGENT:
            if not open_agents:
                is_ours = is_everyones = False
                open_agents = True
            if token and (name := _TOKEN.match(value)) and name.group().lower() == token:
                is_ours = ours.named = True
            elif value == "*" or value.startswith("* "):
                is_everyones = everyone.named = True
        elif key == "sitemap":
            if len(sitemaps) < 100:
                sitemaps.append(value)
        elif key in _RULE:  # unknown lines do not end a series of user-agent lines
            open_agents = False
            if is_ours:
                ours.add(key, value)
            if is_everyones:
                everyone.add(key, value)
    chosen = ours if ours.named else everyone
    return chosen.rules(tuple(sitemaps))


def _record(line: str) -> tuple[str, str]:
    key, colon, value = line.partition(":")
    if not colon:
        # "Disallow /" without a colon is clear, if there are exactly two words.
        key, value = words if len(words := line.split()) == 2 else ("", "")
    return key.strip().lower(), value.strip()


class _Group:
    """The lines of all groups for one agent."""

    def __init__(self) -> None:
        self.named = False
        self._rules: dict[str, bool] = {}
        self._delay: float | None = None

    def add(self, key: str, value: str) -> None:
        if key in _DELAY:
            self._delay = _seconds(value)
        elif value and (key == "allow" or key in _DISALLOW):
            pattern = _normal(value)
            self._rules[pattern] = self._rules.get(pattern, False) or key == "allow"

    def rules(self, sitemaps: tuple[str, ...]) -> RobotsRules:
        rules = RobotsRules(self._delay, sitemaps)
        prefixes: dict[str, bool] = {}  # prefix -> allowed
        budget = MAX_PATTERN_PIECES
        for pattern, allow in self._rules.items():
            anchored = pattern.endswith("$")
            pieces = [_literal(piece) for piece in re.split(r"\*+", pattern.removesuffix("$"))]
            if len(pieces) == 1 and not anchored:
                prefixes[pieces[0]] = prefixes.get(pieces[0], False) or allow
                continue
            budget -= len(pieces)
            if budget >= 0:
                rules._patterns.append((len(pattern), allow, pieces, anchored))
            elif not allow:
                prefixes.setdefault(pieces[0], False)
        rules._patterns.sort(key=lambda rule: (-rule[0], not rule[1]))
        nested: list[int] = []  # indexes of prefixes, each a prefix of the next
        for at, prefix in enumerate(sorted(prefixes)):
            while nested and not prefix.startswith(rules._prefixes[nested[-1]]):
                nested.pop()
            rules._prefixes.append(prefix)
            rules._allowed.append(prefixes[prefix])
            rules._shorter.append(nested[-1] if nested else -1)
            nested.append(at)
        return rules


def _matches(path: str, pieces: list[str], anchored: bool) -> bool:
    """Match literal pieces with anything between them. Taking the earliest match of each is always right."""
    if not path.startswith(pieces[0]):
        return False
    at = len(pieces[0])
    if len(pieces) == 1:
        return at == len(path)  # no `*`: then it is anchored
    for piece in pieces[1:-1]:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if anchored:
        return len(path) - len(pieces[-1]) >= at and path.endswith(pieces[-1])
    return path.find(pieces[-1], at) >= 0


def _normal(path: str) -> str:
    """Normalise a path or pattern so that equal octets are equal: upper-case escapes, others unescaped."""
    return _ESCAPE.sub(_escape, path)


def _literal(normal: str) -> str:
    """Unescape `$` and `*`, which are special in a rule unless they are escaped.

    A `$` that is not the last character of a rule is literal.
    """
    return normal.replace("%24", "$").replace("%2A", "*")


def _escape(found: re.Match[str]) -> str:
    text = found.group()
    if len(text) == 3:
        char = chr(int(text[1:], 16))
        return char if _UNRESERVED.fullmatch(char) else text.upper()
    return "".join(f"%{octet:02X}" for octet in text.encode("utf-8", "replace"))


def _seconds(value: str) -> float | None:
    """Return a Crawl-delay in seconds; None if the value is not valid."""
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
