"""Translation of Pods into runtime requests: sandboxes, containers, images, hooks, resources and security."""
