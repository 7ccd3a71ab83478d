// A dialog over the page: it takes the focus, gives it back, and closes with Esc.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({ title, closed, children }: { title: string; closed: () => void; children: ComponentChildren }) {
  const own = useRef<HTMLDialogElement>(null);
  const over = useRef(false);
  // Once: the browser tells of a closed dialog later, when the key that opens it may have been pressed again already.
  const end = () => {
    if (over.current) return;
    over.current = true;
    closed();
  };
  // Synchronously: keys typed right after the opening key belong to the dialog.
  useLayoutEffect(() => {
    const [before, dialog] = [document.activeElement, own.current];
    dialog?.showModal();
    return () => {
      over.current = true;
      dialog?.close(); // nothing behind it takes the focus while it is open
      (before as HTMLElement | null)?.focus?.();
    };
  }, []);
  return (
    <dialog ref={own} aria-label={title} onCancel={(event) => (event.preventDefault(), end())} onClose={end} onClick={(event) => event.target === own.current && end()}>
      <div class="dialog">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
