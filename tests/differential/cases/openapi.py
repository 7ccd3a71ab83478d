"""Published schemas."""

from __future__ import annotations

from tests.differential.steps import feature, get
from tests.differential.views import at, keys, nothing

_V2 = "/openapi/v2"
_CORE = "/openapi/v3/api/v1"
_RBAC = "/openapi/v3/apis/rbac.authorization.k8s.io/v1"
_COMPUTE = "/openapi/v3/apis/compute.datumapis.com/v1alpha"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
_OURS = "com.datumapis.compute.v1alpha.Workload"

CASES = feature(
    "OpenAPI",
    v2_is_a_document=get(_V2).viewing(keys()),
    v2_of_a_config_map=get(_V2).viewing(at("definitions", "io.k8s.api.core.v1.ConfigMap")),
    v2_of_a_service=get(_V2).viewing(at("definitions", "io.k8s.api.core.v1.ServiceSpec")),
    v2_of_a_container=get(_V2).viewing(at("definitions", "io.k8s.api.core.v1.Container")),
    v2_of_a_role=get(_V2).viewing(at("definitions", "io.k8s.api.rbac.v1.Role")),
    v2_of_a_workload=get(_V2).viewing(keys("definitions", _OURS)),
    v2_of_a_path=get(_V2).viewing(keys("paths", f"{_ROLES}/{{name}}")),
    v3_of_groups=get("/openapi/v3").viewing(keys()),
    v3_of_a_pod=get(_CORE).viewing(at("components", "schemas", "io.k8s.api.core.v1.PodSpec")),
    v3_of_a_config_map=get(_CORE).viewing(at("components", "schemas", "io.k8s.api.core.v1.ConfigMap")),
    v3_of_a_role=get(_RBAC).viewing(at("components", "schemas", "io.k8s.api.rbac.v1.Role")),
    v3_of_a_path=get(_RBAC).viewing(keys("paths", _ROLES)),
    v3_of_a_workload=get(_COMPUTE).viewing(keys("components", "schemas", _OURS)),
    v3_of_a_group_nobody_serves=get("/openapi/v3/apis/unicorns.example/v1"),
    v2_as_protobuf=get(_V2).accepting("application/com.github.proto-openapi.spec.v2@v1.0+protobuf").viewing(nothing),
)
