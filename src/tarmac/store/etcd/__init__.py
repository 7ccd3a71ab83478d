"""The driver for more than one host: objects in an etcd cluster, shared by several servers."""

from __future__ import annotations

from tarmac.store.etcd.driver import EtcdStore

__all__ = ["EtcdStore"]
