module tarmac.invalid/kubernetes-schemas

go 1.25.0

require (
	k8s.io/api v0.35.8
	k8s.io/apimachinery v0.35.8
	k8s.io/kubernetes v1.35.8
	k8s.io/metrics v0.35.8
)
