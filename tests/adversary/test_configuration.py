"""Settings, variables and arguments that are mistakes or attacks: each is one line and exit code 1, soon and in little memory."""

import random
import resource
import string
import time
from pathlib import Path

import pytest
from tests.adversary.size import sized

from shoal.cli.input.settings_loader import load_settings, merge_layers
from shoal.cli.main import run
from shoal.model.configuration.configure import TYPES, VARIABLES
from shoal.model.configuration.setting_ranges import RANGES
from shoal.model.errors import Misconfigured
from shoal.spider.toml_spider import toml_spider

DIGITS = "9" * 5_000
FILES = {
    "a number of 5,000 digits": f"[crawl]\nrate = {DIGITS}",
    "a float of 5,000 digits": f"[crawl]\nrate = {DIGITS}.0",
    "an exponent": "[crawl]\nrate = 1e999",
    "not a number": "[crawl]\nrate = nan",
    "lists in lists": "store = " + "[" * 50_000,
    "tables in tables": "store = " + "{a=" * 50_000,
    "a key of many parts": ".".join("a" * 50_000) + " = 1",
    "a table of many parts": "[" + ".".join("a" * 50_000) + "]",
    "a quoted key of many parts": ".".join(['"a"'] * 50_000) + " = 1",
    "a secret as a table": "[store]\nx = 'hunter2'",
    "a secret as a list": "store = ['hunter2']",
    "a secret in a header": "[crawl]\nheaders = 'hunter2'",
    "a secret as the name of a header": "[crawl.headers]\n'hunter2 hunter2' = 'x'",
    "a cookie as a file": "[crawl]\ncookie_file = ['hunter2']",
    "a pattern with a password": "[worker]\nallow_outputs = ['postgresql://u:hunter2@db/x']",
    "a pattern without a host": "[worker]\nallow_outputs = ['postgresql:///x']",
    "a pattern for every host": "[worker]\nallow_outputs = ['postgresql://*/x']",
    "a range of everything": "[fetch]\nallow_ranges = ['0.0.0.0/0']",
    "a range of link-local addresses": "[fetch]\nallow_ranges = ['169.254.0.0/16']",
    "a range of many digits": f"[fetch]\nallow_ranges = ['{DIGITS}/8']",
    "a range that is a number": "[fetch]\nallow_ranges = 10",
    "a host of many letters": f"[hosts.'{'a' * 50_000}']\nrate = 1",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_an_absurd_file_is_refused_soon(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shoal.toml"
    file.write_text(text)
    began = time.monotonic()
    with pytest.raises(Misconfigured) as caught:
        merge_layers({}, environ={}, file=file)
    assert time.monotonic() - began < 10
    assert len(str(caught.value)) < 2_000
    assert "hunter2" not in str(caught.value)
    with pytest.raises(Misconfigured):
        toml_spider(text, "a.toml")


@pytest.mark.parametrize("key", [key for key, kind in TYPES.items() if key in RANGES])
def test_every_number_has_a_range_and_its_ends_work(key: str) -> None:
    range_ = RANGES[key]
    whole = TYPES[key] is int
    for end in (range_.low, range_.high):
        settings = load_settings({key: str(int(end) if whole else end)}).settings
        value = getattr(getattr(settings, key.partition(".")[0]), key.partition(".")[2])
        assert value == end
    for wrong in (range_.high + 1, -1, "1e400", "nan", "-inf", DIGITS, "", "0x10", "１２"):
        if wrong != "１２":  # digits of another script are digits
            with pytest.raises(Misconfigured):
                load_settings({key: str(wrong)})


def test_no_number_is_without_a_range() -> None:
    numbers = {
        key
        for key, kind in TYPES.items()
        if str(kind).startswith(("<class 'int'", "<class 'float'", "int |", "float |"))
    }
    assert numbers == RANGES.keys()


def junk(random_: random.Random) -> str:
    kinds = [
        lambda: random_.choice(
            ["", "-", "--", "\x1b[2J", "\u202e", DIGITS, "1e999", "nan", "null", "../..", "%00"]
        ),
        lambda: "".join(random_.choices(string.printable, k=random_.randint(0, 40))),
        lambda: "".join(chr(random_.randrange(1, 0xD800)) for _ in range(random_.randint(0, 20))),
        lambda: random_.choice(["[", "{", "a.", "'", '"', "\n", "=", "[["]) * random_.randint(1, 3_000),
    ]
    return str(random_.choice(kinds)())


def test_no_settings_raise_anything_but_one_complaint(tmp_path: Path) -> None:
    random_, file = random.Random(7), tmp_path / "shoal.toml"
    refused, rounds, began = 0, sized(600, full=30_000), time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    keys = [*TYPES, "unknown.key", "crawl"]
    for _ in range(rounds):
        table, _, name = random_.choice(keys).rpartition(".")
        value = junk(random_)
        text = f"[{table}]\n{name} = {value}" if random_.random() < 0.5 else value
        file.write_text(text, "utf-8", "replace")
        environ = {random_.choice([*VARIABLES.values()]): junk(random_).replace("\0", "")}
        flags = {random_.choice(list(TYPES)): junk(random_)}
        try:
            merge_layers(flags, environ=environ, file=file)
        except Misconfigured as error:
            refused += 1
            complaint = str(error)
            if len(complaint) > 10_000:
                pytest.fail(complaint[:500])
    assert refused > rounds / 2
    assert time.monotonic() - began < 30 + rounds / 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


COMMANDS = [
    "crawl",
    "submit",
    "fleet",
    "status",
    "top",
    "verify",
    "trace",
    "dlq list",
    "host show",
    "plan",
    "export",
]


def test_no_arguments_raise_anything_but_one_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    random_ = random.Random(11)
    options = [
        "--store",
        "--rate",
        "--limit",
        "--pages",
        "--crawl",
        "--config",
        "--item",
        "--follow",
        "--out",
        "-n",
    ]
    for _ in range(sized(25, full=2_000)):
        typed = [*random_.choice(COMMANDS).split(), *(junk(random_) for _ in range(random_.randint(0, 2)))]
        for option in random_.sample(options, random_.randint(1, 3)):
            typed += [option, junk(random_)]
        code = run(typed)
        printed = capsys.readouterr()
        assert code in (0, 1, 4, 5), (typed, printed.err)
        assert not {one for one in printed.err if not one.isprintable() and one != "\n"}, typed
