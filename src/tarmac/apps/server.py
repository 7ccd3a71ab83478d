"""`tarmac server`: the control plane in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import sys
from collections.abc import Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import uvloop

from tarmac.apps.authentication import Authentication, authentication_of
from tarmac.apps.control_plane import Address, Chosen, Running, address_url, control_plane, distinct
from tarmac.apps.controllersettings import gates_of, names_of, settings_of
from tarmac.apps.layout import Layout, make_layout
from tarmac.apps.workers.parent import Parent, SharedFlag, reserved
from tarmac.apps.workers.seat import Seat, meeting_folder
from tarmac.base.clock import SystemClock
from tarmac.base.exhaustion import end_if_out_of_memory, end_when_out_of_memory
from tarmac.base.garbage import collect_rarely
from tarmac.base.gates import BadGate
from tarmac.base.log import LineStream, configure, log
from tarmac.base.randomness import Randomness
from tarmac.base.stderr import print_error
from tarmac.server.security.certificates.pki import Pki
from tarmac.server.security.keys.encryption import SecretSealer
from tarmac.server.workers.sockets import make_folder
from tarmac.store.interface import StoreError

_log = log("tarmac")

# The store's sync thread and the audit thread need the interpreter for microseconds at a time. With the default they
# may wait 5 ms for it, slowing the event loop all the while.
_DESCRIPTORS = 65_536
_SWITCH_INTERVAL = 0.0005
SEVERAL_NEED_ETCD: Final = "--processes needs a store that several processes can use: etcd://"


Beside = Callable[[Running], AbstractAsyncContextManager[None]]
"""Additional tasks in the server's process; they are started before the ready line is printed."""


def _nothing(_running: Running) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class ServerExtras:
    """Additions of a command to the server: tasks beside it, and additional addresses to listen on."""

    beside: Beside = _nothing
    hosts: tuple[str, ...] = ()


def _print(line: str) -> None:
    print(line, flush=True)


def _alone(_layout: Layout) -> ServerExtras:
    return ServerExtras()


def main(
    options: argparse.Namespace,
    surround: Callable[[Layout], ServerExtras] = _alone,
    lines: LineStream | None = None,
    ready: Callable[[str], None] = _print,
) -> int:
    """Serve; return 0 after a signal, 1 if the start failed, 2 for an unknown feature gate.

    `lines` is the destination of log lines, if not stderr. `ready` prints the ready line.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _allow_descriptors()
    level = "debug" if options.verbose else "info"
    configure(level=level, as_json=options.log_format == "json", stream=lines, repeated=lines is not None)
    return _ended(lambda: _serve(options, surround, ready))


def _serve(
    options: argparse.Namespace, surround: Callable[[Layout], ServerExtras], ready: Callable[[str], None]
) -> int:
    host, port = options.listen
    gates = gates_of(options, "server", "controllers")
    layout = make_layout(options)
    surroundings = surround(layout)
    address = Address(host, port, tuple(getattr(options, "tls_san", ())), surroundings.hosts)
    served = partial(
        run,
        layout,
        beside=surroundings.beside,
        controllers=Chosen(names_of(options), settings_of(options, gates)),
        features=[name for name, enabled in gates.settings_of("server").items() if enabled],
        people=authentication_of(options),
    )
    if getattr(options, "processes", 1) > 1:
        return with_workers(layout, address, options.processes, served)
    uvloop.run(served(address, ready=ready))
    return 0


def _ended(serve: Callable[[], int]) -> int:
    """Serve to the end; return the exit code."""
    try:
        return serve()
    except asyncio.CancelledError:
        return 0
    except BadGate as error:
        print_error(error)
        return 2
    except (OSError, ValueError, StoreError) as error:
        print_error(error)
        return 1
    except MemoryError as error:
        end_if_out_of_memory(error)
    return 0


def _allow_descriptors() -> None:
    """Raise the limit of open files: many systems start processes with 1,024, and each client takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def with_workers(layout: Layout, address: Address, count: int, served: Callable[..., Coroutine[Any, Any, None]]) -> int:
    """Run the parent of serving workers; return the exit code. Raises OSError."""
    if not layout.store_url.startswith("etcd://"):
        print_error(SEVERAL_NEED_ETCD)
        return 2
    Pki(layout.pki, SystemClock())  # created once, before the workers need them
    SecretSealer.from_file(layout.encryption_key, Randomness())
    folder, stop = meeting_folder(layout.data_dir), SharedFlag()
    make_folder(folder)
    port, held = reserved(distinct(address.host, *address.also), address.port)
    own = replace(address, port=port)

    def work(seat: Seat, ready: Callable[[], None]) -> int:
        for each in held:
            each.close()

        def worked() -> int:
            uvloop.run(served(own, seat=seat, ready=lambda _line: ready()))
            return 0

        return _ended(worked)

    parent = Parent(lambda index: Seat(index, count, folder, stop), count, work, stop, SystemClock())
    code = parent.run(lambda: print(ready_line(own, port, layout), flush=True))
    with suppress(OSError):  # not empty if a worker had to be killed; the next start reuses it
        folder.rmdir()
    return code


def ready_line(address: Address, port: int, layout: Layout) -> str:
    """Return the line printed when the server is ready."""
    return f"tarmac ready {address_url(address, port)} kubeconfig={layout.kubeconfig}"


async def run(
    layout: Layout,
    address: Address,
    beside: Beside,
    controllers: Chosen,
    features: Collection[str],
    people: Authentication,
    seat: Seat | None = None,
    ready: Callable[[str], None] = _print,
) -> None:
    """Serve until a signal; print one line when ready. A signal during the start cancels it."""
    stopping = asyncio.Event()
    starting = asyncio.current_task()

    def stop() -> None:
        stopping.set()
        if starting is not None:
            starting.cancel()

    loop = asyncio.get_running_loop()
    end_when_out_of_memory(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    serving = control_plane(layout, address, controllers, features, people, seat)
    async with serving as running, beside(running):
        starting = None  # from here on a signal ends the wait instead of cancelling the start
        collect_rarely()
        ready(ready_line(address, running.listener.port, layout))
        await stopping.wait()
        _log.info("stopping")
