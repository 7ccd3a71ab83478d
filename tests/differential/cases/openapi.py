"""Published schemas."""

from __future__ import annotations

from tests.differential.steps import Json, Step, feature, get
from tests.differential.views import index_entries, keys, known_types, nothing

_V2 = "/openapi/v2"
_CORE = "/openapi/v3/api/v1"
_RBAC = "/openapi/v3/apis/rbac.authorization.k8s.io/v1"
_COMPUTE = "/openapi/v3/apis/compute.datumapis.com/v1alpha"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
_OURS = "com.datumapis.compute.v1alpha.Workload"


def _whole(path: str) -> Step:
    """A small document: its paths without media types, of which the real server supports more, and its types."""
    return get(f"/openapi/v3/{path}").viewing(lambda body: {"paths": _asked(body["paths"]), "types": _types(body)})


def _asked(paths: Json) -> Json:
    return {
        f"{method} {path}": {**operation, "responses": sorted(operation["responses"])}
        for path, item in paths.items()
        for method, operation in item.items()
    }


def _types(body: Json) -> Json:
    return body["components"].get("schemas", {})


CASES = feature(
    "OpenAPI",
    v2_is_a_document=get(_V2).viewing(keys()),
    v2_of_a_workload=get(_V2).viewing(keys("definitions", _OURS)),
    v2_of_a_path=get(_V2).viewing(keys("paths", f"{_ROLES}/{{name}}")),
    v3_of_groups=get("/openapi/v3").viewing(keys()),
    v3_of_every_entry=get("/openapi/v3").viewing(index_entries),
    v3_of_the_version=_whole("version"),
    v3_of_the_core_versions=_whole("api"),
    v3_of_the_list_of_groups=_whole("apis"),
    v3_of_the_versions_of_a_group=_whole("apis/policy"),
    v3_of_the_issuer=_whole(".well-known/openid-configuration"),
    v3_of_the_issuers_keys=_whole("openid/v1/jwks"),
    v2_of_every_type=get(_V2).viewing(known_types("v2.json", "definitions")),
    v3_of_every_core_type=get(_CORE).viewing(known_types("api__v1.json", "components", "schemas")),
    v3_of_every_rbac_type=get(_RBAC).viewing(
        known_types("apis__rbac.authorization.k8s.io__v1.json", "components", "schemas")
    ),
    v3_of_every_policy_type=get("/openapi/v3/apis/policy/v1").viewing(
        known_types("apis__policy__v1.json", "components", "schemas")
    ),
    v3_of_a_path=get(_RBAC).viewing(keys("paths", _ROLES)),
    v3_of_a_workload=get(_COMPUTE).viewing(keys("components", "schemas", _OURS)),
    v3_of_a_group_nobody_serves=get("/openapi/v3/apis/unicorns.example/v1"),
    v2_as_protobuf=get(_V2).accepting("application/com.github.proto-openapi.spec.v2@v1.0+protobuf").viewing(nothing),
)
