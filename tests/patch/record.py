"""Plays the scenarios against a real kube-apiserver and records its responses.

    TARMAC_PEER_ETCD=… TARMAC_PEER_APISERVER=… python -m tests.patch.record

Run it when a scenario is new or the reference version moves, and read the difference before committing it.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tests.patch.kinds import CRD, RESOURCES
from tests.patch.requests import PATCH_TYPES, body_of
from tests.patch.scenarios import NAME, SCENARIOS, Scenario, Step
from tests.support.peer import Peer, running_peer

RECORDED = Path(__file__).parent / "recorded.json"


class Recorder:
    """Talks to one server."""

    def __init__(self, peer: Peer) -> None:
        self.url, self.token = peer.url, peer.token
        self.context = ssl.create_default_context(cadata=peer.ca)

    def call(self, method: str, path: str, body: Any, content_type: str = "application/json") -> tuple[int, Any]:
        """One request."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def record(self, scenario: Scenario) -> list[JsonObject]:
        """Return the responses to every step, on a fresh object."""
        resource = RESOURCES[scenario.kind]
        answers: list[JsonObject] = []
        live: JsonObject | None = None
        for step in scenario.steps:
            code, answer = self.step(resource, step, live)
            answers.append({"code": code, "answer": answer})
            live = answer if code < 300 else live
        place = f"{collection(resource)}/{NAME}"
        self.call("PATCH", place, {"metadata": {"finalizers": None}}, PATCH_TYPES["merge"])
        self.call("DELETE", place, {})
        return answers

    def step(self, resource: Resource, step: Step, live: JsonObject | None) -> tuple[int, Any]:
        """One step of a scenario."""
        body = body_of(resource, step, live)
        query = f"?fieldManager={step.manager}" + ("&force=true" if step.force else "")
        place = f"{collection(resource)}/{NAME}" + (f"/{step.subresource}" if step.subresource else "")
        if step.verb == "create":
            return self.call("POST", collection(resource) + query, body)
        if step.verb == "update":
            return self.call("PUT", place + query, body)
        return self.call("PATCH", place + query, body, PATCH_TYPES[step.verb])


def collection(resource: Resource) -> str:
    """The URL of a resource in the default namespace."""
    group = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{group}/namespaces/default/{resource.plural}" if resource.namespaced else f"{group}/{resource.plural}"


def main() -> None:
    """Record everything."""
    with running_peer() as peer:
        recorder = Recorder(peer)
        recorder.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
        while recorder.call("GET", collection(RESOURCES["Widget"]), None)[0] != 200:
            time.sleep(0.2)
        answers = {name: recorder.record(scenario) for name, scenario in SCENARIOS.items()}
    lines = (f" {json.dumps(name)}: {json.dumps(steps)}" for name, steps in answers.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
