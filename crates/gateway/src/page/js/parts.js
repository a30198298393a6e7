// Small parts that several views use: states, tags, dialogs, menus, toasts, copyable commands.
import { html, use, useEffect, useLayoutEffect, useRef, useState, copy } from "./lib.js";
import { icon, stateIcon, stateWord } from "./icons.js";
import { dismiss, toasts, attempt } from "./store.js";

export function State({ state, word = true }) {
  return html`<span class=${"st " + state}>${stateIcon(state)}${word ? html`<span>${stateWord(state)}</span>` : html`<span class="vh">${stateWord(state)}</span>`}</span>`;
}

/** Words with names and commands between backticks, shown as such. */
export const Words = ({ text }) => String(text ?? "").split("`").map((part, n) => (n % 2 ? html`<code>${part}</code>` : part));

/** Colour of a tag, which never changes. */
const hue = (name) => [...name].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 360, 7);
export const Tag = ({ name, onRemove }) => html`<span class="tag keep"><span class="dot" style=${`background:hsl(${hue(name)} 55% 55%)`}></span>${name}${onRemove && html`<button class="b bare icon small" style="min-height:18px;width:18px;margin-right:-5px" aria-label=${`remove the tag ${name}`} onClick=${onRemove}>${icon("x")}</button>`}</span>`;

export function Cmd({ text }) {
  const [done, setDone] = useState(false);
  return html`<div class="cmd"><code tabindex="0">${text}</code><button class="b bare icon" aria-label=${`copy: ${text}`} onClick=${async () => { await copy(text); setDone(true); setTimeout(() => setDone(false), 1500); }}>${icon(done ? "check" : "copy")}</button></div>`;
}

/** Dialog: takes the focus, keeps it, gives it back. Escape closes it wherever the focus went, and so does a click beside it. */
export function Dialog({ title, lead, onClose, children, extra = "" }) {
  const box = useRef();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const first = box.current.querySelector("[autofocus]") || box.current.querySelector("input, textarea, select, button, [tabindex]");
    first?.focus();
    return () => before?.focus?.();
  }, []);
  const close = useRef();
  close.current = onClose;
  useEffect(() => {
    // Listens at the window: a button that was disabled while it had the focus leaves the focus on no element.
    const escape = (event) => {
      if (event.key !== "Escape" || event.isComposing) return;
      event.preventDefault();
      event.stopPropagation();
      close.current();
    };
    addEventListener("keydown", escape, true);
    return () => removeEventListener("keydown", escape, true);
  }, []);
  const keys = (event) => {
    event.stopPropagation();
    if (event.key !== "Tab") return;
    const stops = [...box.current.querySelectorAll("a[href], button:not([disabled]), input, textarea, select, [tabindex='0']")].filter((one) => one.offsetParent);
    const [first, last] = [stops[0], stops[stops.length - 1]];
    if (event.shiftKey && document.activeElement === first) { event.preventDefault(); last.focus(); }
    else if (!event.shiftKey && document.activeElement === last) { event.preventDefault(); first.focus(); }
  };
  return html`<div class="veil" onMouseDown=${(event) => event.target === event.currentTarget && onClose()}>
    <div class=${"dialog " + extra} role="dialog" aria-modal="true" aria-label=${title} ref=${box} onKeyDown=${keys}>
      <h2>${title}</h2>${lead && html`<p class="lead">${lead}</p>`}${children}
    </div></div>`;
}

/** Asks before something is done that is not easily undone. */
export function Sure({ title, lead, yes, danger, onYes, onClose }) {
  const [busy, setBusy] = useState(false);
  const act = async () => { if (busy) return; setBusy(true); const done = await attempt(onYes); setBusy(false); if (done) onClose(); };
  return html`<${Dialog} title=${title} lead=${lead} onClose=${onClose}>
    <div class="acts"><button class="b" autofocus onClick=${onClose}>Cancel</button><button class=${"b main " + (danger ? "danger" : "")} disabled=${busy} onClick=${act}>${yes}</button></div></${Dialog}>`;
}

/** Asks for one line or a few, then for a confirmation. */
export function AskText({ title, lead, label, value = "", yes = "Save", long, onYes, onClose }) {
  const [text, setText] = useState(value);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => { event.preventDefault(); if (busy) return; setBusy(true); const done = await attempt(() => onYes(text)); setBusy(false); if (done) onClose(); };
  const input = long
    ? html`<textarea id="asked" class="f" rows="4" autofocus value=${text} onInput=${(e) => setText(e.target.value)}></textarea>`
    : html`<input id="asked" class="f" autofocus autocomplete="off" value=${text} onInput=${(e) => setText(e.target.value)} />`;
  return html`<${Dialog} title=${title} lead=${lead} onClose=${onClose}><form onSubmit=${submit}>
    <label class="lab" for="asked">${label}</label>${input}
    <div class="acts"><button type="button" class="b" onClick=${onClose}>Cancel</button><button class="b main" disabled=${busy}>${yes}</button></div></form></${Dialog}>`;
}

export function Menu({ label, items, onClose }) {
  const box = useRef();
  // Before it is drawn: Escape at that moment must close the menu, and not the session.
  useLayoutEffect(() => { box.current.querySelector("button")?.focus(); }, []);
  useEffect(() => {
    const away = (event) => { if (!box.current?.contains(event.target)) onClose(); };
    setTimeout(() => addEventListener("click", away), 0);
    return () => removeEventListener("click", away);
  }, []);
  const keys = (event) => {
    const stops = [...box.current.querySelectorAll("button")];
    const here = stops.indexOf(document.activeElement);
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) { event.preventDefault(); stops[(here + move + stops.length) % stops.length].focus(); }
    event.stopPropagation();
    if (event.key === "Escape" || event.key === "Tab") onClose();
  };
  return html`<div class="menu" role="menu" aria-label=${label} ref=${box} onKeyDown=${keys}>
    ${items.filter(Boolean).map((item) => (item === "-" ? html`<hr />` : html`<button role="menuitem" class=${item.bad ? "bad" : ""} onClick=${() => { onClose(); item.act(); }}>${icon(item.icon)}${item.name}</button>`))}</div>`;
}

export function Toasts() {
  const all = use(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">${all.map((one) => html`<div key=${one.id} class=${"toast " + one.kind}>
    ${icon(one.kind === "bad" ? "warn" : "check")}<div class="words"><b><${Words} text=${one.title} /></b>${one.detail && html`<span><${Words} text=${one.detail} /></span>`}</div>
    <button class="b bare icon" aria-label="dismiss" onClick=${() => dismiss(one.id)}>${icon("x")}</button></div>`)}</div>`;
}

/** Problem, shown where it happened. An error of the current action is scrolled to and read out; an error of a background load is not. */
export function ProblemBox({ problem, quiet }) {
  const box = useRef();
  useEffect(() => { if (problem && !quiet) box.current?.scrollIntoView({ block: "nearest" }); }, [problem]);
  return problem && html`<div class="problem" role=${quiet ? null : "alert"} ref=${box}><${Words} text=${problem.title} />${problem.detail && html`<span><${Words} text=${problem.detail} /></span>`}</div>`;
}
