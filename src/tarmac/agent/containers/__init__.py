"""From a Pod to what the runtime is asked for: sandboxes, containers, images, hooks, resources and security."""
