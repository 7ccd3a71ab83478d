"""Limits of public addresses: connections at a time and new ones in a second, for each address, at a real gateway."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.datapath.ingress_worlds import (
    BASIC,
    PORT,
    PUBLIC1,
    PUBLIC2,
    PUBLIC6,
    PUBLIC7,
    Call,
    IngressWorld,
    Unreachable,
    talking,
    without,
)

pytestmark = [pytest.mark.root]

FAMILIES = pytest.mark.parametrize(("limited", "other"), [(PUBLIC1, PUBLIC2), (PUBLIC6, PUBLIC7)], ids=["v4", "v6"])
MOST = 4


async def opened(street: IngressWorld, stack: AsyncExitStack, address: str, protocol: str) -> Call | Unreachable:
    return await stack.enter_async_context(talking(street.lan, street.lan.target, address, PORT, protocol))  # type: ignore[arg-type]


@FAMILIES
@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
async def test_connections_over_the_limit_get_no_answer_and_those_within_it_go_on(
    street: IngressWorld, limited: str, other: str, protocol: str
) -> None:
    await street.apply(*without(BASIC, limited, connections=MOST))
    street.carry(3, limited, other)
    async with AsyncExitStack() as stack:
        first = [await opened(street, stack, limited, protocol) for _ in range(MOST)]
        assert None not in [await each() for each in first]
        over = await opened(street, stack, limited, protocol)
        assert await over(1.0) is None
        assert None not in [await each() for each in first], "connections that exist go on"
        assert await street.called(other) is not None, "each address has its own limit"
        # The node's own connections, which test the address, are not clients outside.
        await street.world.node(3).ingress.connect(limited, PORT, 5.0)
        await street.apply(*without(BASIC, limited, connections=MOST + 8))
        assert await street.called(limited) is not None


@FAMILIES
async def test_new_connections_over_the_rate_are_dropped_at_the_gateway(
    street: IngressWorld, limited: str, other: str
) -> None:
    await street.apply(*without(BASIC, limited, new_per_second=MOST))
    street.carry(3, limited, other)
    async with AsyncExitStack() as stack:
        made = [await opened(street, stack, limited, "UDP") for _ in range(16 * MOST)]
        # All first datagrams at once: a place comes back every quarter of a second.
        heard = await asyncio.gather(*(each(2.0) for each in made))
        answered = [each for each, found in zip(made, heard, strict=True) if found is not None]
        assert MOST <= len(answered) < len(made)
        again = [await each(2.0) for each in answered]
        assert None not in again, "those that were let in are not limited"
        for _ in range(4 * MOST):
            await street.world.node(3).ingress.connect(limited, PORT, 5.0)
        assert None not in [await street.called(other, protocol="UDP") for _ in range(2 * MOST)]
