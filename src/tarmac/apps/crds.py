"""`tarmac crds`: Tarmac's kinds as CustomResourceDefinitions, ready for `kubectl apply -f -`."""

from __future__ import annotations

import argparse
import sys

import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents


def main(options: argparse.Namespace) -> int:
    """Print one YAML document per kind."""
    yaml.safe_dump_all(crd_documents(build_catalog()), sys.stdout, sort_keys=False, explicit_start=True)
    return 0
