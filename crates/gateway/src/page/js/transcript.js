// The transcript: prompts, answers, folded tool calls, coloured changes, and the running turn as it streams.
import { html, useEffect, useLayoutEffect, useRef, useState, useNow, ago, clockTime, span, time, tokens } from "./lib.js";
import { icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { Diff, tally, understand } from "./text.js";
import { Answered, Asks } from "./ask.js";
import { get } from "./api.js";
import { attempt, byWhom, person, shell, takesTurns } from "./store.js";
import { isFinal } from "./follow.js";
import { Cmd, ProblemBox, Words } from "./parts.js";

function Tool({ item, isOver, cwd }) {
  const [open, setOpen] = useState(false);
  const { line, files, input } = understand(item);
  const sum = files && tally(files);
  const name = item.name || item.title || "tool";
  // A file in the session's directory is shown by its relative path.
  const near = cwd && line.startsWith(`${cwd}/`) ? line.slice(cwd.length + 1) : line;
  return html`<details class="tool" open=${open} onToggle=${(e) => setOpen(e.target.open)}>
    <summary>${icon("chevron", "chev")}<span class="what cut">${name}</span><span class="arg cut grow">${name.includes(line) ? "" : near}</span>
      ${sum && html`<span class="stat"><span class="plus">+${sum.plus}</span> <span class="minus">−${sum.minus}</span></span>`}
      ${item.is_error ? html`<span class="st failed">${icon("x")}<span class="vh">failed</span></span>` : !item.is_over && !isOver ? html`<span class="dimmer pulse" aria-label="running">…</span>` : null}</summary>
    ${open && html`<div class="body">
      ${files ? html`<${Diff} files=${files} bare=${files.length === 1 && (line || name).endsWith(files[0].name)} />` : input && html`<div class="part"><div class="lbl">Input</div><pre class="out" tabindex="0">${input}</pre></div>`}
      ${item.output && html`<div class="part"><div class="lbl">${item.is_error ? "Failed" : "Output"}${item.output_cut ? " (first part)" : ""}</div><pre class="out" tabindex="0">${item.output}</pre></div>`}
      ${!files && !input && !item.output && html`<div class="part dimmer">No input and no output are known.</div>`}</div>`}
  </details>`;
}

const Thought = ({ text }) => html`<details class="tool thought"><summary>${icon("think")}<span>Thought</span>${icon("chevron", "chev")}</summary><div class="body"><${Markdown} text=${text} /></div></details>`;

function Items({ items, isOver, cwd }) {
  return items.map((item, n) => item.kind === "tool" ? html`<${Tool} key=${n} item=${item} isOver=${isOver} cwd=${cwd} />` : item.kind === "thought" ? html`<${Thought} key=${n} text=${item.text || ""} />` : html`<${Markdown} key=${n} text=${item.text || ""} />`);
}

const WORDS = { failed: "Failed", cancelled: "Cancelled", interrupted: "Interrupted", unknown: "Outcome unknown", queued: "Queued", delivered: "Delivered", working: "Working" };

/** Answer of a running turn so far: its stored part, then the newer pieces. */
function running(turn, live) {
  const items = turn.items || [];
  const stored = items.filter((item) => item.kind === "text").map((item) => item.text).join("");
  const said = live?.text || "";
  if (!said) return items;
  // The stream has the turn from its beginning, so the stored part is its beginning.
  const plain = (text) => text.replace(/\s+/g, "");
  if (!stored) return [...items, { kind: "text", text: said }];
  let at = 0, want = plain(stored).length;
  for (let n = 0; n < said.length && want > 0; n++) { if (!/\s/.test(said[n])) want--; at = n + 1; }
  const rest = plain(said).startsWith(plain(stored)) ? said.slice(at) : "";
  if (!rest.trim()) return items;
  const last = items[items.length - 1];
  return last?.kind === "text" ? [...items.slice(0, -1), { ...last, text: last.text + rest }] : [...items, { kind: "text", text: rest }];
}

function Turn({ turn, live, now, asks, status }) {
  const over = isFinal(turn);
  const items = over ? (turn.items?.length ? turn.items : turn.answer ? [{ kind: "text", text: turn.answer }] : []) : running(turn, live);
  const took = time(turn.ended_at) - time(turn.delivered_at);
  const doing = live?.doing;
  const used = (turn.input_tokens || 0) + (turn.output_tokens || 0);
  return html`<article class="turn" data-turn=${turn.number} aria-label=${`turn ${turn.number}, ${turn.state}`}>
    <div class=${"said " + (turn.state === "queued" ? "waiting" : "")}><div class="bubble">${turn.prompt}</div></div>
    <${Items} items=${items} isOver=${over} cwd=${status.cwd} />
    ${(turn.cut || turn.items_cut) && html`<p class="dim">The answer is longer than the part shown here: <code>${shell(status, "output")}</code></p>`}
    ${(turn.answers || []).map((answer) => html`<${Answered} key=${answer.request} answer=${answer} by=${byWhom(answer.by?.place)} />`)}
    ${asks}
    ${!over && turn.state !== "queued" && !asks && html`<div class="doing" role="status">${icon("play", "pulse")}<span>${doing ? ({ thinking: "Thinking", writing: "Writing" })[doing.activity] || doing.activity : "Working"}</span><span class="mono cut">${doing?.detail || ""}</span>${doing?.tokens ? html`<span class="dimmer">${tokens(doing.tokens)} tokens</span>` : null}</div>`}
    ${turn.reason && html`<div class=${turn.state === "cancelled" ? "quiet" : "why-not"}><${Words} text=${turn.reason} /></div>`}
    ${(turn.late || []).map((end) => end.answer && html`<div class="part"><div class="lbl">After the turn ended</div><${Markdown} text=${end.answer} /></div>`)}
    <footer class="foot">
      ${turn.state !== "done" && turn.state !== "working" && html`<span class=${over && turn.state !== "cancelled" ? "bad" : ""}>${WORDS[turn.state] || turn.state}</span>`}
      <time datetime=${turn.accepted_at} title=${clockTime(turn.accepted_at)}>${ago(turn.accepted_at, now)}</time>
      ${over && took >= 0 && html`<span>took ${took < 1000 ? "under 1 s" : span(took)}</span>`}${used > 0 && html`<span>${tokens(used)} tokens</span>`}
      ${turn.by?.place && html`<span class="cut">from ${person(turn.by.place)}</span>`}${turn.manner && turn.manner !== "queue" && html`<span>${turn.manner}</span>`}
    </footer></article>`;
}

/** Number of exchanges of an agent's transcript that are shown, the last ones. */
const MOST_EXCHANGES = 20;

/** Part of an agent's transcript, at this address. */
export function Record({ path, cwd }) {
  const [told, setTold] = useState({});
  useEffect(() => {
    let gone = false;
    get(path).then(({ dialogue }) => !gone && setTold({ dialogue: dialogue || { exchanges: [] } }), (problem) => !gone && setTold({ problem }));
    return () => { gone = true; };
  }, [path]);
  const all = told.dialogue?.exchanges || [], shown = all.slice(-MOST_EXCHANGES);
  return html`<${ProblemBox} problem=${told.problem} quiet />${!told.dialogue && !told.problem && html`<div class="skel" aria-busy="true"></div>`}
    ${all.length > shown.length && html`<p class="dimmer">The last ${shown.length} of ${all.length} exchanges</p>`}
    <${Exchanges} all=${shown} cwd=${cwd} />`;
}

/** Prompts and answers of an agent's transcript. */
const Exchanges = ({ all, cwd }) => all.map((part) => html`<article class="turn" key=${part.offset}>${part.prompt && html`<div class="said"><div class="bubble">${part.prompt}</div></div>`}<${Items} items=${part.items} isOver cwd=${cwd} /></article>`);

/** A session without messages. */
const Silent = ({ status }) => html`<div class="empty">${icon("send", "big")}<h2>No messages yet</h2>${takesTurns(status) && html`<p>Send a prompt below, or from a terminal:</p><${Cmd} text=${`${shell(status, "send")} 'why does the login fail?'`} />`}</div>`;

export function Transcript({ status, follow, turn: wanted }) {
  const now = useNow();
  const box = useRef(), sticks = useRef(true);
  const [isBelow, setIsBelow] = useState(false);
  const { turns, live, problem, more, record } = follow;
  useLayoutEffect(() => { if (sticks.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
  useEffect(() => {
    // A phone's keyboard makes the box smaller, and parsed Markdown makes its content larger; a view at the end stays at the end.
    const watch = new ResizeObserver(() => { if (sticks.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
    watch.observe(box.current);
    watch.observe(box.current.firstElementChild);
    return () => watch.disconnect();
  }, []);
  const top = useRef(0);
  const scrolled = () => {
    const el = box.current;
    if (!el) return;
    // Only scrolling up leaves the end. Content that grows below does not.
    if (el.scrollHeight - el.scrollTop - el.clientHeight < 60) sticks.current = true;
    else if (el.scrollTop < top.current) sticks.current = false;
    top.current = el.scrollTop;
    setIsBelow(!sticks.current);
  };
  // For a turn that the address names, the turns before it are loaded as well.
  const found = useRef(null);
  useEffect(() => {
    if (!wanted) found.current = null;
    if (!wanted || !turns || found.current === wanted) return;
    const el = box.current.querySelector(`[data-turn="${wanted}"]`);
    if (el) {
      found.current = wanted;
      sticks.current = false;
      for (const other of box.current.querySelectorAll(".turn.found")) other.classList.remove("found");
      el.classList.add("found");
      el.scrollIntoView({ block: "start" });
      scrolled();
    } else if (more) {
      sticks.current = false;
      follow.older().catch(() => {});
    }
  }, [wanted, turns]);
  const fetchAbove = (fetch) => () => attempt(async () => {
    const el = box.current, before = el.scrollHeight - el.scrollTop;
    sticks.current = false;
    await fetch();
    requestAnimationFrame(() => { el.scrollTop = el.scrollHeight - before; });
  });
  // A terminal interface whose agent has written no record yet.
  const isUnread = problem?.code === "refused" && !takesTurns(status);
  const asks = status.turns?.asks?.length ? html`<${Asks} status=${status} />` : null;
  const shown = (turns || []).filter((turn) => turn.state !== "queued");
  const current = shown.findLast?.((turn) => !isFinal(turn));
  return html`<div class="stage"><div class="scroll" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-label="transcript" aria-live="off"><div class="talk">
    ${more && html`<p style="text-align:center;margin-bottom:16px"><button class="b small" onClick=${fetchAbove(follow.older)}>Earlier turns</button></p>`}
    ${record && !more && html`${record.before != null && html`<p style="text-align:center;margin-bottom:16px"><button class="b small" onClick=${fetchAbove(follow.earlier)}>Earlier messages</button></p>`}<p class="before">From the agent’s transcript</p><${Exchanges} all=${record.exchanges} cwd=${status.cwd} />`}
    ${problem && !turns && (isUnread ? html`<${Silent} status=${status} />` : html`<div class="problem"><${Words} text=${problem.title} /><span><${Words} text=${problem.detail} /></span></div>`)}
    ${turns === null && !problem && html`<div aria-busy="true"><div class="skel" style="width:50%;margin-left:auto"></div><div class="skel"></div><div class="skel" style="width:80%"></div></div>`}
    ${turns && !shown.length && !asks && !record && html`<${Silent} status=${status} />`}
    ${shown.map((turn) => html`<${Turn} key=${turn.number} turn=${turn} live=${live[turn.number]} now=${now} status=${status} asks=${turn === current ? asks : null} />`)}
    ${!current && asks}
  </div></div>
  ${isBelow && html`<button class="b small tobottom" onClick=${() => { sticks.current = true; box.current.scrollTo({ top: box.current.scrollHeight, behavior: "smooth" }); }}>${icon("down")}${asks ? "The question" : "Latest"}</button>`}</div>`;
}
