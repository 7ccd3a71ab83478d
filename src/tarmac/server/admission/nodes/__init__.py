"""Plugins that restrict nodes: a stolen node must harm only itself and its Pods."""
