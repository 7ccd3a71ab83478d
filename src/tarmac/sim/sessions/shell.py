"""A small shell without processes: it runs its own commands on computed output.

Commands take all input before they run and give all output at their end; between them and at `sleep` other tasks run,
and Ctrl-C cancels the running one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.sim.sessions.instance import SimulatedContainer
from tarmac.sim.sessions.peers import SessionPeers
from tarmac.sim.sessions.terminal import Terminal
from tarmac.sim.sessions.words import NotSimulated, Pipeline, ShellCommand, parse

MAX_PIPED = 1024 * 1024
"""Bytes that a command of a pipe takes from the one before it."""

MAX_VARIABLES = 4 * 1024 * 1024
"""Characters in all variables of a session: a line assigns thousands, each of which may have a copy of another."""

_COST = 100  # of a variable, whatever its length
_MAX_DEPTH = 16
"""Shells in shells: `A='sh -c "$A"'` starts itself again."""

_INTERRUPTED = 130
_NOT_FOUND = 127


class ShellExit(Exception):
    """The shell is to end with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


@dataclass(slots=True)
class Session:
    """The state of one shell."""

    container: SimulatedContainer
    peers: SessionPeers
    clock: Clock
    variables: dict[str, str]
    folder: str = "/"
    depth: int = 0
    assigned: int = 0  # characters of the variables that were assigned, and a fixed cost of each

    def assign(self, name: str, value: str) -> None:
        """Set a variable. Raises NotSimulated."""
        before = self.variables.get(name)
        room = len(value) - len(before) if before is not None else len(value) + len(name) + _COST
        if self.assigned + room > MAX_VARIABLES:
            raise NotSimulated("so much text in variables")
        self.assigned += room
        self.variables[name] = value


@dataclass(slots=True)
class Call:
    """One command that runs: its words, its input, and its output so far."""

    session: Session
    words: Sequence[str]
    read: Callable[[], Awaitable[bytes]]
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    def say(self, text: str) -> int:
        """Print a line; return success."""
        self.out += f"{text}\n".encode()
        return 0

    def fail(self, text: str, code: int = 1) -> int:
        """Print an error of this command; return its code."""
        self.err += f"{self.words[0]}: {text}\n".encode()
        return code


Program = Callable[[Call], Awaitable[int]]


class Shell:
    """Runs lines of one session. `programs` are the commands by name."""

    def __init__(self, session: Session, terminal: Terminal, programs: Mapping[str, Program], tasks: Tasks) -> None:
        self._session = session
        self._tasks = tasks
        self._terminal = terminal
        self._programs = {**programs, "sh": self._sh, "bash": self._sh, "ash": self._sh}
        self._running: asyncio.Future[int] | None = None

    def knows(self, name: str) -> bool:
        """Return True if there is such a command."""
        return name.rpartition("/")[2] in self._programs

    async def execute(self, words: Sequence[str]) -> int:
        """Run one command with these words, as exec does; return its code."""
        name = words[0].rpartition("/")[2]
        if name in ("sh", "bash", "ash") and len(words) == 1:
            return await self.interact()
        try:
            return await self._flushed(Call(self._session, [name, *words[1:]], self._input), self._programs[name])
        except ShellExit as end:
            return end.code

    async def interact(self) -> int:
        """Read lines and run them until the input ends; return the last code. Prompts on a terminal only."""
        code = 0
        self._terminal.interrupted = self._interrupt
        while True:
            if self._terminal.tty:
                await self._terminal.write(f"{self._session.folder} # ".encode())
            line = await self._terminal.read_line()
            if line is None:
                return code
            # A task of its own, so that Ctrl-C ends the line and not the shell.
            self._running = self._tasks.track(self.run(line.decode(errors="replace")), "a line of a simulated shell")
            try:
                code = await self._running
            except ShellExit as end:
                return end.code
            except asyncio.CancelledError:
                # Awaiting passes a cancellation of the session on to the line, so the line's own state tells nothing.
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                code = _INTERRUPTED
            finally:
                self._running = None

    async def run(self, script: str) -> int:
        """Run a script of one or more lines; return the last code. Raises ShellExit."""
        self._session.depth += 1
        try:
            if self._session.depth > _MAX_DEPTH:
                raise NotSimulated("a shell in so many shells")
            pipelines = parse(script)
            code = 0
            for pipeline in pipelines:
                if (pipeline.after == "&&" and code) or (pipeline.after == "||" and not code):
                    continue
                code = await self._pipe(pipeline)
                self._session.variables["?"] = str(code)
        except NotSimulated as error:
            text = f"sh: {error} is not simulated; `help` lists what is, and real nodes have a whole system\n"
            await self._terminal.write(text.encode(errors="replace"), error=True)
            return 2
        finally:
            self._session.depth -= 1
        return code

    async def _pipe(self, pipeline: Pipeline) -> int:
        code, piped = 0, b""
        for number, command in enumerate(pipeline.commands):
            call = Call(self._session, self._expanded(command), self._input)
            if number:
                call.read = _Given(piped[:MAX_PIPED]).read
            code = await self._one(call)
            if command.joined:
                call.out, call.err = call.out + call.err, bytearray()
            if 2 in command.silent:
                call.err.clear()
            if 1 in command.silent:
                call.out.clear()
            piped = bytes(call.out)
            last = number == len(pipeline.commands) - 1
            await self._deliver(replace(call, out=call.out if last else bytearray()))
            await asyncio.sleep(0)  # a line of thousands of commands does not hold the loop
        return code

    def _expanded(self, command: ShellCommand) -> list[str]:
        words, room = list[str](), MAX_PIPED
        for each in command.words:
            words.append(each.expanded(self._session.variables, room))
            room -= len(words[-1])
        return words

    async def _one(self, call: Call) -> int:
        while call.words and "=" in call.words[0] and call.words[0].partition("=")[0].isidentifier():
            name, _, value = call.words[0].partition("=")
            self._session.assign(name, value)
            call.words = call.words[1:]
        if not call.words or not call.words[0]:
            return 0
        name = call.words[0].rpartition("/")[2]
        program = self._programs.get(name)
        if program is None:
            call.err += f"sh: {call.words[0]}: not found in a simulated instance; `help` lists its commands\n".encode()
            return _NOT_FOUND
        call.words = [name, *call.words[1:]]
        return await program(call)

    async def _sh(self, call: Call) -> int:
        words = list(call.words[1:])
        while words and words[0].startswith("-") and "c" not in words[0]:
            words.pop(0)
        if len(words) > 1 and words[0].startswith("-"):
            try:
                return await self.run(words[1])
            except ShellExit as end:
                return end.code
        if words:
            return call.fail(f"{words[0]}: no script files here; pass the commands with -c", 2)
        return await self.run((await call.read()).decode(errors="replace"))

    async def _flushed(self, call: Call, program: Program) -> int:
        code = await program(call)
        await self._deliver(call)
        return code

    async def _deliver(self, call: Call) -> None:
        if call.out:
            await self._terminal.write(bytes(call.out))
        if call.err:
            await self._terminal.write(bytes(call.err), error=True)

    async def _input(self) -> bytes:
        return await self._terminal.read_all(MAX_PIPED)

    def _interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()


@dataclass(frozen=True, slots=True)
class _Given:
    content: bytes

    async def read(self) -> bytes:
        """Return the output of the command before."""
        return self.content
