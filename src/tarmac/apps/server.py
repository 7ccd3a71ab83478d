"""`tarmac server`: the control plane in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

import uvloop

from tarmac.apps.control_plane import Address, Chosen, Running, control_plane
from tarmac.apps.garbage import collect_rarely
from tarmac.apps.layout import Layout, make_layout
from tarmac.apps.settings import gates_of, names_of, settings_of
from tarmac.base.exhaustion import end_if_out_of_memory, end_when_out_of_memory
from tarmac.base.gates import CLASS_RESOURCES, BadGate
from tarmac.base.log import configure, log
from tarmac.store.interface import StoreError

_log = log("tarmac")

# The store's sync thread and the audit thread need the interpreter for microseconds at a time. By default they may
# wait 5 ms for it, slowing the loop all the while.
_DESCRIPTORS = 65_536
_SWITCH_INTERVAL = 0.0005


Beside = Callable[[Running], AbstractAsyncContextManager[None]]
"""What else runs in the process while the control plane does; it is there before the ready line is printed."""


def _nothing(_running: Running) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class ServerExtras:
    """What a command adds to the server: something beside it, and further addresses of the machine to listen on."""

    beside: Beside = _nothing
    hosts: tuple[str, ...] = ()


def _alone(_layout: Layout) -> ServerExtras:
    return ServerExtras()


def main(options: argparse.Namespace, surround: Callable[[Layout], ServerExtras] = _alone) -> int:
    """Serve; the exit code is 0 after a signal, 1 when it could not start, 2 for a gate that there is not."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _allow_descriptors()
    configure(level="debug" if options.verbose else "info", as_json=options.log_format == "json")
    host, port = options.listen
    try:
        gates = gates_of(options, "server", "controllers")
        layout = make_layout(options)
        surroundings = surround(layout)
        address = Address(host, port, tuple(getattr(options, "tls_san", ())), surroundings.hosts)
        chosen = Chosen(names_of(options), settings_of(options, gates))
        uvloop.run(run(layout, address, surroundings.beside, chosen, gates.enabled(CLASS_RESOURCES)))
    except asyncio.CancelledError:
        return 0
    except BadGate as error:
        print(f"tarmac: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, StoreError) as error:
        print(f"tarmac: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:
        end_if_out_of_memory(error)
    return 0


def _allow_descriptors() -> None:
    """Many systems start a process with 1,024 and let it have more if it asks. Each client takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def run(layout: Layout, address: Address, beside: Beside, controllers: Chosen, class_resources: bool) -> None:
    """Serve until a signal comes; print one line when ready. A signal before that ends the start where it is."""
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
    async with control_plane(layout, address, controllers, class_resources) as running, beside(running):
        starting = None
        collect_rarely(50_000)
        print(f"tarmac ready {running.url} kubeconfig={layout.kubeconfig}", flush=True)
        await stopping.wait()
        _log.info("stopping")
