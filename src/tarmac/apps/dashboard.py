"""`tarmac dashboard`: opens the dashboard in a local browser, connected to the server of a kubeconfig.

The URL contains the access code, so the browser is started with a private file that redirects to it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tarmac.api.status import ApiError
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.cli.flags import local_kubeconfig
from tarmac.cli.redirectfile import redirect_file
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import ServerContext, load
from tarmac.dashboard.files import DashboardFiles
from tarmac.dashboard.loopback import Loopback
from tarmac.dashboard.proxying import Relay
from tarmac.http.listener import Listener, serve

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 6480


def main(options: argparse.Namespace) -> int:
    """Serve until a signal; return the exit code."""
    console = Console(sys.stdout, sys.stderr)
    try:
        return asyncio.run(_run(options, console))
    except (ClientError, OSError) as error:
        console.fail(str(error))
    except ApiError as error:
        console.fail(f"the server refuses: {error.message}")
    return 1


async def _run(options: argparse.Namespace, console: Console) -> int:
    randomness = Randomness()
    files = DashboardFiles(randomness)
    if not files.built:
        console.fail("the page is not built: run make setup where Tarmac was cloned, with a network")
        return 1
    context = load(options.kubeconfig, options.context, local=local_kubeconfig())
    await _reach(context)
    relay = Relay(context.http)
    namespace = options.namespace or context.namespace
    page = Loopback(files, relay.answer, context.http.url, namespace, console.warn, SystemClock(), randomness)
    listener = await _listen(page, options.port)
    page.serve_at(listener.port)
    try:
        await _serve(page, console, options.browser)
    finally:
        await relay.close()
        await listener.stop(0.1)
    return 0


async def _reach(context: ServerContext) -> None:
    """Report an unreachable server here, before the browser does. Raises ClientError, ApiError."""
    client = Client(HttpTransport(context.http))
    try:
        await client.call("GET", "/version")
    finally:
        await client.close()


async def _listen(page: Loopback, port: int | None) -> Listener:
    try:
        return await serve(page.answer, None, LOOPBACK, DEFAULT_PORT if port is None else port, common_headers=())
    except OSError as error:
        if port is not None:
            raise OSError(f"port {port} cannot be had: {error.strerror or error}") from error
        return await serve(page.answer, None, LOOPBACK, 0, common_headers=())


async def _serve(page: Loopback, console: Console, browser: bool) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    address = page.new_address()
    console.say(f"tarmac dashboard {address}\n")
    with redirect_file(address) as file, _on_lines(lambda: console.say(f"{page.new_address()}\n")):
        if browser:
            await asyncio.to_thread(webbrowser.open, file.as_uri())
        await ended.wait()


@contextmanager
def _on_lines(pressed: Callable[[], None]) -> Generator[None]:
    """Call back for each line typed on the terminal, if there is one."""
    if not sys.stdin.isatty():
        yield
        return
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        if sys.stdin.readline():
            pressed()
        else:
            loop.remove_reader(number)

    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
