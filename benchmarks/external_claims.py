"""Claims for fewer addresses than there are claims, while two processes of controllers race for each of them.

It uses a server on SQLite, as users run it, and a watch that checks every change of every claim and address. A double
bind is an address of two claims, a claim whose address changes, or an address that moves from one claim to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from time import perf_counter

from benchmarks.report import Row
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import NAMESPACES
from tests.faults.test_contended_claims import (
    CLAIMS,
    CLASSES,
    SOURCE_IPS,
    Place,
    Process,
    Witness,
    client_of,
    made,
    offered,
    own_server,
    reasons,
)

RACING = 10_000
AT_ONCE = 32
_FIRST = ip_address("10.64.0.1")
_PATIENCE = 1800.0


def claim_rows(directory: Path, say: Callable[[str], None], racing: int = RACING) -> list[Row]:
    """Needs no root."""
    say(f"{racing:,} claims for {_addresses(racing):,} addresses, and two processes of controllers that race")
    folder = directory / "claims"
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        place = stack.enter_context(own_server(folder))
        processes = [Process(place, folder / f"controllers-{number}.log") for number in range(2)]
        for each in processes:
            stack.callback(each.kill)
            each.start()
        witness, seconds = asyncio.run(_race(place, racing))
    assert len(witness.holder) == _addresses(racing), "every address is held in the end"
    for broken in witness.broken[:5]:
        say(f"  {broken}")
    return [
        Row(f"double binds in {racing:,} racing claims", "binds", [len(witness.broken)], 0),
        Row(f"{racing:,} racing claims, until each is bound or told why not", "s", [seconds]),
    ]


def _addresses(racing: int) -> int:
    return racing * 4 // 5


async def _race(place: Place, racing: int) -> tuple[Witness, float]:
    async with client_of(place.admin) as client, client_of(place.admin) as watching:
        await client.resource(NAMESPACES).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        )
        last = _FIRST + (_addresses(racing) - 1)
        await client.resource(CLASSES).create(offered("free", str(_FIRST), str(last)))
        witness, informers = Witness(), Informers(watching)
        claims = informers.informer(CLAIMS)
        claims.on_change(witness.claim_changed)
        informers.informer(SOURCE_IPS).on_change(witness.address_changed)
        seen = asyncio.create_task(informers.run())
        began = perf_counter()
        numbers = iter(range(racing))

        async def create() -> None:
            for number in numbers:
                await client.resource(CLAIMS).create(made("SourceIPClaim", f"c{number}", {"className": "free"}, "team"))

        await asyncio.gather(*(create() for _ in range(AT_ONCE)))
        async with asyncio.timeout(_PATIENCE):
            while True:
                found_reasons = reasons(each.object for each in claims.cache.items())
                if (
                    len(found_reasons) == racing
                    and all(found_reasons.values())
                    and len(witness.holder) == _addresses(racing)
                ):
                    break
                await asyncio.sleep(0.5)
        took = perf_counter() - began
        seen.cancel()
        await asyncio.gather(seen, return_exceptions=True)
        return witness, took
