"""The node's side of networks: what the API says becomes what the datapath makes, and pods are attached when asked."""
