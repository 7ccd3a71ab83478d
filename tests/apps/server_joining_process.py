"""`tarmac join --server` on a machine with all its folders below one folder: FOLDER ADDRESS TOKEN LISTEN."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tarmac.api.nodetokens import parse_token
from tarmac.apps.commands import parsed
from tarmac.apps.host.hostlayout import DONE, Machine, setting_up
from tarmac.apps.host.hostservices import Elsewhere, Foreground, Signals
from tarmac.apps.host.joining import run_step
from tarmac.apps.host.serverjoining import ServerJoining, join_server
from tarmac.base.clock import SystemClock
from tarmac.base.log import configure


def machine_in(folder: Path) -> Machine:
    """A machine with a configuration, data and a run folder of its own."""
    return Machine(folder / "etc" / "config.yaml", folder / "data", folder / "run")


async def _run(folder: Path, address: str, token: str, listen: str) -> int:
    options = parsed(["join", f"--server={address}", f"--token={token}", f"--listen={listen}", "--timeout=40s"])
    machine = machine_in(folder)
    async with AsyncExitStack() as stack, Signals() as signals:
        keeper = Elsewhere(machine) if listen.endswith(":1") else Foreground(machine, stack)

        async def work() -> None:
            with setting_up(machine):
                await join_server(
                    machine, ServerJoining(options.server, parse_token(token), "two", options), keeper, SystemClock()
                )

        code = await run_step(work)
        if code == DONE and keeper.supervised:
            await signals.wait()
        return code


if __name__ == "__main__":
    configure(level="warning")
    sys.exit(asyncio.run(_run(Path(sys.argv[1]), *sys.argv[2:])))
