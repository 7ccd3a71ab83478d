"""Rules of ExternalServices: one target, the sources with their addresses, and the ports."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import MAX_FORWARDER_RULES
from tarmac.api.egress.names import NAMESPACE
from tarmac.api.egress.targets import not_outside, reserved_for
from tarmac.api.networking.validation.ranges import Address, check_address
from tarmac.api.ownkinds import OwnStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


def check_namespace(obj: JsonObject, errors: FieldErrors) -> None:
    """Reject objects of users in the namespace of the platform's Forwarders and Gateways."""
    if obj["metadata"].get("namespace") == NAMESPACE:
        errors.forbidden("metadata.namespace", f"{NAMESPACE} holds Forwarders and Gateways only: use another namespace")


class ExternalServiceStrategy(OwnStrategy):
    """Rules of ExternalServices: one target, the sources with their addresses, and the ports."""

    def __init__(self) -> None:
        super().__init__(ExternalService)

    def check_spec(self, obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        """Check name, target, sources, ports."""
        spec, metadata = obj["spec"], obj["metadata"]
        if old is None:
            check_namespace(obj, errors)
            if metadata.get("name"):
                checks.dns_label(metadata["name"], "metadata.name", errors)
        target = _check_target(spec.get("targetIP", ""), errors)
        _check_sources(objects(spec, "sources"), target, metadata.get("namespace", ""), errors)
        _check_ports(objects(spec, "ports"), errors)
        _check_rules(obj, old, errors)
        if location := mapping(spec, "gateway").get("location"):
            checks.dns_subdomain(location, "spec.gateway.location", errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        """Return warnings about accepted fields without effect."""
        ports = objects(mapping(obj, "spec"), "ports")
        ignored = [index for index, port in enumerate(ports) if port.get("nodePort")]
        return [f"spec.ports[{index}].nodePort: has no effect, Pods dial targetPort" for index in ignored]


def _check_target(written: str, errors: FieldErrors) -> Address | None:
    target = check_address(written, "spec.targetIP", errors) if written else None
    reserved = reserved_for(target) if target is not None else None
    if reserved is not None:
        errors.invalid("spec.targetIP", written, not_outside(reserved))
    return target


def _check_sources(sources: list[JsonObject], target: Address | None, namespace: str, errors: FieldErrors) -> None:
    seen: set[tuple[str, str]] = set()
    for index, source in enumerate(sources):
        path, service = f"spec.sources[{index}]", mapping(source, "service")
        _check_source(source, target, path, errors)
        named = f"{service.get('namespace') or namespace}/{service.get('name', '')}"
        key = (named, source.get("location", ""))
        if key in seen:
            errors.duplicate(path, named)
        seen.add(key)


def _check_rules(obj: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
    """Reject more rules than a Forwarder holds on a node with one Pod of each source; older ones may not grow."""
    needed = _rules_of_one_pod_each(obj)
    if needed > MAX_FORWARDER_RULES and (old is None or needed > _rules_of_one_pod_each(old)):
        ports = len(objects(obj["spec"], "ports"))
        detail = (
            f"must be fewer: {ports} ports for {needed // ports} sources are {needed} rules on a node with one Pod of "
            f"each, and a node holds {MAX_FORWARDER_RULES} of one ExternalService; "
            "give some sources to another ExternalService of the same target"
        )
        errors.invalid("spec.ports", ports, detail)


def _rules_of_one_pod_each(obj: JsonObject) -> int:
    """Return the rules of a node with one Pod of each Service. Nodes have one Location, so the fullest one counts."""
    sources, own = objects(obj["spec"], "sources"), obj["metadata"].get("namespace", "")
    places = {source.get("location", "") for source in sources}
    services = [
        {
            (mapping(source, "service").get("namespace") or own, mapping(source, "service").get("name"))
            for source in sources
            if source.get("location", "") in ("", place)
        }
        for place in places
    ]
    return max(map(len, services), default=0) * len(objects(obj["spec"], "ports"))


def _check_source(source: JsonObject, target: Address | None, path: str, errors: FieldErrors) -> None:
    service = mapping(source, "service")
    for field in ("name", "namespace"):
        if service.get(field):
            checks.dns_label(service[field], f"{path}.service.{field}", errors)
    if source.get("location"):
        checks.dns_subdomain(source["location"], f"{path}.location", errors)
    written, claim = source.get("sourceIP"), source.get("sourceIPClaim")
    if not written and claim is None:
        errors.required(f"{path}.sourceIP", "must specify one of: sourceIP, sourceIPClaim")
    elif written and claim is not None:
        errors.forbidden(f"{path}.sourceIPClaim", "may not be specified beside `sourceIP`")
    if claim is not None and claim.get("name"):
        checks.dns_subdomain(claim["name"], f"{path}.sourceIPClaim.name", errors)
    if written:
        address = check_address(written, f"{path}.sourceIP", errors)
        if address is not None and target is not None and address.version != target.version:
            errors.invalid(f"{path}.sourceIP", written, f"must be an IPv{target.version} address, as the target is")


def _check_ports(ports: list[JsonObject], errors: FieldErrors) -> None:
    port_names: set[str] = set()
    dialled: set[tuple[object, str]] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            checks.dns_label(name, f"{path}.name", errors)
            if name in port_names:
                errors.duplicate(f"{path}.name", name)
            port_names.add(name)
        elif len(ports) > 1:
            errors.required(f"{path}.name", "must be set when there are several ports")
        dial = _dialled_port(port, path, errors)
        key = (dial, port.get("protocol", "TCP"))
        if dial is not None and key in dialled:
            errors.duplicate(f"{path}.targetPort", dial)
        dialled.add(key)


def _dialled_port(port: JsonObject, path: str, errors: FieldErrors) -> int | None:
    """Return the port that Pods dial.

    No container can resolve a port name here, so only the port's own name is accepted.
    """
    written = port.get("targetPort", port.get("port"))
    if isinstance(written, str):
        if written and written == port.get("name"):
            return port.get("port")
        errors.invalid(f"{path}.targetPort", written, "must be a number, or the name of this port")
        return None
    if "targetPort" in port and written is not None:
        checks.port_number(written, f"{path}.targetPort", errors)
    return written
