"""The routers of `tarmac up --outside`: BIRD near each city, with sessions to its node and to the next routers.

Each is an autonomous system of its own, in a row: clients reach an address in the city with the fewest routers between.
They end with this process, by the kernel's hand; nodes that go on without it keep their own part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from tarmac.apps.processes import RESTART_DELAY, end, ended, find_processes, last_words, start, stop
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import background, supervise
from tarmac.datapath.hosts import Neighborhood

NODE_ASN: Final = 65100
"""The autonomous system of all nodes."""

_log = log("cities")


@asynccontextmanager
async def outside_routers(
    places: Sequence[Neighborhood], bird: Path, password: str, clock: Clock
) -> AsyncGenerator[None]:
    """Run the routers during the block."""
    if not places:
        yield
        return
    await end(routers_of(places[0].run))  # a router of a killed `up` would answer at the same addresses
    async with AsyncExitStack() as stack:
        for place in places:
            config = _write(place, router_config(place, places, password))
            what = f"router of {place.city.name}"
            keep = partial(_keep_running, place, bird, config)
            await stack.enter_async_context(background(supervise(what, keep, clock), what))
        yield


def routers_of(run: Path) -> list[int]:
    """Return the routers of a run folder, regardless of their parent."""
    folder = f"{run / 'routers'}/"
    return find_processes(lambda words: any(word.startswith(folder) for word in words))


def router_config(place: Neighborhood, row: Sequence[Neighborhood], password: str) -> str:
    """Return BIRD's configuration of one router of a row."""
    return "".join(
        [
            f"router id {place.addresses[0]};\n",
            "log stderr { warning, error, fatal, bug, auth };\n",
            "protocol device { scan time 1; }\n",
            f'protocol direct {{ {_of_each(place, "")} interface "near"; }}\n',
            *(f"protocol kernel {{ ipv{own} {{ {_LEARNT} }}; }}\n" for own in place.families),
            _node_session(place, password),
            *_row_sessions(place, row),
        ]
    )


_LEARNT: Final = "export where source = RTS_BGP;"
_OF_ROW: Final = "import all; export where source ~ [ RTS_DEVICE, RTS_BGP ]; next hop"
_WIDTH: Final = {4: 32, 6: 128}


def _of_each(place: Neighborhood, body: str) -> str:
    return " ".join(f"ipv{family}{body};" for family in place.families)


def _node_session(place: Neighborhood, password: str) -> str:
    """Accept single addresses from the city's node, and keep them while its agent restarts."""
    channels = " ".join(
        f"ipv{family} {{ import where net.len = {_WIDTH[family]}; export none; }};" for family in place.families
    )
    return (
        f"protocol bgp node {{ local {place.addresses[0]} as {place.asn}; neighbor {place.node[0]} as {NODE_ASN}; "
        f'direct; ttl security on; password "{password}"; graceful restart on; graceful restart time 60; {_TIMES} '
        f"{channels} }}\n"
    )


# A node or router that comes back is tried again soon.
_TIMES: Final = "hold time 9; connect delay time 1; connect retry time 1; error wait time 1, 2;"


def _row_sessions(place: Neighborhood, row: Sequence[Neighborhood]) -> Iterator[str]:
    """Yield the sessions with the routers on both sides."""
    for one, other in pairwise(row):
        if place == one:
            yield _row_session("following", [str(each[1]) for each in one.row], str(one.row[0][2]), one.asn, other.asn)
        elif place == other:
            yield _row_session("preceding", [str(each[2]) for each in one.row], str(one.row[0][1]), other.asn, one.asn)


def _row_session(name: str, own: Sequence[str], peer: str, asn: int, peer_asn: int) -> str:
    channels = " ".join(
        f"ipv{6 if ':' in each else 4} {{ {_OF_ROW} {f'address {each}' if ':' in each else 'self'}; }};" for each in own
    )
    return (
        f"protocol bgp {name} {{ local {own[0]} as {asn}; neighbor {peer} as {peer_asn}; direct; {_TIMES} "
        f"{channels} }}\n"
    )


def _write(place: Neighborhood, text: str) -> Path:
    path = place.run / "routers" / f"{place.city.name}.conf"
    path.parent.mkdir(mode=0o700, exist_ok=True)  # it has the password
    path.write_text(text)
    return path


async def _keep_running(place: Neighborhood, bird: Path, config: Path) -> None:
    """Run a router and restart it when it ends, until cancelled; then stop it and wait."""
    output = config.with_suffix(".log")
    command = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={place.router}", str(bird), "-f"]
    while True:
        process = await start([*command, "-c", str(config), "-s", str(config.with_suffix(".ctl"))], output)
        try:
            code = await ended(process, output)
        except asyncio.CancelledError:
            await stop(process)
            raise
        _log.warning("router ended, restarting", city=place.city.name, code=code, output=last_words(output))
        await asyncio.sleep(RESTART_DELAY)
