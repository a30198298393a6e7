// Drafts and what was sent but not yet acknowledged.
//
// Promise: a composed message becomes one turn, whatever happens: it has its key before it is sent, key and text are in
// localStorage until the receipt came, and whoever sends it again (after a reload, from another tab) sends the same key.
import { cell, kept, mint, tabStore } from "./lib.js";
import { at, post } from "./api.js";
import { tell } from "./store.js";

const tab = mint();
const DRAFT = "berth.draft.";
const OUTBOX = "berth.outbox";
/** How many unsent messages are kept; more than that is not a bad connection. */
const MOST = 50;

/** The draft of a session: this tab's own, else the last one any tab had. */
export function draft(session) {
  return kept.get(DRAFT + session, tabStore()) || kept.get(DRAFT + session) || { text: "", key: mint(), tab };
}

/** Keeps a draft. Who changes the words of another tab's draft writes another message: it gets another key. */
export function keepDraft(session, text, known) {
  const mine = known.tab === tab && known.text !== "" ? known : { key: mint(), tab };
  const next = { ...mine, text, tab };
  if (text === "") {
    forget(session, known.key);
    return { text: "", key: mint(), tab };
  }
  kept.set(DRAFT + session, next, tabStore());
  kept.set(DRAFT + session, next);
  return next;
}

/** Forgets a draft: here, and for all tabs unless another one has begun another since. */
function forget(session, key) {
  kept.set(DRAFT + session, null, tabStore());
  if (kept.get(DRAFT + session)?.key === key) kept.set(DRAFT + session, null);
}

/** What waits for its receipt, over all tabs: [{key, session, text, manner, problem?, unkept?}]. */
export const outbox = cell(kept.get(OUTBOX) || []);
/** What is stored counts, another tab may have changed it; of what could not be stored (`unkept`) only this tab knows. */
const known = () => {
  const stored = kept.get(OUTBOX) || [];
  return [...stored, ...outbox.get().filter((one) => one.unkept && !has(stored, one))];
};
addEventListener("storage", (event) => { if (event.key === OUTBOX) outbox.set(known()); });
const has = (list, one) => list.some(({ key }) => key === one.key);
const save = (change) => {
  const before = kept.get(OUTBOX) || [];
  const next = change(known()).map(({ unkept, ...one }) => one);
  const keep = (list) => kept.set(OUTBOX, list.length ? list : null) && list;
  // What does not fit is only here; what is stored and done with has to go all the same.
  const stored = keep(next) || keep(next.filter((one) => has(before, one))) || before;
  outbox.set(next.map((one) => (has(stored, one) ? one : { ...one, unkept: true })));
};
// What is nowhere else would go with the page.
addEventListener("beforeunload", (event) => { if (outbox.get().some((one) => one.unkept)) event.preventDefault(); });

const underway = new Set();
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Sends the draft; whether it is on its way, so that nobody keeps it any longer. */
export function send(session, { text, key }, manner) {
  if (outbox.get().some((one) => one.key === key)) return true;
  if (outbox.get().length >= MOST) {
    tell("bad", "Too many messages are waiting to be sent", "Connect to the gateway first. Your message is still in the box.");
    return false;
  }
  save((all) => [...all.filter((one) => one.key !== key), { key, session, text, manner, at: Date.now() }]);
  forget(session, key);
  deliver(key);
  return true;
}

export const drop = (key) => save((all) => all.filter((one) => one.key !== key));

async function deliver(key, wait = FIRST_WAIT_MS) {
  const one = outbox.get().find((entry) => entry.key === key);
  if (!one || underway.has(key)) return;
  underway.add(key);
  try {
    const body = { text: one.text, ...(one.manner && one.manner !== "queue" ? { manner: one.manner } : {}) };
    await post(at(one.session, "/turns"), body, { headers: { "Idempotency-Key": key } });
    drop(key);
  } catch (problem) {
    const goesOn = problem.isAway || (problem.status === 429 && problem.retryAfter);
    if (goesOn) {
      const next = Math.min(LONGEST_WAIT_MS, problem.retryAfter ? problem.retryAfter * 1000 : wait * 1.7);
      save((all) => all.map((entry) => (entry.key === key ? { ...entry, problem: problem.title } : entry)));
      setTimeout(() => deliver(key, next), next);
    } else if (problem.status === 401) {
      // Kept: it goes when somebody has signed in again.
    } else {
      // Refused: nothing happened. The words go back to whoever wrote them.
      // They may be looking elsewhere, where no box shows them: then they are there when it is opened.
      if (!draft(one.session).text) keepDraft(one.session, one.text, { text: "" });
      drop(key);
      tell("bad", problem.title || "The message was refused", problem.detail);
      refused.set({ session: one.session, text: one.text });
    }
  } finally {
    underway.delete(key);
  }
}
/** Told when something was refused. */
export const refused = cell(null);

/** Sends what an earlier life of this page left. Same keys: what already arrived is not said twice. */
export function resume() {
  for (const one of outbox.get()) deliver(one.key);
}
