"""Rules of BGPPeers that a schema cannot express."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import mapping
from tarmac.api.egress.addressrules import unsafe_selector
from tarmac.api.egress.targets import reserved_for
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.strategies import check_communities, check_locations
from tarmac.api.networking.validation.ranges import Address, check_address
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.duration import parse_duration
from tarmac.base.fielderrors import FieldErrors


class BGPPeerStrategy(OwnStrategy):
    """Rules of BGPPeers."""

    def __init__(self) -> None:
        super().__init__(BGPPeer)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check addresses, numbers, times and their combinations."""
        spec = obj["spec"]
        address = _check_addresses(spec, errors)
        _check_families(spec, address, errors)
        check_locations(spec, errors)
        checks.label_selector(spec.get("nodeSelector"), "spec.nodeSelector", errors)
        if spec.get("passwordSecret"):
            checks.dns_subdomain(spec["passwordSecret"], "spec.passwordSecret", errors)
        for index, pool in enumerate(spec.get("pools") or ()):
            checks.dns_subdomain(pool, f"spec.pools[{index}]", errors)
        check_communities(spec.get("communities") or [], 2, "spec.communities", errors)
        _check_times(spec, errors)
        _check_combinations(spec, errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return warnings about unsafe selectors and sessions without a password."""
        spec = mapping(obj, "spec")
        found = unsafe_selector(mapping(spec, "nodeSelector"), "spec.nodeSelector")
        if not spec.get("passwordSecret"):
            found.append("spec.passwordSecret: is empty, so the session is not authenticated")
        return found


def _check_addresses(spec: JsonObject, errors: FieldErrors) -> Address | None:
    address = check_address(spec["address"], "spec.address", errors) if spec.get("address") else None
    reserved = reserved_for(address) if address is not None else None
    # Routers often have link-local IPv6 addresses, but those need an interface, which a BGPPeer does not name.
    if reserved is not None:
        errors.invalid("spec.address", spec["address"], f"must be the address of a router: it is in {reserved}")
    if spec.get("sourceAddress"):
        source = check_address(spec["sourceAddress"], "spec.sourceAddress", errors)
        if source is not None and address is not None and source.version != address.version:
            detail = f"must be an IPv{address.version} address, as the peer's is"
            errors.invalid("spec.sourceAddress", spec["sourceAddress"], detail)
    return address


def _check_families(spec: JsonObject, address: Address | None, errors: FieldErrors) -> None:
    families = spec.get("families") or []
    if address is not None and families and f"IPv{address.version}" not in families:
        detail = f"must have IPv{address.version}, the family of the address, or be left out"
        errors.invalid("spec.families", families, detail)


def _check_times(spec: JsonObject, errors: FieldErrors) -> None:
    _check_time(spec, "holdTime", "spec.holdTime", 3, 65_535, errors)
    graceful, bfd = mapping(spec, "gracefulRestart"), mapping(spec, "bfd")
    _check_time(graceful, "restartTime", "spec.gracefulRestart.restartTime", 1, 4095, errors)
    _check_time(bfd, "interval", "spec.bfd.interval", 0.01, 10, errors, whole=False)


def _check_time(
    owner: JsonObject, field: str, path: str, least: float, most: float, errors: FieldErrors, *, whole: bool = True
) -> None:
    written = owner.get(field)
    if not written:
        return
    try:
        seconds = parse_duration(written)
    except ValueError as error:
        errors.invalid(path, written, str(error))
        return
    if not least <= seconds <= most or (whole and seconds % 1):
        unit = "whole seconds, " if whole else ""
        errors.invalid(path, written, f"must be {unit}{_duration_text(least)} to {_duration_text(most)}")


def _duration_text(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def _check_combinations(spec: JsonObject, errors: FieldErrors) -> None:
    graceful = spec.get("gracefulRestart")
    if spec.get("bfd") is not None and graceful is not None and graceful.get("enabled") is not False:
        detail = "may not be specified beside `gracefulRestart`: BFD ends with the speaker, which ends the restart"
        errors.forbidden("spec.bfd", f"{detail}; remove one, or set gracefulRestart.enabled to false")
    if spec.get("localPreference") is not None and spec.get("asn") != spec.get("localASN"):
        detail = "may only be specified where asn equals localASN: other systems do not take it over"
        errors.forbidden("spec.localPreference", detail)
    if spec.get("multihop") and spec.get("ttlSecurity"):
        errors.forbidden("spec.ttlSecurity", "may not be true with `multihop`: packets from afar would be refused")
