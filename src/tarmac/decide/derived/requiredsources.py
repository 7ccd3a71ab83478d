"""The ConfigMaps and Secrets that an instance cannot start without, and the refusal when they are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tarmac.api.compute.instance import Container, InstanceSpec
from tarmac.api.compute.volumes import Volume
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal


class ObjectSource(NamedTuple):
    """An object in the instance's own namespace."""

    kind: str
    name: str


CONFIG_MAP, SECRET = "ConfigMap", "Secret"


def sources_missing(missing: Iterable[ObjectSource]) -> Refusal:
    """Return a refusal that names the missing objects and suggests creating them."""
    names = " and ".join(f"{each.kind} {each.name}" for each in missing)
    return Refusal(reasons.SOURCE_NOT_FOUND, f"{names} not found.", rule="sources", change=f"Create {names}.")


def sources(spec: InstanceSpec) -> Iterator[ObjectSource]:
    """Yield every source that is not optional. Image pull Secrets are left out: public images do not need them."""
    for volume in spec.volumes:
        yield from _of_volume(volume)
    sandbox, machine = spec.runtime.sandbox, spec.runtime.virtual_machine
    for container in (*sandbox.containers, *sandbox.init_containers) if sandbox else ():
        yield from _of_container(container)
    if machine is not None and machine.cloud_init is not None and machine.cloud_init.secret_ref is not None:
        yield ObjectSource(SECRET, machine.cloud_init.secret_ref.name)


def _of_volume(volume: Volume) -> Iterator[ObjectSource]:
    if volume.config_map is not None and not volume.config_map.optional:
        yield ObjectSource(CONFIG_MAP, volume.config_map.name)
    if volume.secret is not None and not volume.secret.optional:
        yield ObjectSource(SECRET, volume.secret.secret_name)


def _of_container(container: Container) -> Iterator[ObjectSource]:
    values = [variable.value_from for variable in container.env if variable.value_from is not None]
    for kind, reference in (
        *((CONFIG_MAP, value.config_map_key_ref) for value in values),
        *((SECRET, value.secret_key_ref) for value in values),
        *((CONFIG_MAP, each.config_map_ref) for each in container.env_from),
        *((SECRET, each.secret_ref) for each in container.env_from),
    ):
        if reference is not None and not reference.optional:
            yield ObjectSource(kind, reference.name)
