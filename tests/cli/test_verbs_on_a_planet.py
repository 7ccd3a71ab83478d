"""The verbs against a server with its controllers and simulated nodes, in virtual time.

Each verb also runs against a server without our subresources, like a Kubernetes API server with our CRDs: the command
then computes the result itself, and it must be equal.
"""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation, Plan
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, NotFound
from tarmac.apps.commands import parser
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import parse_object
from tarmac.cli.verbs.plan import plan, planned
from tarmac.cli.verbs.rollout import rollout
from tarmac.cli.verbs.why import explain, why, why_anything
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport
from tarmac.server.security.users import User
from tests.controllers.planet import Planet, play, workload

NOT_FOUND = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no"}'


class WithoutSubresources:
    """A server that does not know `why`, `plan` and `connections`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.refused = 0

    async def request(self, request: ClientRequest) -> Reply:
        if request.path.endswith(("/why", "/plan", "externalservices/db/connections")):
            self.refused += 1
            return Reply(404, {}, NOT_FOUND)
        return await self._inner.request(request)

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class Terminal(io.StringIO):
    """A screen, or a file."""

    def __init__(self, live: bool) -> None:
        super().__init__()
        self._live = live

    def isatty(self) -> bool:
        return self._live


class Desk:
    """A user with a command line, at a planet."""

    def __init__(self, planet: Planet, *, live: bool = False) -> None:
        self.planet = planet
        self.client: Client = planet.user
        self.elsewhere = Client(WithoutSubresources(planet.user.transport), planet.user.clock)
        self.out, self.err = Terminal(live), Terminal(False)
        self.console = Console(self.out, self.err)

    async def why(self, words: str) -> Explanation:
        """Return the explanation, which must be the same from the server and from the command."""
        target, name = parse_object([words])
        answers = [await explain(each, target, "default", name, self.console) for each in (self.client, self.elsewhere)]
        assert answers[0] == answers[1]
        return answers[0]

    async def plan(self, obj: JsonObject, *without: str) -> Plan:
        """Return the plan, which must be the same from the server and from the command."""
        answers = [
            await planned(each, json.loads(json.dumps(obj)), without, self.console)
            for each in (self.client, self.elsewhere)
        ]
        assert answers[0] == answers[1]
        return answers[0]

    async def rollout(self, *words: str) -> int:
        """Run `tarmac rollout …`."""
        return await rollout(self.client, "default", parser().parse_args(["rollout", *words]), self.console)


async def settled(planet: Planet) -> Desk:
    """Run a story on a planet with every controller, the real scheduler too, once everything is in place."""
    await planet.stop()
    planet.locating = planet.binding = False
    planet.start("*")
    await planet.wait(15)
    return Desk(planet)


def big(cpu: str, **more: Any) -> JsonObject:
    """A Workload of instances of this size, all started at once."""
    obj = workload(policy="Parallel", **more)
    runtime = obj["spec"]["template"]["spec"]["runtime"]
    runtime["resources"] = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": cpu, "memory": "1Gi"}}
    return obj


def test_a_workload_is_explained_before_and_after_it_runs() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW", "LHR"), replicas=2)
        await planet.ready(4)
        found = await desk.why("workload/web")
        assert found.sentence == "Workload default/web has 4 of 4 instances ready in 2 of 2 cities."
        assert [(line.city, line.answer) for line in found.verdicts] == [("DFW", "Yes"), ("LHR", "Yes")]
        for word, kind in {"wd": planet.deployments, "inst": planet.instances, "po": planet.pods}.items():
            for obj in await planet.all(kind):
                lines = (await desk.why(f"{word}/{obj['metadata']['name']}")).verdicts
                assert {line.answer for line in lines} == {"Yes"}

    play(story)


def test_a_bare_name_is_looked_for_from_workloads_down() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW",), replicas=1)
        await planet.ready(1)
        (deployment,) = await planet.all(planet.deployments)
        (instance,) = await planet.all(planet.instances)
        for name, kind in (
            ("web", "Workload"),
            (deployment["metadata"]["name"], "WorkloadDeployment"),
            (instance["metadata"]["name"], "Instance"),
        ):
            for client in (desk.client, desk.elsewhere):
                assert await why_anything(client, "default", name, desk.console, "text") == 0
                assert f"{kind} default/{name} " in desk.out.getvalue().replace("\n", " ")
        with pytest.raises(NotFound, match='nothing in namespace "default" is called "wbe"'):
            await why_anything(desk.client, "default", "wbe", desk.console, "text")

    play(story)


def test_a_plan_tells_what_then_happens() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        obj = workload(cities=("DFW", "LHR"), replicas=2)
        found = await desk.plan(obj)
        assert [(city.city, city.create, city.refused) for city in found.cities] == [("DFW", 2, []), ("LHR", 2, [])]
        assert not await planet.all(planet.workloads), "a plan stores nothing"
        await planet.workloads.create(obj)
        await planet.ready(4)
        assert [(city.create, city.keep) for city in (await desk.plan(obj)).cities] == [(0, 2), (0, 2)]
        changed = workload(cities=("DFW",), replicas=3, image="example.com/app:2")
        assert [(city.city, city.create, city.replace, city.delete) for city in (await desk.plan(changed)).cities] == [
            ("DFW", 1, 2, 0),
            ("LHR", 0, 0, 2),
        ]

    play(story)


def test_oversized_instances_are_refused_by_plan_and_explained_by_why() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        obj = big("20", cities=("DFW",), replicas=3)
        (city,) = (await desk.plan(obj)).cities
        assert [(each.reason, each.instances) for each in city.refused] == [("InsufficientCapacity", 1)]
        assert not (await desk.plan(obj)).runs
        await planet.workloads.create(obj)
        await planet.wait(15)
        found = await desk.why("workload/web")
        assert found.sentence.endswith("; in DFW: 1 of 3 instances: 0/2 nodes at dfw: 2 Insufficient cpu.")
        assert [line.node for line in found.verdicts] == ["", "dfw-0", "dfw-1"]
        assert found.change == "Ask for at most 12 CPUs, or free 8 CPUs on dfw-0."

    play(story)


def test_a_manifest_that_breaks_rules_is_refused_with_every_cause() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        found = await desk.plan(workload(cities=("XYZ",), replicas=0))
        assert not found.accepted
        assert [cause.field for cause in found.causes] == [
            "spec.placements[0].cityCodes[0]",
            "spec.placements[0].scaleSettings.minReplicas",
        ]

    play(story)


def test_exit_codes_and_json_are_as_documented(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk, file = await settled(planet), tmp_path / "web.yaml"
        file.write_text(json.dumps(workload(cities=("DFW",))))
        assert await plan(desk.client, "default", str(file), [], desk.console, "json") == 0
        document = json.loads(desk.out.getvalue())
        assert document.keys() == {"accepted", "causes", "cities", "anycast"}
        assert {"city", "create", "replace", "delete", "refused"} <= document["cities"][0].keys()
        assert await plan(desk.client, "default", str(file), ["DFW"], desk.console, "text") == 2

        await planet.apply(cities=("DFW",), replicas=1)
        desk.out.truncate(desk.out.seek(0))
        target, name = parse_object(["workload/web"])
        assert await why(desk.client, target, "default", name, desk.console, "json") == 0
        assert json.loads(desk.out.getvalue()).keys() == {"object", "sentence", "verdicts", "change"}

    play(story)


def test_viewers_may_ask_why_and_editors_may_plan() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW",), replicas=1)
        roles = dynamic("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
        for role in ("view", "edit"):
            binding: JsonObject = {
                "metadata": {"name": role, "namespace": "default"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"{role}er"}],
            }
            await planet.user.resource(roles).create(binding)
        viewer, editor = (planet.world.reliable(User(name)) for name in ("viewer", "editer"))
        target, name = parse_object(["workload/web"])
        assert (await explain(viewer, target, "default", name, desk.console)).sentence
        with pytest.raises(Forbidden):
            await planned(viewer, workload(cities=("DFW",)), (), desk.console)
        assert (await planned(editor, workload(cities=("DFW",)), (), desk.console)).accepted

    play(story)


def test_missing_objects_are_not_found_on_either_server() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        target, name = parse_object(["workload/nobody"])
        for client in (desk.client, desk.elsewhere):
            with pytest.raises(NotFound):
                await explain(client, target, "default", name, desk.console)

    play(story)


def test_a_rollout_is_followed_line_by_line_to_its_end() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW", "LHR"), replicas=2)
        assert await desk.rollout("status", "workload/web") == 0
        lines = desk.out.getvalue().splitlines()
        assert lines[-1] == "workload web successfully rolled out"
        assert "DFW: 2 of 2 ready, 2 up to date, Available" in lines
        assert len(lines) == len(set(lines)), "no line appears twice"

    play(story)


def test_a_city_that_several_placements_mean_is_told_apart() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        placements = workload(replicas=1)["spec"]["placements"]
        await planet.apply(placements=[{**placements[0], "name": "a"}, {**placements[0], "name": "b"}])
        assert await desk.rollout("status", "web") == 0
        lines = desk.out.getvalue().splitlines()
        for city in ("DFW/a", "DFW/b"):
            assert f"{city}: 1 of 1 ready, 1 up to date, Available" in lines

    play(story)


def test_on_a_terminal_the_table_is_painted_over() -> None:
    async def story(planet: Planet) -> None:
        desk = Desk(planet, live=True)
        await planet.apply(cities=("DFW",), replicas=2)
        assert await desk.rollout("status", "web") == 0
        text = desk.out.getvalue()
        assert "\x1b[2A\x1b[J" in text
        assert text.endswith("workload web successfully rolled out\n")

    play(story)


def test_during_a_rollout_the_last_line_names_the_cities_with_the_old_revision() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW", "LHR"), replicas=2, image="example.com/app:1")
        assert await desk.rollout("status", "web") == 0
        patch = [{"op": "replace", "path": IMAGE, "value": "example.com/app:2"}]
        await planet.workloads.patch("web", patch, "default", type="json")
        seen: dict[str, set[int]] = {}  # last lines, and updatedReplicas with them
        while "workload web successfully rolled out" not in seen:
            await planet.wait(0.5)
            assert await desk.rollout("status", "web", "--watch=false") == 0
            status = (await planet.workloads.get("web", "default"))["status"]
            seen.setdefault(desk.out.getvalue().splitlines()[-1], set()).add(status.get("updatedReplicas", 0))
        assert list(seen) == [
            "workload web is not complete: 2 of 2 cities are not (DFW, LHR)",
            "workload web is not complete: 1 of 2 cities are not (LHR)",
            "workload web is not complete: its cities are observed until they have stayed ready long enough",
            "workload web successfully rolled out",
        ]
        both, one, observed, rolled_out = seen.values()
        assert max(both) <= 2
        assert min(one) == 2, "two instances of LHR are of the old revision"
        assert observed == rolled_out == {4}

    play(story)


def test_a_rollout_that_does_not_end_in_time_fails_and_says_where_to_look() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW",), replicas=1, image="registry.invalid/app:1")
        assert await desk.rollout("status", "web", "--timeout=30s") == 1
        assert "tarmac why workload/web" in desk.err.getvalue()
        found = await desk.why("workload/web")
        assert "ImageUnavailable" in [line.reason for line in found.verdicts]
        assert "image" in found.change

    play(story)


def test_history_counts_revisions_and_undo_goes_back_as_a_new_one() -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        await planet.apply(cities=("DFW",), replicas=1, image="example.com/app:1")
        await planet.ready(1)
        patch = [{"op": "replace", "path": IMAGE, "value": "example.com/app:2"}]
        await planet.workloads.patch("web", patch, "default", type="json")
        await asyncio.sleep(1)
        await planet.ready(1)
        assert await desk.rollout("history", "web", "-o", "json") == 0
        revisions = json.loads(desk.out.getvalue())["revisions"]
        assert [(each["revision"], each["images"]) for each in revisions] == [
            (1, ["example.com/app:1"]),
            (2, ["example.com/app:2"]),
        ]
        assert await desk.rollout("undo", "web", "--dry-run") == 0
        assert image_of(await planet.workload()) == "example.com/app:2"
        assert await desk.rollout("undo", "web") == 0
        assert image_of(await planet.workload()) == "example.com/app:1"
        await asyncio.sleep(1)
        await planet.ready(1)
        assert [each["number"] for each in (await planet.workload())["status"]["revisions"]] == [1, 2, 3]
        assert await desk.rollout("undo", "web", "--to-revision=7") == 1
        assert "Choose one of 1 to 3." in desk.err.getvalue()

    play(story)


IMAGE = "/spec/template/spec/runtime/sandbox/containers/0/image"


def image_of(obj: JsonObject) -> str:
    return obj["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"]
