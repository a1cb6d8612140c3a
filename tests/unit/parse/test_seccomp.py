"""The seccomp filters, run by an interpreter of BPF: for both architectures, on any machine."""

import errno
import struct

import pytest

from shoal.parse.sandbox.seccomp import child_rules, compile_filter, fork_server_rules
from shoal.parse.sandbox.syscalls import ARCHITECTURES, NUMBERS, Architecture

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
REFUSED, UNKNOWN = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
O_WRITING = (0o1, 0o2, 0o100, 0o1000, 0o20200000)
NEVER = {  # numbers of calls that no process of a spider needs
    "x86_64": "41 42 43 49 50 54 59 62 82 83 84 85 86 87 88 90 91 92 101 129 135 155 165 200 240 246 248 250"
    " 272 298 304 308 310 311 313 316 319 321 322 323 424 425 426 438",
    "aarch64": "5 33 34 35 36 37 40 41 45 46 52 53 54 92 97 104 105 117 129 130 138 198 200 201 202 203 208 217"
    " 219 221 241 265 268 270 271 273 276 279 280 281 282 424 425 426 438",
}


def decide(program: bytes, number: int, *arguments: int, arch: int) -> int:
    """Return what the kernel would do with a call."""
    data = struct.pack("<iIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        opcode, if_true, if_false, operand = code[at]
        at += 1
        match opcode:
            case 0x20:
                [accumulator] = struct.unpack_from("<I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x15:
                at += if_true if accumulator == operand else if_false
            case 0x25:
                at += if_true if accumulator > operand else if_false
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"unknown instruction {opcode:#x}")


@pytest.fixture(params=ARCHITECTURES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def architecture(name: str) -> Architecture:
    return ARCHITECTURES[name]


@pytest.mark.parametrize("landlock", [True, False])
def test_calls_that_no_spider_needs_are_refused(
    name: str, architecture: Architecture, landlock: bool
) -> None:
    rules = fork_server_rules(landlock_files=landlock, landlock_signals=landlock)
    program = compile_filter(rules, architecture)
    decided = {
        number: decide(program, number, arch=architecture.audit_arch)
        for number in map(int, NEVER[name].split())
    }
    assert set(decided.values()) == {REFUSED}
    assert len(program) // 8 < 4096  # of the kernel


def test_another_architecture_or_abi_is_no_way_around(architecture: Architecture) -> None:
    program = compile_filter(fork_server_rules(landlock_files=True, landlock_signals=True), architecture)
    assert decide(program, 0, arch=0x40000003) == KILL  # i386
    assert decide(program, 0x40000000, arch=architecture.audit_arch) == REFUSED
    assert decide(program, -1, arch=architecture.audit_arch) == REFUSED
    assert decide(program, 600, arch=architecture.audit_arch) == UNKNOWN
    assert decide(program, 435, arch=architecture.audit_arch) == UNKNOWN  # clone3


def test_arguments_are_checked(architecture: Architecture) -> None:
    def fork_server(call: str, *arguments: int, landlock: bool = False) -> int:
        rules = fork_server_rules(landlock_files=landlock, landlock_signals=landlock)
        return decide(
            compile_filter(rules, architecture), number(call), *arguments, arch=architecture.audit_arch
        )

    def child(call: str, *arguments: int) -> int:
        program = compile_filter(child_rules(77), architecture, otherwise_allow=True)
        return decide(program, number(call), *arguments, arch=architecture.audit_arch)

    def number(call: str) -> int:
        found = NUMBERS[call][architecture.column]
        assert found is not None
        return found

    assert fork_server("openat", 0, 0, 0) == ALLOW
    assert {fork_server("openat", 0, 0, flags) for flags in O_WRITING} == {REFUSED}
    assert {fork_server("openat", 0, 0, flags, landlock=True) for flags in O_WRITING} == {ALLOW}
    assert fork_server("tgkill", 1, 1, 9) == REFUSED
    assert (child("tgkill", 77, 77, 6), child("tgkill", 1, 1, 9)) == (ALLOW, REFUSED)
    assert fork_server("clone", 17) == ALLOW
    assert {fork_server("clone", 17 | flag) for flag in (0x10000000, 0x20000, 0x40000000, 0x8000)} == {
        REFUSED
    }
    assert (child("clone", 0x3D0F00), child("clone", 17), child("clone", 0x4111)) == (ALLOW, REFUSED, REFUSED)
    assert [fork_server("socketpair", 1, kind) for kind in (1, 1 | 0o2000000, 2, 5)] == [
        ALLOW,
        ALLOW,
        REFUSED,
        REFUSED,
    ]
    assert fork_server("socketpair", 2, 1) == REFUSED
    assert (fork_server("prlimit64", 0, 9, 1 << 40), fork_server("prlimit64", 1, 9, 0)) == (ALLOW, REFUSED)
    assert [child("prlimit64", 0, 9, new) for new in (0, 5, 1 << 40)] == [ALLOW, REFUSED, REFUSED]
    assert child("prlimit64", 0, 0, 5) == ALLOW
    assert [fork_server("prctl", 1, signal) for signal in (9, 0)] == [ALLOW, REFUSED]
    assert [fork_server("prctl", 4, value) for value in (0, 1)] == [ALLOW, REFUSED]
    assert {fork_server("fcntl", 3, command) for command in (1, 3, 1030)} == {ALLOW}
    assert {fork_server("fcntl", 3, command) for command in (8, 10, 15)} == {REFUSED}
    assert [fork_server("ioctl", 1, command) for command in (0x5401, 0x5412)] == [
        ALLOW,
        REFUSED,
    ]  # not TIOCSTI
    assert (child("read"), child("pidfd_open")) == (ALLOW, REFUSED)
