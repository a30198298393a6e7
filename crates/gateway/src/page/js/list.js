// The list: sessions that need you first, live; matches in sessions and in messages.
import { html, use, useMemo, useNow, useRef, useState, ago, capital, since, span, place, time } from "./lib.js";
import { icon } from "./icons.js";
import { oneLine } from "./text.js";
import { may, me } from "./api.js";
import { GROUPS, address, brief, go, hosts, href, isImported, isPaused, link, ordered, outcome, rank, route, sessions, shownState, spoken, title } from "./store.js";
import { Cmd, State, Tag } from "./parts.js";
import { Hits, useFind } from "./find.js";
import { ForeignLink } from "./foreign.js";

/** Second line of a row: the question, else the end of the run, else the tool in use, else the last words. */
export function does(status) {
  const turns = status.turns;
  const ask = turns?.asks?.[0];
  if (ask) return { kind: "asks", text: [ask.tool, oneLine(ask.detail || "")].filter(Boolean).join(": ") };
  if (status.state === "stopped" || status.state === "archived") {
    const { words, isBad } = outcome(status), last = said(status);
    // An imported conversation that never ran here has no end of a run either.
    if (isImported(status)) return { kind: "", text: last || "Imported conversation" };
    if (words === "ended" && last) return { kind: "", text: last };
    return { kind: isBad ? "bad" : "", text: capital(words), then: last || (!status.agent && brief(spoken(status.command))) };
  }
  if (status.failure) return { kind: "bad", text: status.failure };
  if (turns?.held) return { kind: "asks", text: turns.held.split("; ")[0].replaceAll("`", "") };
  if (turns?.activity && status.state === "working") return { kind: "", text: capital(turns.activity) };
  const last = status.state === "working" ? turns?.prompt || status.last_prompt : said(status);
  if (last) return { kind: "", text: last };
  if (isImported(status)) return { kind: "", text: "Imported conversation" };
  if (isPaused(status)) return { kind: "", text: "Paused to save memory; the next message wakes it" };
  if (status.agent) return { kind: "", text: status.driver === "pty" ? "In the agent’s own interface" : "Ready" };
  return { kind: "", text: brief(spoken(status.command)), mono: true };
}

/** Last words of a session: the agent's answer, else the prompt. */
const said = (status) => plain(status.last_answer) || status.last_prompt || status.turns?.prompt;
/** First line of an answer without the marks of Markdown. */
const plain = (text) => text?.replace(/^[#>\s*-]+\s/, "").replace(/\*\*|`/g, "");

function Row({ status, now, isOpen }) {
  const what = does(status);
  const waits = status.turns?.queued?.length || 0;
  return html`<li><a class=${"srow" + (status.away ? " away" : "")} href=${href(address(status))} aria-current=${isOpen ? "true" : "false"} data-session=${status.id}>
    <${State} state=${shownState(status)} word=${false} />
    <span class="name"><span class="cut">${title(status)}</span><span class="agent">${status.agent || ""}</span>${status.host && html`<span class="tag host" title=${status.away || `on the host ${status.host}`}>${status.host}</span>`}</span>
    <span class="age" title=${`evidence: ${span(status.evidence_age_ms ?? 0)} old`}>${since(status.last_activity_at, now)}</span>
    <span class=${"does cut " + what.kind}>${what.mono ? html`<span class="mono">${what.text}</span>` : what.text}${what.then && html`<span class="dimmer"> · ${what.then}</span>`}</span>
    <span class="meta"><span class="path cut">${place(status.cwd)}</span>
      ${status.branch && html`<span class="branch cut" title="branch">${icon("fork")}<span class="cut">${status.branch}</span></span>`}
      ${status.model && html`<span class="keep model" title="model">· ${status.model}</span>`}
      ${status.away && html`<span class="keep">· as of ${ago(new Date(status.known_at).toISOString(), now)}</span>`}
      ${waits > 0 && html`<span class="keep" title="queued turns">· ${waits} queued</span>`}
      ${status.writer && html`<span class="keep" title="a client is attached">· attached</span>`}
      ${(status.tags || []).slice(0, 3).map((name) => html`<${Tag} name=${name} />`)}</span>
  </a></li>`;
}

const matches = (status, words) => {
  const hay = [status.name, status.id, status.host, status.agent, (status.command || []).join(" "), status.cwd, status.state, ...(status.tags || []), status.note, status.branch, status.model, does(status).text].join(" ").toLowerCase();
  return words.every((word) => hay.includes(word));
};
/** Rows under a pointer keep their places within their groups: otherwise a moving row could make the user stop the wrong session. */
function steady(rows, held) {
  if (!held) return rows;
  const place = new Map(held.map((id, n) => [id, n]));
  const at = (status) => place.get(status.id) ?? -1;
  return rows.map((status, n) => [status, n]).sort(([a, m], [b, n]) => rank(a) - rank(b) || at(a) - at(b) || m - n).map(([status]) => status);
}
/** A stopped session is shown for a day, as in `berth ls`. */
const RECENT_MS = 86_400_000;

export function List({ onNew, onHelp, onMore, query, setQuery, isMoreOpen }) {
  const all = use(sessions), here = use(route), known = use(link), now = useNow(), who = use(me), around = use(hosts);
  const [showAll, setShowAll] = useState(false);
  // Order of the rows when a pointer came over them.
  const [held, setHeld] = useState(null);
  const field = useRef();
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = useMemo(() => {
    if (!all) return [];
    const isNear = (status) => showAll || words.length || (status.state !== "archived" && !(status.state === "stopped" && now - time(status.last_activity_at) > RECENT_MS));
    return steady(ordered(all), held).filter((status) => isNear(status) && matches(status, words));
  }, [all, query, showAll, now, held]);
  const hidden = all ? all.size - shown.length : 0;
  const hits = useFind(query, around);
  const open = (status) => here.session && (here.session === status.id || here.session === address(status));
  const keys = (event) => {
    if (event.key === "Escape") { setQuery(""); field.current.blur(); }
    if (event.key === "Enter" && shown[0]) go(address(shown[0]));
  };
  const groups = GROUPS.map((name, n) => [name, shown.filter((status) => rank(status) === n)]).filter(([, some]) => some.length);
  return html`<nav class="pane side" aria-label="sessions">
    <header class="top"><a class="brand" href="#/"><img src="/assets/icon.svg" alt="" />berth</a><span class="grow"></span>
      ${may("send") && html`<button class="b bare icon" aria-label="new session" title="New session (c)" onClick=${onNew}>${icon("plus")}</button>`}
      <button class="b bare icon" aria-label="more" aria-haspopup="menu" aria-expanded=${isMoreOpen ? "true" : "false"} onClick=${onMore}>${icon("more")}</button></header>
    <div class="seek" role="search"><div class="in">${icon("search")}<input class="f" id="find" ref=${field} type="search" enterkeyhint="search" placeholder="Find sessions and messages" aria-label="find sessions and messages" value=${query} onInput=${(e) => setQuery(e.target.value)} onKeyDown=${keys} />${!query && html`<kbd>/</kbd>`}</div></div>
    ${!may("send") && html`<p class="strip" role="note">${icon("eye")}<span>Read only: this login cannot send or change anything.</span></p>`}
    <div class="scroll" id="rows" onPointerEnter=${() => setHeld(shown.map((status) => status.id))} onPointerLeave=${() => setHeld(null)}>
      ${all === null && html`<div style="padding:8px 20px" aria-busy="true">${[1, 2, 3, 4].map(() => html`<div class="skel"></div><div class="skel" style="width:60%;margin-bottom:24px"></div>`)}</div>`}
      ${groups.map(([name, some]) => html`<section key=${name} aria-label=${name}><h2 class=${"group " + (name === "Needs you" ? "needs" : "")}>${name}<span class="n">${some.length}</span></h2>
        <ul class="rows">${some.map((status) => html`<${Row} key=${status.id} status=${status} now=${now} isOpen=${open(status)} />`)}</ul></section>`)}
      ${all && !all.size && html`<${First} onNew=${onNew} />`}
      ${all && all.size > 0 && !shown.length && !hits.found.length && !hits.busy && html`<div class="empty">${icon("search", "big")}<h2>Nothing matches</h2><p>${query ? "No session and no message contains these words." : "Archived sessions and those that ended more than a day ago are not shown."}</p></div>`}
      <${Hits} hits=${hits} />
      ${!query && all && html`<${ForeignLink} isOpen=${here.foreign} />`}
      ${!query && around.filter((host) => host.away).map((host) => html`<p class="strip" role="note" key=${host.name}>${icon("warn")}<span class="grow"><b>${host.name}</b> cannot be reached. ${host.knownAt ? `Its sessions are shown as of ${ago(new Date(host.knownAt).toISOString(), now)}.` : "No list from this host yet."}</span></p>`)}
      ${!query && around.filter((host) => host.skew).map((host) => html`<p class="strip" role="note" key=${`skew ${host.name}`}>${icon("info")}<span class="grow"><b>${host.name}</b>: ${host.skew}.</span></p>`)}
      ${!query && hidden > 0 && html`<div style="padding:8px 18px 16px"><button class="b bare small" onClick=${() => setShowAll(true)}>Show ${hidden} older or archived</button></div>`}
      ${!query && showAll && html`<div style="padding:8px 18px 16px"><button class="b bare small" onClick=${() => setShowAll(false)}>Show only recent sessions</button></div>`}
    </div>
    <footer class="listfoot"><span class="age cut"><span class=${"live " + (known.live ? "" : "off")}></span>${known.live ? "Live" : known.first ? "Connecting …" : `As of ${ago(new Date(known.knownAt).toISOString(), now)}`}<span class="dimmer"> · ${location.host}${who?.scope ? ` · ${who.scope}` : ""}</span></span>
      <button class="b bare icon keys-only" aria-label="keyboard shortcuts" title="Shortcuts (?)" onClick=${onHelp}>${icon("help")}</button></footer>
  </nav>`;
}

function First({ onNew }) {
  return html`<div class="empty">${icon("term", "big")}<h2>No sessions yet</h2><p>A session keeps an agent running: close this page, lose the connection, come back, and nothing is lost. Start one in a terminal:</p>
    <${Cmd} text="berth run --agent claude --name fix-login" /><p>or any command at all:</p><${Cmd} text="berth run --name tests -- cargo test" />${may("send") && html`<p>or right here:</p><button class="b main" onClick=${onNew}>${icon("plus")}New session</button>`}</div>`;
}
