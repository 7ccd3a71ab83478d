"""A program runs within limits, and its process group ends with its timeout."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.agent.sizing.execution import ProgramExit, ProgramLimits, ProgramNotEnded, execute
from tests.support.agent_process import until

QUICK = ProgramLimits(seconds=20, linger=0.2)
SHORT = ProgramLimits(seconds=0.5, linger=0.2)


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes an executable file."""

    def make(*lines: str, shebang: str = "#!/bin/sh") -> str:
        path = tmp_path / "program"
        path.write_text("\n".join((shebang, *lines, "")))
        path.chmod(0o755)
        return str(path)

    return make


async def run(command: str, *args: str, stdin: bytes = b"", limits: ProgramLimits = QUICK, **env: str) -> ProgramExit:
    return await execute((command, *args), {"PATH": os.environ["PATH"], **env}, stdin, limits)


def gone(pid: int) -> bool:
    """Return True once a process has ended, whether or not it was reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def test_it_is_told_and_heard(program: Callable[..., str]) -> None:
    made = program("cat", 'echo "$1-$WORD" >&2', "exit 3")
    assert await run(made, "a b", stdin=b"question\n", WORD="x") == ProgramExit(3, b"question\n", b"a b-x\n")


async def test_it_is_alone_in_its_session_in_the_root_with_no_descriptor_of_ours(program: Callable[..., str]) -> None:
    ours = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(ours, True)
    lines = (
        "import os",
        "alone = os.getsid(0) == os.getpid() == os.getpgid(0)",
        "print(os.getcwd(), alone, sorted(map(int, os.listdir('/proc/self/fd'))))",
    )
    try:
        ended = await run(program(*lines, shebang=f"#!{sys.executable} -SE"))
    finally:
        os.close(ours)
    assert ended.out.decode().split(maxsplit=2) == ["/", "True", "[0, 1, 2, 3]\n"]  # 3 is the descriptor of the listing


async def test_a_signal_is_told_as_less_than_zero(program: Callable[..., str]) -> None:
    assert (await run(program("kill -9 $$"))).status == -9


@pytest.mark.parametrize("content", [b"", b"echo no program\n", b"\x7fELF and no more", b"#!/no/such/interpreter\n"])
async def test_a_file_that_is_no_program_is_not_run_by_a_shell(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "program"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(OSError) as caught:
        await run(str(path))
    assert caught.value.errno in (errno.ENOEXEC, errno.ENOENT)


async def test_a_program_that_is_being_written_cannot_be_run(program: Callable[..., str]) -> None:
    made = program("exit 0")
    writer = os.open(made, os.O_WRONLY)
    try:
        with pytest.raises(OSError) as caught:
            await run(made)
    finally:
        os.close(writer)
    assert caught.value.errno == errno.ETXTBSY


async def test_one_that_does_not_end_is_killed_with_its_children_though_it_ignores_every_signal(
    program: Callable[..., str], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    made = program(
        "trap '' TERM INT HUP",
        f"sh -c 'trap \"\" TERM; echo $$ >> {pids}; sleep 100' &",
        f"echo $$ >> {pids}",
        "echo why >&2",
        "wait",
    )
    with pytest.raises(ProgramNotEnded, match=r"^did not answer within 0\.5 s$") as caught:
        await run(made, limits=SHORT)
    assert caught.value.err == b"why\n"
    for pid in map(int, pids.read_text().split()):
        until(lambda pid=pid: gone(pid))


async def test_a_grandchild_that_holds_the_pipes_keeps_nobody_waiting(
    program: Callable[..., str], tmp_path: Path
) -> None:
    made = program(f"sleep 100 & echo $! > {tmp_path}/pid", "echo answer")
    began = time.monotonic()
    assert await run(made) == ProgramExit(0, b"answer\n", b"")
    assert time.monotonic() - began < 10
    until(lambda: gone(int((tmp_path / "pid").read_text())))


async def test_one_that_left_the_group_keeps_nobody_waiting_either(program: Callable[..., str]) -> None:
    made = program("setsid sleep 3 &", "echo answer")
    assert (await run(made)).out == b"answer\n"


async def test_a_flood_on_stdout_ends_at_the_limit(program: Callable[..., str]) -> None:
    began = time.monotonic()
    with pytest.raises(ProgramNotEnded, match=r"^stdout is more than 1 MiB$"):
        await run(program("exec cat /dev/zero"))
    assert time.monotonic() - began < 10
    full = await run(program("head -c 1048576 /dev/zero"))
    assert len(full.out) == 1 << 20


async def test_of_a_flood_on_stderr_the_last_is_kept(program: Callable[..., str]) -> None:
    ended = await run(program("head -c 3000000 /dev/zero >&2", "echo last >&2"))
    assert (len(ended.err), ended.err[-5:]) == (1 << 16, b"last\n")


async def test_one_that_closes_its_pipes_and_reads_nothing_is_waited_for(program: Callable[..., str]) -> None:
    assert await run(program("exec <&- >&- 2>&-", "sleep 0.1", "exit 4"), stdin=b"x" * 100) == ProgramExit(4, b"", b"")


async def test_a_cancelled_call_leaves_no_process(program: Callable[..., str], tmp_path: Path) -> None:
    made = program(f"echo $$ > {tmp_path}/pid", "exec sleep 100")
    task = asyncio.ensure_future(run(made))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()  # reaped, not only killed


async def test_no_descriptor_and_no_child_is_left(program: Callable[..., str]) -> None:
    made = program("exit 1")
    await run(made)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await run(made)
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OSError):
        await run("/no/such/program")
    assert len(os.listdir("/proc/self/fd")) == before
