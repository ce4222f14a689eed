// A conversation on the screen. Items stand in groups; only groups near the view are drawn, the others keep
// their place by height. So a session of thousands of messages costs what is seen of it.

import { Component, createRef, type ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Item, type NoteItem, type Pending, type TextItem, textOf, type UserItem } from "./conversation";
import { Icon } from "./icons";
import { Code, prose } from "./invisible";
import { Markdown } from "./markdown-view";
import { BlockView, ToolView } from "./tool-view";

/** Items drawn together: few enough to draw within a frame. */
const GROUP = 10;
/** How far outside the view groups are drawn, so that scrolling finds them ready. */
const MARGIN_PX = 1_200;
/** How far from the beginning of what is there more is fetched. */
const EARLIER_PX = 2_500;
/** What an item takes on the screen until it was measured. */
const GUESS_PX = 90;

export interface Actions {
  fork: (item: Item) => void;
  undo: (item: UserItem) => void;
  /** Puts the text of a prompt that did not run into the field again. */
  edit: (text: string) => void;
}

interface Props {
  items: Item[];
  /** Groups are counted from here, so that they stay the same when something is put before them. */
  base: number;
  pending: Pending[];
  isWorking: boolean;
  actions: Actions | null;
  hasEarlier?: boolean;
  onEarlier?: () => void;
  onDismiss?: (pending: Pending) => void;
  children?: ComponentChildren;
}

export class Transcript extends Component<Props, { isAtEnd: boolean }> {
  override state = { isAtEnd: true };
  private scroller = createRef<HTMLDivElement>();
  private content = createRef<HTMLDivElement>();
  private sized: ResizeObserver | null = null;
  private lastTop = 0;

  override componentDidMount() {
    this.sized = new ResizeObserver(() => this.stick());
    if (this.content.current) this.sized.observe(this.content.current);
    if (this.scroller.current) this.sized.observe(this.scroller.current);
    this.stick();
  }

  override componentDidUpdate() {
    this.stick();
    this.reach();
  }

  override componentWillUnmount() {
    this.sized?.disconnect();
  }

  /** Whoever comes near the beginning of what is there gets more of it. */
  private reach() {
    const scroller = this.scroller.current;
    if (scroller && this.props.hasEarlier && scroller.scrollTop < EARLIER_PX) this.props.onEarlier?.();
  }

  /** Whoever reads the end keeps reading the end. */
  private stick() {
    const scroller = this.scroller.current;
    if (scroller && this.state.isAtEnd) scroller.scrollTop = scroller.scrollHeight;
  }

  private scrolled = () => {
    const scroller = this.scroller.current;
    if (!scroller) return;
    const isNear = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40;
    const wentUp = scroller.scrollTop < this.lastTop - 2;
    this.lastTop = scroller.scrollTop;
    this.reach();
    // Content that grows is not a person who scrolls away; only going up is.
    if (isNear !== this.state.isAtEnd && (isNear || wentUp)) this.setState({ isAtEnd: isNear });
  };

  private toEnd = () => this.setState({ isAtEnd: true });

  override render({ items, base, pending, isWorking, actions, hasEarlier, onDismiss, children }: Props) {
    const groups: ComponentChildren[] = [];
    for (let start = 0; start < items.length;) {
      const number = Math.floor((start - base) / GROUP);
      const end = Math.min(items.length, (number + 1) * GROUP + base);
      groups.push(<Group key={number} items={items.slice(start, end)} root={this.scroller} isLast={end >= items.length} actions={actions} />);
      start = end;
    }
    return (
      <div class="scroller" ref={this.scroller} onScroll={this.scrolled} tabIndex={0} role="region" aria-label="Conversation">
        <div class="column" ref={this.content}>
          {children}
          {hasEarlier ? <p class="earlier" role="status">Reading what came before…</p> : null}
          <div role="log" aria-live="polite" aria-relevant="additions" aria-busy={isWorking}>
            {groups}
            {pending.map((one) => <PendingView key={one.promptId ?? one.seq} pending={one} onDismiss={onDismiss} />)}
          </div>
          {isWorking ? <p class="working" role="status"><span class="pulse" aria-hidden="true" />Working…</p> : null}
        </div>
        {this.state.isAtEnd ? null : <button class="to-end" onClick={this.toEnd}><Icon name="down" /> Newest</button>}
      </div>
    );
  }
}

interface GroupProps {
  items: Item[];
  root: { current: HTMLDivElement | null };
  isLast: boolean;
  actions: Actions | null;
}

class Group extends Component<GroupProps, { isNear: boolean }> {
  override state = { isNear: this.props.isLast };
  private place = createRef<HTMLDivElement>();
  private seen: IntersectionObserver | null = null;
  private height = 0;
  private drawn = "";

  override componentDidMount() {
    this.seen = new IntersectionObserver((entries) => {
      const entry = entries.at(-1);
      const isNear = entry?.isIntersecting ?? false;
      if (entry && !isNear && this.state.isNear) this.height = entry.boundingClientRect.height;
      if (isNear !== this.state.isNear) this.setState({ isNear });
    }, { root: this.props.root.current, rootMargin: `${MARGIN_PX}px 0px` });
    if (this.place.current) this.seen.observe(this.place.current);
    this.drawn = mark(this.props.items);
  }

  override componentWillUnmount() {
    this.seen?.disconnect();
  }

  override shouldComponentUpdate(next: GroupProps, state: { isNear: boolean }) {
    return state.isNear !== this.state.isNear || next.actions !== this.props.actions || mark(next.items) !== this.drawn;
  }

  override componentDidUpdate() {
    this.drawn = mark(this.props.items);
  }

  override render({ items, actions }: GroupProps, { isNear }: { isNear: boolean }) {
    if (!isNear) return <div class="group" ref={this.place} style={{ height: `${this.height || items.length * GUESS_PX}px` }} />;
    return <div class="group" ref={this.place} style={{ height: "" }}>{items.map((item) => <ItemView key={item.key} item={item} rev={item.rev} actions={actions} />)}</div>;
  }
}

/** Differs whenever an item of the group does. */
function mark(items: Item[]): string {
  let revs = 0;
  for (const item of items) revs += item.rev;
  return `${items.length}/${revs}/${items.at(-1)?.key}`;
}

interface ItemProps {
  item: Item;
  rev: number;
  actions: Actions | null;
}

class ItemView extends Component<ItemProps> {
  override shouldComponentUpdate(next: ItemProps) {
    return next.item !== this.props.item || next.rev !== this.props.rev || next.actions !== this.props.actions;
  }

  override render({ item, actions }: ItemProps) {
    switch (item.kind) {
      case "user": return <UserView item={item} actions={actions} />;
      case "agent": return <AgentView item={item} actions={actions} />;
      case "greeting": return <div class="greeting"><Markdown text={item.text} /></div>;
      case "thought": return <ThoughtView item={item} />;
      case "tool": return <ToolView item={item} />;
      case "note": return <NoteView item={item} actions={actions} />;
    }
  }
}

function UserView({ item, actions }: { item: UserItem; actions: Actions | null }) {
  return (
    <article class="user" aria-label="You">
      <Said blocks={item.blocks} />
      {actions ? (
        <div class="acts">
          <button class="quiet" onClick={() => actions.fork(item)} title="A new session with everything before this prompt"><Icon name="fork" /> Fork before</button>
          <button class="quiet" onClick={() => actions.undo(item)} title="Undo this prompt and all that came after"><Icon name="undo" /> Undo</button>
        </div>
      ) : null}
    </article>
  );
}

function Said({ blocks }: { blocks: UserItem["blocks"] }) {
  const text = textOf(blocks.filter((block) => block.type === "text"));
  const others = blocks.filter((block) => block.type !== "text");
  return (
    <>
      <p class="said" dir="auto">{prose(text)}</p>
      {others.map((block) => block.type === "resource_link" ? <span class="chip"><Code text={block.name ?? block.uri ?? ""} /></span> : <BlockView block={block} label="attachment" />)}
    </>
  );
}

function AgentView({ item, actions }: { item: TextItem; actions: Actions | null }) {
  return (
    <article class="agent" aria-label="Agent">
      <Markdown text={item.text} />
      {actions ? <div class="acts"><button class="quiet" onClick={() => actions.fork(item)} title="A new session with everything up to the end of this turn"><Icon name="fork" /> Fork after</button></div> : null}
    </article>
  );
}

function ThoughtView({ item }: { item: TextItem }) {
  const [isOpen, setOpen] = useState(false);
  const line = item.text.trim().split("\n", 1)[0] ?? "";
  return (
    <section class="thought" aria-label="Thought">
      <button class="tool-head" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name={isOpen ? "down" : "right"} />
        <span class="tool-name">thought</span>
        {isOpen ? null : <span class="tool-title" dir="auto">{prose(line)}</span>}
      </button>
      {isOpen ? <div class="tool-body"><Markdown text={item.text} /></div> : null}
    </section>
  );
}

function NoteView({ item, actions }: { item: NoteItem; actions: Actions | null }) {
  const { prompt } = item;
  return (
    <div class={`note note-${item.severity}`} role={item.severity === "error" ? "alert" : "note"}>
      <strong>{item.text}</strong>
      {item.detail ? <p class="said" dir="auto">{prose(item.detail)}</p> : null}
      {prompt && actions ? <button onClick={() => actions.edit(prompt)}>Edit again</button> : null}
    </div>
  );
}

const PENDING = { sent: "Sending…", queued: "Queued: it runs after the turns before it.", failed: "" };

function PendingView({ pending, onDismiss }: { pending: Pending; onDismiss: ((pending: Pending) => void) | undefined }) {
  const hasFailed = pending.state === "failed";
  return (
    <article class={`user pending ${hasFailed ? "failed" : ""}`} aria-label={hasFailed ? "Prompt, not sent" : "Prompt, waiting"}>
      <p class="said" dir="auto">{prose(pending.text)}</p>
      <div class="acts shown">
        <span class={hasFailed ? "why" : ""}>{hasFailed ? pending.why : PENDING[pending.state]}</span>
        {hasFailed && onDismiss ? <button class="quiet" onClick={() => onDismiss(pending)}>Edit again</button> : null}
      </div>
    </article>
  );
}
