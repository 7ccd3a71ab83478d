"""What a test can say about the imaginary world: how a container's process behaves, and what a registry has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tarmac.runtimes.interface import ExecResult, RuntimeFault


def _says_nothing(command: Sequence[str]) -> ExecResult:
    return ExecResult(b"", b"", 0)


@dataclass(frozen=True, slots=True)
class Program:
    """How a container's process behaves. By default it runs until it is asked to end, and then ends well."""

    runs_for: float | None = None  # seconds until it ends by itself; None: never
    exit_code: int = 0  # when it ends by itself
    code_on_term: int | None = 0  # None: it does not listen, and is killed when its grace is over
    output: tuple[str, ...] = ()  # lines, in its log as soon as it starts
    starts_after: float = 0.0  # seconds that starting takes
    refusal: str = ""  # why it cannot be started
    memory: int = 0  # bytes it takes; above the container's limit it is killed at once
    exec: Callable[[Sequence[str]], ExecResult] = _says_nothing
    exec_takes: float = 0.0  # seconds; longer than a timeout, and the timeout happens


@dataclass(frozen=True, slots=True)
class RegistryImage:
    """An image that can be pulled: by whom, how fast, or why not."""

    size: int = 1_000_000
    username: str = ""  # with the password: whom the registry lets in; empty: everybody
    password: str = ""
    takes: float = 0.0  # seconds
    refusal: str = ""
    user: int | None = None  # whom the image says to run as
    user_name: str = ""


@dataclass(slots=True)
class Trouble:
    """A call that goes wrong: `times` more times, after `delay` seconds; without a fault it is only late."""

    fault: RuntimeFault | None
    times: int
    delay: float = 0.0
