"""The validation catalogue of the compute kinds, one module per concern.

Every check adds to one `FieldErrors`, and none stops at the first mistake. Causes come in this order: template
metadata, volumes, runtime, network interfaces, placements. Objects are decoded JSON with types already checked.
"""
