// A tool call: one line that tells how it stands; open, all that went in and came out.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { CodeBlock } from "./code-block";
import { textOf, type ToolItem } from "./conversation";
import { diffLines } from "./diff";
import { Icon } from "./icons";
import { Code, spelled, Words } from "./invisible";
import type { ContentBlock, Json, ToolContent } from "./wire";

const OUTCOMES: Record<string, [string, string]> = {
  completed: ["ok", "done"],
  failed: ["bad", "failed"],
  denied: ["bad", "denied"],
  cancelled: ["off", "cancelled"],
  not_run: ["off", "not run"],
  unknown: ["bad", "may have run"],
  pending: ["wait", "waiting"],
  in_progress: ["run", "running"],
};

export function ToolView({ item }: { item: ToolItem }) {
  const isOver = item.endSeq !== undefined;
  const [choice, setChoice] = useState<boolean | null>(null);
  const hasDiff = [...item.content, ...item.proposed].some((content) => content.type === "diff");
  // While a person is asked about it, the question shows it.
  const isOpen = choice ?? (hasDiff && isOver);
  const [tone, words] = OUTCOMES[isOver ? item.outcome ?? "completed" : item.status] ?? ["off", item.status];
  return (
    <section class={`tool tone-${tone}`} aria-label={`Tool call: ${spelled(item.title)}, ${words}`}>
      <button class="tool-head" aria-expanded={isOpen} onClick={() => setChoice(!isOpen)}>
        <Icon name={isOpen ? "down" : "right"} />
        <span class="tool-name"><Words text={item.name || item.toolKind} /></span>
        <span class="tool-title"><Words text={item.title} /></span>
        <span class="state"><span class="dot" aria-hidden="true" />{words}</span>
      </button>
      {isOpen ? <ToolBody item={item} /> : null}
    </section>
  );
}

function ToolBody({ item }: { item: ToolItem }) {
  const hasDiff = item.content.some((content) => content.type === "diff");
  const proposed = hasDiff ? [] : item.proposed;
  const shown = [...proposed, ...item.content];
  return (
    <div class="tool-body">
      {item.agent ? <p class="meta">Works in a session of its own: <a href={`#/s/${item.agent.sessionId}`}><Words text={item.agent.name} /></a></p> : null}
      {shown.some((content) => content.type === "diff") ? null : <ToolInput input={item.input} />}
      {shown.map((content) => <ToolContentView content={content} />)}
      {shown.length === 0 && item.endSeq !== undefined ? <p class="meta">No output.</p> : null}
    </div>
  );
}

/** What a tool was given: a command as it stands, other things as fields. */
export function ToolInput({ input }: { input: Json }) {
  if (input === null || typeof input !== "object" || Array.isArray(input)) {
    return input === null ? null : <CodeBlock text={JSON.stringify(input)} label="input" />;
  }
  const fields = Object.entries(input);
  if (fields.length === 0) return null;
  if (typeof input.command === "string" && fields.length === 1) return <CodeBlock text={`$ ${input.command}`} label="command" />;
  return (
    <dl class="fields">
      {fields.map(([name, value]) => (
        <div>
          <dt><Code text={name} /></dt>
          <dd>{typeof value === "string" ? (value.includes("\n") ? <CodeBlock text={value} label={name} /> : <code><Code text={value} /></code>) : <code><Code text={JSON.stringify(value)} /></code>}</dd>
        </div>
      ))}
    </dl>
  );
}

export function ToolContentView({ content }: { content: ToolContent }): ComponentChildren {
  if (content.type === "diff") return <DiffView path={content.path ?? ""} before={content.oldText ?? ""} after={content.newText ?? ""} />;
  if (content.content) return <BlockView block={content.content} label="output" />;
  return null;
}

/** A content block that is no Markdown of a model's: text as it is, pictures that came along. */
export function BlockView({ block, label }: { block: ContentBlock; label: string }) {
  const isPicture = block.type === "image" && block.data && /^image\/(png|jpeg|gif|webp)$/.test(block.mimeType ?? "");
  if (isPicture) return <img class="picture" alt={`Picture, ${label}`} src={`data:${block.mimeType};base64,${block.data}`} />;
  const text = textOf([block]);
  return text === "" ? null : <CodeBlock text={text} label={label} />;
}

function DiffView({ path, before, after }: { path: string; before: string; after: string }) {
  const lines = diffLines(before, after);
  const count = (kind: string) => lines.filter((line) => line.kind === kind).length;
  return (
    <figure class="code diff">
      <figcaption><span><Code text={path} /></span><span class="counts"><ins>+{count("+")}</ins> <del>−{count("-")}</del></span></figcaption>
      <div class="diff-lines" tabIndex={0} role="region" aria-label={`Change of ${spelled(path)}: ${count("+")} lines added, ${count("-")} removed`}>
        <table>
          <tbody>
            {lines.slice(0, 1_000).map((line) => (
              <tr class={DIFF_CLASS[line.kind]}>
                <td class="num">{line.old ?? ""}</td>
                <td class="num">{line.new ?? ""}</td>
                <td class="sign">{line.kind === "-" ? "−" : line.kind}</td>
                <td class="text"><Code text={line.text} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {lines.length > 1_000 ? <p class="meta">{(lines.length - 1_000).toLocaleString()} more lines are not shown.</p> : null}
    </figure>
  );
}

const DIFF_CLASS: Record<string, string> = { "+": "added", "-": "removed", "…": "fold", " ": "" };
