"""Tests that need a program that only PEERS=1 builds are skipped where it is missing, and say so."""

from __future__ import annotations

import pytest

from tarmac.apps.stockcontrollers.supervisor import PROGRAM
from tarmac.runtimes.parts import optional_program
from tools.gobuild import built


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test unless kube-controller-manager and these programs are built."""
    missing = [name for name in programs if built(name) is None]
    missing += [] if optional_program(PROGRAM) else [PROGRAM]
    return pytest.mark.skipif(bool(missing), reason=f"NOT RUN: {', '.join(missing)} not built; run with PEERS=1")
