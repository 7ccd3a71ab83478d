"""Rules that a node must satisfy, one small file each.

`POOL_FILTERS` use only properties common to the nodes of a pool, and run once per pool. `NODE_FILTERS` use one node and
the pod's demand. `POD_FILTERS` also use other pods, and are prepared anew for every pod. To add a rule, add a file and
an entry here.
"""

from __future__ import annotations

from tarmac.decide.scheduling.filters.disks import DiskFilter
from tarmac.decide.scheduling.filters.labels import NodeLabels
from tarmac.decide.scheduling.filters.location import InLocation
from tarmac.decide.scheduling.filters.podaffinity import NearAndApart
from tarmac.decide.scheduling.filters.ports import HostPortFilter
from tarmac.decide.scheduling.filters.qosclasses import ClassOffered, ClassPlaces
from tarmac.decide.scheduling.filters.resourcefit import ResourceFilter
from tarmac.decide.scheduling.filters.rule import Brief, Check, Filter, Why
from tarmac.decide.scheduling.filters.runtime import RuntimeHandler
from tarmac.decide.scheduling.filters.spread import TopologySpread
from tarmac.decide.scheduling.filters.taints import Taints
from tarmac.decide.scheduling.filters.unschedulable import Unschedulable

LABELS: Filter = NodeLabels()
POOL_FILTERS: tuple[Filter, ...] = (InLocation(), Unschedulable(), Taints(), RuntimeHandler(), ClassOffered())
NODE_FILTERS: tuple[Filter, ...] = (ResourceFilter(), ClassPlaces(), HostPortFilter(), DiskFilter())
POD_FILTERS: tuple[Filter, ...] = (TopologySpread(), NearAndApart())

__all__ = ["LABELS", "NODE_FILTERS", "POD_FILTERS", "POOL_FILTERS", "Brief", "Check", "Filter", "Why"]
