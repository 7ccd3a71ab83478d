// WebSockets to the API. The token goes as a subprotocol, since a browser can set no header on one.
import { text } from "./requests.ts";
import { session } from "./session.ts";

const BEARER = "base64url.bearer.authorization.k8s.io.";
const MOST = 32;
const UPGRADE = "Upgrade request required"; // the objection of a node to the repeated request, not to the first
const NO_REASON = "The node refused the connection, and a browser does not learn why. The command below prints the reason.";
let open = 0;

/** Connect to a path with these subprotocols. Null when the page has reached its limit of connections. */
export function connect(path: string, protocols: string[]): WebSocket | null {
  if (open >= MOST) return null;
  const url = new URL(path, location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url, [BEARER + encoded(session.value?.token ?? ""), ...protocols]);
  socket.binaryType = "arraybuffer";
  open += 1;
  socket.addEventListener("close", () => (open -= 1), { once: true });
  return socket;
}

/** The reason of a rejected WebSocket. Browsers hide it, so the request is repeated once without one. */
export async function refusal(path: string): Promise<string> {
  return text(path, { accept: "*/*" }).then(() => NO_REASON, (error: Error) => (error.message === UPGRADE ? NO_REASON : error.message));
}

function encoded(token: string): string {
  return btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
