"""The filter of system calls, on both kinds of processors, run by a small machine of our own."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
from pathlib import Path

import pytest

from whyrun.execution.backends.sandbox import confinement

ALLOW, KILL = "allow", "kill"
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def verdict(machine: str, call: str | int, *arguments: int, audit: int | None = None) -> str:
    """What the kernel would do with this call."""
    number = call if isinstance(call, int) else confinement.NUMBERS[call][list(AUDIT).index(machine)]
    assert number is not None
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, AUDIT[machine] if audit is None else audit, 0, *padded)
    lines = list(struct.iter_unpack("=HBBI", confinement.filter_program(machine)))
    position = loaded = 0
    while True:
        operation, then, otherwise, value = lines[position]
        position += 1
        if operation == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return {0x7FFF_0000: ALLOW, 0x8000_0000: KILL}.get(value) or errno.errorcode[value & 0xFFFF]
        else:
            holds = {0x15: loaded == value, 0x25: loaded > value, 0x35: loaded >= value}[operation]
            position += then if holds else otherwise


@pytest.fixture(params=sorted(AUDIT))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_rule_answers_and_no_other_call_is_refused(machine: str) -> None:
    column = list(AUDIT).index(machine)
    refused = {number for row in confinement.NUMBERS.values() if (number := row[column]) is not None}
    assert {verdict(machine, number) for number in range(600) if number not in refused} == {ALLOW}
    for rule in confinement.RULES:
        if not rule.conditions:
            calls = [call for call in rule.calls if confinement.NUMBERS[call][column] is not None]
            assert {verdict(machine, call) for call in calls} == {errno.errorcode[rule.answer]}


def test_arguments_decide(machine: str) -> None:
    inside, beyond, far = confinement.SEGMENT, confinement.SEGMENT + 1, 1 << 32
    assert [verdict(machine, "shmget", 0, size) for size in (0, inside, beyond, far)] == [
        ALLOW, ALLOW, "ENOSPC", "ENOSPC"]  # fmt: skip
    assert [verdict(machine, "semget", 0, number) for number in (17, 32, 33)] == [ALLOW, ALLOW, "ENOSPC"]
    families = {family for family in range(100) if verdict(machine, "socket", family) == ALLOW}
    assert families == {1, 2, 10, 16}
    assert verdict(machine, "socket", 40) == verdict(machine, "socket", (1 << 32) | 40) == "EAFNOSUPPORT"
    assert [verdict(machine, "socket", 16, 3, protocol) for protocol in (0, 9)] == [ALLOW, "EAFNOSUPPORT"]
    assert [verdict(machine, "socket", 2, 1, protocol) for protocol in (0, 6)] == [ALLOW, ALLOW]
    assert [verdict(machine, "ioctl", 0, request) for request in (0x5411, 0x5412, 0x5413, 0x541C)] == [
        ALLOW, "EPERM", ALLOW, "EPERM"]  # fmt: skip


def test_programs_for_another_machine_are_ended(machine: str) -> None:
    assert verdict(machine, 0, audit=0x40000003) == KILL
    if machine == "x86_64":
        assert {verdict(machine, 0x4000_0000 + number) for number in (0, 39, 425)} == {"ENOSYS"}


@pytest.mark.skipif(not Path("/usr/include/asm-generic/unistd.h").exists(), reason="no headers of the kernel")
@pytest.mark.parametrize("header", ["asm/unistd_64.h", "asm-generic/unistd.h"])
def test_the_numbers_are_those_of_the_kernel(header: str) -> None:
    if header.startswith("asm/") and os.uname().machine != "x86_64":
        pytest.skip("the headers are those of another machine")
    printed = subprocess.run(["cc", "-E", "-dM", "-include", header, "-"], input="", capture_output=True, text=True)
    known = {}
    for line in printed.stdout.splitlines():
        name, _, value = line.removeprefix("#define __NR_").partition(" ")
        if value.isdigit():
            known[name] = int(value)
    column = 0 if header.startswith("asm/") else 1
    ours = {call: row[column] for call, row in confinement.NUMBERS.items() if call in known}
    assert ours == {call: known[call] for call in ours}
    assert len(ours) > 40
