"""Errors of requests."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import JSON, MERGE_PATCH, YAML, Step, create, delete, feature, get, patch, put
from tests.differential.views import nothing

_DEEP = b'{"metadata":{"name":"a"},"data":' + b'{"k":' * 12000 + b"1" + b"}" * 12001
_ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _as_visitor(step: Step) -> Step:
    return step.having({"Impersonate-User": "visitor"})


CASES = feature(
    "errors",
    not_found=get(f"{PODS}/nothing"),
    already_there=(create(ROLES, role()), create(ROLES, role())),
    every_field_at_once=create(
        SERVICES,
        service("Bad_Name", {"type": "Sideways", "sessionAffinity": "Often", "ports": [{"port": 0}, {"port": 1}]}),
    ),
    labels_and_annotations=create(MAPS, config_map(labels={"k": "bad value"}, annotations={"b@d": "v"})),
    owner_references=create(
        MAPS, config_map(ownerReferences=[{"kind": "Pod", "name": "", "apiVersion": "", "uid": ""}])
    ),
    a_pod_without_containers=create(PODS, pod(spec={"containers": []})),
    a_pod_with_bad_parts=create(
        PODS,
        pod(
            spec={
                "dnsPolicy": "Guess",
                "terminationGracePeriodSeconds": -1,
                "volumes": [{"name": "v"}, {"name": "v", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "m",
                        "image": "x",
                        "imagePullPolicy": "Sometimes",
                        "env": [{"name": "9 lives"}],
                        "ports": [{"containerPort": 0}],
                        "volumeMounts": [{"name": "w", "mountPath": ""}],
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    }
                ],
            }
        ),
    ),
    a_method_nobody_offers=(put(MAPS, config_map()), create(f"{MAPS}/a", config_map()), patch(MERGE_PATCH, MAPS, {})),
    a_media_type_nobody_reads=create(MAPS, b"a,b").sending("text/csv"),
    a_patch_type_nobody_knows=(create(MAPS, config_map()), patch("application/x-patch", f"{MAPS}/a", {})),
    a_patch_without_a_type=(create(MAPS, config_map()), patch(JSON, f"{MAPS}/a", {})),
    an_answer_nobody_writes=get(MAPS).accepting("image/png"),
    errors_in_yaml=get(f"{PODS}/nothing").accepting(YAML),
    a_path_nobody_serves=get("/nowhere"),
    a_subresource_nobody_serves=(create(PODS, pod()), get(f"{PODS}/a/unheard")),
    a_path_behind_a_subresource=(create(PODS, pod()), get(f"{PODS}/a/status/more"), get(f"{PODS}/a/log/more")),
    a_method_that_opens_no_stream=(create(PODS, pod()), put(f"{PODS}/a/exec", {}), delete(f"{PODS}/a/attach")),
    a_workload_subresource_nobody_serves=(create(WORKLOADS, workload()), get(f"{WORKLOADS}/a/unheard")),
    too_large=create(MAPS, config_map(data={"k": "x" * (1 << 20)})),
    far_too_large=create(MAPS, b" " * (4 << 20)).viewing(nothing),
    too_deep=create(MAPS, _DEEP),
    without_credentials=get(PODS).anonymous(),
    with_a_wrong_token=get(PODS).anonymous().having({"Authorization": "Bearer wrong"}),
    without_the_right=_as_visitor(get(PODS)),
    without_the_right_to_one=_as_visitor(delete(f"{PODS}/a")),
    without_the_right_to_a_workload=_as_visitor(patch(MERGE_PATCH, f"{WORKLOADS}/a", {})),
    without_the_right_to_a_path=_as_visitor(get("/metrics")),
    may_i=_as_visitor(
        create(_ACCESS, {"spec": {"resourceAttributes": {"namespace": "$ns", "verb": "get", "resource": "pods"}}})
    ),
    granting_more_than_one_has=_as_visitor(create(ROLES, role())),
    a_namespace_for_a_cluster_kind=get("/api/v1/namespaces/$ns/nodes"),
    a_cluster_path_for_a_namespaced_kind=create("/api/v1/configmaps", config_map()),
    a_log_of_a_pod_without_a_node=(create(PODS, pod()), get(f"{PODS}/a/log")),
    a_log_of_nothing=get(f"{PODS}/a/log"),
    options=Step("OPTIONS", MAPS),
    head=(create(MAPS, config_map()), Step("HEAD", f"{MAPS}/a")),
    impersonating_a_group=get(f"{PODS}?labelSelector=x=y").having(
        {"Impersonate-User": "visitor", "Impersonate-Group": "system:masters"}
    ),
    a_trailing_slash=get(f"{MAPS}/?labelSelector=x=y"),
    an_annotation_that_is_too_large=create(MAPS, config_map(annotations={"k": "x" * (257 << 10)})),
    a_duplicate_port=create(SERVICES, service(spec={"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})),
    a_node_port_out_of_range=create(
        SERVICES, service(spec={"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})
    ),
)
