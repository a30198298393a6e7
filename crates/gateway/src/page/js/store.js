// State of the page: the sessions (fed by one stream), the connection, the address, and messages to the user.
import { cell, place, time } from "./lib.js";
import { stream, get, me, ofHost, signedIn, signedOut, split } from "./api.js";

export const sessions = cell(null); // Map id → Status, null before the first answer
export const link = cell({ live: false, first: true, knownAt: 0 });
export const route = cell(where());
export const toasts = cell([]);
export const announce = cell("");

/** The current address, which is ahead of the view. */
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
/** Runs an action, and reports a failure. Returns true on success. */
export async function attempt(doing) {
  try {
    await doing();
    return true;
  } catch (error) {
    if (error?.name !== "AbortError") tell("bad", error.title || "The page has a bug", error.detail ?? String(error));
    return false;
  }
}

const RANKS = { "needs-you": 0, lost: 1, damaged: 1, unreachable: 1, working: 2, starting: 3, running: 3, stopping: 3, idle: 4, stopped: 5, archived: 6 };
export const GROUPS = ["Needs you", "Problems", "Working", "Running", "Idle", "Ended", "Archived"];
export const rank = (status) => RANKS[status.state] ?? 1;
/** Name in addresses and commands: the id of a session without a name. */
export const handle = (status) => status.name || split(status.id)[1];
/** Number of characters of a prompt that make a title. */
const MOST_TITLE_CHARS = 60;
/** Title for people. A session without a name has the first words of its prompt, else its directory; an id says nothing to a user. */
export const title = (status) => {
  const words = (status.last_prompt || status.turns?.prompt || "").trim();
  return status.name || (words.length > MOST_TITLE_CHARS ? `${words.slice(0, MOST_TITLE_CHARS).trimEnd()} …` : words) || place(status.cwd).split("/").pop() || status.agent || handle(status);
};
/** Name of the session in an address of this page, which includes the host. */
export const address = (status) => (status.host ? `${status.host}/${handle(status)}` : handle(status));
/** Name of the session in a terminal command. */
export const shell = (status, verb) => spoken(["berth", ...(status.host ? ["--host", status.host] : []), verb, handle(status)]);
/** Name of a user, as the reader knows that user. */
export const person = (place) => {
  const [who] = (place || "an unknown client").split(", terminal ");
  return who === me.get()?.place ? "this browser" : who;
};
export const takesTurns = (status) => status.turns != null;
/** True if the session has a screen: some of these take turns as well. */
export const hasTerminal = (status) => !status.driver || status.driver === "pty";
/** Kind of the session: the agent, or a terminal. */
export const kindOf = (status) => status.agent || (status.driver === "pty" ? "terminal" : status.driver);
/** Command line as a user would type it. */
export const spoken = (command) => (command || []).map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
/** Command line without the directory of its program. */
export const brief = (line) => line.replace(/^'?[^\s']*\/(?=[^\s/'])/, "");
/** End of the last run of an ended session: {words, isBad}. */
export function outcome(status) {
  if (status.stopped_by) return { words: `stopped by ${byWhom(status.stopped_by.place)}`, isBad: false };
  if (status.oom) return { words: "failed · out of memory", isBad: true };
  if (status.failure) return { words: status.failure, isBad: true };
  if (status.signal) return { words: `failed · signal ${status.signal}`, isBad: true };
  if (status.exit) return { words: `failed · exit ${status.exit}`, isBad: true };
  return { words: "ended", isBad: false };
}
/** Name of a user as the subject of a sentence: the reader is "you". */
export const byWhom = (place) => person(place).replace(/^this browser$/, "you");
/** State to show: an ended session that failed says so. */
export const shownState = (status) => (status.state === "stopped" && outcome(status).isBad ? "failed" : status.state);
/** True if berth ended the idle agent to save memory. */
export const isPaused = (status) => status.state === "idle" && !!status.released && !status.pid;
/** True if the session was imported and never ran here. */
export const isImported = (status) => status.epoch === 0 && !!status.conversation_id;
export const isOver = (status) => ["stopped", "lost", "archived"].includes(status.state);

/** Sessions by group, within a group the last active first. */
export function ordered(map) {
  const last = (status) => time(status.last_activity_at) || 0;
  return [...map.values()].sort((a, b) => rank(a) - rank(b) || last(b) - last(a) || (a.id < b.id ? -1 : 1));
}

/** Stores a new status, unless a later one is known. */
export function learn(status) {
  if (typeof status?.id !== "string") return;
  const all = new Map(sessions.get() || []);
  const known = all.get(status.id);
  if (known && status.seq < known.seq) return;
  if (known && known.state !== "needs-you" && status.state === "needs-you") announce.set(`${title(status)} needs you`);
  // The status of another host's session has an age: it is shown until the host is asked again.
  const next = { ...(status.host && { known_at: Date.now() }), ...status, learnt_at: Date.now() };
  all.set(status.id, next);
  if (status.host) others.set(status.id, next);
  sessions.set(all);
  // The error of an action on something that is over needs no attention any more.
  if (known && !isOver(known) && isOver(status)) toasts.change((told) => told.filter((toast) => toast.about !== status.id && toast.about !== address(status)));
}

/** Other hosts: [{name, away, skew, knownAt}]. */
export const hosts = cell([]);
/** Interval of asking other hosts while the page is in view. */
const HOSTS_EVERY_MS = 15_000;
let others = new Map(), hostsTimer = 0, looks = false;
const here = (list) => sessions.set(new Map([...list.map((status) => [status.id, { ...status, learnt_at: Date.now() }]), ...others]));
/** Asks other hosts, if there are any, while the page is in view. */
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

/** Finds out the identity of the caller; subscribes to the list if that is allowed. */
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

// Browsers give a page six connections to one server, all tabs together. A hidden tab keeps its stream only if no other hidden tab has one: its title counts the sessions that need you for all of them.
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
