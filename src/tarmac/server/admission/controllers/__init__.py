"""Plugins for writes of controllers: objects and annotations that only they write, and limits of stock controllers."""
