"""`tarmac crds`: prints the objects that a Kubernetes cluster needs before `tarmac controllers` can work there.

These are Tarmac's kinds as CustomResourceDefinitions; with `--rbac` also the service account of the process and the
roles of the chosen controllers, no more. The output is ready for `kubectl apply -f -`. `--remove` undoes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence

import yaml

from tarmac.api.catalog import build_catalog
from tarmac.api.crds import crd_documents
from tarmac.api.identities import NAMESPACE, PROCESS, identities_of
from tarmac.api.schema import JsonObject
from tarmac.base.stderr import print_error
from tarmac.controllers.manager import WORKLOADS, choose
from tarmac.server.security.authorization.controllerpolicy import BESIDE_OTHERS, DUTIES, Duties, controller_roles
from tarmac.server.security.authorization.rbac import GROUP

# Needs the server's key, which a separate process does not have.
_BESIDE_THE_SERVER = ("serviceaccounttoken",)


def main(options: argparse.Namespace) -> int:
    """Print one YAML document per object, or remove the kinds; return 1 for unknown controllers or a failure."""
    if options.remove:
        from tarmac.apps.crdremoval import remove

        return remove(options)
    documents = crd_documents(build_catalog())
    try:
        documents += rbac_documents(options.rbac) if options.rbac else ()
    except ValueError as error:
        print_error(error)
        return 1
    yaml.safe_dump_all(documents, sys.stdout, sort_keys=False, explicit_start=True)
    return 0


def rbac_documents(controllers: str) -> Iterator[JsonObject]:
    """Yield the account and the roles of these controllers, chosen as by `--controllers`. Raises ValueError."""
    chosen = [name for name in choose(controllers) if name not in _BESIDE_THE_SERVER]
    duties = BESIDE_OTHERS if controllers == WORKLOADS else DUTIES
    yield from role_documents([identity for name in chosen for identity in identities_of(name)], duties)


def role_documents(names: Sequence[str], duties: Mapping[str, Duties] = DUTIES) -> Iterator[JsonObject]:
    """Yield the account of a process that acts under these names, and their roles."""
    metadata = {"name": PROCESS, "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    for role, rules, account in controller_roles(names, duties):
        version = {"apiVersion": f"{GROUP}/v1"}
        yield {**version, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}
        yield {
            **version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        }
