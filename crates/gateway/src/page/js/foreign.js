// Conversations that were started without berth: the programs that have them open, their text, adopting and importing.
import { html, cell, use, useEffect, useNow, useRef, useState, ago, clockTime, count, hour, place } from "./lib.js";
import { icon } from "./icons.js";
import { Problem, get, may, post, signedIn, under } from "./api.js";
import { address, go, hosts, learn, tell } from "./store.js";
import { Dialog, ProblemBox, Sure } from "./parts.js";
import { Record } from "./transcript.js";

/** Interval of checking for such conversations, and of loading the whole list while it is in view. */
const LOOK_EVERY_MS = 60_000, READ_EVERY_MS = 10_000;
/** Number of past conversations that are shown first. */
const PAGE = 50;
/** Timeout for adopting: an agent is started, and the program that has the conversation open is ended before that. */
const ADOPT_WAIT_MS = 90_000;

const where = (one, rest = "") => `${under(one.host)}/foreign/${encodeURIComponent(one.agent)}/${encodeURIComponent(one.conversation_id)}${rest}`;
/** Title of a conversation. */
const about = (one) => one.title || one.first_words || (one.unreadable ? "Unreadable" : "No messages yet");
/** Description of a program that has it open. */
const holder = ({ pid, terminal, since }) => `pid ${pid}${terminal ? ` on ${String(terminal).replace(/^\/dev\//, "")}` : ""}, since ${hour(since)}`;
const unheld = (all) => all.filter((one) => !one.held_by.length);
const holders = (one) => one.held_by.map(holder).join("; ");

/** Number of foreign conversations on this host, and number of open ones among them. */
const some = cell({ any: false, open: 0 });
let timer = 0;
async function look() {
  clearTimeout(timer);
  if (document.hidden) return;
  if (signedIn.get()) {
    try {
      const { conversations } = await get("/v1/foreign?limit=1");
      some.set({ any: conversations.length > 0, open: conversations.filter((one) => one.held_by.length).length });
    } catch { /* a caller without the right sees no such list */ }
  }
  clearTimeout(timer);
  timer = setTimeout(look, LOOK_EVERY_MS);
}
document.addEventListener("visibilitychange", look);
signedIn.listen(look);

/** Link to the conversations, in the list; hidden if there are none. */
export function ForeignLink({ isOpen }) {
  const { any, open } = use(some);
  if (!any) return null;
  return html`<a class="frow" id="foreign" href="#/foreign" aria-current=${isOpen ? "true" : "false"}>${icon("in")}<span class="grow">Other conversations</span>${open > 0 && html`<span class="tag">${open} open</span>`}${icon("chevron", "chev")}</a>`;
}

export function Foreign({ setDialog }) {
  const around = use(hosts), now = useNow();
  const [found, setFound] = useState({ all: null, more: 0, pastHere: 0, problem: null });
  const [limit, setLimit] = useState(PAGE);
  const again = useRef(() => {});
  const names = around.filter((host) => !host.away).map((host) => host.name).join("/");
  useEffect(() => {
    let gone = false, next = 0;
    const ask = async () => {
      clearTimeout(next);
      const of = async (host) => { const { conversations, more } = await get(`${under(host)}/foreign?limit=${limit}`); return { more, all: conversations.map((one) => ({ ...one, host })) }; };
      // An unreachable host is mentioned in the list; conversations of this host are shown all the same.
      const [here, ...others] = await Promise.all([of(null).catch((problem) => ({ all: [], more: 0, problem })), ...names.split("/").filter(Boolean).map((host) => of(host).catch(() => ({ all: [], more: 0 })))]);
      if (gone) return;
      setFound({ all: [here, ...others].flatMap((one) => one.all), more: [here, ...others].reduce((sum, one) => sum + one.more, 0), pastHere: unheld(here.all).length + here.more, problem: here.problem });
      next = setTimeout(() => (document.hidden ? (next = setTimeout(ask, READ_EVERY_MS)) : ask()), READ_EVERY_MS);
    };
    again.current = ask;
    ask();
    return () => { gone = true; clearTimeout(next); };
  }, [names, limit]);
  const close = () => setDialog(null);
  const done = () => { close(); look(); };
  const adopt = (one) => setDialog(html`<${Adopt} one=${one} onClose=${close} onDone=${done} />`);
  const bring = (one) => setDialog(html`<${Sure} title="Import this conversation?" lead="The conversation becomes a session: it can be found, read and resumed. Nothing is started, and the agent's transcript is not changed." yes="Import" onYes=${async () => {
    const { conversations: [was] } = await post(`${under(one.host)}/foreign/import`, { conversations: [one.conversation_id], agent: one.agent });
    if (was.outcome === "refused") throw new Problem({ title: "The conversation was not imported", detail: was.why }, 409);
    look();
    go([one.host, was.name || was.session].filter(Boolean).join("/"));
  }} onClose=${close} />`);
  const all = () => setDialog(html`<${Sure} title=${`Import ${count(found.pastHere, "conversation")}?`} lead="All past conversations of this host, also those not shown yet. Each becomes a session with the times of the agent's transcript. Nothing is started. Conversations that are open elsewhere are left out." yes="Import all" onYes=${async () => {
    const { conversations, more } = await post("/v1/foreign/import", { all: true }, { timeout: ADOPT_WAIT_MS });
    const made = conversations.filter((one) => one.outcome === "imported"), left = conversations.filter((one) => one.outcome === "refused");
    tell("good", `${made.length} imported${more ? `, ${more} more to come: import again` : ""}`, left.length ? `${left.length} left as they are: ${left[0].why}` : "");
    look();
    again.current();
  }} onClose=${close} />`);
  const open = (found.all || []).filter((one) => one.held_by.length), past = unheld(found.all || []);
  const group = (name, some) => some.length > 0 && html`<section aria-label=${name}><h2 class="group">${name}<span class="n">${some.length}</span></h2><ul class="convs">${some.map((one) => html`<${Conversation} key=${`${one.host} ${one.agent} ${one.conversation_id}`} one=${one} now=${now} onAdopt=${adopt} onImport=${bring} />`)}</ul></section>`;
  return html`<main class="pane middle" aria-label="other conversations">
    <header class="head"><a class="b bare icon back" href="#/" aria-label="back to the list">${icon("back")}</a><div class="title"><h1><span class="cut">Other conversations</span></h1><div class="sub cut">Started without berth, from the agents’ transcripts</div></div>
      ${may("send") && past.some((one) => !one.host) && html`<button class="b small" onClick=${all}>Import all</button>`}</header>
    <div class="scroll" tabindex="0" role="region" aria-label="conversations"><div class="talk foreign">
      <${ProblemBox} problem=${found.problem} quiet />
      ${found.all === null && html`<div aria-busy="true">${[1, 2, 3].map(() => html`<div class="skel"></div><div class="skel" style="width:60%;margin-bottom:24px"></div>`)}</div>`}
      ${group("Open elsewhere", open)}${group("Past", past)}
      ${found.all && !found.all.length && !found.problem && html`<div class="empty">${icon("check", "big")}<h2>No other conversations</h2><p>Conversations with Claude Code and Codex that were started without berth appear here.</p></div>`}
      ${found.more > 0 && past.length >= limit && html`<p style="text-align:center"><button class="b small" onClick=${() => setLimit(limit * 4)}>Earlier conversations</button></p>`}
    </div></div></main>`;
}

function Conversation({ one, now, onAdopt, onImport }) {
  const [isOpen, setIsOpen] = useState(false);
  const isHeld = one.held_by.length > 0, has = !!one.file && !one.unreadable;
  return html`<li class="conv" data-conversation=${one.conversation_id}>
    <button class="fold" aria-expanded=${isOpen ? "true" : "false"} disabled=${!has} onClick=${() => setIsOpen(!isOpen)}>${icon("chevron", isOpen ? "chev turned" : "chev")}
      <span class="grow"><span class="words">${about(one)}</span><span class="meta">${[one.agent, place(one.cwd), one.branch !== "HEAD" && one.branch].filter(Boolean).join(" · ")}${one.host && html` <span class="tag host">${one.host}</span>`}</span></span>
      <time class="age" datetime=${one.last_activity_at} title=${clockTime(one.last_activity_at)}>${ago(one.last_activity_at, now)}</time></button>
    ${(isHeld || one.unreadable || one.archived) && html`<p class=${"held-by " + (isHeld ? "" : "quiet")}>${icon(isHeld ? "term" : "info")}<span>${isHeld ? `Open in ${holders(one)}` : one.unreadable || "Archived by its agent: restore it there first."}</span></p>`}
    ${may("send") && has && !one.archived && html`<div class="acts">${!isHeld && html`<button class="b bare small" onClick=${() => onImport(one)} aria-label=${`import: ${about(one)}`}>Import</button>`}<button class="b small" onClick=${() => onAdopt(one)} aria-label=${`adopt: ${about(one)}`}>Adopt</button></div>`}
    ${isOpen && html`<div class="body"><${Record} path=${where(one)} cwd=${one.cwd} /></div>`}</li>`;
}

const WAYS = [[false, "Chat", "prompts and answers on this page"], [true, "Own interface", "the agent’s terminal interface"]];
function Adopt({ one, onClose, onDone }) {
  const [held, setHeld] = useState(one.held_by);
  const [name, setName] = useState("");
  const [tui, setTui] = useState(false);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const isHeld = held.length > 0, mayNot = isHeld && !may("control");
  const submit = async (event) => {
    event.preventDefault();
    if (busy || mayNot) return;
    setBusy(true);
    setProblem(null);
    try {
      // Only the programs that the user has read about are ended: if others have it open by now, none is ended.
      const status = await post(where(one, "/adopt"), { tui, ...(isHeld && { take_only: held.map((holder) => holder.pid) }), ...(name.trim() && { name: name.trim() }) }, { timeout: ADOPT_WAIT_MS });
      learn(status);
      onDone();
      go(address(status));
      return;
    } catch (trouble) {
      setProblem(trouble);
      // A program opened the conversation since the page loaded it: the user sees its name before it is ended.
      if (trouble.code === "in-use") get(where(one)).then(({ conversation }) => setHeld(conversation.held_by), () => {});
    }
    setBusy(false);
  };
  return html`<${Dialog} title="Adopt this conversation?" onClose=${onClose} lead=${`${about(one)} · ${place(one.cwd)}`}><form onSubmit=${submit}>
    <${ProblemBox} problem=${problem} />
    ${isHeld && html`<div class="held note" role="note" id="who-has-it"><b>${one.agent}, ${held.map(holder).join("; and ")}, has it open.</b> Two writers would split the conversation${mayNot ? ": close it there first. This login cannot end it." : ", so that process is ended first, and its running turn is interrupted."}</div>`}
    <div class="field"><span class="lab" id="way-lab">Interface</span><div class="choices" role="radiogroup" aria-labelledby="way-lab">${WAYS.map(([is, title, words]) => html`<button type="button" role="radio" class="choice" aria-checked=${tui === is ? "true" : "false"} onClick=${() => setTui(is)}><b>${title}</b><span>${words}</span></button>`)}</div></div>
    <div class="field"><label class="lab" for="adopt-name">Name <span class="dimmer" style="font-weight:400">(optional)</span></label><input class="f" id="adopt-name" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="from the first prompt" value=${name} onInput=${(e) => setName(e.target.value)} /></div>
    <div class="acts"><button type="button" class="b" autofocus onClick=${onClose}>Cancel</button><button class=${"b main " + (isHeld ? "danger" : "")} disabled=${busy || mayNot}>${busy ? "Adopting …" : isHeld ? "End it there and adopt" : "Adopt"}</button></div></form></${Dialog}>`;
}
