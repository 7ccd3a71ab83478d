import { test } from "node:test";
import assert from "node:assert/strict";
import { asksForGpus, attachedOf, classesOf, devicesOf, resourcesOf, selecting, volumesOf, type InstanceObject, type PodObject, type Policy } from "./overview.ts";

const instance: InstanceObject = {
  metadata: { namespace: "shop", name: "db-0", labels: { app: "db" } },
  spec: {
    runtime: {
      resources: { instanceType: "datumcloud/d1-custom", requests: { memory: "1Gi", cpu: "1" } },
      sandbox: { containers: [{ name: "db", volumeAttachments: [{ name: "data", mountPath: "/data" }, { name: "raw" }] }, { name: "log", volumeAttachments: [{ name: "data", mountPath: "/d" }] }] },
    },
    networkInterfaces: [{ network: { name: "inner" } }, { name: "out", network: { name: "outer", namespace: "edge" }, networkPolicy: { ingress: [{}] } }],
    volumes: [
      { name: "data", disk: { template: { spec: { resources: { requests: { storage: "10Gi" } }, populator: { filesystem: { type: "ext4" } } } } } },
      { name: "raw", disk: {} }, { name: "key", secret: { secretName: "k" } }, { name: "site", configMap: { name: "s" } }, { name: "tmp", memory: { sizeLimit: "64Mi" } }, { name: "self", downwardAPI: {} },
    ],
  },
  status: { networkInterfaces: [{ name: "eth0", addresses: [{ address: "10.0.0.5/24" }, { address: "fd20::5/64" }], assignments: { externalIP: "192.0.2.7" } }], qosClass: "Burstable" },
};

function policy(name: string, spec: Policy["spec"], namespace = "shop"): Policy {
  return { metadata: { namespace, name, uid: name }, spec };
}

function chosenBy(spec: Policy["spec"], labels: Record<string, string> = { app: "db" }): boolean {
  return selecting([policy("p", spec)], labels, attachedOf(instance)).length === 1;
}

test("an interface has its network, its addresses and rules of its own", () => {
  assert.deepEqual(attachedOf(instance), [
    { name: "eth0", network: ["shop", "inner"], addresses: "10.0.0.5/24, fd20::5/64, seen outside as 192.0.2.7", rules: null },
    { name: "out", network: ["edge", "outer"], addresses: "no address yet", rules: 1 },
  ]);
});

test("a policy is about whom its selector means, on the network it names", () => {
  assert.equal(chosenBy({ selector: {} }), true);
  assert.equal(chosenBy({ selector: { matchLabels: { app: "web" } } }), false);
  assert.deepEqual([chosenBy({ selector: {}, network: "inner" }), chosenBy({ selector: {}, network: "outer" })], [true, false]); // that one is of another namespace
  const operators = (key: string, values: string[]) => ["In", "NotIn", "Exists", "DoesNotExist", "constructor"].map((operator) => chosenBy({ selector: { matchExpressions: [{ key, operator, values }] } }));
  assert.deepEqual(operators("app", ["db", "web"]), [true, false, true, false, false]);
  assert.deepEqual(operators("constructor", [""]), [false, true, false, true, false]);
  assert.deepEqual(selecting([policy("b", { selector: {} }), policy("a", { selector: {} })], {}, []).map((each) => each.metadata.name), ["a", "b"]);
});

test("a volume says what it is, the object behind it, and where it is attached", () => {
  assert.deepEqual(volumesOf(instance).map(({ what, object, where }) => [what, object?.join("/") ?? "", where]), [
    ["disk 10Gi ext4", "persistentvolumeclaims/db-0-data", "in db at /data, in log at /d"], ["disk", "persistentvolumeclaims/db-0-raw", "in db as a device"],
    ["Secret k", "secrets/k", ""], ["ConfigMap s", "configmaps/s", ""], ["in memory, at most 64Mi", "", ""], ["files about itself", "", ""],
  ]);
  const boot = { name: "boot", disk: { template: { spec: { populator: { image: { name: "tarmac/tiny" } } } } } };
  const machine = { ...instance, spec: { runtime: { virtualMachine: { volumeAttachments: [{ name: "boot" }] } }, volumes: [boot] } };
  assert.deepEqual(volumesOf(machine).map(({ what, where }) => [what, where]), [["disk from image tarmac/tiny", "in the machine as a device"]]);
});

test("resources are those of all together and of each container, once when they are the same", () => {
  assert.deepEqual(resourcesOf(instance, null), ["datumcloud/d1-custom", "together: cpu 1, memory 1Gi", "quality of service: Burstable"]);
  const whole = { cpu: "1", memory: "1Gi" };
  const pod: PodObject = { metadata: {}, spec: { resources: { requests: whole, limits: whole }, containers: [{ name: "db", resources: { requests: { cpu: "500m" }, limits: { memory: "1Gi" } } }, { name: "log" }] } };
  assert.deepEqual(resourcesOf(instance, pod).slice(1, 4), ["together: cpu 1, memory 1Gi", "db: cpu 500m; at most memory 1Gi", "log: the remaining capacity"]);
});

test("classes are asked for in fields and annotations, and in effect is what the node says", () => {
  const annotations = { "blockio.resources.alpha.kubernetes.io/default": "slow", "rdt.resources.alpha.kubernetes.io/container.db": "gold", "other.example/default": "no" };
  const pod: PodObject = {
    metadata: { annotations }, spec: { resources: { classes: { net: "fast" } }, containers: [{ name: "db", resources: { classes: { rdt: "gold" } } }] },
    status: { containerStatuses: [{ name: "db", resources: { classes: { blockio: "slow", rdt: "" } } }] },
  };
  assert.deepEqual(classesOf(pod), ["it asks for blockio slow", "db asks for rdt gold", "it asks for net fast", "db is in blockio slow", "db is in no class of rdt"]);
  assert.deepEqual(classesOf({ metadata: {}, spec: { containers: [] } }), []);
  const noted = (text: string) => classesOf({ metadata: { annotations: { "node.tarmac/classes": text } }, spec: { containers: [] } });
  assert.deepEqual(noted('{"pod": {"net": "fast"}, "containers": {"db": {"blockio": "slow"}}}'), ["it is in net fast", "db is in blockio slow"]);
  for (const senseless of ["{", "null", "[1]", '{"pod": 1, "containers": {"db": [2], "log": {"rdt": 3}}}']) assert.deepEqual(noted(senseless), []);
});

test("a Pod that asks for GPUs names those that its containers have", () => {
  const gpu = "datumcloud.com/nvidia-h200";
  const spec = { containers: [{ name: "main", resources: { limits: { [gpu]: "1" } } }] };
  const allocatedResourcesStatus = [{ name: gpu, resources: [{ resourceID: "GPU-1", health: "Unhealthy" }, { resourceID: "GPU-2" }] }];
  const pod = { metadata: {}, spec, status: { containerStatuses: [{ name: "main", allocatedResourcesStatus }] } };
  assert.equal(asksForGpus(pod), true);
  assert.deepEqual(devicesOf(pod), [`${gpu} GPU-1: Unhealthy`, `${gpu} GPU-2: Unknown`]);
  const plain = { metadata: {}, spec: { containers: [{ name: "main", resources: { requests: { cpu: "1" } } }, { name: "other" }] } };
  assert.deepEqual([asksForGpus(plain), devicesOf(plain), devicesOf(null)], [false, [], []]);
});
