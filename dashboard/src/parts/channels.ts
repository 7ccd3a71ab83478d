// Multiplexes channels over one WebSocket, as Kubernetes does: the first byte of a message is its channel.

export const INPUT = 0;
export const OUTPUT = 1;
export const NOTICE = 2;
export const STATUS = 3;
export const SIZE = 4;
export const PROTOCOL = "v5.channel.k8s.io";

/** A message for a channel, if the socket takes one. */
export function send(socket: WebSocket, channel: number, text: string): void {
  if (socket.readyState !== WebSocket.OPEN) return;
  const body = new TextEncoder().encode(text);
  const framed = new Uint8Array(body.length + 1);
  framed[0] = channel;
  framed.set(body, 1);
  socket.send(framed);
}

/** The terminal's size in the form of the protocol. */
export function sendSize(socket: WebSocket, { cols, rows }: { cols: number; rows: number }): void {
  send(socket, SIZE, JSON.stringify({ Width: cols, Height: rows }));
}

/** The Status at the end of a session, as a sentence. */
export function ending(status: string, success: string): string {
  try {
    const said = JSON.parse(status) as { status?: string; message?: string };
    return said.status === "Success" ? success : (said.message ?? status);
  } catch {
    return status;
  }
}
