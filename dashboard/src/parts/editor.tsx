// A place for the editor. It is loaded on use; until then there is nothing to type into.
import { useEffect, useRef, useState } from "preact/hooks";
import { Loading } from "./states.tsx";
import type { Editor as Made } from "./codemirror.ts";

interface Props {
  text: string;
  label: string;
  changed: (text: string) => void;
  preview: () => void;
  made: (editor: Made | null) => void;
}

export function Editor(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [here, setHere] = useState(false);
  const now = useRef(props); // the editor is created once and calls the current props
  now.current = props;
  useEffect(() => {
    let editor: Made | null = null;
    let over = false;
    void import("./codemirror.ts").then(({ edit }) => {
      if (over || !place.current) return;
      editor = edit({
        place: place.current, text: now.current.text, label: now.current.label,
        changed: (text) => now.current.changed(text), preview: () => now.current.preview(),
      });
      setHere(true);
      now.current.made(editor);
    });
    return () => {
      over = true;
      editor?.close();
      now.current.made(null);
    };
  }, []);
  return <>{!here && <Loading />}<div class="editor" ref={place} /></>;
}
