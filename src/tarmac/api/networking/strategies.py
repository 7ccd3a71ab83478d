"""Rules of the networking kinds."""

from __future__ import annotations

import re

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.networking.network import Network, NetworkBinding, NetworkContext, Subnet, SubnetClaim
from tarmac.api.networking.policy import NetworkPolicy
from tarmac.api.networking.validation.ranges import check_address, check_range, reserved_by
from tarmac.api.networking.validation.trafficrules import check_egress, check_ingress
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_PROVIDERS = ("nodes", "simulated")
_city_code = re.compile(r"[A-Z]{3}").fullmatch


class LocationStrategy(OwnStrategy):
    """Rules of Locations: a city and exactly one provider."""

    def __init__(self) -> None:
        super().__init__(Location)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check topology, provider, coordinates."""
        spec = obj["spec"]
        if spec.get("topology") is not None:
            self._topology(spec["topology"], errors)
        if spec.get("provider") is not None:
            self._provider(spec["provider"], errors)
        for field, limit in (("latitude", 90), ("longitude", 180)):
            self._degrees(mapping(spec, "coordinates").get(field, ""), limit, f"spec.coordinates.{field}", errors)

    @staticmethod
    def _topology(topology: JsonObject, errors: FieldErrors) -> None:
        checks.labels(topology, "spec.topology", errors)
        city, path = topology.get(TOPOLOGY_CITY_CODE, ""), f"spec.topology[{TOPOLOGY_CITY_CODE}]"
        if not city:
            errors.required(path)
        elif not _city_code(city):
            errors.invalid(path, city, "must be an IATA code of three capital letters, e.g. DFW")

    @staticmethod
    def _provider(provider: JsonObject, errors: FieldErrors) -> None:
        chosen = [name for name in _PROVIDERS if provider.get(name) is not None]
        if not chosen:
            errors.required("spec.provider", f"must specify one of: {', '.join(_PROVIDERS)}")
        for name in chosen[1:]:
            errors.forbidden(f"spec.provider.{name}", "may not specify more than 1 provider")

    @staticmethod
    def _degrees(written: str, limit: int, path: str, errors: FieldErrors) -> None:
        try:
            beyond = bool(written) and abs(float(written)) > limit
        except ValueError:
            return  # reported by the pattern
        if beyond:
            errors.invalid(path, written, f"must be between -{limit} and {limit}")


class NetworkStrategy(OwnStrategy):
    """Rules of Networks: address ranges are immutable."""

    immutable = ("spec.ipam.ipv4Range", "spec.ipam.ipv6Range")

    def __init__(self) -> None:
        super().__init__(Network)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the address ranges."""
        ipam, known = mapping(obj["spec"], "ipam"), mapping((old or {}).get("spec") or {}, "ipam")
        for field, family in (("ipv4Range", 4), ("ipv6Range", 6)):
            if ipam.get(field) and ipam[field] != known.get(field):
                check_range(ipam[field], family, f"spec.ipam.{field}", errors)


class AttachmentStrategy(OwnStrategy):
    """Rules of NetworkBindings and NetworkContexts: a network in a place."""

    immutable = ("spec.network", "spec.location")

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the two names."""
        check_names(obj["spec"], ("network", "location"), errors)


class SubnetStrategy(OwnStrategy):
    """Rules of SubnetClaims and Subnets: a range of a network in a place."""

    immutable = ("spec.subnetClass", "spec.networkContext", "spec.location", "spec.ipFamily")

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check the names, and that the start address has the right family and is not reserved."""
        spec = obj["spec"]
        check_names(spec, ("networkContext", "location"), errors)
        family = 6 if spec.get("ipFamily") == "IPv6" else 4
        start = spec.get("startAddress")
        if start and start != ((old or {}).get("spec") or {}).get("startAddress"):
            address = check_address(start, "spec.startAddress", errors, family=family)
            if address is not None and (reason := reserved_by(start)):
                errors.invalid("spec.startAddress", start, reason)
        length = spec.get("prefixLength")
        if family == 4 and length is not None and 32 < length <= 128:
            errors.invalid("spec.prefixLength", length, "must be at most 32 for IPv4")


class OwnNetworkPolicyStrategy(OwnStrategy):
    """Rules of NetworkPolicies, as in Kubernetes."""

    def __init__(self) -> None:
        super().__init__(NetworkPolicy)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check selector and rules."""
        spec = obj["spec"]
        checks.label_selector(spec.get("selector"), "spec.selector", errors)
        if spec.get("network"):
            checks.dns_label(spec["network"], "spec.network", errors)
        for field, check in (("ingress", check_ingress), ("egress", check_egress)):
            if old is None or objects(spec, field) != objects(old, "spec", field):
                check(objects(spec, field), f"spec.{field}", errors)


def check_names(spec: JsonObject, fields: tuple[str, ...], errors: FieldErrors) -> None:
    """Check names of other objects; the declaration's bounds check their presence."""
    for field in fields:
        name = mapping(spec, field).get("name")
        if name:
            checks.dns_subdomain(name, f"spec.{field}.name", errors)


BINDING, CONTEXT = AttachmentStrategy(NetworkBinding), AttachmentStrategy(NetworkContext)
CLAIM, SUBNET = SubnetStrategy(SubnetClaim), SubnetStrategy(Subnet)
