// A view in a file of its own, loaded when it is opened, so that the first view need not wait for it.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure } from "../api/requests.ts";
import { Failed, Loading } from "./states.tsx";

export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let found: ComponentType<Props> | null = null;
  return function Lazy(props: Props) {
    const [here, setHere] = useState(found !== null);
    const [failed, setFailed] = useState(false);
    const [tries, setTries] = useState(0);
    useEffect(() => {
      if (here) return;
      setFailed(false);
      load().then((view) => ((found = view), setHere(true)), () => setFailed(true));
    }, [tries]);
    const View = found;
    if (View) return <View {...props} />;
    return failed ? <Failed failure={new Failure(0, "The server does not answer, or was upgraded: reload the page.")} again={() => setTries(tries + 1)} /> : <Loading />;
  };
}
