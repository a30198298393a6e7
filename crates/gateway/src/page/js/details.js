// Beside a session: the evidence behind its state, what it is, its processes, ports, memory, helpers.
import { html, cell, use, useEffect, useNow, useState, ago, atHome, bytes, capital, clockTime, count, hour, place, span } from "./lib.js";
import { icon } from "./icons.js";
import { at, get, may, post, split, under } from "./api.js";
import { brief, isOver, kindOf, person, shell, spoken, tell } from "./store.js";
import { Cmd, ProblemBox, State, Sure, Tag } from "./parts.js";

/** How many copies are listed. */
const MOST_POINTS = 12;

/** Asks again while it is looked at: when the session changed, now and then, and when `again` is called. */
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

/** Whether the evidence is unfolded: by whoever asked why. */
export const evidenceOpen = cell(false);
function Evidence({ status }) {
  const why = useAsked(at(status.id, "/why"), `${status.seq} ${status.state}`, 15_000);
  const now = useNow();
  const old = why.at ? now - why.at : 0;
  return html`<details class="sect fold" id="evidence" open=${use(evidenceOpen)} onToggle=${(e) => evidenceOpen.set(e.target.open)}><summary>${icon("chevron", "chev")}Why <${State} state=${why.data?.state ?? status.state} /><span class="grow">${why.at ? `looked ${old < 1500 ? "just now" : `${span(old)} ago`}` : ""}</span></summary>
    <${ProblemBox} problem=${why.problem} quiet />
    ${why.data && html`<ul class="facts">${why.data.evidence.map((fact) => html`<li><div class="src"><span>${fact.source}</span><span>${fact.age_ms + old < 1500 ? "now" : `${span(fact.age_ms + old)} old`}</span></div>${fact.fact}</li>`)}</ul>
      ${why.data.would_change && html`<p class="change">${capital(why.data.would_change)}.</p>`}`}</details>`;
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
    ${rows.length > 0 && html`<table class="procs"><thead><tr><th>Command</th><th class="num">pid</th><th class="num">Memory</th></tr></thead><tbody>${rows.map((row) => html`<tr><td class="c"><span class="clamp" title=${row.command}>${atHome(brief(row.command))}</span>${row.astray && html` <span class="st failed">astray</span>`}<div class="meter" aria-hidden="true"><i style=${`width:${Math.max(2, (100 * row.memory_bytes) / most)}%`}></i></div></td><td class="num">${row.pid}</td><td class="num">${bytes(row.memory_bytes)}</td></tr>`)}</tbody></table>`}
    ${block && !rows.length && html`<p class="dim">Nothing of it runs.</p>`}</section>`;
}

function Helpers({ status }) {
  const seen = useAsked(`${under(status.host)}/helpers`, status.epoch, 15_000);
  const owners = (one) => one.helper?.owners || [];
  const mine = (seen.data?.helpers || []).filter((one) => owners(one).some((owner) => owner.session === split(status.id)[1]));
  if (!mine.length) return null;
  return html`<section class="sect"><h2>Helpers it shares</h2><ul class="facts">${mine.map((one) => html`<li><div class="src"><span>${one.helper.name}</span><span>${one.state}</span></div><span class="mono">${spoken(one.command)}</span><div class="dimmer">${[one.helper.address, count(owners(one).length, "owner")].filter(Boolean).join(" · ")}</div></li>`)}</ul></section>`;
}

/** What is kept of the agent's own record: a copy from the end of each turn, for when that is gone. */
function History({ status }) {
  const seen = useAsked(at(status.id, "/history"), `${status.turns?.total} ${status.state}`, 15_000);
  const [chosen, setChosen] = useState(null);
  const now = useNow();
  const kept = seen.data, points = [...(kept?.points || [])].reverse();
  const isGone = kept?.original && kept.original.size == null, canPutBack = isGone && isOver(status) && may("control");
  if (!kept?.original && !points.length) return null;
  const words = (point) => (point.turn ? `turn ${point.turn}` : "no turn");
  const which = (point) => (point.turn ? `after turn ${point.turn}` : `of ${clockTime(point.at)}`);
  const back = (point) => setChosen(html`<${Sure} title="Put the record back?" lead=${`The copy ${which(point)} goes to where the agent looks for it: ${place(kept.original.path)}. Nothing that is there is written over.`} yes="Put back" onClose=${() => setChosen(null)} onYes=${async () => {
    await post(at(status.id, "/history/restore"), { at: point.number });
    tell("good", "The record is back", "Resume goes on with it.");
    seen.again();
  }} />`);
  return html`<details class="sect fold" id="history" open=${isGone ? true : undefined}><summary>${icon("chevron", "chev")}<span>History</span><span class="grow">${isGone ? html`<span class="bad">its record is gone</span>` : points.length ? `${count(points.length, "copy", "copies")}, ${ago(points[0].at, now)}` : "no copy yet"}</span></summary>
    ${isGone && html`<p class="change">The agent's own record is gone.${isOver(status) ? (canPutBack ? " A copy can be put back." : "") : " Stop the session to put a copy back."}</p>`}
    ${kept.full && html`<p class="change">Nothing more is copied: ${kept.full}</p>`}
    <ul class="points">${points.slice(0, MOST_POINTS).map((point) => html`<li><span class="grow">${capital(words(point))}<span class="dimmer" title=${clockTime(point.at)}> · ${ago(point.at, now)} · ${bytes(point.size)}</span></span>${canPutBack && html`<button class="b small" aria-label=${`put back the record ${which(point)}`} onClick=${() => back(point)}>Put back</button>`}</li>`)}</ul>
    ${points.length > MOST_POINTS && html`<p class="change">and ${points.length - MOST_POINTS} earlier: <code>${shell(status, "history")}</code></p>`}${chosen}</details>`;
}

export function Details({ status: known, onTag, onNote }) {
  const now = useNow();
  // Who is attached is known to the keeper alone and is no event. The list tells that it changed, and of hosts elsewhere not even that.
  const fresh = useAsked(at(known.id), `${known.seq} ${known.clients}`, 5000).data;
  const status = fresh && fresh.id === known.id && fresh.seq >= known.seq ? { ...known, clients: fresh.clients, attached: fresh.attached, writer: fresh.writer } : known;
  const w = status.writer;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="details">
    <section class="sect"><h2>Session</h2><dl class="kv">
      ${status.host && html`<dt>Host</dt><dd>${status.host}</dd>`}<dt>Agent</dt><dd>${kindOf(status)}</dd><dt>Directory</dt><dd class="mono">${place(status.cwd)}</dd><dt>Command</dt><dd class="mono clamp" title=${spoken(status.command)}>${brief(spoken(status.command))}</dd>
      <dt>Who types</dt><dd>${w ? html`${person(w.place)} <span class="dimmer">since ${hour(w.since)}</span>` : html`<span class="dim">nobody</span>`}</dd>
      <dt>Attached</dt><dd>${status.attached?.length ? status.attached.map((one) => html`<div>${person(one.place)} <span class="dimmer">${one.writes ? "types" : "watches"} since ${hour(one.since)}</span></div>`) : status.clients ? count(status.clients, "client") : html`<span class="dim">nobody</span>`}</dd>
      ${status.started_at ? html`<dt>Started</dt><dd title=${clockTime(status.started_at)}>${ago(status.started_at, now)} · run ${status.epoch}</dd>` : html`<dt>Started</dt><dd class="dim">not yet</dd>`}
      ${status.ended_at && isOver(status) && html`<dt>Ended</dt><dd title=${clockTime(status.ended_at)}>${ago(status.ended_at, now)}${status.exit != null ? ` · exit ${status.exit}` : ""}${status.stopped_by ? ` · by ${person(status.stopped_by.place)}` : ""}</dd>`}
      ${status.left?.length > 0 && html`<dt>Left over</dt><dd>${status.left.join("; ")}</dd>`}
      ${status.conversation_id && html`<dt>Conversation</dt><dd class="mono">${status.conversation_id}</dd>`}<dt>Id</dt><dd class="mono">${split(status.id)[1]}</dd>
      <dt>Tags</dt><dd class="row wrap">${(status.tags || []).map((name) => html`<${Tag} name=${name} />`)}${may("control") && html`<button class="b bare small" onClick=${onTag}>${icon("tag")}Edit</button>`}</dd>
      <dt>Note</dt><dd class="row wrap">${status.note && html`<span>${status.note}</span>`}${may("control") && html`<button class="b bare small" onClick=${onNote}>${icon("note")}${status.note ? "Edit" : "Write one"}</button>`}</dd>
    </dl></section>
    <${Processes} status=${status} /><${Helpers} status=${status} />${status.conversation_id && html`<${History} status=${status} />`}<${Evidence} status=${status} />
    <section class="sect" style="border:0"><h2>In a terminal</h2><${Cmd} text=${shell(status, "attach")} /></section>
  </div>`;
}
