"""Plugins for Pods and for templates of Pods: defaults, classes, priorities, and rights that a Pod needs."""
