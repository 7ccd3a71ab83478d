"""GET of one object."""

from __future__ import annotations

from tests.differential.shared import (
    MAPS,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    WORKLOADS,
    config_map,
    pod,
    role,
    service,
    workload,
)
from tests.differential.steps import YAML, create, feature, get

CASES = feature(
    "get",
    a_config_map=(create(MAPS, config_map(data={"k": "v"})), get(f"{MAPS}/a")),
    a_pod=(create(PODS, pod()), get(f"{PODS}/a")),
    a_service=(create(SERVICES, service()), get(f"{SERVICES}/a")),
    a_role=(create(ROLES, role()), get(f"{ROLES}/a")),
    a_workload=(create(WORKLOADS, workload()), get(f"{WORKLOADS}/a")),
    a_name_that_is_not_there=get(f"{MAPS}/nothing"),
    a_role_that_is_not_there=get(f"{ROLES}/nothing"),
    a_workload_that_is_not_there=get(f"{WORKLOADS}/nothing"),
    as_yaml=(create(MAPS, config_map(data={"k": "v"})), get(f"{MAPS}/a").accepting(YAML)),
    of_any_version=(create(MAPS, config_map()), get(f"{MAPS}/a?resourceVersion=0")),
    at_a_version_it_has=(
        create(MAPS, config_map()).keep(rv="metadata.resourceVersion"),
        get(f"{MAPS}/a?resourceVersion=$rv"),
    ),
    at_a_version_that_is_no_number=(create(MAPS, config_map()), get(f"{MAPS}/a?resourceVersion=abc")),
    in_a_form_nobody_knows=(create(MAPS, config_map()), get(f"{MAPS}/a").accepting("text/csv")),
    with_unknown_parameters=(create(MAPS, config_map()), get(f"{MAPS}/a?pretty=false&unheard=of")),
    a_secret=(create(SECRETS, {"metadata": {"name": "a"}, "stringData": {"k": "v"}}), get(f"{SECRETS}/a")),
    ephemeral_containers=(create(PODS, pod()), get(f"{PODS}/a/ephemeralcontainers")),
    prettily=(create(MAPS, config_map()), get(f"{MAPS}/a?pretty=true")),
)
