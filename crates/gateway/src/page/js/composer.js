// The send box and the queue: see, edit, drop, reorder, pause.
import { html, use, useEffect, useLayoutEffect, useRef, useState, count } from "./lib.js";
import { icon } from "./icons.js";
import { at, forPage, may, patch, remove } from "./api.js";
import { askKey, drawnAsks, sendAnswer } from "./ask.js";
import { draft, drop, keepDraft, outbox, refused, send } from "./outbox.js";
import { attempt, link, tell, title } from "./store.js";
import { Words } from "./parts.js";

const MANNERS = [["queue", "Queue", "after the running turn"], ["steer", "Steer", "add to the running turn"], ["interrupt", "Interrupt", "end the running turn first"]];

/** Manner of a text that refuses the open question. */
const INSTEAD = "instead";

export function Composer({ status, follow }) {
  const [note, setNote] = useState(() => draft(status.id));
  const [manner, setManner] = useState("queue");
  const latest = useRef(note);
  latest.current = note;
  const field = useRef();
  const waiting = use(outbox).filter((one) => one.session === status.id);
  const net = use(link);
  const works = status.state === "working" || status.state === "needs-you";
  // The first question, if it takes a refusal with a reason. A text that was begun before the question came is not meant for it.
  const ask = may("control") ? status.turns?.asks?.find((one) => one.takes_reason) : null;
  const asked = ask ? askKey(status, ask) : null;
  // The question that the text in the box is a reason for, if the text was written as one.
  const reasonFor = useRef(null);
  const began = useRef(null), busy = useRef(false);
  useEffect(() => { setManner(ask && !latest.current.text.trim() ? INSTEAD : "queue"); began.current = null; }, [asked]);
  const refuses = ask && manner === INSTEAD;
  useEffect(() => { setNote(draft(status.id)); }, [status.id]);
  useEffect(() => refused.listen((one) => {
    // The words of a refused message come back, unless the user has begun another one meanwhile.
    if (one?.session === status.id) setNote((now) => (now.text ? now : keepDraft(status.id, one.text, { text: "" })));
  }), [status.id]);
  useEffect(() => {
    // Another tab sent the draft that both tabs show.
    const other = (event) => { if (event.key === `berth.draft.${status.id}` && event.newValue === null) setNote((now) => (event.oldValue && JSON.parse(event.oldValue).key === now.key ? keepDraft(status.id, "", now) : now)); };
    addEventListener("storage", other);
    return () => removeEventListener("storage", other);
  }, [status.id]);
  useLayoutEffect(() => {
    const el = field.current;
    el.style.height = "auto";
    el.style.height = `${Math.min(el.scrollHeight, innerHeight * 0.4)}px`;
  }, [note.text]);
  const write = (text) => { if (!text.trim()) reasonFor.current = null; else if (refuses) reasonFor.current = asked; latest.current = keepDraft(status.id, text, latest.current); setNote(latest.current); };
  /** Refuses the question, with the text as the reason; by the same rules as the buttons of the question. */
  const refuse = (isRead) => {
    const text = latest.current.text.trim(), drawn = drawnAsks.get(asked);
    if (!text || busy.current) return;
    if (!drawn || !isRead) return drawn?.scroll();
    busy.current = true;
    attempt(() => sendAnswer(status, ask, { answer: "deny", text })).then((done) => {
      busy.current = false;
      if (done) write("");
    });
  };
  const isRead = () => !!drawnAsks.get(asked)?.may();
  const choose = (next) => { reasonFor.current = next === INSTEAD ? asked : null; setManner(next); };
  const submit = (event) => {
    event?.preventDefault();
    if (refuses) return;
    // Read and emptied in one go: a second click, however fast, finds an empty box.
    const now = latest.current;
    if (now.text.trim() && reasonFor.current !== null) {
      reasonFor.current = null;
      tell("bad", "The question is no longer open", "Your text is still in the box. Send it again as a prompt.");
      return;
    }
    if (!now.text.trim() || !send(status.id, now, works && manner !== INSTEAD ? manner : "queue")) return;
    latest.current = keepDraft(status.id, "", { text: "" });
    setNote(latest.current);
    setManner("queue");
    field.current.focus();
  };
  const keys = (event) => {
    if (event.isComposing) return;
    const enter = event.key === "Enter";
    const coarse = matchMedia("(pointer: coarse)").matches;
    if (enter && (event.metaKey || event.ctrlKey || (!event.shiftKey && !event.altKey && !coarse))) {
      if (refuses) { event.preventDefault(); if (!event.repeat) refuse(isRead()); } else submit(event);
    }
    if (event.key === "Escape") field.current.blur();
  };
  const archived = status.state === "archived";
  return html`<div class="dock">
    <${Queue} status=${status} follow=${follow} />
    ${waiting.map((one) => html`<div class="outgoing" key=${one.key} role="status">${icon("send", "pulse")}<span class="cut grow">${one.text}</span><span class="dimmer">${one.problem ? (one.unkept ? "waiting for the gateway; keep this page open" : "waiting for the gateway") : "sending …"}</span>${one.problem && html`<button class="b bare small" onClick=${() => drop(one.key)}>Discard</button>`}</div>`)}
    <form class="box" onSubmit=${submit}>
      <label class="vh" for="message">prompt for ${title(status)}</label>
      <textarea id="message" ref=${field} rows="1" disabled=${archived} placeholder=${archived ? "Archived: restore the session to send" : refuses ? "Tell it what to do instead" : "Send a prompt"} value=${note.text} onInput=${(e) => write(e.target.value)} onKeyDown=${keys}></textarea>
      <div class="under">
        ${works ? html`<label class="vh" for="manner">effect on the running turn</label><select id="manner" value=${manner} onChange=${(e) => choose(e.target.value)}>${ask && html`<option value=${INSTEAD}>Deny: with this reason</option>`}${MANNERS.map(([value, name, about]) => html`<option value=${value}>${name}: ${about}</option>`)}</select>` : null}
        <span class="grow about keys-only">${works ? "" : "Enter sends · Shift-Enter adds a line"}</span><span class="grow"></span>
        ${!net.live && note.text && html`<span class="about">saved, also offline</span>`}
        <button class="b main icon" aria-label=${refuses ? "deny with this reason" : "send"} disabled=${archived || !note.text.trim()} onPointerDown=${() => { began.current = refuses && isRead() ? asked : null; }} onClick=${(event) => {
          if (!refuses) return;
          event.preventDefault();
          refuse(event.detail > 0 ? began.current === asked : isRead());
          began.current = null;
        }}>${icon("send")}</button>
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
  // The position of a turn is the number of turns before it.
  const move = (from, to) => to >= 0 && to < turns.length && from !== to && act(() => patch(base(turns[from].number), { position: to }));
  const paused = held && /pause/i.test(held);
  return html`<section class="queue" aria-label="queue">
    <div class="qh"><button type="button" class="fold" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${icon("chevron", open ? "chev turned" : "chev")}<span class="cut">${queued.length ? `${count(queued.length, "turn")} queued` : "No queued turns"}${!open && turns[0] ? html`<span class="dimmer"> · ${turns[0].prompt}</span>` : ""}</span></button>
      <button class="b bare small" onClick=${() => act(() => patch(at(status.id, "/queue"), { paused: !held }))}>${icon(held ? "play" : "pause")}${held ? "Continue" : "Pause"}</button></div>
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
  return html`<form onSubmit=${save} onKeyDown=${(e) => { if (e.key === "Escape") onClose(); }}><label class="vh" for=${`edit-${turn.number}`}>text of turn ${turn.number}</label>
    <textarea id=${`edit-${turn.number}`} class="f" rows="3" value=${text} onInput=${(e) => setText(e.target.value)} ref=${(el) => el && !el.dataset.seen && ((el.dataset.seen = 1), el.focus())}></textarea>
    <div class="row"><button class="b main small">Save</button><button type="button" class="b small" onClick=${onClose}>Cancel</button></div></form>`;
}
