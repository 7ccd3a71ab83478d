// The terminal's libraries as one part of the page: they know no modules of today, and `import()` alone would find no names in them.
export { FitAddon } from "@xterm/addon-fit";
export { Terminal } from "@xterm/xterm";
