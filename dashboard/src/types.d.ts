declare module "*.css";

declare module "@novnc/novnc" {
  /** As much of noVNC as is used here; it brings no types. */
  export default class RFB extends EventTarget {
    constructor(place: HTMLElement, channel: WebSocket);
    viewOnly: boolean;
    scaleViewport: boolean;
    disconnect(): void;
    focus(options?: FocusOptions): void;
    sendCtrlAltDel(): void;
  }
}
