"""Hostnames, hosts files and resolvers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.environment.hosts import HostnameTooLong, hosts_file, kernel_hostname
from tarmac.agent.environment.resolving import Resolving, read_resolv_conf, resolving
from tarmac.agent.model.pod import AgentPod

NODE = Resolving(("9.9.9.9",), ("corp.example",), ("timeout:2",))


def pod(name: str = "web", **spec: Any) -> AgentPod:
    return AgentPod({"metadata": {"name": name, "namespace": "shop", "uid": "u"}, "spec": {"containers": [], **spec}})


def test_a_pod_is_called_by_its_name_unless_it_says_otherwise() -> None:
    assert kernel_hostname(pod(), "cluster.local") == "web"
    assert kernel_hostname(pod(hostname="hugo", subdomain="db"), "cluster.local") == "hugo"
    full = pod(hostname="hugo", subdomain="db", setHostnameAsFQDN=True)
    assert kernel_hostname(full, "cluster.local") == "hugo.db.shop.svc.cluster.local"
    assert kernel_hostname(pod("a" * 62 + "-tail"), "cluster.local") == "a" * 62
    with pytest.raises(HostnameTooLong):
        kernel_hostname(pod(hostname="h" * 60, subdomain="db", setHostnameAsFQDN=True), "cluster.local")


def test_the_hosts_file_names_the_pod_and_its_aliases() -> None:
    aliases = [{"ip": "1.2.3.4", "hostnames": ["foo", "bar"]}]
    content = hosts_file(pod(subdomain="db", hostAliases=aliases), ["10.0.0.5", "fd00::5"], "cluster.local")
    assert content.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert "10.0.0.5\tweb.db.shop.svc.cluster.local\tweb\n" in content
    assert "fd00::5\tweb.db.shop.svc.cluster.local\tweb\n" in content
    assert content.endswith("\n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n")


def test_policies_choose_the_resolver() -> None:
    cluster = resolving(pod(), NODE, ("10.96.0.10",), "cluster.local")
    assert cluster.servers == ("10.96.0.10",)
    assert cluster.searches == ("shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example")
    assert cluster.options == ("ndots:5",)
    assert resolving(pod(hostNetwork=True), NODE, ("10.96.0.10",), "cluster.local") == NODE
    assert resolving(pod(dnsPolicy="Default"), NODE, ("10.96.0.10",), "cluster.local") == NODE
    both = resolving(pod(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"), NODE, ("10.96.0.10",), "cluster.local")
    assert both.servers == ("10.96.0.10",)


def test_a_pod_may_say_everything_itself() -> None:
    own = {
        "nameservers": ["1.1.1.1"],
        "searches": ["a.example"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    found = resolving(pod(dnsPolicy="None", dnsConfig=own), NODE, ("10.96.0.10",), "cluster.local")
    assert found == Resolving(("1.1.1.1",), ("a.example",), ("ndots:2", "edns0"))
    found = resolving(pod(dnsConfig=own), NODE, ("10.96.0.10",), "cluster.local")
    assert found.options == ("ndots:2", "edns0")


def test_resolver_entries_beyond_the_limits_are_omitted_with_a_warning() -> None:
    own = {"nameservers": [f"1.1.1.{n}" for n in range(5)]}
    found = resolving(pod(dnsPolicy="None", dnsConfig=own), NODE, (), "")
    assert len(found.servers) == 3
    (warning,) = found.warnings
    assert warning.endswith("the applied nameserver line is: 1.1.1.0 1.1.1.1 1.1.1.2")


def test_the_node_s_own_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("# hello\nnameserver 9.9.9.9\nsearch old\nsearch corp.example. .\noptions timeout:2\n")
    assert read_resolv_conf(path) == NODE
