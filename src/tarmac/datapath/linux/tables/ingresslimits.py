"""Limits of public addresses at a gateway: new connections in a second, and connections at a time.

Only clients outside are limited. A SYN leaves no state here, so a rate counts SYNs; the number of connections is known
only from a client's first ACK on, and a client over that limit gets no answer to its data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tarmac.api.networking.names import INGRESS_LINK
from tarmac.datapath.linux.naming import NODE_LINK
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, WORDS, chain, declaration

_OWN: Final = [
    f'iifname "{NODE_LINK}" {WORDS[family]} saddr {own} accept'
    for family, own in zip(FAMILIES, INGRESS_LINK, strict=True)
]
_SYN: Final = "tcp flags & (fin | syn | rst | ack) == syn"
_OTHER: Final = "meta l4proto { udp, sctp } ct state new"
_FORGOTTEN: Final = "dynamic,timeout"
_TIMEOUT: Final = "60s"


def limit_sets(rates: Iterable[int], counts: Iterable[int]) -> Iterator[str]:
    """Yield the names of the sets of addresses, by limit and family."""
    for family in FAMILIES:
        yield from (f"paced-{each}-{family}" for each in rates)
        yield from (f"limited-{each}-{family}" for each in counts)


def limiting(rates: Sequence[int], counts: Sequence[int]) -> str:
    """Return the chain `pace`, which accepts packets of open ports, and `count`, which returns those within limits."""
    declared, pace, count = "", list[str](_OWN), list[str]()
    for family in FAMILIES:
        word, kind = WORDS[family], TYPES[family]
        for each in rates:
            declared += declaration("set", f"paced-{each}-{family}", kind)
            declared += declaration("set", f"rate-{each}-{family}", kind, flags=_FORGOTTEN)
            over = f"limit rate over {each}/second burst {each} packets"
            meter = f"update @rate-{each}-{family} {{ {word} daddr timeout {_TIMEOUT} {over} }} drop"
            pace += [f"{word} daddr @paced-{each}-{family} {new} {meter}" for new in (_SYN, _OTHER)]
        for each in counts:
            declared += declaration("set", f"limited-{each}-{family}", kind)
            declared += declaration("set", f"count-{each}-{family}", kind, flags="dynamic")
            limit = f"add @count-{each}-{family} {{ {word} daddr ct count over {each} }} drop"
            count.append(f"ct state new {word} daddr @limited-{each}-{family} {limit}")
    return declared + chain("pace", [*pace, "accept"]) + chain("count", [*_own_returns(), *count, "return"])


def _own_returns() -> list[str]:
    return [each.replace("accept", "return") for each in _OWN]
