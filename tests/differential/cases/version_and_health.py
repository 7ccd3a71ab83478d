"""The first requests of probes and clients: version and health."""

from __future__ import annotations

from tests.differential.steps import feature, get
from tests.differential.views import keys, nothing

CASES = feature(
    "version and health",
    version=get("/version").viewing(keys()),
    version_without_credentials=get("/version").anonymous().viewing(keys()),
    healthz=get("/healthz"),
    livez=get("/livez"),
    readyz=get("/readyz"),
    readyz_without_credentials=get("/readyz").anonymous(),
    one_check=get("/livez/ping"),
    a_check_nobody_has=get("/readyz/unicorn"),
    verbose=get("/livez?verbose").viewing(lambda text: text.splitlines()[-1]),
    excluding_a_check=get("/livez?exclude=ping"),
    metrics=get("/metrics").viewing(nothing),
    metrics_without_credentials=get("/metrics").anonymous(),
    root=get("/").viewing(keys()),
)
