"""`tarmac new`: writes the manifest of a Workload that runs one container in some cities. No server is needed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.validation.imagereferences import is_reference, means_latest, names_registry
from tarmac.base.names import dns1123_label
from tarmac.base.stderr import print_error, print_warning

_HUB = "docker.io"
_FAILED, _WRONG = 1, 2
_BOOLEANS = frozenset({"OFF", "YES"})


def main(options: argparse.Namespace) -> int:
    """Write the manifest to standard output or to a new file; return the exit code."""
    problems = dns1123_label(options.name)
    if problems:
        print_error(f"NAME: {problems[0]}")
        return _WRONG
    image = with_registry(options.image)
    if not is_reference(image):
        print_error(f"--image: {options.image!r} is not an image reference, such as docker.io/library/nginx:1.29")
        return _WRONG
    if means_latest(image):
        print_warning(f'--image: "{image}" has no tag and means latest, which changes')
    text = manifest(options.name, image, options.cities, options.port, options.replicas)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    return _write(options.output, text)


def with_registry(image: str) -> str:
    """Return the image with the registry that container tools assume for a short name."""
    if names_registry(image):
        return image
    return f"{_HUB}/{image}" if "/" in image else f"{_HUB}/library/{image}"


def manifest(name: str, image: str, cities: list[str], port: int | None, replicas: int) -> str:
    """Return the manifest. All values were checked: they cannot end their quotes."""
    ports = ["              ports:", f"                - {{name: http, port: {port}}}"] if port is not None else []
    lines = [
        f"apiVersion: {API_VERSION}",
        "kind: Workload",
        f'metadata: {{name: "{name}"}}',
        "spec:",
        "  template:",
        "    spec:",
        "      runtime:",
        "        sandbox:",
        "          containers:",
        f'            - name: "{name}"',
        f'              image: "{image}"',
        *ports,
        "  placements:",
        "    - name: main",
        f"      cityCodes: [{', '.join(map(_quoted, cities))}]",
        f"      scaleSettings: {{minReplicas: {replicas}}}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(city: str) -> str:
    """Return the city, in quotes if it is a boolean in YAML."""
    return f'"{city}"' if city in _BOOLEANS else city


def _write(path: Path, text: str) -> int:
    try:
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        print_error(f"{path}: {error.strerror}; name a new file with -o")
        return _FAILED
    return 0
