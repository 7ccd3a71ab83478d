"""Logs, streams and proxies of pods without a node: errors before any node is contacted."""

from __future__ import annotations

from tests.differential.shared import PODS, SERVICES, pod, service
from tests.differential.steps import create, feature, get
from tests.differential.views import nothing

_TWO = {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}

CASES = feature(
    "pod streams",
    a_log_before_anything_ran=(create(PODS, pod()).viewing(nothing), get(f"{PODS}/a/log")),
    a_log_of_nobody=get(f"{PODS}/nobody/log"),
    a_log_with_bad_numbers=(
        create(PODS, pod()).viewing(nothing),
        get(f"{PODS}/a/log?tailLines=-1&limitBytes=0"),
        get(f"{PODS}/a/log?sinceSeconds=0"),
        get(f"{PODS}/a/log?sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z"),
        get(f"{PODS}/a/log?stream=Stdout"),
    ),
    which_container=(
        create(PODS, pod(spec=_TWO)).viewing(nothing),
        get(f"{PODS}/a/log"),
        get(f"{PODS}/a/log?container=c"),
        get(f"{PODS}/a/log?container=b"),
        get(f"{PODS}/a/exec?command=true&stdout=true"),
    ),
    streams_without_a_node=(
        create(PODS, pod()).viewing(nothing),
        get(f"{PODS}/a/exec?command=true&stdout=true"),
        get(f"{PODS}/a/attach?stdout=true"),
        get(f"{PODS}/a/portforward"),
    ),
    proxies_to_nowhere=(
        create(PODS, pod()).viewing(nothing),
        get(f"{PODS}/a/proxy/"),
        get(f"{PODS}/ftp:a:1/proxy/"),
        get(f"{PODS}/nobody/proxy/"),
        create(SERVICES, service()).viewing(nothing),
        get(f"{SERVICES}/a:12345/proxy/"),
        get(f"{SERVICES}/nobody/proxy/"),
    ),
)
