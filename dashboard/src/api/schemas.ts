// The OpenAPI document of a group, by the hash under which the server lists it: a browser may keep such an answer.
import type { Document } from "../logic/schema.ts";
import { json } from "./requests.ts";

interface Index {
  paths: Record<string, { serverRelativeURL: string }>;
}

const known = new Map<string, Promise<Document | null>>();

/** The document of an apiVersion; null where there is none. Raises Failure. */
export function schemas(apiVersion: string): Promise<Document | null> {
  const path = apiVersion.includes("/") ? `apis/${apiVersion}` : `api/${apiVersion}`;
  const asked = known.get(path) ?? json<Index>("/openapi/v3").then((index) => {
    const found = index.paths[path]?.serverRelativeURL;
    return found ? json<Document>(found) : null;
  });
  known.set(path, asked);
  asked.catch(() => known.delete(path));
  return asked;
}
