"""YAML bodies in odd forms."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS
from tests.differential.steps import YAML, Step, create, feature, put


def _yaml(path: str, text: str) -> Step:
    return create(path, text.encode()).sending(YAML)


_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
_WORKLOAD = """
apiVersion: compute.datumapis.com/v1alpha
kind: Workload
metadata: {name: a}
spec:
  template:
    spec:
      runtime:
        resources: {instanceType: datumcloud/d1-standard-2}
        sandbox:
          containers:
          - {name: main, image: "registry.example/app:1"}
      networkInterfaces:
      - {name: eth0, network: {name: default}}
  placements:
  - name: eu
    cityCodes: [AMS]
    scaleSettings: {minReplicas: 1}
"""

CASES = feature(
    "YAML bodies",
    a_config_map=_yaml(MAPS, _MAP + "data:\n  k: |\n    two\n    lines\n"),
    a_pod=_yaml(
        PODS,
        "metadata: {name: a}\nspec:\n  serviceAccountName: default\n  automountServiceAccountToken: false\n"
        "  containers:\n  - name: m\n    image: x\n    command: [sh, -c, 'exit 0']\n",
    ),
    a_service=_yaml(SERVICES, "metadata: {name: a}\nspec:\n  ports:\n  - port: 80\n    targetPort: 0x50\n"),
    a_role=_yaml(ROLES, "metadata: {name: a}\nrules:\n- apiGroups: ['']\n  resources: [pods]\n  verbs: [get]\n"),
    a_workload=_yaml(WORKLOADS, _WORKLOAD),
    anchors=_yaml(MAPS, _MAP + "data:\n  k: &x v\n  l: *x\n"),
    words_that_mean_true=_yaml(MAPS, _MAP + "immutable: yes\n"),
    a_number_where_text_belongs=_yaml(MAPS, _MAP + "data:\n  k: 1\n"),
    a_date_where_text_belongs=_yaml(MAPS, _MAP + "data:\n  k: 2026-01-01\n"),
    comments_and_a_marker=_yaml(MAPS, "# hello\n---\n" + _MAP),
    two_documents=_yaml(MAPS, _MAP + "---\n" + _MAP),
    a_tab=_yaml(MAPS, "metadata:\n\tname: a\n"),
    an_open_bracket=_yaml(MAPS, "metadata: {name: a\n"),
    no_mapping=_yaml(MAPS, "- a\n- b\n"),
    an_update=(_yaml(MAPS, _MAP), put(f"{MAPS}/a", (_MAP + "data: {k: v}\n").encode()).sending(YAML)),
    json_is_yaml=_yaml(MAPS, '{"metadata":{"name":"a"},"data":{"k":"v"}}'),
)
