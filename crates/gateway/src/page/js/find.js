// Finds words in messages: here and on every other host at once; a slow host does not delay the others.
import { html, useEffect, useState } from "./lib.js";
import { icon } from "./icons.js";
import { get, under } from "./api.js";
import { href } from "./store.js";

/** Pause in typing after which the search starts. */
const AFTER_MS = 250;
/** Shortest search: fewer letters match nearly everything. */
const LEAST_LETTERS = 3;
/** Number of lines from each host. */
const MOST_HITS = 40;
/** Timeout for another host, which is asked over ssh. */
const HOST_WAIT_MS = 20_000;
const NOTHING = { found: [], away: [], busy: 0, more: false };

/** {found, away, busy, more}: matching lines, unreachable hosts, the number of hosts that have not answered yet. */
export function useFind(query, hosts) {
  const [state, setState] = useState(NOTHING);
  const pattern = query.trim();
  const names = hosts.filter((host) => !host.away).map((host) => host.name);
  const away = hosts.filter((host) => host.away).map((host) => host.name);
  const known = [...names, "", ...away].join("/");
  useEffect(() => {
    if (pattern.length < LEAST_LETTERS) return setState(NOTHING);
    setState((before) => ({ ...before, busy: 1 }));
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const literal = pattern.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      const asked = [null, ...names];
      // Earlier results stay until the first answer, so that the list does not flicker.
      let isFirst = true;
      const take = (change) => {
        if (stop.signal.aborted) return;
        setState((before) => change(isFirst ? { ...NOTHING, away, busy: asked.length } : before));
        isFirst = false;
      };
      for (const host of asked) {
        get(`${under(host)}/grep?pattern=${encodeURIComponent(literal)}&ignore_case=true&limit=${MOST_HITS}`, { signal: stop.signal, timeout: host ? HOST_WAIT_MS : undefined }).then(({ lines, more }) => {
          const found = lines.filter((line) => line.matches.length).map((line) => ({ ...line, host }));
          // Results of this host come first, then those of each host as they arrive, so that visible lines do not move.
          take((before) => ({ ...before, found: host ? [...before.found, ...found] : [...found, ...before.found], more: before.more || more, busy: before.busy - 1 }));
        }, () => take((before) => ({ ...before, away: host ? [...before.away, host] : before.away, busy: before.busy - 1 })));
      }
    }, AFTER_MS);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [pattern, known]);
  return state;
}

export function Hits({ hits }) {
  const { found, away, busy, more } = hits;
  return html`${found.length > 0 && html`<section aria-label="in messages"><h2 class="group">In messages<span class="n">${found.length}${more ? "+" : ""}</span></h2><ul class="hits">${found.map((hit) => html`<li><${Hit} hit=${hit} /></li>`)}</ul></section>`}
    ${busy > 0 && html`<p class="group" role="status">Searching messages${found.length ? " on other hosts" : ""} …</p>`}
    ${away.length > 0 && html`<p class="strip" role="status" id="not-searched">${icon("warn")}<span class="grow">Not searched: <b>${away.join(", ")}</b> could not be asked.</span></p>`}`;
}

function Hit({ hit }) {
  // The marks are byte offsets in the line, as in `berth grep --json`.
  const raw = new TextEncoder().encode(hit.line), text = new TextDecoder();
  const from = Math.max(0, (hit.matches[0]?.start ?? 0) - 60);
  const parts = [from ? "…" : ""];
  let done = from;
  for (const { start, end } of hit.matches) {
    if (start < done) continue;
    parts.push(text.decode(raw.slice(done, start)), html`<mark>${text.decode(raw.slice(start, end))}</mark>`);
    done = end;
  }
  parts.push(text.decode(raw.slice(done, done + 200)));
  const name = hit.name || hit.session, turn = hit.turn && String(hit.turn).split(".").pop();
  return html`<a class="hit" href=${href(hit.host ? `${hit.host}/${name}` : name, turn ? `chat/${turn}` : null)}><span class="where"><b>${name}</b>${hit.host && html`<span class="tag host">${hit.host}</span>`}<span>${{ prompt: "asked", answer: "answered" }[hit.part] || hit.part}${turn ? ` · turn ${turn}` : ""}</span></span><span class="text">${parts}</span></a>`;
}
