"""Static pods: manifests in a folder of the node, and the mirror pods that show them to the API."""
