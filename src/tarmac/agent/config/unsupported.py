"""Fields of a real KubeletConfiguration that have no effect here. A file with one gets a warning that names it.

Policies that pods rely on are not among them: a node that does not implement them refuses to start (`reading.stated`).
"""

from __future__ import annotations

from typing import Final

_NAMES = """
enableServer syncFrequency httpCheckFrequency staticPodURL staticPodURLHeader readOnlyPort
tlsCipherSuites tlsMinVersion registryPullQPS registryBurst imagePullCredentialsVerificationPolicy
preloadedImagesVerificationAllowlist eventRecordQPS eventBurst enableContentionProfiling healthzPort
healthzBindAddress oomScoreAdj volumeStatsAggPeriod kubeletCgroups systemCgroups
cgroupsPerQOS singleProcessOOMKill
topologyManagerScope topologyManagerPolicyOptions qosReserved
runtimeRequestTimeout hairpinMode podCIDR runOnce maxOpenFiles contentType kubeAPIQPS kubeAPIBurst
enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit iptablesDropBit
failSwapOn memorySwap containerLogMaxWorkers configMapAndSecretChangeDetectionStrategy
showHiddenMetricsForVersion volumePluginDir
kernelMemcgNotification logging enableSystemLogHandler enableSystemLogQuery shutdownGracePeriodByPodPriority
enableProfilingHandler enableDebugFlagsHandler memoryThrottlingFactor tracing
localStorageCapacityIsolation imageServiceEndpoint failCgroupV1 userNamespaces
"""
IGNORED: Final = frozenset(_NAMES.split())
