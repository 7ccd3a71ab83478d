"""Control groups: kubelets' layout (`kubepods/<qos>/pod<uid>`) below a root of choice, on v1 and v2 hierarchies."""
