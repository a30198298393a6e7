// Questions of the agent: the whole command, the coloured change, the offered answers, and an answer in the user's own words.
import { capital, html, useEffect, useRef, useState } from "./lib.js";
import { icon } from "./icons.js";
import { at, may, post } from "./api.js";
import { address, attempt, hasTerminal, href, learn, title } from "./store.js";
import { ReadingTime } from "./reading.js";
import { pieces } from "./highlight.js";
import { Diff, oneLine, parseAsked } from "./text.js";

const CLASS = { allow_once: "yes", allow_always: "", reject_once: "no", reject_always: "no" };
const kind = (option) => String(option.kind || "").replace(/[A-Z]/g, (c, n) => (n ? "_" : "") + c.toLowerCase()).replace("-", "_");

/** Key of a question among all runs of a session: agents number their questions anew in each run. */
export const askKey = (status, ask) => `${status.epoch}:${ask.request}`;

/** Questions in view, by their keys: {may, scroll}. The message box answers them by the same rules as their buttons. */
export const drawnAsks = new Map();

/** Sends an answer to the question that the user read: the next question has another name. */
export async function sendAnswer(status, ask, body) {
  learn(await post(at(status.id, "/answers"), { request: ask.request, epoch: status.epoch, ...body }));
}

/**
 * Tells whether the question takes an answer: it has to be in view for long enough. `press` and `click` tell whether an event may
 * answer it: the click of a pointer only if it began on the same button, after the time for reading.
 */
function useReading(box, isFirst) {
  const reading = useRef(new ReadingTime()).current, began = useRef(null), timer = useRef(0);
  const [isRead, setIsRead] = useState(false);
  const now = () => performance.now();
  const look = () => {
    clearTimeout(timer.current);
    const left = reading.left(now());
    setIsRead(left <= 0);
    // One exact timer is not enough: it may fire a little early, and a press restarts the time.
    if (left > 0 && left !== Infinity) timer.current = setTimeout(look, Math.max(20, left));
  };
  useEffect(() => {
    let isInView = false;
    const change = () => { if (isInView && !document.hidden) reading.show(now()); else reading.hide(now()); look(); };
    // A question that moves up when the one before it is gone must not take a click that was meant for that one.
    reading.reset();
    const watch = new IntersectionObserver(([...all]) => { isInView = all[all.length - 1].isIntersecting; change(); });
    watch.observe(box.current.querySelector(".acts"));
    document.addEventListener("visibilitychange", change);
    return () => { clearTimeout(timer.current); watch.disconnect(); document.removeEventListener("visibilitychange", change); };
  }, [isFirst]);
  const may = () => { const is = reading.press(now()); look(); return is; };
  return {
    isRead, may,
    // The next press needs its own reading time.
    again: () => { reading.again(now()); look(); },
    press: (event) => { began.current = may() ? event.currentTarget : null; },
    // A click by the keyboard or a screen reader has no pointer, and a count of zero.
    click: (event) => { const is = event.detail > 0 ? began.current === event.currentTarget : may(); began.current = null; return is; },
  };
}

/** True for a question about a permission; other questions have answers of their own. */
const isPermission = (ask) => !ask.options?.length || ask.options.some((option) => kind(option).startsWith("allow"));

/** Heading of a question. */
export const heading = (ask) => (isPermission(ask) ? `Allow ${ask.tool ? capital(ask.tool) : "this"}?` : "Question");

/** Tools whose details are a command line. */
const SHELLS = /^(bash|shell|exec|command)/i;
/** Keys that answer a dialog in a terminal interface. */
const TERMINAL_KEYS = [["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["Esc", "\x1b"]];

function Ask({ status, ask, isFirst, besideScreen }) {
  const key = askKey(status, ask);
  const [busy, setBusy] = useState(null);
  const [chosen, setChosen] = useState([]);
  const [words, setWords] = useState("");
  const lock = useRef(false), box = useRef();
  const reading = useReading(box, isFirst);
  useEffect(() => { lock.current = false; setBusy(null); setChosen([]); setWords(""); }, [key]);
  const drawn = useRef();
  drawn.current = { may: reading.may, scroll: () => box.current?.scrollIntoView({ block: "nearest" }) };
  useEffect(() => {
    drawnAsks.set(key, { may: () => drawn.current.may(), scroll: () => drawn.current.scroll() });
    return () => drawnAsks.delete(key);
  }, [key]);
  const act = (name, doing) => {
    // Without the question's name the text would go to any question that is open by then.
    if (lock.current || !ask.request) return;
    lock.current = true;
    setBusy(name);
    attempt(async () => {
      const free = () => { lock.current = false; setBusy(null); };
      try {
        await doing();
        if (name === "key") free();
      } catch (problem) {
        free();
        throw problem;
      }
    });
  };
  const answer = (body, name) => act(name, () => sendAnswer(status, ask, body));
  const press = (text) => act("key", () => { reading.again(); return post(at(status.id, "/input"), { text, enter: false, question: { request: ask.request, epoch: status.epoch } }); });
  const files = parseAsked(ask.detail || "");
  const colours = SHELLS.test(ask.tool || "") && pieces(ask.detail || "", "command");
  const options = ask.options || [];
  const id = `ask-${key}`;
  const pressing = (doing) => ({ disabled: busy !== null, "aria-disabled": reading.isRead ? null : "true", onPointerDown: reading.press, onClick: (event) => reading.click(event) && doing() });
  const button = (extra, body, name, label) => html`<button class=${"b " + extra} data-option ...${pressing(() => answer(body, name))}>${label}</button>`;
  const label = (option, n) => html`${capital(option.name || option.id)}${isFirst && n < 9 && html`<kbd class="keys-only">${n + 1}</kbd>`}`;
  const toggle = (option) => setChosen((now) => (now.includes(option.id) ? now.filter((one) => one !== option.id) : [...now, option.id]));
  const isNo = (option) => kind(option).startsWith("reject");
  const boxes = ask.several ? options.filter((option) => !isNo(option)) : [];
  const text = words.trim();
  const own = boxes.length && chosen.length ? { answer: "option", options: boxes.map((option) => option.id).filter((one) => chosen.includes(one)), ...(text && { text }) } : text ? { answer: "text", text } : null;
  // Enter in the field counts as a press of the button beside it.
  const enter = (event) => { if (event.key !== "Enter" || event.isComposing) return; event.preventDefault(); if (!event.repeat && own && reading.may()) answer(own, "own"); };
  const ownPart = (ask.takes_text || boxes.length > 0) && html`<div class="own">
      ${ask.takes_text && html`<label class="vh" for=${`${id}-own`}>other answer</label><input class="f" id=${`${id}-own`} autocomplete="off" placeholder="Other: answer in your own words" value=${words} onInput=${(e) => setWords(e.target.value)} onKeyDown=${enter} />`}
      <button type="button" class="b main" ...${pressing(() => own && answer(own, "own"))} disabled=${busy !== null || !own}>Answer</button></div>`;
  // The choices of such a question are only on the screen, so its keys are only beside the screen.
  const isOnScreen = hasTerminal(status) && !options.length;
  return html`<section class="ask" role="group" aria-labelledby=${id} data-ask=${ask.request} ref=${box}>
    <h2 id=${id}>${icon("warn")}${heading(ask)}</h2>
    <div class="cmdfull">${files ? html`<${Diff} files=${files} />` : html`<pre tabindex="0" class=${isPermission(ask) ? "" : "text"}>${colours ? colours.map(([name, text]) => (name ? html`<span class=${name}>${text}</span>` : text)) : ask.detail || "(no details)"}</pre>`}</div>
    ${!may("control") ? html`<p class="acts dim">This login cannot answer it.</p>`
      : isOnScreen && !besideScreen ? html`<div class="acts"><span class="row dim">The answers are on the agent’s screen.</span><a class="b" href=${href(address(status), "term")}>${icon("term")}Open the terminal</a></div>`
      : isOnScreen ? html`<div class="acts"><span class="row dim">Keys for the terminal:</span>${TERMINAL_KEYS.map(([name, text]) => html`<button class="b" data-option ...${pressing(() => press(text))}>${name}</button>`)}</div>`
      : html`${boxes.length > 0 && html`<fieldset class="several"><legend class="vh">answers</legend>${boxes.map((option, n) => html`<label><input type="checkbox" data-option checked=${chosen.includes(option.id)} disabled=${busy !== null} onChange=${() => toggle(option)} /><span>${label(option, n)}</span></label>`)}</fieldset>`}
        ${ownPart}
        <div class="acts">
        ${options.length ? options.filter((option) => !boxes.includes(option)).map((option, n) => button(CLASS[kind(option)] ?? "", { answer: "option", option: option.id }, option.id, label(option, boxes.length + n)))
          : html`${button("yes", { answer: "allow" }, "allow", html`${icon("check")}Allow`)}${button("no", { answer: "deny" }, "deny", html`${icon("x")}Deny`)}`}
        ${busy !== null && html`<span class="row dim" role="status">Answering …</span>`}</div>`}</section>`;
}

/** Open questions of a session; `besideScreen` if the agent’s screen is in view as well. */
export function Asks({ status, besideScreen = false }) {
  return html`<div aria-live="assertive" aria-label=${`${title(status)} needs you`}>${status.turns.asks.map((ask, n) => html`<${Ask} key=${askKey(status, ask)} status=${status} ask=${ask} isFirst=${n === 0} besideScreen=${besideScreen} />`)}</div>`;
}

/** Record of an answer: the question, the answer, and the user who gave it. */
export function Answered({ answer, by }) {
  const names = (answer.chosen || []).map((option) => option.name || option.id).join(", ");
  const isNo = (answer.chosen || []).some((option) => kind(option).startsWith("reject"));
  return html`<div class="answered">${icon(isNo ? "x" : "check")}<span><b>${[answer.tool && capital(answer.tool), oneLine(answer.detail || "")].filter(Boolean).join(": ")}</b> · ${[capital(names), answer.text && `“${answer.text}”`].filter(Boolean).join(" · ")} <span class="dimmer">by ${by}</span></span></div>`;
}
