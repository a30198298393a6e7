// Markdown of agents: parsed in a worker within limits, then reduced to tags and attributes that are known to be harmless.
// Beyond a limit it is shown as plain text.
import { html, useEffect, useRef, useState } from "./lib.js";
import "/assets/vendor/purify.js";

/** Longest text that is parsed. */
const MOST_CHARS = 400_000;
/** Time limit for a text; after it its worker is terminated. */
const MOST_PARSE_MS = 1000;
/** Time limit for the start of the worker: without a worker everything is shown as plain text. */
const MOST_START_MS = 20_000;
const WORKER = "/assets/js/markdown_worker.js";

// The one policy that the page's headers allow. Only this file has it: markup comes from the sanitiser, a script from its file.
const policy = globalThis.trustedTypes?.createPolicy("berth", {
  createHTML: (markup) => markup,
  createScriptURL: (url) => { if (url !== WORKER) throw new TypeError(`not a script of this page: ${url}`); return url; },
});

const purify = globalThis.DOMPurify;
/** Classes of coloured code, the only ones that are kept: see `highlight.js`. */
const COLOURS = /^h-[kscnf]$/;
purify.addHook("uponSanitizeAttribute", (node, data) => { if (data.attrName === "class" && !COLOURS.test(data.attrValue)) data.keepAttr = false; });
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
});
/** Tags that are kept: none that loads, runs, sends, or is found by its name. Links lead to other pages only. */
const HARMLESS = {
  ALLOWED_TAGS: ["a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "ins", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var"],
  ALLOWED_ATTR: ["align", "class", "colspan", "href", "open", "rowspan", "start", "title"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  ...(policy && { TRUSTED_TYPES_POLICY: policy, RETURN_TRUSTED_TYPE: true }),
};

/** Queue of the worker; the first text is being parsed: [{text, done}]. */
const waiting = [];
let worker = null, isReady = false, isBroken = false, timer = 0;

/** Markup of a text; null if the text is beyond a limit. */
function parse(text) {
  return new Promise((done) => {
    waiting.push({ text, done });
    if (waiting.length === 1) next();
  });
}

function next() {
  clearTimeout(timer);
  if (!waiting.length) return;
  if (isBroken) { for (const one of waiting.splice(0)) one.done(null); return; }
  if (!worker) start();
  timer = setTimeout(isReady ? giveUp : breakDown, isReady ? MOST_PARSE_MS : MOST_START_MS);
  if (isReady) worker.postMessage(waiting[0].text);
}

function start() {
  worker = new Worker(policy ? policy.createScriptURL(WORKER) : WORKER, { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.isReady) { isReady = true; next(); }
    else end(data.html);
  };
  worker.onerror = breakDown;
}

function end(markup) {
  waiting.shift()?.done(markup);
  next();
}

function stop() {
  worker?.terminate();
  worker = null;
  isReady = false;
}

function giveUp() {
  stop();
  end(null);
}

function breakDown() {
  stop();
  isBroken = true;
  next();
}

/** Cache of short parsed texts, oldest first, so that they are drawn at once when they are drawn again. */
const known = new Map();
const MOST_KNOWN = 200;
const MOST_KNOWN_CHARS = 20_000;
function remember(text, clean) {
  if (text.length > MOST_KNOWN_CHARS) return;
  known.set(text, clean);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
}

export function Markdown({ text }) {
  const [done, setDone] = useState({ text: null, clean: null });
  const state = useRef({ isHere: true, isBusy: false, wants: text, last: null, tooMuch: null }).current;
  state.wants = text;
  const go = async () => {
    if (state.isBusy) return;
    state.isBusy = true;
    while (state.isHere && state.wants !== state.last) {
      const now = state.wants;
      state.last = now;
      // A text that extends one beyond a limit is beyond it as well: the answer of a running turn grows with every word.
      if (known.has(now) || now.length > MOST_CHARS || (state.tooMuch !== null && now.startsWith(state.tooMuch))) continue;
      const markup = await parse(now);
      if (markup === null) { state.tooMuch = now; continue; }
      const clean = purify.sanitize(markup, HARMLESS);
      remember(now, clean);
      if (state.isHere) setDone({ text: now, clean });
    }
    state.isBusy = false;
  };
  useEffect(() => { go(); }, [text]);
  useEffect(() => () => { state.isHere = false; }, []);
  // While a turn grows, the last markup is shown until the next is ready.
  const clean = known.get(text) ?? (done.text !== null && state.tooMuch === null && text.startsWith(done.text) ? done.clean : null);
  return clean === null ? html`<div class="md raw">${text}</div>` : html`<div class="md" dangerouslySetInnerHTML=${{ __html: clean }}></div>`;
}
