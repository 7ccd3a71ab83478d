"""Which objects follow from an object, field by field.

A Workload has WorkloadDeployments (`goal` says which, `deployments` what they look like); a deployment has Instances
and NetworkBindings (`instances`); an Instance has a Pod and claims (`pods`, `volumes`, `resources`), and needs
ConfigMaps and Secrets (`sources`). Controllers make these objects; plans only look at them.
"""
