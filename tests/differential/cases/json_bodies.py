"""JSON bodies in odd forms."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS
from tests.differential.steps import create, feature

CASES = feature(
    "JSON bodies",
    without_kind_and_version=create(MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}),
    nulls_count_as_absent=create(MAPS, {"metadata": {"name": "a", "labels": None}, "data": None}),
    null_values_in_maps=create(MAPS, b'{"metadata":{"name":"a"},"data":{"k":null}}'),
    names_in_any_letter_case=create(MAPS, b'{"Metadata":{"Name":"a"},"DATA":{"k":"v"}}'),
    unicode=create(MAPS, '{"metadata":{"name":"a"},"data":{"k":"ü→\\u00e9\\ud83d\\ude00"}}'.encode()),
    a_number_where_text_belongs=create(MAPS, {"metadata": {"name": "a"}, "data": {"k": 1}}),
    text_where_a_number_belongs=create(SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": "80"}]}}),
    a_fraction_where_a_number_belongs=create(SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 8.5}]}}),
    a_list_where_an_object_belongs=create(MAPS, {"metadata": []}),
    an_object_where_a_list_belongs=create(ROLES, {"metadata": {"name": "a"}, "rules": {}}),
    quantities_in_canonical_form=create(
        PODS,
        {
            "metadata": {"name": "a"},
            "spec": {
                "serviceAccountName": "default",
                "automountServiceAccountToken": False,
                "containers": [{"name": "m", "image": "x", "resources": {"limits": {"cpu": 0.5, "memory": "1024Ki"}}}],
            },
        },
    ),
    a_quantity_that_is_none=create(
        PODS,
        {
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "m", "image": "x", "resources": {"limits": {"cpu": "much"}}}]},
        },
    ),
    a_time_that_is_none=create(MAPS, {"metadata": {"name": "a", "creationTimestamp": "yesterday"}}),
    a_workload_with_wrong_types=create(
        WORKLOADS,
        {
            "apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "Workload",
            "metadata": {"name": "a"},
            "spec": {"template": {}, "placements": "everywhere"},
        },
    ),
    cut_short=create(MAPS, b'{"metadata":{"name":"a"'),
    empty=create(MAPS, b""),
    not_an_object=create(MAPS, b"[]"),
    text=create(MAPS, b'"a"'),
    followed_by_more=create(MAPS, b'{"metadata":{"name":"a"}} {"x":1}'),
    a_workload_cut_short=create(WORKLOADS, b'{"apiVersion":"compute.datumapis.com/v1alpha"'),
)
