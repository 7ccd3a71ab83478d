"""`tarmac convert -f FILE --cities CITY,CITY`: prints Workloads in place of Deployments and their like.

It needs no server. Notes on what has no equivalent go to stderr, so that the output is a manifest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import yaml

from tarmac.api.schema import JsonObject
from tarmac.base.stderr import print_error
from tarmac.cli.converting.notes import Notes
from tarmac.cli.converting.workloads import CONVERTED, REFUSED, workload
from tarmac.cli.rendering.text import printable
from tarmac.cli.verbs.manifests import BadManifest, read_manifests

NOTHING = 2
_MAX_TITLE = 300  # characters of a kind and a name in a note


def main(options: argparse.Namespace) -> int:
    """Print the Workloads; return 2 if the file has no object that becomes one."""
    try:
        objects = read_manifests(options.filename)
        made, notes = convert(objects, options.cities)
        text = yaml.safe_dump_all(made, sort_keys=False, width=120)
    except BadManifest as error:
        print_error(error)
        return NOTHING
    except (RecursionError, ValueError, yaml.YAMLError) as error:  # nested too deeply, a number of 5,000 digits
        print_error(f"{options.filename}: cannot be written as YAML: {type(error).__name__}; shorten it")
        return NOTHING
    for note in notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    if not made:
        print_error(f"{options.filename}: no {', '.join(CONVERTED)} in it; write a Workload instead")
        return NOTHING
    sys.stdout.write(text)
    return 0


def convert(objects: Sequence[JsonObject], cities: Sequence[str]) -> tuple[list[JsonObject], list[str]]:
    """Return the Workloads of these objects, and the notes. Raises BadManifest for an object of a wrong form."""
    made: list[JsonObject] = []
    lines: list[str] = []
    for obj in objects:
        kind, name = obj["kind"], (obj.get("metadata") or {}).get("name", "")
        title = f"{kind} {name}"[:_MAX_TITLE]
        if kind in REFUSED:
            lines.append(f"{title}: left out: {REFUSED[kind]}")
        elif kind not in CONVERTED:
            lines.append(f"{title}: left out: apply it as it is")
        else:
            notes = Notes()
            try:
                made.append(workload(obj, cities, notes))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise BadManifest(f"{title}: not of the kind's form: {error!r}") from error
            lines += [f"{title}: {line}" for line in notes.lines]
    return made, lines
