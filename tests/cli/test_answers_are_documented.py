"""Responses that the verbs read are part of the server's published interface."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tarmac.api.discovery import Discovery
from tarmac.api.openapi.documents import OpenAPI

GROUP = "apis/compute.datumapis.com/v1alpha"
ANSWER = "com.datumapis.compute.v1alpha"


def document() -> Any:
    found = OpenAPI(build_catalog()).v3(GROUP)
    assert found is not None
    return msgspec.json.decode(found.body)


def test_discovery_lists_the_subresources() -> None:
    discovery = Discovery(build_catalog())
    own = msgspec.json.decode(discovery.resources("compute.datumapis.com", "v1alpha") or b"")["resources"]
    verbs = {row["name"]: row["verbs"] for row in own}
    assert verbs["workloads/why"] == verbs["workloaddeployments/why"] == verbs["instances/why"] == ["get"]
    assert verbs["workloads/plan"] == ["create"]
    core = msgspec.json.decode(discovery.resources("", "v1") or b"")["resources"]
    assert {"nodes/why", "pods/why"} <= {row["name"] for row in core}


def test_the_answers_have_schemas_of_their_own() -> None:
    found = document()
    schemas = found["components"]["schemas"]
    assert list(schemas[f"{ANSWER}.Explanation"]["properties"]) == ["object", "sentence", "verdicts", "change"]
    assert {"accepted", "causes", "cities"} <= schemas[f"{ANSWER}.Plan"]["properties"].keys()
    home = f"/{GROUP}/namespaces/{{namespace}}/workloads/{{name}}"
    answer = found["paths"][f"{home}/why"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": f"#/components/schemas/{ANSWER}.Explanation"}
    asked = found["paths"][f"{home}/plan"]["post"]["requestBody"]["content"]["*/*"]["schema"]
    assert asked == {"$ref": f"#/components/schemas/{ANSWER}.Workload"}


def test_a_definition_for_another_server_promises_only_what_that_can_serve() -> None:
    for definition in crd_documents(build_catalog()):
        for version in definition["spec"]["versions"]:
            assert version["subresources"].keys() <= {"status", "scale"}
