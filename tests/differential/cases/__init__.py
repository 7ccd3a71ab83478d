"""Every case, one module for each feature."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.differential.steps import Case


def all_cases() -> list[Case]:
    """The cases of all modules here, in the order of the modules' names."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    return [case for module in modules for case in module.CASES]
