// Markdown on the screen: elements made one by one, never from a string of HTML.

import { Component, type ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { type Block, Growing, type Inline, type Part, safeUrl } from "./markdown";
import { CodeBlock } from "./code-block";
import { Code, prose, spelled } from "./invisible";

export function Markdown({ text }: { text: string }) {
  const growing = useRef<Growing | null>(null);
  growing.current ??= new Growing();
  const parts = growing.current.show(text);
  return <div class="md">{parts.map((part, index) => <PartView key={index} part={part} />)}</div>;
}

/** A part stays as it is when more text comes after it. */
class PartView extends Component<{ part: Part }> {
  override shouldComponentUpdate(next: { part: Part }) {
    return next.part !== this.props.part;
  }

  override render() {
    return <>{this.props.part.blocks.map(block)}</>;
  }
}

function block(node: Block): ComponentChildren {
  switch (node.t) {
    case "paragraph": return <p dir="auto">{node.kids.map(inline)}</p>;
    case "heading": {
      // The page has its own h1 and h2.
      const Tag = `h${Math.min(node.level + 2, 6)}` as "h3";
      return <Tag class={`h-${node.level}`} dir="auto">{node.kids.map(inline)}</Tag>;
    }
    case "code": return <CodeBlock text={node.text} lang={node.lang} />;
    case "quote": return <blockquote>{node.kids.map(block)}</blockquote>;
    case "list": {
      const items = node.items.map((item) => (
        <li dir="auto" class={item.checked === null ? undefined : "task"}>
          {item.checked === null ? null : <input type="checkbox" checked={item.checked} disabled aria-label={item.checked ? "done" : "to do"} />}
          {item.kids.map((kid) => (kid.t === "paragraph" && item.kids.length === 1 ? kid.kids.map(inline) : block(kid)))}
        </li>
      ));
      return node.start === null ? <ul>{items}</ul> : <ol start={node.start}>{items}</ol>;
    }
    case "table": return (
      <div class="table" tabIndex={0} role="region" aria-label="Table">
        <table>
          <thead><tr>{node.head.map((cell, index) => <th scope="col" dir="auto" class={`to-${node.align[index] ?? "none"}`}>{cell.map(inline)}</th>)}</tr></thead>
          <tbody>{node.rows.map((row) => <tr>{row.map((cell, index) => <td dir="auto" class={`to-${node.align[index] ?? "none"}`}>{cell.map(inline)}</td>)}</tr>)}</tbody>
        </table>
      </div>
    );
    case "rule": return <hr />;
  }
}

function inline(node: Inline): ComponentChildren {
  switch (node.t) {
    case "text": return prose(node.text);
    case "code": return <code><Code text={node.text} /></code>;
    case "strong": return <strong>{node.kids.map(inline)}</strong>;
    case "em": return <em>{node.kids.map(inline)}</em>;
    case "del": return <del>{node.kids.map(inline)}</del>;
    case "break": return <br />;
    case "link": return <Link url={node.url}>{node.kids.map(inline)}</Link>;
    case "image": return <RemoteImage url={node.url} alt={node.alt} />;
  }
}

function Link({ url, children }: { url: string; children: ComponentChildren }) {
  return <a href={url} target="_blank" rel="noopener noreferrer nofollow" title={spelled(url)}><bdi>{children}</bdi></a>;
}

/** Nothing is fetched from elsewhere by itself: a picture is a link that a person may follow. */
function RemoteImage({ url, alt }: { url: string; alt: string }) {
  const words = `Picture: ${alt || "without description"}`;
  return safeUrl(url) ? <Link url={url}><span class="chip">{words} ↗</span></Link> : <span class="chip">{words}</span>;
}
