// Beside a session: branch, changed files, model, context and tokens; then processes, ports, memory, helpers, and the evidence behind its state.
import { html, cell, use, useEffect, useNow, useState, ago, atHome, bytes, capital, clockTime, count, hour, place, span, tokens } from "./lib.js";
import { icon } from "./icons.js";
import { at, get, may, post, split, under } from "./api.js";
import { brief, hasTerminal, isOver, isPaused, kindOf, outcome, person, shell, shownState, spoken, tell } from "./store.js";
import { Cmd, ProblemBox, State, Sure, Tag } from "./parts.js";

/** Number of copies in the list. */
const MOST_POINTS = 12;

/** Loads data again while it is in view: when the session changed, now and then, and when `again` is called. */
function useAsked(path, key, everyMs) {
  const [state, setState] = useState({ data: null, problem: null, at: 0 });
  const [wish, setWish] = useState(0);
  useEffect(() => {
    let gone = false, timer = 0;
    const ask = async () => {
      try {
        const data = await get(path);
        if (!gone) setState({ data, problem: null, at: Date.now() });
      } catch (problem) {
        if (!gone) setState((known) => ({ ...known, problem }));
      }
      if (!gone && everyMs) timer = setTimeout(() => (document.hidden ? (timer = setTimeout(ask, everyMs)) : ask()), everyMs);
    };
    ask();
    return () => { gone = true; clearTimeout(timer); };
  }, [path, key, wish]);
  return { ...state, again: () => setWish(wish + 1) };
}

/** True if the user unfolded the evidence. */
export const evidenceOpen = cell(false);
function Evidence({ status }) {
  const why = useAsked(at(status.id, "/why"), `${status.seq} ${status.state}`, 15_000);
  const now = useNow();
  const old = why.at ? now - why.at : 0;
  return html`<details class="sect fold" id="evidence" open=${use(evidenceOpen)} onToggle=${(e) => evidenceOpen.set(e.target.open)}><summary>${icon("chevron", "chev")}Why <${State} state=${why.data && why.data.state !== status.state ? why.data.state : shownState(status)} /><span class="grow">${why.at ? `checked ${old < 1500 ? "just now" : `${span(old)} ago`}` : ""}</span></summary>
    <${ProblemBox} problem=${why.problem} quiet />
    ${why.data && html`<ul class="facts">${why.data.evidence.map((fact) => html`<li><div class="src"><span>${fact.source}</span><span>${fact.age_ms + old < 1500 ? "now" : `${span(fact.age_ms + old)} old`}</span></div>${fact.fact}</li>`)}</ul>
      ${why.data.would_change && html`<p class="change">${capital(why.data.would_change)}.</p>`}`}</details>`;
}

const CHANGE_LETTERS = { added: "A", modified: "M", deleted: "D", untracked: "?", conflicted: "C" };
/** Number of changed files in the list. */
const MOST_CHANGED = 50;
/** Files that differ from the last commit; hidden outside of a git work tree. */
function ChangedFiles({ status }) {
  const seen = useAsked(at(status.id, "/changes"), `${status.state} ${status.turns?.total}`, 15_000);
  const { total, files, trouble } = seen.data || {};
  if (trouble) return html`<dt>Changed files</dt><dd class="dim">${trouble}</dd>`;
  if (total == null) return null;
  if (!total) return html`<dt>Changed files</dt><dd class="dim">none</dd>`;
  return html`<dt>Changed files</dt><dd><details class="changed"><summary>${icon("chevron", "chev")}${count(total, "file")}</summary>
    <ul class="mono">${files.slice(0, MOST_CHANGED).map((file) => html`<li title=${file.change}><span class=${file.change}>${CHANGE_LETTERS[file.change] || "M"}</span><span class="grow">${file.path}</span></li>`)}</ul>
    ${total > MOST_CHANGED && html`<p class="dim">and ${total - Math.min(files.length, MOST_CHANGED)} more</p>`}</details></dd>`;
}

/** Use of the agent's context window; hidden if the agent does not report it. */
function Context({ context }) {
  if (!context) return null;
  const { used_tokens: used, window_tokens: window } = context;
  const all = (n) => n.toLocaleString("en-US");
  const percent = window ? Math.round((100 * used) / window) : null;
  return html`<dt>Context</dt><dd>${window ? `${all(used)} of ${all(window)} tokens (${percent}\u00a0%)` : `${all(used)} tokens`}
    ${window && html`<div class="meter" aria-hidden="true"><i style=${`width:${Math.min(100, Math.max(1, percent))}%`}></i></div>`}</dd>`;
}

/** Tokens of the last turn that ended. */
function Tokens({ status }) {
  const turns = status.turns;
  const last = turns ? turns.total - turns.queued.length - (turns.current ? 1 : 0) : 0;
  return last > 0 ? html`<${TokensOf} status=${status} number=${last} />` : null;
}
function TokensOf({ status, number }) {
  const { data } = useAsked(at(status.id, `/turns/${number}`), number, 0);
  if (data?.input_tokens == null && data?.output_tokens == null) return null;
  return html`<dt>Last turn</dt><dd>${[data.input_tokens != null && `${tokens(data.input_tokens)} tokens read`, data.output_tokens != null && `${tokens(data.output_tokens)} written`].filter(Boolean).join(" · ")}</dd>`;
}

function Processes({ status }) {
  const seen = useAsked(at(status.id, "/processes"), status.epoch + status.state, 5000);
  const block = seen.data;
  const rows = block?.processes || [];
  const ports = [...new Set(rows.flatMap((row) => row.ports || []))].filter((port) => !String(port).startsWith("unix:"));
  const most = Math.max(1, ...rows.map((row) => row.memory_bytes));
  const limit = status.limits?.memory_bytes;
  return html`<section class="sect"><h2>Processes</h2><${ProblemBox} problem=${seen.problem} quiet />
    ${block && html`<div class="tiles"><div class="tile"><b>${bytes(block.memory_bytes)}</b><span>memory${limit ? ` of ${bytes(limit)}` : ""}</span></div><div class="tile"><b>${rows.length}</b><span>${rows.length === 1 ? "process" : "processes"}</span></div><div class="tile"><b>${ports.length}</b><span>${ports.length === 1 ? "port" : "ports"}</span></div></div>`}
    ${ports.length > 0 && html`<p style="margin-bottom:10px" class="row wrap">${ports.map((port) => html`<span class="tag mono">${icon("globe")}${port}</span>`)}</p>`}
    ${rows.length > 0 && html`<table class="procs"><thead><tr><th>Command</th><th class="num">pid</th><th class="num">Memory</th></tr></thead><tbody>${rows.map((row) => html`<tr><td class="c"><span class="clamp" title=${row.command}>${atHome(brief(row.command))}</span>${row.astray && html` <span class="st failed">outside the tree</span>`}<div class="meter" aria-hidden="true"><i style=${`width:${Math.max(2, (100 * row.memory_bytes) / most)}%`}></i></div></td><td class="num">${row.pid}</td><td class="num">${bytes(row.memory_bytes)}</td></tr>`)}</tbody></table>`}
    ${block && !rows.length && html`<p class="dim">No process is running.</p>`}</section>`;
}

function Helpers({ status }) {
  const seen = useAsked(`${under(status.host)}/helpers`, status.epoch, 15_000);
  const owners = (one) => one.helper?.owners || [];
  const mine = (seen.data?.helpers || []).filter((one) => owners(one).some((owner) => owner.session === split(status.id)[1]));
  if (!mine.length) return null;
  return html`<section class="sect"><h2>Shared helpers</h2><ul class="facts">${mine.map((one) => html`<li><div class="src"><span>${one.helper.name}</span><span>${one.state}</span></div><span class="mono">${spoken(one.command)}</span><div class="dimmer">${[one.helper.address, count(owners(one).length, "owner")].filter(Boolean).join(" · ")}</div></li>`)}</ul></section>`;
}

/** Copies of the agent's transcript, one from the end of each turn, for when the transcript is lost. */
function History({ status }) {
  const seen = useAsked(at(status.id, "/history"), `${status.turns?.total} ${status.state}`, 15_000);
  const [chosen, setChosen] = useState(null);
  const now = useNow();
  const kept = seen.data, points = [...(kept?.points || [])].reverse();
  const isGone = kept?.original && kept.original.size == null, canPutBack = isGone && isOver(status) && may("control");
  if (!kept?.original && !points.length) return null;
  const words = (point) => (point.turn ? `turn ${point.turn}` : "before the first turn");
  const which = (point) => (point.turn ? `after turn ${point.turn}` : `of ${clockTime(point.at)}`);
  const back = (point) => setChosen(html`<${Sure} title="Restore the transcript?" lead=${`The copy ${which(point)} is written to the path where the agent reads it: ${place(kept.original.path)}. No existing file is overwritten.`} yes="Restore" onClose=${() => setChosen(null)} onYes=${async () => {
    await post(at(status.id, "/history/restore"), { at: point.number });
    tell("good", "The transcript is restored", "Resume continues with it.");
    seen.again();
  }} />`);
  return html`<details class="sect fold" id="history" open=${isGone ? true : undefined}><summary>${icon("chevron", "chev")}<span>History</span><span class="grow">${isGone ? html`<span class="bad">the transcript is gone</span>` : points.length ? `${count(points.length, "copy", "copies")}, ${ago(points[0].at, now)}` : "no copy yet"}</span></summary>
    ${isGone && html`<p class="change">The agent's transcript is gone.${isOver(status) ? (canPutBack ? " A copy can be restored." : "") : " Stop the session to restore a copy."}</p>`}
    ${kept.full && html`<p class="change">No more copies are made: ${kept.full}</p>`}
    <ul class="points">${points.slice(0, MOST_POINTS).map((point) => html`<li><span class="grow">${capital(words(point))}<span class="dimmer" title=${clockTime(point.at)}> · ${ago(point.at, now)} · ${bytes(point.size)}</span></span>${canPutBack && html`<button class="b small" aria-label=${`restore the transcript ${which(point)}`} onClick=${() => back(point)}>Restore</button>`}</li>`)}</ul>
    ${points.length > MOST_POINTS && html`<p class="change">and ${points.length - MOST_POINTS} earlier: <code>${shell(status, "history")}</code></p>`}${chosen}</details>`;
}

export function Details({ status: known, onTag, onNote }) {
  const now = useNow();
  // Attached clients, and the context in the middle of a turn, are known to the keeper alone and are not events. The list shows only that the session changed, and for hosts elsewhere not even that.
  const fresh = useAsked(at(known.id), `${known.seq} ${known.clients}`, 5000).data;
  const status = fresh && fresh.id === known.id && fresh.seq >= known.seq ? { ...known, clients: fresh.clients, attached: fresh.attached, writer: fresh.writer, context: fresh.context } : known;
  const w = status.writer;
  const ended = isOver(status) && status.ended_at && outcome(status);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="details">
    <section class="sect"><h2>Work</h2><dl class="kv">
      ${status.host && html`<dt>Host</dt><dd>${status.host}</dd>`}<dt>Directory</dt><dd class="mono">${place(status.cwd)}</dd>
      ${status.branch && html`<dt>Branch</dt><dd class="mono">${status.branch}</dd>`}<${ChangedFiles} status=${status} />
      <dt>Agent</dt><dd>${kindOf(status)}</dd>${status.model && html`<dt>Model</dt><dd>${status.model}</dd>`}<${Context} context=${status.context} /><${Tokens} status=${status} />
      <dt>Tags</dt><dd class="row wrap">${(status.tags || []).map((name) => html`<${Tag} name=${name} />`)}${may("control") && html`<button class="b bare small" onClick=${onTag}>${icon("tag")}Edit</button>`}</dd>
      <dt>Note</dt><dd class="row wrap">${status.note && html`<span>${status.note}</span>`}${may("control") && html`<button class="b bare small" onClick=${onNote}>${icon("note")}${status.note ? "Edit" : "Add"}</button>`}</dd>
    </dl></section>
    <section class="sect"><h2>Session</h2><dl class="kv">
      <dt>Command</dt><dd class="mono clamp" title=${spoken(status.command)}>${brief(spoken(status.command))}</dd>
      ${hasTerminal(status) && html`<dt>Terminal</dt><dd>${w ? html`attached: ${person(w.place)} <span class="dimmer">since ${hour(w.since)}</span>` : html`<span class="dim">detached</span>`}</dd>`}
      <dt>Clients</dt><dd>${status.attached?.length ? status.attached.map((one) => html`<div>${person(one.place)} <span class="dimmer">${one.writes ? "attached" : "watching"} since ${hour(one.since)}</span></div>`) : status.clients ? count(status.clients, "client") : html`<span class="dim">none</span>`}</dd>
      ${status.epoch > 0 ? html`<dt>Started</dt><dd title=${clockTime(status.started_at)}>${ago(status.started_at, now)} · run ${status.epoch}</dd>` : html`<dt>Imported</dt><dd title=${clockTime(status.created_at)}>not run by berth yet</dd>`}
      ${ended && html`<dt>Ended</dt><dd title=${clockTime(status.ended_at)}>${ago(status.ended_at, now)}${ended.words === "ended" ? "" : html` · <span class=${ended.isBad ? "bad" : ""}>${ended.words}</span>`}</dd>`}
      ${isPaused(status) && html`<dt>Agent</dt><dd class="dim">paused to save memory; the next message wakes it</dd>`}
      ${status.left?.length > 0 && html`<dt>Left over</dt><dd>${status.left.join("; ")}</dd>`}
      ${status.conversation_id && html`<dt>Conversation</dt><dd class="mono">${status.conversation_id}</dd>`}<dt>Id</dt><dd class="mono">${split(status.id)[1]}</dd>
    </dl></section>
    <${Processes} status=${status} /><${Helpers} status=${status} />${status.conversation_id && html`<${History} status=${status} />`}<${Evidence} status=${status} />
    <section class="sect" style="border:0"><h2>In a terminal</h2><${Cmd} text=${shell(status, "attach")} /></section>
  </div>`;
}
