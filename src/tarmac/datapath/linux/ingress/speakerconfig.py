"""Configuration of BIRD, and its report about sessions.

Routes to announced addresses are in a table of the kernel that no rule looks at. BIRD reads it, so an address is
announced or withdrawn without a change of the configuration. It imports no route of any router.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import ip_network
from typing import Final

from tarmac.datapath.linux.tables.text import FAMILIES, version
from tarmac.datapath.speaker import BgpSession, RoutedRanges, SessionReport, SpeakerState

TABLE: Final = 4810
"""The kernel's table with a route for each announced address."""

_SCAN_SECONDS: Final = 10  # in between, the kernel tells BIRD about changes
_RESTART_WAIT_SECONDS: Final = 5  # after a restart, before routers get routes while one of them is away
_WIDTH: Final = {4: 32, 6: 128}
_is_password = re.compile(r"[ !#-\[\]-~]{1,80}").fullmatch
_exported = re.compile(r"(\d+) exported").search


def symbol(name: str) -> str:
    """Return the name of a session in the configuration, where most characters are not allowed."""
    return f"peer_{sha256(name.encode()).hexdigest()[:16]}"


def is_password(text: str) -> bool:
    """Return True if BIRD can have the text as a password: printable ASCII without quotes and backslashes.

    Any other character could end the string, and BIRD would parse the rest as configuration.
    """
    return _is_password(text) is not None


def speaker_config(state: SpeakerState) -> str:
    """Return the configuration. Raises ValueError."""
    parts = [
        f"router id {state.router_id};\n",
        "log stderr all;\n",
        f"graceful restart wait {_RESTART_WAIT_SECONDS};\n",
        "protocol device { }\n",
        *(["protocol bfd { }\n"] if any(each.bfd for each in state.sessions) else []),
        *map(_kernel, FAMILIES),
        *map(_session, state.sessions),
    ]
    return "".join(parts)


def read_reports(lines: Iterable[str], sessions: Iterable[BgpSession]) -> dict[str, SessionReport]:
    """Return the sessions by name, from the lines of `show protocols all`.

    A session at its limit of routes gets an empty `exported`; BIRD lists those routes by another command.
    """
    names = {symbol(each.name): each.name for each in sessions}
    return {names[name]: _report(details) for name, details in _protocols(lines) if name in names}


def read_routes(lines: Iterable[str]) -> frozenset[str]:
    """Return the addresses in the lines of `show route`."""
    firsts = (line.split()[0] for line in lines if line[:1].isalnum())
    return frozenset(prefix for prefix, found, _ in (each.partition("/") for each in firsts) if found)


def _kernel(family: int) -> str:
    return f"""\
ipv{family} table announced{family};
protocol kernel kernel{family} {{
    kernel table {TABLE};
    learn yes;
    scan time {_SCAN_SECONDS};
    ipv{family} {{ table announced{family}; import all; export none; }};
}}
"""


def _session(session: BgpSession) -> str:
    if session.password and not is_password(session.password):
        raise ValueError(f"the password of {session.name} has characters that BIRD cannot read")
    statements = [
        f"local {session.source} as {session.local_asn}".replace("  ", " "),
        f"neighbor {session.address} port {session.port} as {session.asn}",
        "multihop" if session.multihop else "direct",
        f"ttl security {'on' if session.checks_ttl else 'off'}",
        f"hold time {session.hold_time}",
        # A router that comes back has none of the routes: it is tried again soon.
        "connect delay time 1",
        "connect retry time 5",
        "error wait time 1, 15",
        *_restart(session.restart),
        *([f'password "{session.password}"'] if session.password else []),
        *_bfd(session.bfd),
        *(_channel(session, family) for family in session.families),
    ]
    body = "".join(f"    {each};\n" for each in statements)
    filters = "".join(_filter(session, family) for family in session.families)
    return f"{filters}protocol bgp {symbol(session.name)} {{\n{body}}}\n"


def _restart(seconds: int) -> list[str]:
    return ["graceful restart on", f"graceful restart time {seconds}"] if seconds else ["graceful restart aware"]


def _bfd(wanted: tuple[float, int] | None) -> list[str]:
    if wanted is None:
        return []
    interval, multiplier = wanted
    return [f"bfd {{ interval {round(interval * 1000)} ms; multiplier {multiplier}; }}"]


def _channel(session: BgpSession, family: int) -> str:
    hop = dict(session.next_hops).get(family, "")
    return (
        f"ipv{family} {{ table announced{family}; import none; export filter {symbol(session.name)}_{family}; "
        f"next hop {f'address {hop}' if hop else 'self'}; export limit {session.max_prefixes} action block; }}"
    )


def _filter(session: BgpSession, family: int) -> str:
    rules = "".join(_passing(session, each, family) for each in session.pools)
    return f"filter {symbol(session.name)}_{family} {{\n{rules}    reject;\n}}\n"


def _passing(session: BgpSession, pool: RoutedRanges, family: int) -> str:
    # Single addresses only: a shorter prefix would attract packets to addresses that are not announced.
    width = _WIDTH[family]
    ranges = [f"{ip_network(each)}{{{width},{width}}}" for each in pool.ranges if version(each) == family]
    if not ranges:
        return ""
    preference = session.local_preference if session.local_preference is not None else pool.local_preference
    # Only within one autonomous system: routers of another one ignore it.
    inside = preference is not None and session.asn == session.local_asn
    statements = [f"bgp_local_pref = {preference}"] if inside else []
    for each in pool.communities:
        kind = "bgp_community" if len(each) == 2 else "bgp_large_community"
        statements.append(f"{kind}.add(({','.join(map(str, each))}))")
    body = "".join(f"{each}; " for each in statements)
    return f"    if net ~ [ {', '.join(ranges)} ] then {{ {body}accept; }}\n"


def _protocols(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the details of each protocol. A line with its name starts at the first column."""
    name, details = "", list[str]()
    for line in lines:
        if line.strip() and not line.startswith(" "):
            if name:
                yield name, details
            name, details = line.split()[0], []
        else:
            details.append(line.strip())
    if name:
        yield name, details


def _report(details: Sequence[str]) -> SessionReport:
    fields: Mapping[str, str] = {
        key: value.strip() for key, found, value in (each.partition(":") for each in details) if found
    }
    counted = (_exported(each) for each in details if each.startswith("Routes:"))
    limited = any(each.startswith("Export limit:") and each.endswith("[HIT]") for each in details)
    return SessionReport(
        fields.get("BGP state", ""),
        fields.get("Last error", ""),
        sum(int(each.group(1)) for each in counted if each),
        frozenset() if limited else None,
    )
