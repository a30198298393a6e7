// Drafts, and messages that were sent but not yet acknowledged.
//
// Promise: a composed message becomes one turn in any case: it has its key before it is sent, and key and text are in localStorage until the receipt came. Every retry (after a reload, from another tab) sends the same key.
import { cell, kept, mint, tabStore } from "./lib.js";
import { at, post } from "./api.js";
import { tell } from "./store.js";

const tab = mint();
const DRAFT = "berth.draft.";
const OUTBOX = "berth.outbox";
/** Number of unsent messages that are kept; a bad connection does not cause more. */
const MOST = 50;

/** The draft of a session: this tab's own, else the last one any tab had. */
export function draft(session) {
  return kept.get(DRAFT + session, tabStore()) || kept.get(DRAFT + session) || { text: "", key: mint(), tab };
}

/** Keeps a draft. A change of another tab's draft makes another message, with another key. */
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

/** Deletes a draft: here, and for all tabs unless another tab has begun a new one since. */
function forget(session, key) {
  kept.set(DRAFT + session, null, tabStore());
  if (kept.get(DRAFT + session)?.key === key) kept.set(DRAFT + session, null);
}

/** Messages that wait for their receipts, over all tabs: [{key, session, text, manner, problem?, unkept?}]. */
export const outbox = cell(kept.get(OUTBOX) || []);
/** Stored messages win, because another tab may have changed them; a message that could not be stored (`unkept`) is known to this tab only. */
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
  // A message that does not fit into the storage is only here; finished ones are removed from the storage all the same.
  const stored = keep(next) || keep(next.filter((one) => has(before, one))) || before;
  outbox.set(next.map((one) => (has(stored, one) ? one : { ...one, unkept: true })));
};
// A message that is nowhere else would be lost with the page.
addEventListener("beforeunload", (event) => { if (outbox.get().some((one) => one.unkept)) event.preventDefault(); });

const underway = new Set();
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Sends the draft. Returns true if it is on its way, so that the caller need not keep it. */
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
      // The message is kept, and sent after the next login.
    } else {
      // The message was refused, so nothing happened, and its words go back into the box. If the user looks at another session, they are there when this one is opened.
      if (!draft(one.session).text) keepDraft(one.session, one.text, { text: "" });
      drop(key);
      tell("bad", problem.title || "The message was refused", problem.detail);
      refused.set({ session: one.session, text: one.text });
    }
  } finally {
    underway.delete(key);
  }
}
/** Called with a refusal. */
export const refused = cell(null);

/** Sends the messages that an earlier life of this page left. The keys are unchanged, so messages that arrived are not repeated. */
export function resume() {
  for (const one of outbox.get()) deliver(one.key);
}
