"""Control groups: kubelet's layout (`kubepods/<qos>/pod<uid>`) below a configurable root, on v1 and v2 hierarchies."""
