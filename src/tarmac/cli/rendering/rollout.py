"""A rollout as text: the progress of each city, and the revisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.workload import Counters, Rollout, Workload, WorkloadDeployment
from tarmac.base.clock import rfc3339
from tarmac.base.duration import human_duration
from tarmac.cli.rendering.text import table
from tarmac.decide.rollout import Revision
from tarmac.decide.rollout.city import revision_of
from tarmac.decide.rollout.waves import RESTART_WINDOW

_HEADERS = ("CITY", "READY", "UP-TO-DATE", "DESIRED", "STATUS", "REASON")
_MAX_NAMED = 5  # cities in one line
_REVISIONS = ("REVISION", "CREATED", "COMPLETED", "TEMPLATE", "IMAGES")


@dataclass(frozen=True, slots=True)
class CityProgress:
    """One city's part of a rollout."""

    city: str
    ready: int
    updated: int
    desired: int
    status: str
    reason: str
    stopped: int = 0
    restarted: bool = False

    @property
    def complete(self) -> bool:
        """True if the city's rollout is complete."""
        return self.ready + self.stopped == self.updated == self.desired


def progress_of(deployments: Sequence[WorkloadDeployment], newest: str) -> dict[str, CityProgress]:
    """Return the progress of each deployment with the newest revision of its Workload, by name.

    With several placements, a city appears once for each.
    """
    several = len({each.spec.placement_name for each in deployments}) > 1
    return {each.metadata.name: _progress_of(each, newest, several=several) for each in deployments}


def _progress_of(deployment: WorkloadDeployment, newest: str, *, several: bool) -> CityProgress:
    status, spec = deployment.status, deployment.spec
    counted, summary = status or Counters(), status.summary if status else None
    # updatedReplicas is relative to the deployment's own template, possibly an older revision of the Workload.
    reached = revision_of(deployment) == newest
    return CityProgress(
        f"{spec.city_code}/{spec.placement_name}" if several else spec.city_code,
        counted.ready_replicas,
        counted.updated_replicas if reached else 0,
        counted.desired_replicas,
        summary.status if summary else "Pending",
        summary.reason if summary else "",
        counted.stopped_replicas,
        reached and status is not None and status.restarts > 0,
    )


def wave_line(workload: Workload) -> str:
    """Return the number of cities with the newest revision and their observation time; empty without waves."""
    rollout = workload.status.rollout if workload.status else None
    if rollout is None or rollout.waves < 2 or rollout.revision == 1:
        return ""
    reached = f"{rollout.updated_cities} of {rollout.cities} cities have it"
    window = human_duration((workload.spec.rollout or Rollout()).min_ready_seconds)
    where = f"revision {rollout.revision}: wave {rollout.wave} of {rollout.waves}"
    return f"{where}, {reached}, each stays ready for {window} before the next wave\n"


def incomplete_line(name: str, cities: Iterable[CityProgress]) -> str:
    """Return the last line about an incomplete rollout, naming its incomplete cities."""
    found = list(cities)
    left = [each.city for each in found if not each.complete]
    if not left:
        return (
            f"workload {name} is not complete: its cities are observed until they have stayed ready long enough"
            f"{_restarted(each.city for each in found if each.restarted)}\n"
        )
    return f"workload {name} is not complete: {len(left)} of {len(found)} cities are not ({_named(left)})\n"


def _restarted(cities: Iterable[str]) -> str:
    found = list(cities)
    window = human_duration(RESTART_WINDOW)
    return f", {window} where an instance has restarted ({_named(found)})" if found else ""


def _named(cities: Sequence[str]) -> str:
    more = len(cities) - _MAX_NAMED
    return ", ".join(cities[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def progress_table(cities: Iterable[CityProgress], lines: int) -> str:
    """Return a table for a terminal of that many lines: complete cities are left out first."""
    found = list(cities)
    if not found:
        return "No city has begun yet.\n"
    room = max(lines - 3, 1)  # for the headers, the summary line, and the cursor
    shown = found if len(found) <= room + 1 else sorted(found, key=lambda each: each.complete)[:room]
    rows = [
        (each.city, str(each.ready), str(each.updated), str(each.desired), each.status, each.reason) for each in shown
    ]
    return table(_HEADERS, rows) + "\n" + _rest([each for each in found if each not in shown])


def _rest(cities: Sequence[CityProgress]) -> str:
    complete = sum(each.complete for each in cities)
    return f"… and {len(cities)} more, {complete} of them complete\n" if cities else ""


def progress_line(each: CityProgress) -> str:
    """Return one city on one line, for a log."""
    reason = f" ({each.reason})" if each.reason else ""
    return f"{each.city}: {each.ready} of {each.desired} ready, {each.updated} up to date, {each.status}{reason}\n"


def history_table(history: Sequence[Revision], templates: Mapping[int, InstanceTemplate]) -> str:
    """Return the revisions, the newest last."""
    rows = [
        (str(each.number), rfc3339(each.created), _moment(each.completed), each.template_hash, _images(templates, each))
        for each in history
    ]
    return table(_REVISIONS, rows) + "\n" if rows else "There is no revision yet.\n"


def _moment(time: float | None) -> str:
    return "never" if time is None else rfc3339(time)


def _images(templates: Mapping[int, InstanceTemplate], revision: Revision) -> str:
    template = templates.get(revision.number)
    return ", ".join(images_of(template)) if template is not None else "unknown: its ControllerRevision is gone"


def images_of(template: InstanceTemplate) -> list[str]:
    """Return the images of a template: of its containers, or of its VM's disks."""
    sandbox = template.spec.runtime.sandbox
    if sandbox is not None:
        return [each.image for each in (*sandbox.init_containers, *sandbox.containers)]
    disks = (volume.disk for volume in template.spec.volumes if volume.disk is not None)
    populators = (disk.template.spec.populator for disk in disks)
    return [each.image.name for each in populators if each is not None and each.image is not None]
