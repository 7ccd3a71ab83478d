"""The strategy of Services, called by the server."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.services import families, validation
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_TYPES_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_AFFINITY_SECONDS = 10800
_OLD_HINTS = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"


class ServiceStrategy(KubernetesStrategy):
    """Families, addresses and ports, which depend on the type and on each other."""

    has_status = True
    allow_create_on_update = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        _default_affinity(spec)
        kind = spec.get("type") or "ClusterIP"
        spec["type"] = kind
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if families.externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind in _TYPES_WITH_ADDRESS:
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in checks.objects(obj, "status", "loadBalancer", "ingress"):
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")
        families.drop_type_dependent_fields(new["spec"], old["spec"])

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        validation.validate_service(obj, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        validation.validate_update(new, old, errors)
        validation.validate_service(new, errors, old)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        validation.validate_status(new, errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        spec, found = obj["spec"], list[str]()
        if _OLD_HINTS in checks.annotations_of(obj):
            found.append(f"annotation {_OLD_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead")
        if families.is_headless(spec):
            if spec.get("loadBalancerIP"):
                found.append("spec.loadBalancerIP is ignored for headless services")
            if spec.get("externalIPs"):
                found.append("spec.externalIPs is ignored for headless services")
            if spec.get("sessionAffinity") != "None":
                found.append("spec.SessionAffinity is ignored for headless services")
        external = spec["type"] == "ExternalName"
        if external and spec.get("externalIPs"):
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if not external and spec.get("externalName"):
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def selectable_fields(self, obj: JsonObject) -> dict[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


def _default_affinity(spec: JsonObject) -> None:
    affinity = spec.get("sessionAffinity") or "None"
    spec["sessionAffinity"] = affinity
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        client = checks.mapping(spec, "sessionAffinityConfig", "clientIP")
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
