module tarmac.invalid/charts

go 1.25.0

require github.com/traefik/traefik-helm-chart v41.6.0+incompatible
