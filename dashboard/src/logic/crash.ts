// Why a Pod's containers do not run: the exit code and the restarts of the one that ended last.

interface Terminated {
  exitCode: number;
  signal?: number;
  reason?: string;
  finishedAt?: string;
}

interface ContainerStatus {
  name: string;
  restartCount?: number;
  state?: { terminated?: Terminated; waiting?: { reason?: string; message?: string } };
  lastState?: { terminated?: Terminated };
}

export interface CrashedPod {
  status?: { initContainerStatuses?: ContainerStatus[]; containerStatuses?: ContainerStatus[] };
}

export interface Crash {
  container: string;
  exitCode: number;
  reason: string;
  restarts: number;
  finished: string;
  /** True if its log is that of the container before the present one. */
  previous: boolean;
}

/** The container that ended last with an error; null if none has. */
export function crashOf({ status }: CrashedPod): Crash | null {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const found = all.flatMap((each): Crash[] => {
    const [now, before] = [each.state?.terminated, each.lastState?.terminated];
    const ended = now ?? before;
    if (!ended || ended.exitCode === 0) return [];
    return [{ container: each.name, exitCode: ended.exitCode, reason: ended.reason ?? "", restarts: each.restartCount ?? 0, finished: ended.finishedAt ?? "", previous: !now }];
  });
  return found.sort((a, b) => b.finished.localeCompare(a.finished))[0] ?? null;
}
