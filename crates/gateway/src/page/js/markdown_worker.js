// Parses Markdown away from the page: a text that takes too long is given up by ending this worker, and the page goes on.
import { marked } from "/assets/vendor/marked.js";
import { pieces } from "./highlight.js";

/** Limits of nesting and of tags: laying out more would block the page, so such a text is shown as plain text. */
const MOST_DEPTH = 64;
const MOST_TAGS = 20_000;
const MOST_HTML_CHARS = 2_000_000;
const VOID = new Set(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]);

/** Limit of coloured code in one text: code beyond it stays plain, so that tags and time stay within their limits. */
const MOST_COLOURED_CHARS = 100_000;
let coloured = 0;
const escaped = (text) => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);

/** Coloured block of code; false leaves it to the parser. */
function code({ text, lang }) {
  coloured += text.length;
  const found = coloured <= MOST_COLOURED_CHARS && pieces(text, lang);
  return found && `<pre><code>${found.map(([kind, piece]) => (kind ? `<span class="${kind}">${escaped(piece)}</span>` : escaped(piece))).join("")}\n</code></pre>\n`;
}

marked.use({ gfm: true, breaks: false, renderer: { code } });

/** True if the page can lay this out: counts the tags of the parser and those that an agent wrote. */
function fits(html) {
  if (html.length > MOST_HTML_CHARS) return false;
  // Counted for each name: an end tag of an element that is not open closes nothing (`<div></i>`).
  const open = new Map();
  let depth = 0, tags = 0;
  for (const [, end, written] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)/gi)) {
    const name = written.toLowerCase(), count = open.get(name) ?? 0;
    if (end && count > 0) { open.set(name, count - 1); depth -= 1; }
    if (!end && !VOID.has(name)) { open.set(name, count + 1); depth += 1; }
    tags += 1;
    if (depth > MOST_DEPTH || tags > MOST_TAGS) return false;
  }
  return true;
}

addEventListener("message", ({ data }) => {
  let html = null;
  try {
    coloured = 0;
    html = marked.parse(data);
    if (!fits(html)) {
      // The colours may be the reason that the text is beyond the limits.
      coloured = MOST_COLOURED_CHARS;
      html = marked.parse(data);
    }
    if (!fits(html)) html = null;
  } catch { /* nested deeper than the stack: shown as text */ }
  postMessage({ html });
});
postMessage({ isReady: true });
