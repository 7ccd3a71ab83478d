"""The Pod Security Standards: the errors of each level, word for word."""

from __future__ import annotations

from tests.differential.shared import PODS, pod
from tests.differential.steps import MERGE_PATCH, STRATEGIC_PATCH, Json, create, feature, patch

_NAMESPACE = "/api/v1/namespaces/$ns"
_PREFIX = "pod-security.kubernetes.io/"


def _labelled(**modes: str) -> Json:
    labels = {f"{_PREFIX}{mode.replace('_', '-')}": level for mode, level in modes.items()}
    return patch(MERGE_PATCH, _NAMESPACE, {"metadata": {"labels": labels}})


def _container(name: str = "main", **more: Json) -> Json:
    return {"name": name, "image": "registry.example/app", **more}


def _secured(**context: Json) -> Json:
    return {"containers": [_container(securityContext=context)]}


def _baseline(*specs: Json) -> Json:
    return (_labelled(enforce="baseline"), *(create(PODS, pod(f"p{n}", spec)) for n, spec in enumerate(specs)))


_GOOD = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_GOOD_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def _restricted(*specs: Json) -> Json:
    good = {"containers": [_container(securityContext=_GOOD)], "securityContext": _GOOD_POD}
    pods = [create(PODS, pod(f"p{n}", {**good, **spec})) for n, spec in enumerate(specs)]
    return (_labelled(enforce="restricted"), create(PODS, pod("good", good)), *pods)


CASES = feature(
    "pod security",
    host_namespaces=_baseline({"hostNetwork": True}, {"hostPID": True, "hostIPC": True}),
    privileged_containers=_baseline(
        _secured(privileged=True),
        {"containers": [_container(n, securityContext={"privileged": True}) for n in ("a", "b")]},
    ),
    capabilities=_baseline(
        _secured(capabilities={"add": ["NET_RAW", "SYS_ADMIN"]}), _secured(capabilities={"add": ["CHOWN", "KILL"]})
    ),
    host_paths=_baseline({"volumes": [{"name": n, "hostPath": {"path": "/"}} for n in ("a", "b")]}),
    host_ports=_baseline(
        {"containers": [_container(ports=[{"containerPort": 80, "hostPort": 8080}])]},
        {
            "containers": [
                _container(
                    ports=[{"containerPort": 80, "hostPort": 8080}, {"name": "o", "containerPort": 81, "hostPort": 9}]
                )
            ]
        },
    ),
    probe_hosts=_baseline(
        {"containers": [_container(livenessProbe={"httpGet": {"port": 80, "host": "10.0.0.1"}})]},
        {"containers": [_container(lifecycle={"preStop": {"tcpSocket": {"port": 80, "host": "a"}}})]},
    ),
    proc_mounts=_baseline(_secured(procMount="Unmasked"), {**_secured(procMount="Unmasked"), "hostUsers": False}),
    selinux_options=_baseline(
        _secured(seLinuxOptions={"type": "spc_t", "user": "u"}),
        {"securityContext": {"seLinuxOptions": {"type": "other", "role": "r"}}},
        _secured(seLinuxOptions={"type": "container_t", "level": "s0"}),
    ),
    seccomp_profiles=_baseline(
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        _secured(seccompProfile={"type": "Unconfined"}),
        _secured(seccompProfile={"type": "RuntimeDefault"}),
    ),
    sysctls=_baseline(
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "net.a", "value": "1"}]}},
        {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}},
    ),
    app_armor_profiles=_baseline(
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        _secured(appArmorProfile={"type": "Unconfined"}),
    ),
    everything_at_once=_baseline(
        {
            "hostNetwork": True,
            "volumes": [{"name": "a", "hostPath": {"path": "/"}}],
            "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            "initContainers": [_container("first", securityContext={"privileged": True})],
            "containers": [_container(securityContext={"capabilities": {"add": ["NET_RAW"]}})],
        }
    ),
    restricted_needs_it_said=(_labelled(enforce="restricted"), create(PODS, pod())),
    restricted_users=_restricted(
        {"securityContext": {**_GOOD_POD, "runAsUser": 0}},
        {"securityContext": {**_GOOD_POD, "runAsNonRoot": False}},
        {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
    ),
    restricted_containers=_restricted(
        {"containers": [_container(securityContext={**_GOOD, "allowPrivilegeEscalation": True})]},
        {"containers": [_container(securityContext={**_GOOD, "capabilities": {"drop": ["NET_RAW"]}})]},
        {"containers": [_container(securityContext={**_GOOD, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})]},
        {"containers": [_container(securityContext={**_GOOD, "seccompProfile": {"type": "Unconfined"}})]},
    ),
    restricted_volumes=_restricted(
        {"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "nfs": {"server": "s", "path": "/"}}]},
        {"volumes": [{"name": "a", "emptyDir": {}}]},
    ),
    warnings_beside_a_loose_level=(
        _labelled(enforce="privileged", warn="restricted", warn_version="latest"),
        create(PODS, pod(spec={"hostPID": True})),
    ),
    a_level_that_does_not_exist=(_labelled(enforce="loose"), _labelled(warn="loose", audit_version="2")),
    a_raised_level_names_who_breaks_it=(
        _labelled(enforce="privileged"),
        *(create(PODS, pod(name, {"hostPID": True})) for name in ("c", "b", "a")),
        create(PODS, pod("d", {"hostIPC": True})),
        create(PODS, pod("e", {"hostNetwork": True})),
        create(PODS, pod("f", {"hostNetwork": True})),
        _labelled(enforce="baseline"),
        _labelled(enforce="restricted"),
        _labelled(enforce="baseline"),
    ),
    an_update_that_changes_no_image=(
        _labelled(enforce="privileged"),
        create(PODS, pod(spec={"hostPID": True})),
        _labelled(enforce="baseline"),
        patch(MERGE_PATCH, f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}}),
        patch(STRATEGIC_PATCH, f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "other"}]}}),
    ),
)
