import { test } from "node:test";
import assert from "node:assert/strict";
import { bytes, waysOf, type Connection, type External } from "./external.ts";
import { members, type WorkloadSpec } from "./matrix.ts";
import { commandOf, missing, queryOf, questionOf, whyOf } from "./reach.ts";
import { link, parse } from "./routes.ts";
import { homeOf, within, withNamespace } from "./spaces.ts";

const asked = { from: "shop/web-0", to: "service/db/db", port: "http", protocol: "UDP", both: true };

test("a question is in its link, its request and its command line", () => {
  assert.deepEqual(questionOf(parse(link("networks", ["shop", "n", "ask"], queryOf(asked))).query, "shop"), asked);
  assert.equal(whyOf(asked, "/c"), "/c/namespaces/shop/instances/web-0/why?reach=service%2Fdb%2Fdb&port=http&protocol=UDP&both=true");
  assert.equal(commandOf(asked), "tarmac why instance/web-0 -n shop --reach service/db/db:http/udp --both");
  assert.equal(whyOf({ ...asked, from: "pod/shop/x" }, "/c").split("?")[0], "/api/v1/namespaces/shop/pods/x/why");
  assert.match(commandOf({ ...asked, to: "fd20::5", protocol: "TCP" }), / --reach '\[fd20::5\]:http' --both$/);
  assert.equal(commandOf({ ...asked, from: "shop/$(a)", to: "b;", port: "`c`" }), "tarmac why instance/'$(a)' -n shop --reach 'b;:`c`/udp' --both");
});

test("a question that is not complete says what is missing, and asks nothing", () => {
  assert.match(missing({ ...asked, from: "" }), /source/);
  assert.match(missing({ ...asked, from: "service/a/b" }), /source/);
  assert.match(missing({ ...asked, to: "" }), /target/);
  assert.match(missing({ ...asked, port: "" }), /port/);
  assert.equal(whyOf({ ...asked, port: "" }, "/c"), "");
  assert.equal(questionOf(new URLSearchParams("from=web-0"), "shop").from, "shop/web-0");
});

function workload(name: string, network: string, port?: number): WorkloadSpec {
  const ports = port ? [{ port }] : [];
  return { metadata: { namespace: "shop", name }, spec: { template: { spec: { networkInterfaces: [{ network: { name: network } }], runtime: { sandbox: { containers: [{ ports }] } } } } } };
}

test("the matrix has the workloads of a network, each with the first port that it declares", () => {
  const all = [workload("web", "a", 80), workload("db", "a"), workload("other", "b", 1)];
  assert.deepEqual(members(all, "shop", "a"), [{ name: "db", port: "", protocol: "TCP" }, { name: "web", port: "80", protocol: "TCP" }]);
  assert.deepEqual(members(all, "shop", "a", "we").map((each) => each.name), ["web"]);
  assert.deepEqual(members(all, "elsewhere", "a"), []);
});

test("a service leads over an address to a gateway, with what its connections carry", () => {
  const external: External = {
    metadata: { namespace: "shop", name: "bank", uid: "1" }, spec: { targetIP: "192.0.2.1" },
    status: { sources: [{ service: { name: "orders" }, sourceIPs: ["198.51.100.7"], gateway: "dfw-0", podsMatched: 2, podsProgrammed: 1 }, { service: { name: "none" } }] },
  };
  const connection = { sourceIP: "198.51.100.7", bytesOut: 10, bytesIn: 20 } as Connection;
  const address = { metadata: { name: "198.51.100.7" }, spec: {}, status: { owner: { gateway: "dfw-0", epoch: 3 }, lastFailover: "2026-01-01T00:00:00Z" } };
  const [way, other] = waysOf(external, [connection, connection, { ...connection, sourceIP: "" }], [address]);
  assert.deepEqual([way?.service, way?.pods, way?.connections, way?.out, way?.in, way?.owners], ["shop/orders", "1/2", 2, 20, 40, 3]);
  assert.equal(way?.failover, "2026-01-01T00:00:00Z");
  assert.deepEqual([other?.address, other?.connections], ["", 0]);
  assert.deepEqual([0, 1023, 1536, 5 * 2 ** 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
});

test("a list is one of the namespace that is looked at", () => {
  assert.equal(within("/apis/g/v1/things", "a b"), "/apis/g/v1/namespaces/a%20b/things");
  assert.equal(within("/api/v1/pods", "shop"), "/api/v1/namespaces/shop/pods");
  assert.equal(within("/api/v1/pods", ""), "/api/v1/pods");
  assert.equal(within("/api/v1/namespaces/x/pods", "shop"), "/api/v1/namespaces/x/pods");
  assert.equal(homeOf("system:serviceaccount:shop:jane"), "shop");
  assert.equal(homeOf("jane"), "");
  assert.equal(withNamespace("#/workloads?q=a", "shop"), "#/workloads?q=a&ns=shop");
  assert.equal(withNamespace("#/workloads?ns=shop", ""), "#/workloads");
});
