// Client of the gateway: requests, problems, and streams that reconnect by themselves.
import { cell, kept } from "./lib.js";

/** Refusal of the gateway, or failure to reach it (status 0). */
export class Problem extends Error {
  constructor(body, status) {
    super(body.title || `The gateway answered ${status}`);
    this.title = this.message;
    this.detail = forPage(body.detail || "");
    this.code = body.code || "";
    this.status = status;
    this.retryAfter = body.retryAfter;
  }
  /** True if a retry may help, because the request was not refused. */
  get isAway() { return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504; }
}

/** Advice for a shell or a program, with its replacement in the page. */
const HERE = [
  [/--cwd\b/, "Choose a directory that exists."],
  [/`?berth queue \S+ resume`?/, "“Continue” above the message box lets the queue continue."],
  [/Authorization: Bearer/, "Sign in with a token of a higher scope."],
  [/\b(GET|POST|PATCH|DELETE) \/|\s--[a-z]|\bOrigin\b/, ""],
];
/** Next step for a user who has a page and no shell. */
export function forPage(detail) {
  return detail.split("; ").map((part) => (HERE.find(([words]) => words.test(part)) ?? [null, part])[1]).filter(Boolean).join("; ");
}

/** True if this browser is signed in; null while unknown. */
export const signedIn = cell(null);
/** Reason for the end of the login. */
export const signedOut = cell(null);
export const me = cell(null);
const SCOPES = ["read", "send", "control", "admin"];
/** True if the caller has this scope. */
export const may = (scope) => { const mine = me.get()?.scope; return !mine || SCOPES.indexOf(mine) >= SCOPES.indexOf(scope); };

/**
 * The login of this browser: a secret that only pages of this origin can read, port included. A cookie would go to every server on
 * this host, whatever its port. A browser that stores nothing keeps it until the page is left.
 */
const KEY = "berth.login";
let key = kept.get(KEY);
/** Header that carries the login. */
const bearer = () => (key ? { Authorization: `Bearer ${key}` } : {});
/** Sub-protocol that carries the login: a page cannot set the headers of a WebSocket. */
export const loginProtocol = () => (key ? [`berth.login.${key}`] : []);
function keep(next) {
  key = next;
  kept.set(KEY, next);
}
// Another tab signed in or out.
addEventListener("storage", (event) => {
  if (event.key !== KEY && event.key !== null) return;
  key = kept.get(KEY);
  if (key) dispatchEvent(new Event("berth-login"));
  else signedIn.set(false);
});

const WAIT_MS = 30_000;

/**
 * Checks that a browser requests the path exactly as it is written. Some paths contain text of another host: with `..` in it the
 * request would go to another host, or to this one.
 */
function plain(path) {
  if (new URL(path, location.origin).pathname !== path.split(/[?#]/)[0]) throw new Problem({ title: "There is no such address", detail: path }, 400);
  return path;
}

export async function ask(method, path, body, { headers = {}, signal, timeout = WAIT_MS, as = "json" } = {}) {
  plain(path);
  const stop = new AbortController();
  const timer = timeout && setTimeout(() => stop.abort(new DOMException("no answer", "TimeoutError")), timeout);
  signal?.addEventListener("abort", () => stop.abort(signal.reason), { once: true });
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: { Accept: "application/json", ...bearer(), ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
      signal: stop.signal,
    });
    if (response.ok) return as === "response" ? response : as === "text" ? await response.text() : response.status === 204 ? null : theirs(path, await response.json());
  } catch (error) {
    if (signal?.aborted) throw error;
    const title = error.name === "TimeoutError" ? "The gateway did not answer in time" : "The gateway cannot be reached";
    throw new Problem({ title, detail: "It may be restarting. Sessions continue without it." }, 0);
  } finally {
    clearTimeout(timer);
  }
  throw await problem(response);
}

async function problem(response) {
  let body = {};
  try { body = await response.json(); } catch { /* not ours: the status has to do */ }
  body.retryAfter = Number(response.headers.get("Retry-After")) || undefined;
  const trouble = new Problem(body, response.status);
  if (response.status === 401) {
    if (signedIn.get()) signedOut.set(trouble);
    signedIn.set(false);
    // Another tab may have signed in meanwhile: its key stays.
    if (kept.get(KEY) === key) kept.set(KEY, null);
    key = kept.get(KEY);
  }
  return trouble;
}

/** Logs this browser in: the gateway returns the key once. */
export async function login(token) {
  let response;
  try {
    response = await fetch("/login", { method: "POST", body: new URLSearchParams({ token }), headers: { Accept: "application/json" }, credentials: "omit" });
  } catch {
    throw new Problem({ title: "The gateway cannot be reached" }, 0);
  }
  if (!response.ok) throw await problem(response);
  keep((await response.json()).secret);
}

/** Logs this browser out, here and on the gateway. */
export async function logout() {
  await post("/logout");
  keep(null);
}

/** Saves a file of the gateway: a plain link cannot carry the login. */
export async function download(path) {
  const response = await ask("GET", path, undefined, { as: "response", headers: { Accept: "*/*" }, timeout: 0 });
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") || "")?.[1] || "session";
  const url = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export const get = (path, options) => ask("GET", path, undefined, options);
export const post = (path, body = {}, options) => ask("POST", path, body, options);
export const patch = (path, body, options) => ask("PATCH", path, body, options);
export const remove = (path, options) => ask("DELETE", path, undefined, options);

/** Sessions of another host have the id HOST/ID here: no name and no id has a slash. */
export const split = (session) => { const n = session.indexOf("/"); return n < 0 ? [null, session] : [session.slice(0, n), session.slice(n + 1)]; };
/** Prefix of the requests to a host: its API has the same paths as ours. */
export const under = (host) => (host ? `/v1/hosts/${encodeURIComponent(host)}` : "/v1");
export const at = (session, rest = "") => { const [host, id] = split(session); return `${under(host)}/sessions/${encodeURIComponent(id)}${rest}`; };
/** Status of a session at another host, with the id that it has here. */
export const ofHost = (host, status) => ({ ...status, id: `${host}/${status.id}`, host });
/**
 * Adds the host to the id of every session in an answer of another host. Every object with an id counts as a session: one that was
 * missed would be taken for a session of this host, and requests about it would go here.
 */
function theirs(path, data) {
  const host = path.match(/^\/v1\/hosts\/([^/?]+)\//)?.[1];
  if (!host) return data;
  const isObject = (one) => one && typeof one === "object" && !Array.isArray(one);
  const named = (one) => (isObject(one) && "id" in one ? ofHost(decodeURIComponent(host), one) : one);
  if (!isObject(data)) return data;
  const inside = ["session", "status"].filter((key) => key in data).map((key) => [key, named(data[key])]);
  return { ...named(data), ...Object.fromEntries(inside) };
}

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 10_000;
/** Timeout of a stream. A gateway sends heartbeats more often, so a silent stream is dead, whatever TCP reports. */
const SILENCE_MS = 45_000;

/**
 * Number of streams of all tabs together. Browsers give one server six connections (over HTTP/1.1): with six streams not
 * even a click would get through.
 */
const MOST_STREAMS = 4;
/** Interval of polling in a tab without a stream. */
const ASK_EVERY_MS = 1500;

/** Takes a place among the streams of all tabs. Returns a function that gives it back, or null if all are taken. */
async function seat() {
  // Only on secure pages and loopback; elsewhere we hope for few tabs.
  if (!navigator.locks) return () => {};
  for (let n = 0; n < MOST_STREAMS; n++) {
    const got = await new Promise((resolve) => {
      navigator.locks.request(`berth-stream-${n}`, { ifAvailable: true }, (lock) => (lock ? new Promise((release) => resolve(release)) : resolve(null)));
    });
    if (got) return got;
  }
  return null;
}

/**
 * Server-sent events, by fetch and not by EventSource, which hides the reason of a failure and the time until it reconnects.
 * `on(kind, data, id)` gets events; `state` is told {live, since, tries, nextAt, problem}. It is live from the first event on:
 * a gateway that has no events to send answers 200, and then sends the problem. `instead` polls once, for a tab without a stream
 * because other tabs have all of them.
 */
export function stream(path, { on, instead, state = () => {}, resumes = false }) {
  let last = null, tries = 0, stop = null, timer = 0, closed = false, silence = 0, paused = false;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop?.abort(), SILENCE_MS);
  };
  async function open() {
    clearTimeout(timer);
    stop = new AbortController();
    const mine = stop;
    let trouble = null, release = null;
    try {
      release = await seat();
      if (closed || paused || mine !== stop) return release?.();
      if (!release) {
        await instead();
        tries = 0;
        if (closed || paused || mine !== stop) return undefined;
        state({ live: true, since: Date.now() });
        timer = setTimeout(open, ASK_EVERY_MS);
        return undefined;
      }
      const headers = { Accept: "text/event-stream", ...bearer() };
      if (resumes && last != null) headers["Last-Event-ID"] = last;
      const response = await fetch(plain(path), { headers, credentials: "omit", cache: "no-store", signal: mine.signal });
      if (!response.ok) throw await problem(response);
      heard();
      let isLive = false;
      await read(response.body, (event) => {
        if (event.id != null) last = event.id;
        let data = event.data;
        try { data = JSON.parse(event.data); } catch { /* text */ }
        // A problem ends a stream. A stream that only sends a problem does not count as live.
        if (event.kind === "problem") throw new Problem(data, data.status);
        if (!isLive) {
          isLive = true;
          tries = 0;
          state({ live: true, since: Date.now() });
        }
        on(event.kind, theirs(path, data), event.id);
      }, heard);
    } catch (error) {
      trouble = error;
    }
    release?.();
    clearTimeout(silence);
    if (closed || paused || mine !== stop) return;
    const refused = trouble instanceof Problem && !trouble.isAway && trouble.status !== 429;
    if (refused) { state({ live: false, refused: true, problem: trouble }); return undefined; }
    tries += 1;
    // Jitter: a hundred pages must not reconnect in the same moment.
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 1.7 ** (tries - 1)) * (0.75 + Math.random() / 2);
    state({ live: false, tries, nextAt: Date.now() + wait, problem: trouble });
    timer = setTimeout(open, wait);
    return undefined;
  }
  open();
  const now = () => { if (!closed && !paused) { stop?.abort(); open(); } };
  addEventListener("online", now);
  return {
    again: now,
    pause() { paused = true; clearTimeout(timer); clearTimeout(silence); stop?.abort(); },
    resume() { if (paused && !closed) { paused = false; open(); } },
    close() { closed = true; clearTimeout(timer); clearTimeout(silence); stop?.abort(); removeEventListener("online", now); },
  };
}

async function read(body, give, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = { kind: "message", data: null, id: null };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (event.data !== null) give(event);
        event = { kind: "message", data: null, id: null };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (field === "data") event.data = event.data === null ? text : `${event.data}\n${text}`;
      else if (field === "event") event.kind = text;
      else if (field === "id") event.id = text;
    }
  }
}
