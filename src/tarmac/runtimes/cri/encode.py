"""Conversion from the interface's types to CRI messages. Pure."""

from __future__ import annotations

from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.interface import (
    ContainerConfig,
    Credentials,
    LinuxSecurity,
    Mount,
    PortMapping,
    Resources,
    SandboxConfig,
)
from tarmac.runtimes.labels import container_labels, sandbox_labels

_PROPAGATIONS = {
    "None": pb.Mount.PROPAGATION_PRIVATE,
    "HostToContainer": pb.Mount.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": pb.Mount.PROPAGATION_BIDIRECTIONAL,
}


def sandbox_message(config: SandboxConfig) -> pb.PodSandboxConfig:
    """Encode the configuration of a sandbox."""
    pod = config.pod
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=pod.name, uid=pod.uid, namespace=pod.namespace, attempt=pod.attempt),
        hostname="" if config.security.host_network else config.hostname,  # the host network implies the host's name
        log_directory=config.log_directory,
        dns_config=pb.DNSConfig(servers=config.dns_servers, searches=config.dns_searches, options=config.dns_options),
        port_mappings=[_port(port) for port in config.ports],
        labels=sandbox_labels(pod, config.labels),
        annotations=config.annotations,
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            security_context=_sandbox_security(config.security),
            sysctls=config.sysctls,
        ),
        class_resources=pb.PodClassResources(classes=config.classes) if config.classes else None,
    )


def container_message(config: ContainerConfig, sandbox_id: str, sandbox: SandboxConfig) -> pb.ContainerConfig:
    """Encode the configuration of a container."""
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=pb.ImageSpec(image=config.image, user_specified_image=config.image_name),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[pb.KeyValue(key=name, value=value.encode()) for name, value in config.envs],
        mounts=[_mount(mount) for mount in config.mounts],
        devices=[
            pb.Device(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions)
            for each in config.devices
        ],
        CDI_devices=[pb.CDIDevice(name=each) for each in config.cdi_devices],
        labels=container_labels(sandbox.pod, sandbox_id, config.name, config.labels),
        annotations=config.annotations,
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=pb.LinuxContainerConfig(
            resources=resources_message(config.resources), security_context=_container_security(config.security)
        ),
        stop_signal=_signal(config.stop_signal),
        class_resources=pb.ContainerClassResources(classes=config.classes) if config.classes else None,
    )


def resources_message(resources: Resources) -> pb.LinuxContainerResources:
    """Encode resource limits."""
    return pb.LinuxContainerResources(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_limit_in_bytes=resources.memory_limit,
        oom_score_adj=resources.oom_score_adj,
        cpuset_cpus=resources.cpuset_cpus,
        cpuset_mems=resources.cpuset_mems,
        unified=resources.unified,
    )


def auth_message(credentials: Credentials) -> pb.AuthConfig:
    """Encode the credentials for a registry."""
    return pb.AuthConfig(
        username=credentials.username,
        password=credentials.password,
        identity_token=credentials.identity_token,
    )


def _port(port: PortMapping) -> pb.PortMapping:
    return pb.PortMapping(
        protocol=port.protocol,
        container_port=port.container_port,
        host_port=port.host_port,
        host_ip=port.host_ip,
    )


def _mount(mount: Mount) -> pb.Mount:
    return pb.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly=mount.read_only,
        propagation=_PROPAGATIONS[mount.propagation],
        recursive_read_only=mount.recursive_read_only,
    )


def _signal(name: str) -> str:
    """Encode a signal: CRI spells SIGRTMIN+1 as SIGRTMINPLUS1. An empty name selects the image's signal."""
    return name.replace("+", "PLUS").replace("-", "MINUS") or "RUNTIME_DEFAULT"


def _namespaces(security: LinuxSecurity) -> pb.NamespaceOption:
    shared = pb.POD if security.share_processes else pb.CONTAINER
    return pb.NamespaceOption(
        network=pb.NODE if security.host_network else pb.POD,
        pid=pb.TARGET if security.target_container else pb.NODE if security.host_pid else shared,
        ipc=pb.NODE if security.host_ipc else pb.POD,
        target_id=security.target_container,
    )


def _seccomp(security: LinuxSecurity) -> pb.SecurityProfile:
    return pb.SecurityProfile(profile_type=security.seccomp, localhost_ref=security.seccomp_path)


def _sandbox_security(security: LinuxSecurity) -> pb.LinuxSandboxSecurityContext:
    return pb.LinuxSandboxSecurityContext(
        namespace_options=_namespaces(security),
        run_as_user=_optional(security.user),
        run_as_group=_optional(security.group),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=_groups_policy(security),
        privileged=security.privileged,
        seccomp=_seccomp(security),
    )


def _container_security(security: LinuxSecurity) -> pb.LinuxContainerSecurityContext:
    return pb.LinuxContainerSecurityContext(
        capabilities=pb.Capability(
            add_capabilities=security.add_capabilities, drop_capabilities=security.drop_capabilities
        ),
        privileged=security.privileged,
        namespace_options=_namespaces(security),
        run_as_user=_optional(security.user),
        run_as_group=_optional(security.group),
        run_as_username=security.username,
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=_groups_policy(security),
        no_new_privs=security.no_new_privileges,
        masked_paths=security.masked_paths,
        readonly_paths=security.read_only_paths,
        seccomp=_seccomp(security),
    )


def _groups_policy(security: LinuxSecurity) -> pb.SupplementalGroupsPolicy:
    return pb.Strict if security.strict_groups else pb.Merge


def _optional(value: int | None) -> pb.Int64Value | None:
    return None if value is None else pb.Int64Value(value=value)
