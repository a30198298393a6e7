// One session, followed: its stored turns, and the output of the running one.
import { useEffect, useRef, useState } from "./lib.js";
import { at, get, split, stream } from "./api.js";
import { learn } from "./store.js";

/** Interval of reading the tools of a running turn again. */
const LOOK_MS = 1200;
const PAGE = 60;

export const isFinal = (turn) => ["done", "failed", "cancelled", "interrupted", "unknown"].includes(turn.state);

/** The agent's transcript as it is now, behind the earlier part that was read before. */
function joined(record, known) {
  const first = record.exchanges[0].offset, older = (known?.exchanges || []).filter((one) => one.offset < first);
  return older.length ? { ...record, before: known.before, exchanges: [...older, ...record.exchanges] } : record;
}

/** {turns, more, record, live, link, problem, older(), earlier()} of a session that has a transcript; only the stream of one that has none. */
export function useFollow({ id, seq, turns: begun }, talks) {
  const [view, setView] = useState({ turns: null, live: {}, link: { live: false } });
  const ref = useRef(null);
  useEffect(() => {
    const me = { gone: false, turns: new Map(), live: new Map(), busy: false, wanted: false, lookAt: 0, from: null };
    ref.current = me;
    const show = (extra = {}) => {
      if (me.gone) return;
      const turns = [...me.turns.values()].sort((a, b) => a.number - b.number);
      setView((known) => ({ ...known, turns: me.loaded ? turns : known.turns, live: Object.fromEntries(me.live), more: me.more, record: me.record, ...extra }));
    };
    const fetchFrom = async () => {
      if (!talks) return;
      if (me.busy) { me.wanted = true; return; }
      me.busy = true;
      me.wanted = false;
      try {
        const open = [...me.turns.values()].filter((turn) => !isFinal(turn)).map((turn) => turn.number);
        const last = Math.max(0, ...me.turns.keys());
        let after = me.loaded ? Math.min(...open, last + 1) - 1 : Math.max(0, (begun?.total || 0) - PAGE);
        if (!me.loaded) me.more = after > 0;
        // A page of turns has a size limit as well: the remaining ones are in the next page.
        for (; after != null;) {
          const answer = await get(at(id, `/transcript?after=${after}&limit=${PAGE}`));
          if (answer.record) me.record = joined(answer.record, me.record);
          for (const turn of answer.turns) {
            me.turns.set(turn.number, turn);
            if (isFinal(turn)) me.live.delete(turn.number);
          }
          after = answer.next_after ?? null;
        }
        me.loaded = true;
        show({ problem: null });
      } catch (problem) {
        show({ problem });
      }
      me.busy = false;
      if (me.wanted && !me.gone) fetchFrom();
    };
    me.fetch = fetchFrom;
    const soon = () => { clearTimeout(me.soon); me.soon = setTimeout(fetchFrom, 40); };
    const look = () => {
      if (me.lookTimer) return;
      me.lookTimer = setTimeout(() => { me.lookTimer = 0; fetchFrom(); }, LOOK_MS);
    };
    const piece = (number) => {
      if (!me.live.has(number)) me.live.set(number, { text: "", bytes: 0, torn: false, doing: null });
      const next = { ...me.live.get(number) };
      me.live.set(number, next);
      return next;
    };
    let painted = 0;
    const paint = () => { if (!painted) painted = requestAnimationFrame(() => { painted = 0; show(); }); };
    // The event may have any id: it belongs to the requested session.
    const told = (status) => learn({ ...status, id, host: split(id)[0] });
    const feed = me.feed = stream(at(id, `/events?after=${seq || 0}`), {
      resumes: true,
      async instead() {
        told(await get(at(id)));
        await fetchFrom();
      },
      on(kind, data) {
        if (kind === "status") { told(data.status ?? data); soon(); }
        else if (kind === "event") soon();
        else if (kind === "said") {
          const one = piece(data.turn);
          // A new subscriber first gets the answer so far, from its first byte on. A piece with a gap before it is not appended: the stored answer is shown instead, until the stream begins the answer again.
          if (data.at === 0) Object.assign(one, { text: "", bytes: 0, torn: false });
          if (data.at !== one.bytes) Object.assign(one, { text: "", torn: true });
          one.bytes = data.at + new TextEncoder().encode(data.text).length;
          if (one.torn) look();
          else one.text += data.text;
          paint();
        }
        else if (kind === "doing") { piece(data.turn).doing = data; paint(); look(); }
      },
      state(link) {
        if (link.live) { me.live.clear(); soon(); }
        show({ link });
      },
    });
    fetchFrom();
    const seen = () => (document.hidden ? feed.pause() : feed.resume());
    document.addEventListener("visibilitychange", seen);
    return () => {
      me.gone = true;
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(me.soon);
      clearTimeout(me.lookTimer);
      feed.close();
    };
  }, [id, talks]);
  const older = async () => {
    const me = ref.current;
    const first = Math.min(...me.turns.keys());
    const after = Math.max(0, first - 1 - PAGE);
    const answer = await get(at(id, `/transcript?after=${after}&limit=${first - 1 - after}`));
    for (const turn of answer.turns) if (!me.turns.has(turn.number)) me.turns.set(turn.number, turn);
    me.more = after > 0;
    me.record = answer.record ?? me.record;
    setView((known) => ({ ...known, turns: [...me.turns.values()].sort((a, b) => a.number - b.number), more: me.more, record: me.record }));
  };
  const earlier = async () => {
    const me = ref.current;
    const { record } = await get(at(id, `/transcript?before=${me.record.before}`));
    me.record = record ? { ...me.record, before: record.before, exchanges: [...record.exchanges, ...me.record.exchanges] } : { ...me.record, before: null };
    setView((known) => ({ ...known, record: me.record }));
  };
  return { ...view, older, earlier, refresh: () => ref.current?.fetch(), again: () => ref.current?.feed.again() };
}
