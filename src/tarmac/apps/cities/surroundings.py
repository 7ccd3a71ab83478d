"""The outside of `tarmac up --outside`: a segment with a server, and with public addresses a router near each city."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tarmac.apps.cities.outside import outside_server
from tarmac.apps.cities.outsidepools import ANYCAST_RANGES, offer_addresses, router_password
from tarmac.apps.cities.outsiderouters import outside_routers
from tarmac.apps.control_plane import STARTING, Running, local_transport
from tarmac.apps.server import Beside
from tarmac.base.stderr import print_warning
from tarmac.client.client import Client
from tarmac.datapath import hosts
from tarmac.runtimes.parts import optional_program

_EXAMPLE: Final = Path("examples/way-in.yaml")
_FIRST_ADDRESS: Final = "203.0.113.1"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The outside of some cities. Without public addresses there is neither a router nor a client near them."""

    underlay: hosts.HostUnderlay
    segment: hosts.Segment
    places: Sequence[hosts.Neighborhood]

    def build(self) -> None:
        """Create its namespaces and links. Raises OSError."""
        hosts.build_outside(self.underlay, self.segment)
        hosts.build_nearby(self.underlay, self.places)

    @asynccontextmanager
    async def beside(self, cities: Beside, running: Running) -> AsyncGenerator[None]:
        """Run server and routers together with the cities."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(outside_server(self.underlay, self.segment))
            if self.places:
                await self._route(stack, Client(local_transport(running.server, STARTING)))
            await stack.enter_async_context(cities(running))
            for line in self._commands():
                print(line, file=sys.stderr)
            yield

    async def _route(self, stack: AsyncExitStack, client: Client) -> None:
        password = await router_password(client)
        await offer_addresses(client, self.places)
        bird = optional_program("bird")
        if bird is None:
            print_warning(
                "--outside: there is no bird, so no router runs and no address is announced; run `make setup`"
            )
            return
        await stack.enter_async_context(outside_routers(self.places, bird, password, client.clock))

    def _commands(self) -> list[str]:
        """Return the commands to try public addresses with."""
        if not self.places:
            return []
        ranges = " and ".join(ANYCAST_RANGES[family] for family in self.places[0].families)
        clients = ", ".join(each.client.name for each in self.places)
        example = [f"kubectl apply -f {_EXAMPLE}", "kubectl wait --for=condition=AnycastReady workload/hello"]
        calls = [f"nsenter --net={each.client} wget -qO- {_FIRST_ADDRESS}" for each in self.places]
        about = f"outside: clients {clients}, each behind a router that nodes announce {ranges} to; try:"
        return [about, *(f"  {each}" for each in [*(example if _EXAMPLE.is_file() else []), *calls])]
