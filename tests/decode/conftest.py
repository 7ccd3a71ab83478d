"""One catalogue for all decoding tests."""

from __future__ import annotations

import pytest

from tarmac.api.catalog import Catalog, build_catalog
from tarmac.api.resource import Resource


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return build_catalog()


@pytest.fixture(scope="session")
def config_maps(catalog: Catalog) -> Resource:
    return _of(catalog, "", "v1", "configmaps")


@pytest.fixture(scope="session")
def pods(catalog: Catalog) -> Resource:
    return _of(catalog, "", "v1", "pods")


@pytest.fixture(scope="session")
def workloads(catalog: Catalog) -> Resource:
    return _of(catalog, "compute.datumapis.com", "v1alpha", "workloads")


def _of(catalog: Catalog, group: str, version: str, plural: str) -> Resource:
    resource = catalog.find(group, version, plural)
    assert resource is not None
    return resource
