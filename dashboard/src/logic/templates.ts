// Texts to start a change from. The server fills in omitted fields.

export interface Template {
  name: string;
  about: string;
  text: string;
}

const WORKLOAD = "apiVersion: compute.datumapis.com/v1alpha\nkind: Workload\n";
const SANDBOX = (resources: string, image: string) => `  template:
    spec:
      runtime:
        resources:
          instanceType: datumcloud/d1-custom
          requests:
${resources}        sandbox:
          containers:
            - name: main
              image: ${image}
              ports:
                - name: http
                  port: 8080
      networkInterfaces:
        - network: default
`;
const PLACEMENTS = (city: string) => `  placements:
    - name: all
      cityCodes: [${city}]
      scaleSettings:
        minReplicas: 1
`;

/** With the cities that are there, so that a preview has an answer. */
export function templatesIn(cities: readonly string[]): Template[] {
  const [first = "DFW", second] = cities;
  const places = second ? `${first}, ${second}` : first;
  return [
    {
      name: "Web service", about: "A container with an HTTP port, in two cities",
      text: `${WORKLOAD}metadata:\n  name: web\nspec:\n${SANDBOX("            cpu: 100m\n            memory: 128Mi\n", "registry.local/tarmac/web:1")}${PLACEMENTS(places)}`,
    },
    {
      name: "Virtual machine", about: "A guest with its own kernel and a disk",
      text: `${WORKLOAD}metadata:
  name: vm
spec:
  template:
    spec:
      runtime:
        resources:
          instanceType: datumcloud/d1-custom
          requests:
            cpu: "1"
            memory: 256Mi
        virtualMachine:
          volumeAttachments:
            - name: boot
          ports:
            - name: ssh
              port: 22
      networkInterfaces:
        - network: default
      volumes:
        - name: boot
          disk:
            template:
              spec:
                populator:
                  image:
                    name: tarmac/tiny
${PLACEMENTS(first)}`,
    },
    {
      name: "External service", about: "A server outside, reached from an address of your own",
      text: `apiVersion: submariner.io/v1alpha1
kind: ExternalService
metadata:
  name: partner
spec:
  targetIP: 192.0.2.10
  sources:
    - service:
        name: orders
      sourceIPClaim:
        name: orders
  ports:
    - name: tcp
      protocol: TCP
      port: 443
      targetPort: 443
`,
    },
    {
      name: "GPU job", about: "A container with one GPU",
      text: `${WORKLOAD}metadata:\n  name: inference\nspec:\n${SANDBOX('            cpu: "4"\n            memory: 16Gi\n            datumcloud.com/nvidia-tesla-a100: "1"\n', "registry.example.com/ml/inference:1")}${PLACEMENTS(first)}`,
    },
  ];
}
