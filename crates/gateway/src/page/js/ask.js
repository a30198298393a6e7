// What the agent wants to know: the command in full, the change in colour, and the answers it offers.
import { capital, html, useEffect, useRef, useState } from "./lib.js";
import { icon } from "./icons.js";
import { at, may, post } from "./api.js";
import { attempt, handle, hasTerminal, learn } from "./store.js";
import { ReadingTime } from "./reading.js";
import { Diff, parseAsked } from "./text.js";

const CLASS = { allow_once: "yes", allow_always: "", reject_once: "no", reject_always: "no" };
const kind = (option) => String(option.kind || "").replace(/[A-Z]/g, (c, n) => (n ? "_" : "") + c.toLowerCase()).replace("-", "_");

/**
 * Whether the question takes an answer: it was in view for long enough. `press` and `click` tell whether an event may answer it: the
 * click of a pointer only if it began on the same button, and after the question could be read.
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
    isRead,
    press: (event) => { began.current = may() ? event.currentTarget : null; },
    // A click without a pointer, by the keyboard or by a screen reader, says so by its count of zero.
    click: (event) => { const is = event.detail > 0 ? began.current === event.currentTarget : may(); began.current = null; return is; },
  };
}

function Ask({ status, ask, isFirst }) {
  // The answer goes to the question that was read: the next one has another id, and buttons of its own.
  const [busy, setBusy] = useState(null);
  const lock = useRef(false), box = useRef();
  const reading = useReading(box, isFirst);
  useEffect(() => { lock.current = false; setBusy(null); }, [ask.request]);
  const answer = (body, name) => {
    // Without its name the answer would go to whatever is asked there by then.
    if (lock.current || !ask.request) return;
    lock.current = true;
    setBusy(name);
    attempt(async () => {
      try {
        learn(await post(at(status.id, "/answers"), { request: ask.request, epoch: status.epoch, ...body }));
      } catch (problem) {
        lock.current = false;
        setBusy(null);
        throw problem;
      }
    });
  };
  const files = parseAsked(ask.detail || "");
  const options = ask.options || [];
  const id = `ask-${ask.request}`;
  const button = (extra, body, name, words) => html`<button class=${"b " + extra} disabled=${busy !== null} aria-disabled=${reading.isRead ? null : "true"} onPointerDown=${reading.press} onClick=${(event) => reading.click(event) && answer(body, name)}>${words}</button>`;
  return html`<section class="ask" role="group" aria-labelledby=${id} data-ask=${ask.request} ref=${box}>
    <h2 id=${id}>${icon("warn")}${capital(ask.tool || "The agent")} asks for your word</h2>
    <div class="cmdfull">${files ? html`<${Diff} files=${files} />` : html`<pre tabindex="0">${ask.detail || "(nothing was told about it)"}</pre>`}</div>
    ${hasTerminal(status) ? html`<p class="acts dim">It asks on its screen: answer it in the terminal.</p>` : !may("control") ? html`<p class="acts dim">This login may not answer it.</p>` : html`<div class="acts">
      ${options.length ? options.map((option, n) => button(CLASS[kind(option)] ?? "", { answer: "option", option: option.id }, option.id, html`${capital(option.name || option.id)}${isFirst && n < 9 && html`<kbd class="keys-only">${n + 1}</kbd>`}`))
        : html`${button("yes", { answer: "allow" }, "allow", html`${icon("check")}Allow`)}${button("no", { answer: "deny" }, "deny", html`${icon("x")}Deny`)}`}
      ${busy !== null && html`<span class="row dim" role="status">Answering …</span>`}
    </div>`}</section>`;
}

export function Asks({ status }) {
  return html`<div aria-live="assertive" aria-label=${`${handle(status)} needs you`}>${status.turns.asks.map((ask, n) => html`<${Ask} key=${ask.request} status=${status} ask=${ask} isFirst=${n === 0} />`)}</div>`;
}
