// What waits for a person: a permission with its options, or a form.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ToolItem } from "./conversation";
import type { FieldSchema, Question, SessionLink } from "./link";
import { ToolContentView, ToolInput } from "./tool-view";
import type { Json, PermissionOption } from "./wire";

export function QuestionView({ question, link, call, others }: { question: Question; link: SessionLink; call: ToolItem | null; others: number }) {
  return question.kind === "permission"
    ? <PermissionView key={question.id} question={question} link={link} call={call} others={others} />
    : <FormView key={question.id} question={question} link={link} />;
}

/** Keys count only after this: whoever was typing when a question came has not read it yet. */
const UNREAD_MS = 500;

/** Takes the keys from a prompt in which nothing was written, and gives them back afterwards. */
function useTurnToAnswer() {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    const field = document.getElementById("prompt");
    if (!(field instanceof HTMLTextAreaElement) || document.activeElement !== field || field.value !== "") return;
    section.current?.focus();
    return () => {
      if (document.activeElement === document.body || document.activeElement === null) field.focus();
    };
  }, []);
  return section;
}

type Permission = Extract<Question, { kind: "permission" }>;

/** The key that chooses an option: y and n for what is meant most often, digits for the rest. */
export function keyOf(option: PermissionOption, index: number, options: PermissionOption[]): string {
  const first = (kind: string) => options.findIndex((other) => other.kind === kind) === index;
  if (option.kind === "allow_once" && first("allow_once")) return "y";
  if (option.kind === "reject_once" && first("reject_once")) return "n";
  if (option.kind === "allow_always" && first("allow_always")) return "a";
  return String(index + 1);
}

function PermissionView({ question, link, call, others }: { question: Permission; link: SessionLink; call: ToolItem | null; others: number }) {
  const [reason, setReason] = useState("");
  const [shownAt] = useState(() => performance.now());
  const section = useTurnToAnswer();
  const answer = (option: PermissionOption) => link.answerPermission(question, option.optionId, reason);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.repeat || performance.now() - shownAt < UNREAD_MS) return;
      const index = question.options.findIndex((option, at) => keyOf(option, at, question.options) === event.key);
      const option = question.options[index];
      if (!option) return;
      event.preventDefault();
      answer(option);
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  });
  const proposed = question.content.length > 0 ? question.content : call?.proposed ?? [];
  const input = question.agent?.input ?? call?.input ?? null;
  const canReject = question.options.some((option) => option.kind.startsWith("reject"));
  return (
    <section class="question" role="group" aria-labelledby="question-title" tabIndex={-1} ref={section}>
      <header>
        <h2 id="question-title">{question.isQuestion ? "The agent asks" : question.agent ? `${question.agent.name} asks for permission` : "Permission needed"}</h2>
        {others > 0 ? <span class="meta">{others} more</span> : null}
      </header>
      <p class="question-what">{!question.isQuestion && (question.agent?.tool ?? call?.name) ? <span class="tool-name">{question.agent?.tool ?? call?.name}</span> : null}{question.title}</p>
      {question.isQuestion ? null : (
        <div class="question-body">
          {proposed.some((content) => content.type === "diff") ? null : <ToolInput input={input} />}
          {proposed.map((content) => <ToolContentView content={content} />)}
        </div>
      )}
      <div class="options">
        {question.options.map((option, index) => (
          <button class={option.kind.startsWith("allow") ? (index === 0 ? "primary" : "") : "danger"} onClick={() => answer(option)}>
            {option.name} <kbd aria-hidden="true">{keyOf(option, index, question.options)}</kbd>
          </button>
        ))}
        {canReject && !question.isQuestion ? (
          <input class="reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="Why, for the agent (optional)" aria-label="Reason, told to the agent" maxLength={1000} />
        ) : null}
      </div>
    </section>
  );
}

type Form = Extract<Question, { kind: "form" }>;

function FormView({ question, link }: { question: Form; link: SessionLink }) {
  const fields = Object.entries(question.schema.properties);
  const submit = (event: Event) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const content: Record<string, Json> = {};
    for (const [name, field] of fields) {
      const value = read(field, name, data);
      if (value !== undefined) content[name] = value;
    }
    link.answerForm(question, content);
  };
  return (
    <section class="question" role="group" aria-labelledby="question-title">
      <header><h2 id="question-title">The agent asks</h2></header>
      <p class="question-what">{question.message}</p>
      <form onSubmit={submit}>
        {fields.map(([name, field]) => <Field name={name} field={field} isRequired={question.schema.required?.includes(name) ?? false} />)}
        <div class="options">
          <button class="primary" type="submit">Answer</button>
          <button type="button" onClick={() => link.answerForm(question, null)}>Decline</button>
        </div>
      </form>
    </section>
  );
}

function choices(field: FieldSchema): { value: string; name: string }[] | null {
  const titled = field.oneOf ?? field.items?.anyOf;
  if (titled) return titled.map((choice) => ({ value: choice.const, name: choice.title ?? choice.const }));
  const plain = field.enum ?? field.items?.enum;
  return plain ? plain.map((value) => ({ value, name: value })) : null;
}

function Field({ name, field, isRequired }: { name: string; field: FieldSchema; isRequired: boolean }) {
  const title = field.title ?? name;
  const offered = choices(field);
  if (offered) {
    const type = field.type === "array" ? "checkbox" : "radio";
    return (
      <fieldset>
        <legend>{title}</legend>
        {field.description ? <p class="meta">{field.description}</p> : null}
        {offered.map((choice) => <label class="choice"><input type={type} name={name} value={choice.value} required={isRequired && type === "radio"} /> {choice.name}</label>)}
      </fieldset>
    );
  }
  if (field.type === "boolean") return <label class="choice"><input type="checkbox" name={name} defaultChecked={field.default === true} /> {title}</label>;
  const isNumber = field.type === "number" || field.type === "integer";
  return (
    <label class="field">
      <span>{title}</span>
      {isNumber
        ? <input name={name} type="number" step={field.type === "number" ? "any" : "1"} required={isRequired} min={field.minimum} max={field.maximum} />
        : <input name={name} type="text" required={isRequired} maxLength={field.maxLength} defaultValue={typeof field.default === "string" ? field.default : ""} />}
      {field.description ? <span class="meta">{field.description}</span> : null}
    </label>
  );
}

function read(field: FieldSchema, name: string, data: FormData): Json | undefined {
  if (field.type === "array") return data.getAll(name).map(String);
  if (field.type === "boolean") return data.get(name) !== null;
  const value = data.get(name);
  if (value === null || value === "") return undefined;
  return field.type === "number" || field.type === "integer" ? Number(value) : String(value);
}

/** Whether keys go into a field, and so are no commands. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
    || (target instanceof HTMLInputElement && !/^(checkbox|radio|button|range)$/.test(target.type));
}
