// A live terminal: first an observer, then the writer if the user takes over. Reconnects by itself.
import { html, useEffect, useLayoutEffect, useRef, useState, capital } from "./lib.js";
import { icon } from "./icons.js";
import { at, forPage, get, loginProtocol, may, post } from "./api.js";
import { attempt, isOver, person, shell, tell, title } from "./store.js";
import { Cmd, Words } from "./parts.js";

const PROTOCOL = "berth.terminal.v1";
/** Limit of output that is not drawn yet: beyond it a fresh screen is quicker, so the page reconnects. */
const MOST_UNDRAWN_BYTES = 8 << 20;
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 10_000;
/** Smallest letters for an observer; a wider screen is panned. */
const FONT = 13, LEAST_FONT = 10;
/** Decoration that agents draw below their input line. */
const ROWS_BELOW = 3;
const COLOURS = { background: "#0c0d0f", foreground: "#dfe1e6", cursor: "#98a4ff", selectionBackground: "#3a4270", black: "#1b1c20", red: "#ff7b72", green: "#5fd08f", yellow: "#e9b44c", blue: "#7aa7ff", magenta: "#c797f7", cyan: "#5cc8d7", white: "#d5d7dd", brightBlack: "#7b7f8a", brightRed: "#ff9d96", brightGreen: "#86e3ac", brightYellow: "#f3cc7a", brightBlue: "#a3c2ff", brightMagenta: "#dcb8ff", brightCyan: "#8adfea", brightWhite: "#ffffff" };

/** Description of the writer, if it is another client: in this browser it is another tab. */
const typist = (place) => person(place).replace(/^this browser$/, "another tab of this browser");

/** `talks`: messages to the agent have a box of their own; `onTyping` is told whether keys go to the screen. */
export function Terminal({ status, talks, onTyping }) {
  const screen = useRef(), state = useRef(null), line = useRef();
  const [role, setRole] = useState("observer");
  const [now, setNow] = useState({ phase: "opening" });
  const [ctrl, setCtrl] = useState(false);
  const ctrlRef = useRef(false);
  ctrlRef.current = ctrl;
  const latest = useRef(status);
  latest.current = status;
  const over = isOver(status);
  const mayType = may("control");

  useEffect(() => {
    if (over) return undefined;
    const box = screen.current;
    let gone = false, socket = null, timer = 0, tries = 0, undrawn = 0, fresh = false, term = null, fit = null, want = "observer", types = false, toldUnsent = false, placed = 0, sticks = true;
    const again = () => { clearTimeout(timer); takeKeys(false); setNow({ phase: "opening" }); const before = socket; socket = null; before?.close(); open(); };
    const sizeOf = ({ rows, cols }) => ({ rows: rows || 24, cols: cols || 80 });
    const me = {
      dims: sizeOf(latest.current),
      takesKeys: () => types && socket?.readyState === 1,
      /** Sends keys. Returns true if they are on their way. */
      type(text) {
        if (!me.takesKeys()) return me.unsent();
        socket.send(new TextEncoder().encode(text));
        return true;
      },
      /** Reports keys that were lost, once for each connection. */
      unsent() {
        if (!toldUnsent) tell("bad", "Keys were not sent", "The terminal is not connected. Type them again once the bar shows Attached.");
        toldUnsent = true;
        return false;
      },
      focus: () => (types ? term : box).focus(),
      again,
      /** Switches between observer and writer: the screen stays, the connection is a new one. */
      become(next) {
        if (next === want || (want !== "observer" && next !== "observer")) return;
        want = next;
        me.dims = sizeOf(latest.current);
        if (!term) return;
        size();
        again();
      },
    };
    state.current = me;
    (async () => {
      const [xterm, addon] = await Promise.all([import("/assets/vendor/xterm.js"), import("/assets/vendor/xterm-fit.js"), style("/assets/vendor/xterm.css")]);
      if (gone) return;
      term = new xterm.Terminal({ ...me.dims, fontSize: FONT, fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), theme: COLOURS, scrollback: 5000, allowProposedApi: false, screenReaderMode: false, disableStdin: true, macOptionIsMeta: true });
      fit = new addon.FitAddon();
      term.loadAddon(fit);
      term.open(box);
      box.querySelector("textarea")?.setAttribute("aria-label", `terminal of ${title(status)}`);
      term.onData((data) => {
        if (ctrlRef.current && data.length === 1) { data = String.fromCharCode(data.toUpperCase().charCodeAt(0) & 31); setCtrl(false); }
        me.type(data);
      });
      term.onBinary((data) => me.takesKeys() && socket.send(Uint8Array.from(data, (c) => c.charCodeAt(0))));
      size();
      open();
    })().catch((error) => setNow({ phase: "failed", words: String(error) }));
    const watch = new ResizeObserver(() => size());
    watch.observe(box);
    box.onscroll = () => { sticks = Math.abs(box.scrollTop - placed) < 40; };

    /** The terminal takes keys exactly while they reach the agent: from the moment it is attached as the writer until that connection is gone. */
    function takeKeys(on) {
      types = on;
      if (on) toldUnsent = false;
      if (term) Object.assign(term.options, { disableStdin: !on, cursorBlink: on });
    }
    /** The writer's size wins: a writer fits the terminal to the page, an observer fits the letters to the terminal. */
    function size() {
      if (!term || gone || !box.clientWidth) return;
      if (want !== "observer") {
        if (term.options.fontSize !== FONT) term.options.fontSize = FONT;
        box.classList.remove("scrolls");
        const next = fit.proposeDimensions();
        if (!next || !(next.cols > 1)) return;
        if (next.cols !== term.cols || next.rows !== term.rows) { term.resize(next.cols, next.rows); tellSize(); }
        box.dataset.cols = term.cols;
        return;
      }
      const { cols, rows } = me.dims;
      if (term.cols !== cols || term.rows !== rows) term.resize(cols, rows);
      box.dataset.cols = cols;
      const room = box.clientWidth - 24;
      const cell = 0.602;
      const font = Math.max(LEAST_FONT, Math.min(FONT, Math.floor((room / cols / cell) * 10) / 10));
      if (term.options.fontSize !== font) term.options.fontSize = font;
      box.classList.add("scrolls");
      show();
    }
    /** For a screen that is higher than the page: keeps the cursor in view, unless the user has scrolled away. */
    function show() {
      const drawn = box.querySelector(".xterm-screen");
      if (want !== "observer" || !sticks || !drawn) return;
      const row = Math.min(term.rows, term.buffer.active.cursorY + 1 + ROWS_BELOW);
      placed = Math.max(0, Math.ceil((row / term.rows) * drawn.offsetHeight) + 12 - box.clientHeight);
      box.scrollTop = placed;
    }
    const tellSize = () => socket?.readyState === 1 && socket.send(JSON.stringify({ resize: { rows: term.rows, cols: term.cols } }));

    function open() {
      if (gone || !term) return;
      const url = new URL(at(status.id, "/terminal"), location.href);
      url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
      url.searchParams.set("role", want);
      if (want !== "observer") { url.searchParams.set("rows", term.rows); url.searchParams.set("cols", term.cols); }
      const mine = new WebSocket(url, [PROTOCOL, ...loginProtocol()]);
      mine.binaryType = "arraybuffer";
      socket = mine;
      let final = null;
      mine.onmessage = (message) => {
        if (mine !== socket) return;
        if (typeof message.data !== "string") return draw(new Uint8Array(message.data));
        let told;
        try { told = JSON.parse(message.data); } catch { return; }
        if (told.attached) {
          tries = 0;
          takeKeys(told.attached.fence !== null);
          setNow({ phase: "live", types });
          size();
          if (types) { tellSize(); term.focus(); }
          // Taken over once: a reconnect must not take the terminal from a client that took it over since.
          if (want === "take") want = "writer";
        }
        // A whole screen comes first, and after each change of the writer's size: it is drawn in the size it was made for.
        if (told.size) { me.dims = sizeOf(told.size); size(); }
        if (told.screen) fresh = true;
        if (told.replaced || told.problem || told.ended !== undefined) takeKeys(false);
        if (told.replaced) { final = { phase: "live" }; setNow({ phase: "live", words: `Taken over by ${typist(told.replaced.by)}` }); setRole("observer"); }
        if (told.ended !== undefined) { final = { phase: "ended", words: "The agent ended" }; setNow(final); }
        if (told.problem) { final = { phase: "refused", words: told.problem.title || String(told.problem), detail: forPage(told.problem.detail || "") }; setNow(final); if (want !== "observer") setRole("observer"); }
      };
      mine.onclose = () => {
        if (gone || mine !== socket) return;
        takeKeys(false);
        if (mine.bufferedAmount > 0) me.unsent();
        if (final && final.phase !== "live") return;
        tries += 1;
        const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 1.7 ** (tries - 1));
        setNow({ phase: "away", tries });
        timer = setTimeout(open, wait);
      };
    }
    function draw(bytes) {
      if (fresh) { fresh = false; term.reset(); }
      undrawn += bytes.length;
      if (undrawn > MOST_UNDRAWN_BYTES) { undrawn = 0; return again(); }
      term.write(bytes, () => { undrawn = Math.max(0, undrawn - bytes.length); show(); });
    }
    return () => { gone = true; clearTimeout(timer); watch.disconnect(); socket?.close(); term?.dispose(); };
  }, [over]);
  useEffect(() => state.current?.become(role), [role]);
  useLayoutEffect(() => { onTyping(role !== "observer" && !over); return () => onTyping(false); }, [role, over]);

  // Both change at once: "You type" must not be shown before keys reach the agent.
  const turn = (next) => { setNow({ phase: "opening" }); setRole(next); if (next !== "observer") state.current?.focus(); };
  const press = (keys) => () => { state.current?.type(keys); state.current?.focus(); };
  const wants = role !== "observer";
  // The live connection may still be the one of the observer.
  const writes = wants && now.phase === "live" && !!now.types;
  /** Keys for a terminal that takes none. */
  const stray = (event) => {
    if (state.current?.takesKeys() || (event.type === "keydown" && event.key.length > 1 && event.key !== "Enter")) return;
    if (wants) state.current?.unsent();
    else if (!event.ctrlKey && !event.metaKey) setNow({ ...now, words: "Attach to type" });
  };
  const submit = (event) => {
    event.preventDefault();
    // The connection as writer is about to open: the keys wait, because as those of an observer they would be refused.
    if (wants && !writes) return undefined;
    const text = line.current.value;
    if (writes && !state.current?.type(text + "\r")) return undefined;
    line.current.value = "";
    if (writes) return undefined;
    attempt(async () => {
      try { await post(at(status.id, "/input"), { text, enter: true }); } catch (problem) { line.current.value ||= text; throw problem; }
    });
  };
  if (over) return html`<div class="stage"><${LastScreen} status=${status} /></div>`;
  const who = status.writer, taken = !!who && !wants;
  return html`<div class="term">
    <div class=${"bar " + (writes ? "writing" : "")}>${icon(writes ? "edit" : "eye")}<span class="grow cut" role="status">${now.phase === "away" ? "Connection lost: reconnecting …" : now.phase === "opening" ? "Connecting …" : writes ? "Attached · your keys go to the terminal" : who ? html`Watching · ${typist(who.place)} is attached` : "Watching · detached"}</span>
      ${now.words && html`<span class="dim cut">${now.words}</span>`}
      ${mayType && (wants ? html`<button class="b small" onClick=${() => turn("observer")}>Detach</button>` : html`<button class="b small main" id="take-over" onClick=${() => turn(who ? "take" : "writer")}>${who ? "Take over" : "Attach"}</button>`)}</div>
    <div class="screen" ref=${screen} tabindex="0" role="region" aria-label=${`screen of ${title(status)}`} onClick=${() => (writes ? state.current?.focus() : screen.current.focus())} onKeyDownCapture=${stray} onPasteCapture=${stray}></div>
    ${now.phase === "refused" && html`<div class="over" role="alert" style="position:static;margin:8px">${icon("warn")}<span class="grow"><b><${Words} text=${now.words} /></b> <${Words} text=${now.detail} /></span><button class="b small" onClick=${() => { setNow({ phase: "opening" }); state.current?.again(); }}>Try again</button></div>`}
    ${wants && html`<div class="keysrow" role="toolbar" aria-label="keys">
      ${[["Esc", "\x1b"], ["Tab", "\t"]].map(([name, keys]) => html`<button aria-label=${name} onClick=${press(keys)}>${name}</button>`)}
      <button aria-pressed=${ctrl ? "true" : "false"} aria-label="Control, for the next key" onClick=${() => { setCtrl(!ctrl); state.current?.focus(); }}>Ctrl</button>
      ${[["↑", "\x1b[A", "up"], ["↓", "\x1b[B", "down"], ["←", "\x1b[D", "left"], ["→", "\x1b[C", "right"], ["⏎", "\r", "Enter"], ["^C", "\x03", "Control-C"], ["⇧Tab", "\x1b[Z", "Shift-Tab"]].map(([name, keys, label]) => html`<button aria-label=${label} onClick=${press(keys)}>${name}</button>`)}</div>`}
    ${mayType && (wants || !talks) && html`<div class="dock"><form class="row" onSubmit=${submit}><label class="vh" for="line">a line for the terminal</label><input id="line" class="f mono" ref=${line} autocomplete="off" autocapitalize="off" autocorrect="off" spellcheck="false" enterkeyhint="send" disabled=${taken} placeholder=${taken ? `${capital(typist(who.place))} is attached: take over first` : "A line for the terminal"} /><button class="b main icon" aria-label="send the line" disabled=${taken}>${icon("send")}</button></form></div>`}
  </div>`;
}

/** Last screen of a session that is over. */
function LastScreen({ status }) {
  const box = useRef();
  const [empty, setEmpty] = useState(false);
  useEffect(() => {
    let term = null, gone = false;
    (async () => {
      const [xterm, , text] = await Promise.all([import("/assets/vendor/xterm.js"), style("/assets/vendor/xterm.css"), get(at(status.id, "/screen?format=ansi"), { as: "text", headers: { Accept: "*/*" } })]);
      if (gone) return;
      if (!text.trim()) return setEmpty(true);
      term = new xterm.Terminal({ cols: status.cols || 80, rows: status.rows || 24, fontSize: Math.max(LEAST_FONT, Math.min(FONT, (box.current.clientWidth - 24) / (status.cols || 80) / 0.602)), fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), theme: COLOURS, disableStdin: true, convertEol: true });
      term.open(box.current);
      term.write(text);
    })().catch(() => setEmpty(true));
    return () => { gone = true; term?.dispose(); };
  }, [status.id, status.epoch]);
  return html`<div class="term"><div class="bar">${icon("stop")}<span class="grow">Ended: the last screen</span></div>${empty ? html`<div class="empty" style="background:var(--bg)">${icon("term", "big")}<h2>The last screen is empty</h2><p>The whole output:</p><${Cmd} text=${shell(status, "output")} /></div>` : html`<div class="screen scrolls" ref=${box}></div>`}</div>`;
}

const styles = new Map();
function style(path) {
  if (!styles.has(path)) {
    styles.set(path, new Promise((resolve, reject) => {
      const link = document.createElement("link");
      Object.assign(link, { rel: "stylesheet", href: path, onload: resolve, onerror: reject });
      document.head.append(link);
    }));
  }
  return styles.get(path);
}
