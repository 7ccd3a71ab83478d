"""IngressReferences: checks references of connections from outside, as far as they are known at the write.

The author of a Service or Workload must be allowed to use the AddressPool that it names. Pools must not overlap other
pools and SourceIPClasses, and must not drop a held or resting address. A PublicAddress must lie in its pool. Problems
that come later are reported by the controller as a condition, and an update is not rejected for unchanged fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.ingress.names import (
    ADDRESS_POOLS,
    ANNOTATION_ADDRESSES,
    ANNOTATION_POOL,
    ANNOTATION_SHARED,
    BGP_PEERS,
    LOAD_BALANCER_CLASS,
    PUBLIC_ADDRESSES,
)
from tarmac.api.networking.validation.ranges import check_address
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import conflict, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.names import label_value
from tarmac.server.admission.addresses.sourceranges import RANGE_GUARD, SourceRanges, overlapping, ranges_of
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.refusal import refuse
from tarmac.server.admission.rights import may_use
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer

_SERVICES, _WORKLOADS = "core/services", "compute.datumapis.com/workloads"
_GATED_KINDS: Final = frozenset({ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES})
_MAX_TEXT: Final = 256

Check = Callable[[Attributes, FieldErrors], None]


class IngressReferences(AdmissionPlugin):
    """Checks AddressPools, PublicAddresses, and the annotations of Services and Workloads."""

    name = "IngressReferences"

    def __init__(self, reader: Reader, authorizer: Authorizer) -> None:
        self._reader, self._authorizer = reader, authorizer
        self._ranges = SourceRanges(reader, PUBLIC_ADDRESSES)
        self._checks: Mapping[str, Check] = {
            ADDRESS_POOLS: self._check_pool,
            PUBLIC_ADDRESSES: self._check_address,
            _SERVICES: self._check_service,
            _WORKLOADS: self._check_workload,
        }

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in self._checks and subresource == "" and operation in ("CREATE", "UPDATE")

    def guard(self, resource: Resource, namespace: str) -> str | None:
        """Guard pools and addresses, which are compared with each other and with SourceIPClasses."""
        compared = resource.bucket in (ADDRESS_POOLS, PUBLIC_ADDRESSES)
        return RANGE_GUARD if compared and self._reader.store.shared else None

    def validate(self, attributes: Attributes) -> None:
        """Check the object and report all errors at once."""
        with FieldErrors() as errors:
            self._checks[attributes.resource.bucket](attributes, errors)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _check_pool(self, attributes: Attributes, errors: FieldErrors) -> None:
        if mapping(attributes.obj, "spec").get("ranges") == mapping(attributes.old, "spec").get("ranges"):
            return
        others = self._ranges.offered(without=attributes.name, bucket=ADDRESS_POOLS)
        for index, mine in enumerate(ranges_of(attributes.obj)):
            other = overlapping(mine.bounds, others)
            if other is not None:
                errors.invalid(f"spec.ranges[{index}]", mine.written, f"overlaps {other.written} of {other.holder}")
        dropped = [] if attributes.old is None else self._ranges.dropped(attributes.old, attributes.obj)
        if dropped:
            why = f"spec.ranges must go on holding {', '.join(dropped)}: delete what holds them, and let them rest"
            raise conflict(attributes.resource.group, attributes.resource.plural, attributes.name, why)

    def _check_address(self, attributes: Attributes, errors: FieldErrors) -> None:
        spec = mapping(attributes.obj, "spec")
        pool = self._reader.get(ADDRESS_POOLS, spec["poolName"]) if attributes.old is None else None
        address = ip_address(spec["address"])
        if pool is not None and not any(each.bounds.holds(address) for each in ranges_of(pool)):
            errors.invalid("spec.address", spec["address"], f'must be in a range of AddressPool "{spec["poolName"]}"')

    def _check_service(self, attributes: Attributes, errors: FieldErrors) -> None:
        annotations = self._changed_annotations(attributes)
        self._check_pool_use(annotations.get(ANNOTATION_POOL), attributes, errors)
        _check_addresses(annotations.get(ANNOTATION_ADDRESSES), errors)
        if (shared := annotations.get(ANNOTATION_SHARED)) is not None:
            for message in ["must not be empty"] if not shared else label_value(shared):
                errors.invalid(_path(ANNOTATION_SHARED), shared[:_MAX_TEXT], message)
        spec = mapping(attributes.obj, "spec")
        ours = spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") in (None, LOAD_BALANCER_CLASS)
        if not ours:
            attributes.warnings += [
                f"{_path(key)}: has no effect, as the Service is not of type LoadBalancer with our class"
                for key in (ANNOTATION_POOL, ANNOTATION_ADDRESSES, ANNOTATION_SHARED)
                if key in annotations
            ]

    def _check_workload(self, attributes: Attributes, errors: FieldErrors) -> None:
        annotations = self._changed_annotations(attributes)
        self._check_pool_use(annotations.get(ANNOTATION_POOL), attributes, errors)
        _check_addresses(annotations.get(ANNOTATION_ADDRESSES), errors)
        written = annotations.get(ANNOTATION_ANYCAST)
        if written not in (None, "true", "false"):
            errors.not_supported(_path(ANNOTATION_ANYCAST), str(written)[:_MAX_TEXT], ["true", "false"])
        if _annotations(attributes.obj).get(ANNOTATION_ANYCAST) == "true" and not _has_readiness(attributes.obj):
            attributes.warnings.append(
                "spec.template.spec.runtime: has no readinessProbe, so a city announces the anycast address as soon "
                "as an instance runs, whether it answers or not"
            )

    def _changed_annotations(self, attributes: Attributes) -> dict[str, str]:
        """Return the annotations that this write adds or changes: those of earlier versions stay as they are."""
        before = _annotations(attributes.old)
        return {key: value for key, value in _annotations(attributes.obj).items() if before.get(key) != value}

    def _check_pool_use(self, name: str | None, attributes: Attributes, errors: FieldErrors) -> None:
        if name is None:
            return
        path, count = _path(ANNOTATION_POOL), len(errors)
        checks.dns_subdomain(name[:_MAX_TEXT], path, errors)
        if len(errors) > count:
            return
        if not may_use(self._authorizer, attributes.user, ADDRESS_POOLS, name, attributes.namespace):
            errors.forbidden(path, f'you may not use AddressPool "{name}": ask for the right `use` on it')


def _annotations(obj: JsonObject | None) -> dict[str, str]:
    return mapping(obj, "metadata", "annotations")


def _path(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _check_addresses(written: str | None, errors: FieldErrors) -> None:
    """Check requested addresses: strictly written, at most one of each family."""
    if written is None:
        return
    path, families = _path(ANNOTATION_ADDRESSES), set[int]()
    if len(written) > _MAX_TEXT:
        errors.invalid(path, written[:_MAX_TEXT], "must be at most two addresses, separated by a comma")
        return
    for each in written.split(","):
        address = check_address(each.strip(), path, errors)
        if address is not None and address.version in families:
            errors.invalid(path, written, f"must have at most one IPv{address.version} address")
        if address is not None:
            families.add(address.version)


def _has_readiness(workload: JsonObject | None) -> bool:
    runtime = mapping(workload, "spec", "template", "spec", "runtime")
    if runtime.get("virtualMachine"):
        return True  # by default a machine is ready when its first TCP port opens
    return any(each.get("readinessProbe") for each in objects(runtime, "sandbox", "containers"))


class IngressRejection(AdmissionPlugin):
    """With the feature gate off, refuses the creation of AddressPools, PublicAddresses and BGPPeers.

    Stored objects stay, and may be changed and deleted.
    """

    name = "IngressReferences"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in _GATED_KINDS and subresource == "" and operation == "CREATE"

    def validate(self, attributes: Attributes) -> None:
        raise refuse(attributes, "the feature gate WayIn is off; start the server with --feature-gates WayIn=true")
