"""Behaviour that a test can configure: of a container's process, of a registry, and of failing calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tarmac.runtimes.interface import ExecResult, RuntimeFault


def _silent(command: Sequence[str]) -> ExecResult:
    return ExecResult(b"", b"", 0)


@dataclass(frozen=True, slots=True)
class FakeProgram:
    """Behaviour of a container's process. By default it runs until it is asked to stop, and then exits with 0."""

    runs_for: float | None = None  # seconds until it exits by itself; None: never
    exit_code: int = 0  # when it exits by itself
    code_on_term: int | None = 0  # None: it ignores SIGTERM, and is killed after its grace period
    output: tuple[str, ...] = ()  # lines that it logs at its start
    starts_after: float = 0.0  # seconds that starting takes
    refusal: str = ""  # error of the start; empty: it succeeds
    memory: int = 0  # bytes it uses; above the container's limit it is killed at once
    exec: Callable[[Sequence[str]], ExecResult] = _silent
    exec_takes: float = 0.0  # seconds; if longer than a timeout, exec times out


@dataclass(frozen=True, slots=True)
class RegistryImage:
    """An image that can be pulled: credentials, duration, or an error."""

    size: int = 1_000_000
    username: str = ""  # required with the password; empty: no authentication
    password: str = ""
    takes: float = 0.0  # seconds
    refusal: str = ""
    user: int | None = None  # default user of the image
    user_name: str = ""


@dataclass(slots=True)
class InjectedFault:
    """A call that fails `times` more times, after `delay` seconds; without a fault it is just late."""

    fault: RuntimeFault | None
    times: int
    delay: float = 0.0
