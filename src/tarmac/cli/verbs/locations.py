"""`tarmac location create CODE`: a Location for a city, with region and coordinates of a known one."""

from __future__ import annotations

from tarmac.api.networking.cities import CITIES, location_of
from tarmac.api.status import AlreadyExists
from tarmac.base.names import dns1123_label
from tarmac.cli.verbs.call import FAILED, WRONG, VerbCall
from tarmac.client.targets.untyped import LOCATIONS


async def run(call: VerbCall) -> int:
    """Create the Location; return the exit code."""
    code: str = call.options.code
    name: str = call.options.name or code.lower()
    if problems := dns1123_label(name):
        call.console.fail(f"--name: {problems[0]}")
        return WRONG
    try:
        made = await call.client.resource(LOCATIONS).create(location_of(name, code, "nodes"))
    except AlreadyExists:
        call.console.fail(f'there is a location "{name}" already; --name gives a second one in {code} another name')
        return FAILED
    if call.options.output == "json":
        call.console.show_json(made)
        return 0
    call.console.say(f"location/{name} created\n")
    if code not in CITIES:
        call.console.info(f"{code} is not a known city: set spec.topology and spec.coordinates with kubectl edit")
    call.console.info(f"next: tarmac token create --location {name}")
    return 0
