"""The error table: each rule, with the text that servers send."""

import pytest

from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client.errors import (
    LOST,
    NO_CERTIFICATE,
    NO_REDIS,
    NO_TLS,
    TABLE,
    TIMEOUT,
    UNSYNCED,
    CallFailed,
    Full,
    Remedy,
    ScriptFault,
    parse_error_reply,
)

WHERE = "10.0.0.7:6379"

# As Redis 7.0 and Valkey 9 send them.
WORDS = {
    "NOSCRIPT": ("NOSCRIPT No matching script. Please use EVAL.", Remedy.LOAD),
    "LOADING": ("LOADING Redis is loading the dataset in memory", Remedy.WAIT),
    "BUSY": ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or", Remedy.WAIT),
    "FROZEN": ("FROZEN the shard is being repaired", Remedy.WAIT),  # reject_frozen.lua
    "ASK": ("ASK 3999 127.0.0.1:6381", Remedy.WAIT),
    "TRYAGAIN": ("TRYAGAIN Multiple keys request during rehashing of slot", Remedy.WAIT),
    "MOVED": ("MOVED 3999 127.0.0.1:6381", Remedy.REDISCOVER),
    "CLUSTERDOWN": ("CLUSTERDOWN The cluster is down", Remedy.REDISCOVER),
    "MASTERDOWN": ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data", Remedy.REDISCOVER),
    "READONLY": ("READONLY You can't write against a read only replica.", Remedy.REDISCOVER),
    "UNBLOCKED": ("UNBLOCKED force unblock from blocking operation, instance state", Remedy.REDISCOVER),
    "NOREPLICAS": ("NOREPLICAS Not enough good replicas to write.", Remedy.WAIT),
    "MISCONF": ("MISCONF Redis is configured to save RDB snapshots, but it's", Remedy.WAIT),
    "OOM": ("OOM command not allowed when used memory > 'maxmemory'.", Remedy.REPORT),
    "NOAUTH": ("NOAUTH Authentication required.", Remedy.STOP),
    "WRONGPASS": ("WRONGPASS invalid username-password pair or user is disabled.", Remedy.STOP),
    "NOPERM": ("NOPERM User crawler has no permissions to run the 'info' command", Remedy.STOP),
    "DENIED": ("DENIED Redis is running in protected mode because", Remedy.STOP),
    "ERR user": ("ERR The user executing the script can't run this command or subcommand", Remedy.STOP),
    "ERR ACL": ("ERR ACL failure in script: No permissions to access a key script: on @", Remedy.STOP),
    "ERR raised": ("ERR user_script:897: ERR ACL failure in script: User u has no", Remedy.STOP),
    "ERR max": ("ERR max number of clients reached", Remedy.WAIT),
    "ERR max in a cluster": ("ERR max number of clients + cluster connections reached", Remedy.WAIT),
    "ERR sentinel": ("ERR unknown command 'SENTINEL', with args beginning with: 'GET-", Remedy.STOP),
    "ERR renamed": ("ERR unknown command 'EVALSHA', with args beginning with: '36b4'", Remedy.STOP),
    "ERR cluster": ("ERR This instance has cluster support disabled", Remedy.STOP),
    "ERR database": ("ERR DB index is out of range", Remedy.STOP),
}


@pytest.mark.parametrize(("text", "remedy"), WORDS.values(), ids=WORDS)
def test_every_error_reply_has_its_remedy(text: str, remedy: Remedy) -> None:
    failure = parse_error_reply(text, WHERE)

    assert isinstance(failure, CallFailed)
    assert failure.rule.remedy is remedy


def test_the_table_has_only_errors_that_servers_send() -> None:
    ours = {LOST, TIMEOUT, UNSYNCED, NO_CERTIFICATE, NO_REDIS, NO_TLS}
    assert set(TABLE) == {name for name in WORDS if " " not in name} | ours


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("NOPERM User u has no permissions to run the 'script|load' command", "(SCRIPT|LOAD)"),
        ("NOPERM No permissions to access a key", "{shoal"),
        ("ERR ACL failure in script: User u has no permissions to run the 'hset' command", "(HSET)"),
        ("ERR ACL failure in script: No permissions to access a key script: on @", "{shoal"),
        ("ERR unknown command 'EVALSHA', with args beginning with: 'hunter2'", "(EVALSHA)"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "password"),
    ],
)
def test_an_error_names_the_rejected_command_and_repeats_nothing_else(text: str, named: str) -> None:
    failure = parse_error_reply(text, WHERE)

    assert isinstance(failure, CallFailed)
    assert named in str(failure.error())
    assert named in str(failure.copy().error())
    assert "hunter2" not in str(failure.error())


@pytest.mark.parametrize("kind", [LOST, TIMEOUT])
def test_a_server_that_does_not_answer_may_have_been_replaced(kind: str) -> None:
    assert CallFailed(kind, WHERE).rule.remedy is Remedy.REDISCOVER


def test_an_unknown_error_is_a_bug() -> None:
    assert isinstance(
        parse_error_reply("ERR wrong number of arguments for 'get' command", WHERE), ScriptFault
    )
    assert isinstance(
        parse_error_reply("CROSSSLOT Keys in request don't hash to the same slot", WHERE), ScriptFault
    )


@pytest.mark.parametrize(
    ("kind", "family"),
    [("LOADING", Unavailable), ("READONLY", Unavailable), ("OOM", Full), ("NOAUTH", Misconfigured)],
)
def test_the_final_error_belongs_to_the_family_that_the_caller_handles(
    kind: str, family: type[Exception]
) -> None:
    error = CallFailed(kind, WHERE).error(30.0)

    assert type(error) is family
    assert WHERE in str(error)
