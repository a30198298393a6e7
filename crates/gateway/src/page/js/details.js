// Beside a session: the evidence behind its state, what it is, its processes, ports, memory, helpers.
import { html, cell, use, useEffect, useNow, useState, ago, bytes, clockTime, count, place, since, span } from "./lib.js";
import { icon } from "./icons.js";
import { at, get, may, split, under } from "./api.js";
import { isOver, kindOf, shell, spoken } from "./store.js";
import { Cmd, State, Tag, Words } from "./parts.js";

/** Asks again while it is looked at: when the session changed, and now and then. */
function useAsked(path, key, everyMs) {
  const [state, setState] = useState({ data: null, problem: null, at: 0 });
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
  }, [path, key]);
  return state;
}

const Trouble = ({ of }) => of.problem && html`<div class="problem"><${Words} text=${of.problem.title} /><span><${Words} text=${of.problem.detail} /></span></div>`;

/** Whether the evidence is unfolded: by whoever asked why. */
export const evidenceOpen = cell(false);
function Evidence({ status }) {
  const why = useAsked(at(status.id, "/why"), `${status.seq} ${status.state}`, 15_000);
  const now = useNow();
  const old = why.at ? now - why.at : 0;
  return html`<details class="sect fold" id="evidence" open=${use(evidenceOpen)} onToggle=${(e) => evidenceOpen.set(e.target.open)}><summary>${icon("chevron", "chev")}Why <${State} state=${why.data?.state ?? status.state} /><span class="grow">${why.at ? `looked ${old < 1500 ? "just now" : `${span(old)} ago`}` : ""}</span></summary>
    <${Trouble} of=${why} />
    ${why.data && html`<ul class="facts">${why.data.evidence.map((fact) => html`<li><div class="src"><span>${fact.source}</span><span>${fact.age_ms + old < 1500 ? "now" : `${span(fact.age_ms + old)} old`}</span></div>${fact.fact}</li>`)}</ul>
      ${why.data.would_change && html`<p class="change">${why.data.would_change.charAt(0).toUpperCase() + why.data.would_change.slice(1)}.</p>`}`}</details>`;
}

function Processes({ status }) {
  const seen = useAsked(at(status.id, "/processes"), status.epoch + status.state, 5000);
  const block = Array.isArray(seen.data) ? seen.data[0] : seen.data;
  const rows = block?.processes || [];
  const ports = [...new Set(rows.flatMap((row) => row.ports || []))].filter((port) => !String(port).startsWith("unix:"));
  const most = Math.max(1, ...rows.map((row) => row.memory_bytes));
  const limit = status.limits?.memory_bytes ?? status.limits?.memory;
  return html`<section class="sect"><h2>Processes</h2><${Trouble} of=${seen} />
    ${block && html`<div class="tiles"><div class="tile"><b>${bytes(block.memory_bytes)}</b><span>memory${limit ? ` of ${bytes(limit)}` : ""}</span></div><div class="tile"><b>${rows.length}</b><span>${rows.length === 1 ? "process" : "processes"}</span></div><div class="tile"><b>${ports.length}</b><span>${ports.length === 1 ? "port" : "ports"}</span></div></div>`}
    ${ports.length > 0 && html`<p style="margin-bottom:10px" class="row wrap">${ports.map((port) => html`<span class="tag mono">${icon("globe")}${port}</span>`)}</p>`}
    ${rows.length > 0 && html`<table class="procs"><thead><tr><th>Command</th><th class="num">pid</th><th class="num">Memory</th></tr></thead><tbody>${rows.map((row) => html`<tr><td class="c">${row.command}${row.astray && html` <span class="st failed">astray</span>`}<div class="meter" aria-hidden="true"><i style=${`width:${Math.max(2, (100 * row.memory_bytes) / most)}%`}></i></div></td><td class="num">${row.pid}</td><td class="num">${bytes(row.memory_bytes)}</td></tr>`)}</tbody></table>`}
    ${block && !rows.length && html`<p class="dim">Nothing of it runs.</p>`}</section>`;
}

function Helpers({ status }) {
  const seen = useAsked(`${under(status.host)}/helpers`, status.epoch, 15_000);
  const all = Array.isArray(seen.data) ? seen.data : seen.data?.helpers || [];
  const owners = (one) => (one.helper?.owners ?? one.owners ?? []).map((owner) => owner.session ?? owner.owner ?? owner);
  const mine = all.filter((one) => owners(one).includes(split(status.id)[1]));
  if (!mine.length) return null;
  return html`<section class="sect"><h2>Helpers it shares</h2><ul class="facts">${mine.map((one) => html`<li><div class="src"><span>${one.helper?.name ?? one.name ?? one.id}</span><span>${one.state}</span></div><span class="mono">${(one.command || []).join(" ")}</span><div class="dimmer">${[one.helper?.address, count(owners(one).length, "owner")].filter(Boolean).join(" · ")}</div></li>`)}</ul></section>`;
}

export function Details({ status: known, onTag, onNote }) {
  const now = useNow();
  // Who is attached is known to the keeper alone and is no event, so the list does not tell it.
  const fresh = useAsked(at(known.id), known.seq, 5000).data;
  const status = fresh && fresh.id === known.id && fresh.seq >= known.seq ? { ...known, clients: fresh.clients, writer: fresh.writer } : known;
  const w = status.writer;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="details">
    <section class="sect"><h2>Session</h2><dl class="kv">
      ${status.host && html`<dt>Host</dt><dd>${status.host}</dd>`}<dt>Agent</dt><dd>${kindOf(status)}</dd><dt>Directory</dt><dd class="mono">${place(status.cwd)}</dd><dt>Command</dt><dd class="mono clamp">${spoken(status.command)}</dd>
      <dt>Who types</dt><dd>${w ? html`${w.place} <span class="dimmer">for ${since(w.since, now)}</span>` : html`<span class="dim">nobody</span>`}</dd>
      <dt>Attached</dt><dd>${status.clients ? count(status.clients, "client") : html`<span class="dim">nobody</span>`}</dd>
      <dt>Started</dt><dd title=${clockTime(status.started_at)}>${ago(status.started_at, now)} · run ${status.epoch}</dd>
      ${status.ended_at && isOver(status) && html`<dt>Ended</dt><dd title=${clockTime(status.ended_at)}>${ago(status.ended_at, now)}${status.exit != null ? ` · exit ${status.exit}` : ""}${status.stopped_by ? ` · by ${status.stopped_by.place}` : ""}</dd>`}
      ${status.left?.length > 0 && html`<dt>Left over</dt><dd>${status.left.join("; ")}</dd>`}
      ${status.native_id && html`<dt>Conversation</dt><dd class="mono">${status.native_id}</dd>`}<dt>Id</dt><dd class="mono">${split(status.id)[1]}</dd>
      <dt>Tags</dt><dd class="row wrap">${(status.tags || []).map((name) => html`<${Tag} name=${name} />`)}${may("control") && html`<button class="b bare small" onClick=${onTag}>${icon("tag")}Edit</button>`}</dd>
      <dt>Note</dt><dd>${status.note || ""} ${may("control") && html`<button class="b bare small" onClick=${onNote}>${icon("note")}${status.note ? "Edit" : "Write one"}</button>`}</dd>
    </dl></section>
    <${Processes} status=${status} /><${Helpers} status=${status} /><${Evidence} status=${status} />
    <section class="sect" style="border:0"><h2>In a terminal</h2><${Cmd} text=${shell(status, "attach")} /></section>
  </div>`;
}
