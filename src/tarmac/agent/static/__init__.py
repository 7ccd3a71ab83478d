"""Static pods: manifests in a directory of the node, and the mirror pods that represent them in the API."""
