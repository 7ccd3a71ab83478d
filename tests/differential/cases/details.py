"""Details that clients rely on: headers of negotiation, causes, and the words of errors."""

from __future__ import annotations

from tests.differential.shared import MAPS, ROLES, SERVICES, TABLE, config_map, meta, role, service
from tests.differential.steps import JSON_PATCH, MERGE_PATCH, Json, Step, create, feature, get, patch, put

_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_PATHS = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
_OLD_TABLE = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"

_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_CSR = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEJaTUJN"
    "R0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkx6UE0wK0YwY2tFL0pFWnhxM0F5TmZUbFE1QVJrMnk4bW5UMzEwcS9zYWUy"
    "RmVTczM1dWQyZXdpUmsxCmxqRmRwUG5BTnJwT0hQa0wvWUp1WlJldncweWdBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUFIQVNo"
    "WHcvUlUKMXVGN0JwL3pSLzI2aGFENXRUOFl5ZTk2RU0rZXJOaWZGZ0loQU4rL0JNM24yRlBsaW52NnFTd0RnZitneUVHUApWMGV2"
    "ejBISWpmaXhIdFI2Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
)
_CERTIFICATE = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJDakNCc2FBREFnRUNBZ0VITUFvR0NDcUdTTTQ5QkFNQ01BOHhEVEFMQmdO"
    "VkJBTU1CR3BoYm1Vd0hoY04KTWpZd01UQXhNREF3TURBd1doY05Nell3TVRBeE1EQXdNREF3V2pBUE1RMHdDd1lEVlFRRERBUnFZ"
    "VzVsTUZrdwpFd1lIS29aSXpqMENBUVlJS29aSXpqMERBUWNEUWdBRXZNOHpUNFhSeVFUOGtSbkdyY0RJMTlPVkRrQkdUYkx5CmFk"
    "UGZYU3IreHA3WVY1S3pmbTUzWjdDSkdUV1dNVjJrK2NBMnVrNGMrUXY5Z201bEY2L0RUREFLQmdncWhrak8KUFFRREFnTklBREJG"
    "QWlBa3VtTlBKNElRNEtZS3kzWlZNVDMzcWwwTUc1SEVTRUZaN0t3c0x4WFZRQUloQU1lVApwdFlVbXRDRnpSbXZ5L2l1UFB4Zjl1"
    "NndwcmtEY04vcFpqMk1OWitpCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
)


_REVISIONS = "/apis/apps/v1/namespaces/$ns/controllerrevisions"


def _revision(**fields: Json) -> Json:
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta("a"), **fields}


def _status(body: Json) -> Json:
    return body["status"]


CASES = feature(
    "details",
    created_with_version_zero=create(MAPS, config_map(resourceVersion="0")),
    a_cluster_role_that_carries_a_namespace=(
        create(f"{_RBAC}/clusterroles", {**role("$ns-x", namespace="other"), "kind": "ClusterRole"}),
    ),
    a_namespace_that_carries_a_namespace=create("/api/v1/namespaces", {"metadata": meta("$ns-y", namespace="other")}),
    a_revision_without_data=create(_REVISIONS, _revision(revision=1)),
    a_revision_of_nothing=create(_REVISIONS, _revision(revision=1, data=None)),
    a_revision_of_a_list=create(_REVISIONS, _revision(revision=1, data=[1])),
    a_revision_below_zero=create(_REVISIONS, _revision(revision=-1, data={"a": 1})),
    a_revision_whose_data_changes=(
        create(_REVISIONS, _revision(revision=1, data={"a": 1})),
        patch(MERGE_PATCH, f"{_REVISIONS}/a", {"data": {"a": 2}}),
        put(f"{_REVISIONS}/a", _revision(revision=2, data={"a": 1})),
        put(f"{_REVISIONS}/a", _revision(revision=-2, data={"a": 1})),
        get(_REVISIONS).accepting(TABLE),
    ),
    an_empty_limit=get(f"{MAPS}?limit="),
    a_limit_that_is_no_number=get(f"{MAPS}?limit=x"),
    a_negative_limit=get(f"{MAPS}?limit=-1"),
    an_unknown_method_on_a_collection=Step("FROB", MAPS),
    an_unknown_method_on_an_object=Step("FROB", f"{MAPS}/a"),
    options_of_a_collection=Step("OPTIONS", MAPS),
    trace_of_an_object=Step("TRACE", f"{MAPS}/a"),
    head_of_an_object=(create(MAPS, config_map()), Step("HEAD", f"{MAPS}/a")),
    an_unknown_method_on_a_document=Step("FROB", "/version"),
    preferring_yaml_by_quality=(
        create(MAPS, config_map()),
        get(f"{MAPS}/a").accepting("application/json;q=0.5, application/yaml;q=0.9"),
        get(f"{MAPS}/a").accepting("application/json;q=0.9, application/yaml;q=0.5"),
        get(f"{MAPS}/a").accepting("text/html;q=1, */*;q=0.1"),
        get(f"{MAPS}/a").accepting(f"application/json;q=0.1, {TABLE};q=0.9"),
        get(f"{MAPS}/a").accepting("application/json;q=0, application/yaml"),
        get(f"{MAPS}/a").accepting("application/yaml;q=0.5, application/json"),
        get(f"{MAPS}/a").accepting("application/json;q=x, application/yaml;q=0.5"),
        get(f"{MAPS}/a").accepting("application/json; q=0.1 , application/yaml; q=0.2"),
    ),
    a_review_as_a_table=create(_REVIEW, {"spec": _PATHS}).accepting(TABLE),
    a_review_as_a_table_or_json=create(_REVIEW, {"spec": _PATHS}).accepting(f"{TABLE},application/json"),
    a_token_as_a_table=create("/api/v1/namespaces/$ns/serviceaccounts/default/token", {}).accepting(TABLE),
    an_old_table=(
        create(MAPS, config_map()),
        get(f"{MAPS}/a").accepting(_OLD_TABLE),
        get(f"{MAPS}?labelSelector=none").accepting(_OLD_TABLE),
    ),
    old_partial_metadata=(
        create(MAPS, config_map()),
        get(f"{MAPS}/a").accepting("application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"),
        get(f"{MAPS}?labelSelector=none").accepting(
            "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io"
        ),
    ),
    a_review_of_nothing=create(_REVIEW, {"spec": {}}),
    reviews_of_nothing=(
        create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {}}),
        create("/apis/authorization.k8s.io/v1/namespaces/$ns/localsubjectaccessreviews", {"spec": {}}),
        create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}}),
        create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {}}),
    ),
    a_changed_cluster_address=(
        create(SERVICES, service(spec={"clusterIP": "None"})),
        put(f"{SERVICES}/a", service(spec={"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"]})),
        put(f"{SERVICES}/a", service(spec={"clusterIP": "", "clusterIPs": ["None"]})),
        create(SERVICES, service("b", spec={"clusterIP": "None", "clusterIPs": ["None", "None"]})),
        create(SERVICES, service("c", spec={"clusterIP": "10.0.0.1", "clusterIPs": ["None"]})),
        create(SERVICES, service("d", spec={"clusterIPs": ["x"]})),
        create(SERVICES, service("e", spec={"type": "ExternalName", "externalName": "x", "clusterIPs": ["10.0.0.9"]})),
    ),
    wrong_finalizers=(
        get("/api/v1/namespaces/$ns").viewing(lambda _: None).keep(rv="metadata.resourceVersion"),
        put(
            "/api/v1/namespaces/$ns/finalize",
            {"metadata": meta("$ns", resourceVersion="$rv"), "spec": {"finalizers": ["kubernetes", "b@d", "plain"]}},
        ),
        create(MAPS, config_map(finalizers=["b@d", "plain"])),
    ),
    a_wrong_cluster_address=create(SERVICES, service(spec={"clusterIP": "x"})),
    wrong_cluster_addresses=create(SERVICES, service(spec={"clusterIP": "10.0.0.300", "clusterIPs": ["10.0.0.300"]})),
    a_wrong_finalizer_of_a_namespace=create(
        "/api/v1/namespaces", {"metadata": meta("$ns-z"), "spec": {"finalizers": ["unqualified"]}}
    ),
    managed_fields_emptied_by_put=(
        create(MAPS, config_map()),
        put(f"{MAPS}/a", config_map(data={"k": "v"}, managedFields=[])),
        put(f"{MAPS}/a", config_map(data={"k": "w"})),
        put(f"{MAPS}/a", config_map(data={"k": "w"}, managedFields=[{}])),
        patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"managedFields": []}}),
        patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"managedFields": [{}]}}),
    ),
    a_binding_to_a_missing_role=create(
        f"{_RBAC}/namespaces/$ns/rolebindings",
        {
            "metadata": meta("a"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
            "subjects": [],
        },
    ),
    a_binding_to_a_missing_role_by_somebody=(
        create(ROLES, role("binder", [{"apiGroups": ["*"], "resources": ["rolebindings"], "verbs": ["*"]}])),
        create(
            f"{_RBAC}/namespaces/$ns/rolebindings",
            {
                "metadata": meta("binder"),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "binder"},
                "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
            },
        ),
        create(
            f"{_RBAC}/namespaces/$ns/rolebindings",
            {
                "metadata": meta("a"),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
                "subjects": [],
            },
        ).having({"Impersonate-User": "jane"}),
        create(
            f"{_RBAC}/namespaces/$ns/rolebindings",
            {
                "metadata": meta("a"),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"},
                "subjects": [],
            },
        ).having({"Impersonate-User": "jane"}),
    ),
    a_document_by_its_hash=(
        get("/openapi/v3/api/v1").viewing(lambda _: None).showing("cache-control", "vary", "expires"),
        get("/openapi/v3").viewing(lambda _: None).keep(url="paths.api/v1.serverRelativeURL").showing("cache-control"),
        get("$url").viewing(lambda _: None).showing("cache-control", "vary"),
    ),
    what_is_not_to_be_sniffed=(
        get("/nothing").showing("x-content-type-options"),
        get("/healthz").showing("x-content-type-options", "cache-control"),
        get("/livez/ping").showing("x-content-type-options"),
        get("/healthz/nothing").showing("x-content-type-options"),
        get("/version").viewing(lambda _: None).showing("x-content-type-options"),
        get(MAPS).viewing(lambda _: None).showing("x-content-type-options", "cache-control"),
        get(f"{MAPS}/none").showing("x-content-type-options", "cache-control"),
        get("/metrics").viewing(lambda _: None).showing("x-content-type-options"),
        get(MAPS).anonymous().showing("x-content-type-options", "cache-control"),
        get("/api/v1/namespaces/$ns/nothing").showing("x-content-type-options"),
        Step("FROB", MAPS).showing("x-content-type-options"),
    ),
    the_id_of_an_audit=(
        get(f"{MAPS}/none").having({"Audit-ID": "chosen"}).showing("audit-id"),
        get(f"{MAPS}/none").having({"Audit-ID": "x" * 70}).showing("audit-id"),
    ),
    a_certificate_patched_in_after_the_approval=(
        create(
            _REQUESTS,
            {
                "metadata": meta("$ns-csr"),
                "spec": {"request": _CSR, "signerName": "example.com/any", "usages": ["client auth"]},
            },
        ).viewing(_status),
        patch(
            MERGE_PATCH,
            f"{_REQUESTS}/$ns-csr/approval",
            {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}},
        ).viewing(_status),
        patch(MERGE_PATCH, f"{_REQUESTS}/$ns-csr/status", {"status": {"certificate": _CERTIFICATE}}).viewing(_status),
        patch(MERGE_PATCH, f"{_REQUESTS}/$ns-csr/status", {"status": {"certificate": None}}),
        patch(JSON_PATCH, f"{_REQUESTS}/$ns-csr/status", [{"op": "remove", "path": "/status/conditions"}]),
    ),
)
