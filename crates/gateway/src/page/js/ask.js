// What the agent wants to know: the command in full, the change in colour, and the answers it offers.
import { capital, html, useEffect, useRef, useState } from "./lib.js";
import { icon } from "./icons.js";
import { at, may, post } from "./api.js";
import { attempt, handle, hasTerminal, learn } from "./store.js";
import { Diff, parseAsked } from "./text.js";

const CLASS = { allow_once: "yes", allow_always: "", reject_once: "no", reject_always: "no" };
const kind = (option) => String(option.kind || "").replace(/[A-Z]/g, (c, n) => (n ? "_" : "") + c.toLowerCase()).replace("-", "_");

function Ask({ status, ask, isFirst }) {
  // The answer goes to the question that was read: the next one has another id, and buttons of its own.
  const [busy, setBusy] = useState(null);
  const lock = useRef(false);
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
  return html`<section class="ask" role="group" aria-labelledby=${id} data-ask=${ask.request}>
    <h2 id=${id}>${icon("warn")}${capital(ask.tool || "The agent")} asks for your word</h2>
    <div class="cmdfull">${files ? html`<${Diff} files=${files} />` : html`<pre tabindex="0">${ask.detail || "(nothing was told about it)"}</pre>`}</div>
    ${hasTerminal(status) ? html`<p class="acts dim">It asks on its screen: answer it in the terminal.</p>` : !may("control") ? html`<p class="acts dim">This login may not answer it.</p>` : html`<div class="acts">
      ${options.length ? options.map((option, n) => html`<button class=${"b " + (CLASS[kind(option)] ?? "")} disabled=${busy !== null} onClick=${() => answer({ answer: "option", option: option.id }, option.id)}>${capital(option.name || option.id)}${isFirst && n < 9 && html`<kbd class="keys-only">${n + 1}</kbd>`}</button>`)
        : html`<button class="b yes" disabled=${busy !== null} onClick=${() => answer({ answer: "allow" }, "allow")}>${icon("check")}Allow</button><button class="b no" disabled=${busy !== null} onClick=${() => answer({ answer: "deny" }, "deny")}>${icon("x")}Deny</button>`}
      ${busy !== null && html`<span class="row dim" role="status">Answering …</span>`}
    </div>`}</section>`;
}

export function Asks({ status }) {
  return html`<div aria-live="assertive" aria-label=${`${handle(status)} needs you`}>${status.turns.asks.map((ask, n) => html`<${Ask} key=${ask.request} status=${status} ask=${ask} isFirst=${n === 0} />`)}</div>`;
}
