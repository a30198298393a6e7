// The send box and the queue: see, edit, drop, reorder, pause.
import { html, use, useEffect, useLayoutEffect, useRef, useState, count } from "./lib.js";
import { icon } from "./icons.js";
import { at, forPage, patch, remove } from "./api.js";
import { draft, drop, keepDraft, outbox, refused, send } from "./outbox.js";
import { attempt, handle, link } from "./store.js";
import { Words } from "./parts.js";

const MANNERS = [["queue", "Queue", "waits for its turn"], ["steer", "Steer", "told to the running turn"], ["interrupt", "Interrupt", "breaks off what runs"]];

export function Composer({ status, follow }) {
  const [note, setNote] = useState(() => draft(status.id));
  const [manner, setManner] = useState("queue");
  const field = useRef();
  const waiting = use(outbox).filter((one) => one.session === status.id);
  const net = use(link);
  const works = status.state === "working" || status.state === "needs-you";
  useEffect(() => { setNote(draft(status.id)); setManner("queue"); }, [status.id]);
  useEffect(() => refused.listen((one) => {
    // The words of a refused message come back, unless something else was begun meanwhile.
    if (one?.session === status.id) setNote((now) => (now.text ? now : keepDraft(status.id, one.text, { text: "" })));
  }), [status.id]);
  useEffect(() => {
    // Another tab sent the draft that both show.
    const other = (event) => { if (event.key === `berth.draft.${status.id}` && event.newValue === null) setNote((now) => (event.oldValue && JSON.parse(event.oldValue).key === now.key ? keepDraft(status.id, "", now) : now)); };
    addEventListener("storage", other);
    return () => removeEventListener("storage", other);
  }, [status.id]);
  useLayoutEffect(() => {
    const el = field.current;
    el.style.height = "auto";
    el.style.height = `${Math.min(el.scrollHeight, innerHeight * 0.4)}px`;
  }, [note.text]);
  const latest = useRef(note);
  latest.current = note;
  const write = (text) => { latest.current = keepDraft(status.id, text, latest.current); setNote(latest.current); };
  const submit = (event) => {
    event?.preventDefault();
    // Read and emptied in one go: a second click, however fast, finds an empty box.
    const now = latest.current;
    if (!now.text.trim() || !send(status.id, now, works ? manner : "queue")) return;
    latest.current = keepDraft(status.id, "", { text: "" });
    setNote(latest.current);
    setManner("queue");
    field.current.focus();
  };
  const keys = (event) => {
    if (event.isComposing) return;
    const enter = event.key === "Enter";
    const coarse = matchMedia("(pointer: coarse)").matches;
    if (enter && (event.metaKey || event.ctrlKey || (!event.shiftKey && !event.altKey && !coarse))) submit(event);
    if (event.key === "Escape") field.current.blur();
  };
  const archived = status.state === "archived";
  return html`<div class="dock">
    <${Queue} status=${status} follow=${follow} />
    ${waiting.map((one) => html`<div class="outgoing" key=${one.key} role="status">${icon("send", "pulse")}<span class="cut grow">${one.text}</span><span class="dimmer">${one.problem ? (one.unkept ? "waits for the gateway; leave this page open" : "waits for the gateway") : "sending …"}</span>${one.problem && html`<button class="b bare small" onClick=${() => drop(one.key)}>Give up</button>`}</div>`)}
    <form class="box" onSubmit=${submit}>
      <label class="vh" for="message">message to ${handle(status)}</label>
      <textarea id="message" ref=${field} rows="1" disabled=${archived} placeholder=${archived ? "Archived: restore it to go on" : `Message ${handle(status)}`} value=${note.text} onInput=${(e) => write(e.target.value)} onKeyDown=${keys}></textarea>
      <div class="under">
        ${works ? html`<label class="vh" for="manner">how it meets the running turn</label><select id="manner" value=${manner} onChange=${(e) => setManner(e.target.value)}>${MANNERS.map(([value, name, about]) => html`<option value=${value}>${name}: ${about}</option>`)}</select>` : null}
        <span class="grow dimmer keys-only" style="padding-left:6px;font-size:12px">${works ? "" : "Enter sends · Shift-Enter makes a line"}</span><span class="grow"></span>
        ${!net.live && note.text && html`<span class="dimmer" style="font-size:12px">kept, also offline</span>`}
        <button class="b main icon" aria-label="send" disabled=${archived || !note.text.trim()}>${icon("send")}</button>
      </div></form></div>`;
}

function Queue({ status, follow }) {
  const queued = status.turns?.queued || [];
  const [editing, setEditing] = useState(null);
  const [drag, setDrag] = useState(null);
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState(() => innerWidth > 760);
  const held = status.turns?.held;
  if (!queued.length && !held) return null;
  const turns = queued.map((id) => { const number = Number(id.split(".").pop()); return (follow.turns || []).find((turn) => turn.number === number) || { number, prompt: "…" }; });
  const act = async (doing) => {
    if (busy) return;
    setBusy(true);
    await attempt(doing);
    setBusy(false);
    follow.refresh();
  };
  const base = (number) => at(status.id, `/queue/${number}`);
  // A place is told by how many are before it.
  const move = (from, to) => to >= 0 && to < turns.length && from !== to && act(() => patch(base(turns[from].number), { position: to }));
  const paused = held && /pause/i.test(held);
  return html`<section class="queue" aria-label="queue">
    <div class="qh"><button type="button" class="fold" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${icon("chevron", open ? "chev turned" : "chev")}<span class="cut">${queued.length ? `${count(queued.length, "turn")} waiting` : "Nothing waits"}${!open && turns[0] ? html`<span class="dimmer"> · ${turns[0].prompt}</span>` : ""}</span></button>
      <button class="b bare small" onClick=${() => act(() => patch(at(status.id, "/queue"), { paused: !held }))}>${icon(held ? "play" : "pause")}${held ? "Go on" : "Pause"}</button></div>
    ${held && html`<div class="held" role="status">${paused ? "" : "The queue is held: "}<${Words} text=${forPage(held)} /></div>`}
    ${open && html`<ol>${turns.map((turn, n) => html`<li key=${turn.number} class=${(drag?.from === n ? "dragged " : "") + (drag?.over === n && drag.from !== n ? "over" : "")} draggable=${editing === null}
        onDragStart=${(e) => { e.dataTransfer.effectAllowed = "move"; e.dataTransfer.setData("text/plain", String(turn.number)); setDrag({ from: n, over: n }); }} onDragOver=${(e) => { e.preventDefault(); if (drag && drag.over !== n) setDrag({ ...drag, over: n }); }} onDragEnd=${() => setDrag(null)} onDrop=${(e) => { e.preventDefault(); if (drag) move(drag.from, n); setDrag(null); }}>
      ${editing === turn.number ? html`<${Edit} turn=${turn} onClose=${() => setEditing(null)} onSave=${(text) => act(() => patch(base(turn.number), { text }))} />` : html`
        <span class="grip keys-only" aria-hidden="true">${icon("grip")}</span><span class="words">${turn.prompt}</span>
        <button class="b bare icon" aria-label=${`move up: ${turn.prompt}`} disabled=${n === 0 || busy} onClick=${() => move(n, n - 1)}>${icon("up")}</button>
        <button class="b bare icon" aria-label=${`move down: ${turn.prompt}`} disabled=${n === turns.length - 1 || busy} onClick=${() => move(n, n + 1)}>${icon("down")}</button>
        <button class="b bare icon" aria-label=${`edit: ${turn.prompt}`} disabled=${busy} onClick=${() => setEditing(turn.number)}>${icon("edit")}</button>
        <button class="b bare icon" aria-label=${`drop: ${turn.prompt}`} disabled=${busy} onClick=${() => act(() => remove(base(turn.number)))}>${icon("trash")}</button>`}
    </li>`)}</ol>`}</section>`;
}

function Edit({ turn, onSave, onClose }) {
  const [text, setText] = useState(turn.prompt);
  const save = (event) => { event.preventDefault(); if (text.trim()) { onSave(text); onClose(); } };
  return html`<form onSubmit=${save} onKeyDown=${(e) => { if (e.key === "Escape") onClose(); }}><label class="vh" for=${`edit-${turn.number}`}>words of turn ${turn.number}</label>
    <textarea id=${`edit-${turn.number}`} class="f" rows="3" value=${text} onInput=${(e) => setText(e.target.value)} ref=${(el) => el && !el.dataset.seen && ((el.dataset.seen = 1), el.focus())}></textarea>
    <div class="row"><button class="b main small">Save</button><button type="button" class="b small" onClick=${onClose}>Cancel</button></div></form>`;
}
