"""`tarmac rollout`: status, history, undo, pause, resume, restart."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import yaml

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import GROUP, LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload
from tarmac.api.declare import encode
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.cli.rendering.rollout import history_table, images_of
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import parse_object
from tarmac.cli.verbs.rolloutstatus import follow
from tarmac.client.client import Client
from tarmac.client.targets.typed import WORKLOADS
from tarmac.client.targets.untyped import CONTROLLER_REVISIONS
from tarmac.decide.powerstate import is_stopped, with_running
from tarmac.decide.rollout import Revision, template_hash, undo
from tarmac.decide.rollout.stored import history_of, is_packed, template_in, unpacked

DONE, FAILED = 0, 1
_MANAGER = "tarmac-rollout"
_RESTARTED = "kubectl.kubernetes.io/restartedAt"


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await rollout(call.client, call.namespace, call.options, call.console)


async def rollout(client: Client, namespace: str, options: argparse.Namespace, console: Console) -> int:
    """Execute the requested action."""
    _, name = parse_object(options.object, "workload")
    workload = await client.resource(WORKLOADS).get(name, namespace)
    if options.action == "history":
        return await show_history(client, workload, options.revision, console, options.output)
    if options.action == "undo":
        return await go_back(client, workload, options.to_revision or None, console, dry_run=options.dry_run)
    if options.action in ("pause", "resume"):
        return await set_paused(client, workload, console, paused=options.action == "pause")
    if options.action == "restart":
        return await restart(client, workload, console)
    complete = await follow(client, workload, console, watch=options.watch, timeout=options.timeout)
    return DONE if complete or not options.watch else FAILED


async def show_history(client: Client, workload: Workload, number: int | None, console: Console, output: str) -> int:
    """Print the revisions, or the template of one."""
    history = history_of(workload)
    templates = await templates_of(client, workload, history)
    if number is not None:
        return _show_one(history, templates, number, console, output)
    if output == "json":
        console.show_json({"revisions": [_as_json(each, templates) for each in history]})
    else:
        console.say(history_table(history, templates))
    return DONE


def _show_one(
    history: Sequence[Revision], templates: Mapping[int, InstanceTemplate], number: int, console: Console, output: str
) -> int:
    verdict = undo(history, number)
    if verdict.value is None:
        console.fail(verdict.refusals[0].message)
        return FAILED
    if output == "json":
        console.show_json(_as_json(verdict.value, templates))
    elif number not in templates:
        console.fail(_gone(verdict.value))
        return FAILED
    else:
        console.say(yaml.safe_dump(encode(templates[number]), sort_keys=False))
    return DONE


def _gone(revision: Revision) -> str:
    return f"The template of revision {revision.number} is gone: there is no ControllerRevision {revision.template}."


async def go_back(client: Client, workload: Workload, to: int | None, console: Console, *, dry_run: bool) -> int:
    """Write an earlier template again, unless the Workload has changed meanwhile."""
    own = workload.metadata
    history = history_of(workload)
    verdict = undo(history, to)
    if verdict.value is None:
        console.fail(f"{verdict.refusals[0].message} {verdict.refusals[0].change}".strip())
        return FAILED
    revision = verdict.value
    what = f"workload.{GROUP}/{own.name}"
    if revision.template_hash == template_hash(workload.spec.template):
        console.say(f"{what} skipped rollback (current template already matches revision {revision.number})\n")
        return DONE
    template = (await templates_of(client, workload, history)).get(revision.number)
    if template is None:
        console.fail(_gone(revision))
        return FAILED
    running = not is_stopped(workload.spec.template.spec)
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": own.resource_version},
        {"op": "replace", "path": "/spec/template", "value": encode(with_running(template, running=running))},
    ]
    await client.resource(WORKLOADS).patch(
        own.name, patch, own.namespace, type="json", manager=_MANAGER, dry_run=dry_run
    )
    console.say(f"{what} rolled back to revision {revision.number}{' (server dry run)' if dry_run else ''}\n")
    return DONE


async def set_paused(client: Client, workload: Workload, console: Console, *, paused: bool) -> int:
    """Pause or resume rollout and scaling."""
    own, word = workload.metadata, "paused" if paused else "resumed"
    if workload.spec.paused == paused:
        console.fail(f"workload.{GROUP}/{own.name} is {'already paused' if paused else 'not paused'}")
        return FAILED
    patch: JsonObject = {"spec": {"paused": paused or None}}
    await client.resource(WORKLOADS).patch(own.name, patch, own.namespace, manager=_MANAGER)
    console.say(f"workload.{GROUP}/{own.name} {word}\n")
    return DONE


async def restart(client: Client, workload: Workload, console: Console) -> int:
    """Write the time into the template, which changes it, as `kubectl rollout restart` does."""
    own = workload.metadata
    if workload.spec.paused:
        console.fail(f"workload.{GROUP}/{own.name} is paused; run `tarmac rollout resume {own.name}` first")
        return FAILED
    annotations = {_RESTARTED: rfc3339(client.clock.now())}
    patch: JsonObject = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    await client.resource(WORKLOADS).patch(own.name, patch, own.namespace, manager=_MANAGER)
    console.say(f"workload.{GROUP}/{own.name} restarted\n")
    return DONE


def _as_json(revision: Revision, templates: Mapping[int, InstanceTemplate]) -> JsonObject:
    template = templates.get(revision.number)
    return {
        "revision": revision.number,
        "created": rfc3339(revision.created),
        "completed": None if revision.completed is None else rfc3339(revision.completed),
        "templateHash": revision.template_hash,
        "images": images_of(template) if template is not None else [],
        "template": encode(template) if template is not None else None,
    }


async def templates_of(client: Client, workload: Workload, history: Sequence[Revision]) -> dict[int, InstanceTemplate]:
    """Return templates by revision number.

    A template that is stored nowhere any more is left out, except the current one.
    """
    own = workload.metadata
    selector = f"{LABEL_WORKLOAD_UID}={own.uid}"
    listed = (await client.resource(CONTROLLER_REVISIONS).list(own.namespace, labels=selector)).items
    kept = {each["metadata"]["name"]: each for each in listed}
    found: dict[int, InstanceTemplate] = {}
    for each in history:
        if each.template_hash == template_hash(workload.spec.template):
            template = workload.spec.template
        elif is_packed(each):
            template = unpacked(each)
        else:
            template = template_in(kept[each.template], own) if each.template in kept else None
        if template is not None:
            found[each.number] = template
    return found
