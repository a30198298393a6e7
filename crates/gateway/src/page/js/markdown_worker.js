// Parses Markdown away from the page: a text that takes too long is given up by ending this worker, and the page goes on.
import { marked } from "/assets/vendor/marked.js";

/** Deeper, or with more tags, and it is shown as text: laying it out would hold up the page. */
const MOST_DEPTH = 64;
const MOST_TAGS = 20_000;
const MOST_HTML_CHARS = 2_000_000;
const VOID = new Set(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]);

marked.use({ gfm: true, breaks: false });

/** Whether the page can take this: the tags are counted, those that an agent wrote as well as those of the parser. */
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
    html = marked.parse(data);
    if (!fits(html)) html = null;
  } catch { /* nested deeper than the stack: shown as text */ }
  postMessage({ html });
});
postMessage({ isReady: true });
