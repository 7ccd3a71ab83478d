"""The seed: documents in NoCloud format that configure a guest through cloud-init, or through our own small images."""
