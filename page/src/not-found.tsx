// What stands where a session would be that is not there.

import { useEffect } from "preact/hooks";
import { CodeBlock } from "./code-block";

export function NotFound({ isShared, draft }: { isShared: boolean; draft: string }) {
  useEffect(() => {
    document.title = "Session not found · Fastness";
  }, []);
  return (
    <main class="session nothing">
      <div class="gate">
        <h1>Session not found</h1>
        <p role="alert">{isShared
          ? "It was deleted, or this link is for another session. Ask for a new link."
          : "It was deleted, it belongs to another user, or the address is wrong."}</p>
        {draft ? <CodeBlock text={draft} label="what you had written" /> : null}
        {isShared ? null : <p><a class="button" href="#/">All sessions</a></p>}
      </div>
    </main>
  );
}
