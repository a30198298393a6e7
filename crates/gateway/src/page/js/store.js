// What the page knows: the sessions (fed by one stream), the connection, where we are, what is told to people.
import { cell, time } from "./lib.js";
import { stream, get, me, ofHost, signedIn, signedOut, split } from "./api.js";

export const sessions = cell(null); // Map id → Status, null before the first answer
export const link = cell({ live: false, first: true, knownAt: 0 });
export const route = cell(where());
export const toasts = cell([]);
export const announce = cell("");

/** Where we are by the address, which is ahead of what is drawn. */
export function where() {
  const [, kind, id, tab, turn] = location.hash.replace(/^#/, "").split("/");
  if (kind === "s" && id) {
    try { return { session: decodeURIComponent(id), tab: tab || null, turn: Number(turn) || null }; } catch { return { session: null }; }
  }
  return { session: null, foreign: kind === "foreign" };
}
addEventListener("hashchange", () => route.set(where()));
export const href = (session, tab) => `#/s/${encodeURIComponent(session)}${tab ? `/${tab}` : ""}`;
export const go = (session, tab) => { location.hash = session ? href(session, tab) : "#/"; };

let toastNumber = 0;
export function tell(kind, title, detail = "") {
  const id = ++toastNumber;
  toasts.change((all) => [...all.slice(-2), { id, kind, title, detail, about: route.get().session }]);
  if (kind !== "bad") setTimeout(() => dismiss(id), 4000);
  return id;
}
export const dismiss = (id) => toasts.change((all) => all.filter((toast) => toast.id !== id));
/** Does something, and says what went wrong. True if nothing did. */
export async function attempt(doing) {
  try {
    await doing();
    return true;
  } catch (error) {
    if (error?.name !== "AbortError") tell("bad", error.title || "Something went wrong in the page", error.detail ?? String(error));
    return false;
  }
}

const RANKS = { "needs-you": 0, lost: 1, damaged: 1, unreachable: 1, starting: 2, working: 2, running: 2, stopping: 2, idle: 3, stopped: 4, archived: 5 };
export const GROUPS = ["Needs you", "In trouble", "At work", "Idle", "Over", "Archived"];
export const rank = (status) => RANKS[status.state] ?? 1;
/** What it is called. */
export const handle = (status) => status.name || split(status.id)[1];
/** What it is called in an address of this page: also where it is. */
export const address = (status) => (status.host ? `${status.host}/${handle(status)}` : handle(status));
/** The same in a terminal. */
export const shell = (status, verb) => spoken(["berth", ...(status.host ? ["--host", status.host] : []), verb, handle(status)]);
/** Somebody, as whoever reads knows them. */
export const person = (place) => {
  const [who] = (place || "somebody").split(", terminal ");
  return who === me.get()?.place ? "this browser" : who;
};
export const takesTurns = (status) => status.turns != null;
/** Whether it has a screen: some of these take turns as well. */
export const hasTerminal = (status) => !status.driver || status.driver === "pty";
/** What it is: the agent, or a terminal. */
export const kindOf = (status) => status.agent || (status.driver === "pty" ? "terminal" : status.driver);
/** A command as one would type it. */
export const spoken = (command) => (command || []).map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
/** The same without where its program is: what people call it. */
export const brief = (line) => line.replace(/^'?[^\s']*\/(?=[^\s/'])/, "");
/** Whether it was brought here from elsewhere, and never ran here. */
export const isImported = (status) => status.epoch === 0 && !!status.conversation_id;
export const isOver = (status) => ["stopped", "lost", "archived"].includes(status.state);

/** Who needs you first; within a group the newest: rows move when a state changes, not with every byte. */
export function ordered(map) {
  const last = (status) => time(status.state === "stopped" ? status.ended_at : status.created_at) || 0;
  return [...map.values()].sort((a, b) => rank(a) - rank(b) || last(b) - last(a) || (a.id < b.id ? -1 : 1));
}

/** Takes a new status, unless we know a later one. */
export function learn(status) {
  if (typeof status?.id !== "string") return;
  const all = new Map(sessions.get() || []);
  const known = all.get(status.id);
  if (known && status.seq < known.seq) return;
  if (known && known.state !== "needs-you" && status.state === "needs-you") announce.set(`${handle(status)} needs you`);
  // Of another host it is known besides how old that is: until it is looked at again, this is what it said.
  const next = { ...(status.host && { known_at: Date.now() }), ...status, learnt_at: Date.now() };
  all.set(status.id, next);
  if (status.host) others.set(status.id, next);
  sessions.set(all);
  // What could not be done with something that is over now needs no answer any more.
  if (known && !isOver(known) && isOver(status)) toasts.change((told) => told.filter((toast) => toast.about !== status.id && toast.about !== address(status)));
}

/** Other hosts: [{name, away, skew, knownAt}]. */
export const hosts = cell([]);
/** How often other hosts are asked while somebody looks. */
const HOSTS_EVERY_MS = 15_000;
let others = new Map(), hostsTimer = 0, looks = false;
const here = (list) => sessions.set(new Map([...list.map((status) => [status.id, { ...status, learnt_at: Date.now() }]), ...others]));
/** Looks at other hosts, if there are any, as long as somebody looks at us. */
async function lookAround() {
  clearTimeout(hostsTimer);
  if (looks || document.hidden || !signedIn.get()) return;
  looks = true;
  try {
    const known = (await get("/v1/hosts?names=true")).hosts;
    const seen = known.length ? (await get("/v1/hosts")).hosts : [];
    const before = sessions.get();
    others = new Map(seen.flatMap((host) => host.sessions.map((status) => {
      const next = { ...ofHost(host.name, status), learnt_at: Date.now(), away: host.away, known_at: Date.now() - (host.age_ms ?? 0) };
      const last = before?.get(next.id);
      return [next.id, last && last.seq > next.seq ? { ...last, away: next.away, known_at: next.known_at } : next];
    })));
    hosts.set(seen.map(({ name, away, skew, age_ms: age }) => ({ name, away, skew, knownAt: age == null ? null : Date.now() - age })));
    if (before) here([...before.values()].filter((status) => !status.host));
  } catch { /* the banner says when the gateway is away; what is known stays */ }
  looks = false;
  if (hosts.get().length) hostsTimer = setTimeout(lookAround, HOSTS_EVERY_MS);
}
document.addEventListener("visibilitychange", lookAround);

let feed = null;
export function connect() {
  feed?.close();
  feed = stream("/v1/events?all=true", {
    async instead() {
      here((await get("/v1/sessions?all=true")).sessions);
      link.change((known) => ({ ...known, knownAt: Date.now() }));
    },
    on(kind, data) {
      link.change((known) => ({ ...known, knownAt: Date.now() }));
      if (kind === "hello") {
        here(data.sessions);
      } else if (kind === "session") {
        learn(data.session ?? data);
      } else if (kind === "gone") {
        const all = new Map(sessions.get() || []);
        all.delete(typeof data === "string" ? data : data.id);
        sessions.set(all);
      }
    },
    state(now) {
      if (now.refused) {
        if (now.problem.status !== 401) tell("bad", now.problem.title, now.problem.detail);
        return link.change((known) => ({ ...known, live: false, refused: true, problem: now.problem }));
      }
      link.change((known) => ({
        ...known, ...now, first: known.first && !now.live, refused: false,
        awaySince: now.live ? null : known.awaySince ?? Date.now(),
        backAt: now.live && known.awaySince ? Date.now() : known.backAt,
      }));
    },
  });
}
export const again = () => feed?.again();

/** Finds out who we are; starts listening if we may. */
export async function begin() {
  try {
    me.set(await get("/v1/whoami"));
    signedIn.set(true);
    signedOut.set(null);
    connect();
    lookAround();
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) signedIn.set(false);
    else {
      link.change((known) => ({ ...known, live: false, tries: (known.tries || 0) + 1, awaySince: known.awaySince ?? Date.now(), problem }));
      setTimeout(begin, Math.min(10_000, 500 * 1.7 ** (link.get().tries || 1)));
    }
  }
}

// Browsers give a page six connections to one server, all tabs together. A tab that nobody sees keeps its stream only if no
// other hidden tab does: it counts who needs you in its title for all of them.
let hideTimer = 0, giveBack = null, isAway = false;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hideTimer);
  if (document.hidden) hideTimer = setTimeout(hidden, 20_000);
  else {
    giveBack?.();
    giveBack = null;
    if (isAway) { isAway = false; feed?.resume(); }
  }
});
function hidden() {
  const leave = () => { isAway = true; feed?.pause(); };
  if (!navigator.locks) return leave();
  navigator.locks.request("berth-hidden-feed", { ifAvailable: true }, (lock) => {
    if (!lock) return leave();
    return new Promise((resolve) => { giveBack = resolve; });
  });
}
