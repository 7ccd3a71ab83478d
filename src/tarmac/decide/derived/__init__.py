"""Objects derived from an object, field by field.

A Workload has WorkloadDeployments (`goal` selects them, `deployments` builds them); a deployment has Instances and
NetworkBindings (`instances`); an Instance has a Pod and claims (`pods`, `volumes`, `containershares`), and needs
ConfigMaps and Secrets (`requiredsources`). Controllers create these objects; plans only read them.
"""
