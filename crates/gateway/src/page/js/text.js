// Readable forms of an agent's work: diffs, and descriptions of tool calls.
import { html } from "./lib.js";

/** Lines of a unified diff, or null if the text is not one. */
function parseDiff(text) {
  if (!/^(@@ |diff --git |--- |\+\+\+ )/m.test(text) || !/^[-+]/m.test(text)) return null;
  const files = [];
  let file = null, a = 0, b = 0;
  // Without a hunk that says where it is, its lines have no numbers.
  const begin = (name) => { file = { name, lines: [] }; files.push(file); a = b = NaN; };
  for (const line of text.split("\n")) {
    const git = line.match(/^diff --git a\/(.*) b\//);
    const hunk = line.match(/^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)/);
    if (git) begin(git[1]);
    else if (line.startsWith("--- ")) { const name = line.slice(4).replace(/^a\//, ""); if (!file || file.lines.length) begin(name); else if (name !== "/dev/null") file.name ||= name; }
    else if (line.startsWith("+++ ")) { const name = line.slice(4).replace(/^b\//, ""); if (file && name !== "/dev/null") file.name = name; }
    else if (hunk) { if (!file) begin(""); a = +hunk[1]; b = +hunk[2]; if (file.lines.length) file.lines.push({ kind: "gap", text: "⋯" + hunk[3] }); }
    else if (!file) continue;
    else if (line.startsWith("+")) file.lines.push({ kind: "add", text: line.slice(1), b: b++ });
    else if (line.startsWith("-")) file.lines.push({ kind: "del", text: line.slice(1), a: a++ });
    else if (line.startsWith(" ")) file.lines.push({ kind: "same", text: line.slice(1), a: a++, b: b++ });
  }
  return files.some((one) => one.lines.length) ? files : null;
}

/** Lines of a change in a question, as drivers write it: the file on a line, then removed and added lines. Null if it is not a change. */
export function parseAsked(text) {
  const files = [];
  for (const line of text.split("\n")) {
    if (/^[-+]/.test(line) && files.length) files[files.length - 1].lines.push({ kind: line[0] === "+" ? "add" : "del", text: line.slice(1) });
    // Two tests instead of one pattern, which would take quadratic time on a long line.
    else if (/[./]/.test(line) && !/\s/.test(line)) files.push({ name: line, lines: [] });
    else return parseDiff(text);
  }
  return files.length && files.every((file) => file.lines.length) ? files : parseDiff(text);
}

/** Summary of a question on one line: of a change the file. */
export function oneLine(text) {
  const files = parseAsked(text);
  return files ? files.map((file) => file.name || "a file").join(", ") : text.replace(/\s+/g, " ").trim();
}

/** Lines that differ between two texts, with a little context; with numbers only if both are whole files. */
function compare(name, before, after, isWhole) {
  const a = before === "" ? [] : before.replace(/\n$/, "").split("\n"), b = after === "" ? [] : after.replace(/\n$/, "").split("\n");
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const lines = [];
  for (let i = Math.max(0, head - 3); i < head; i++) lines.push({ kind: "same", text: a[i], a: i + 1, b: i + 1 });
  lines.push(...middle(x, y, head));
  for (let i = 0; i < Math.min(3, tail); i++) lines.push({ kind: "same", text: a[a.length - tail + i], a: a.length - tail + i + 1, b: b.length - tail + i + 1 });
  return [{ name, lines: isWhole ? lines : lines.map(({ kind, text }) => ({ kind, text })) }];
}

/** Longest common lines. For large texts all lines count as changed: the table would be n × m. */
const MOST_CELLS = 1_000_000;
function middle(x, y, from) {
  const out = [];
  let i = 0, j = 0;
  if (x.length * y.length <= MOST_CELLS && x.length && y.length) {
    const width = y.length + 1, best = new Uint32Array((x.length + 1) * width);
    for (let r = x.length - 1; r >= 0; r--) for (let c = y.length - 1; c >= 0; c--) best[r * width + c] = x[r] === y[c] ? best[(r + 1) * width + c + 1] + 1 : Math.max(best[(r + 1) * width + c], best[r * width + c + 1]);
    while (i < x.length && j < y.length) {
      if (x[i] === y[j]) { out.push({ kind: "same", text: x[i], a: from + i + 1, b: from + j + 1 }); i++; j++; }
      else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) { out.push({ kind: "del", text: x[i], a: from + i + 1 }); i++; }
      else { out.push({ kind: "add", text: y[j], b: from + j + 1 }); j++; }
    }
  }
  for (; i < x.length; i++) out.push({ kind: "del", text: x[i], a: from + i + 1 });
  for (; j < y.length; j++) out.push({ kind: "add", text: y[j], b: from + j + 1 });
  return out;
}

const MOST_LINES = 1500;
export function Diff({ files, bare }) {
  return files.map((file) => {
    const { plus, minus } = tally([file]);
    const shown = file.lines.slice(0, MOST_LINES);
    return html`<div class="diff" tabindex="0" role="region" aria-label=${`changes in ${file.name || "a file"}: ${plus} lines added, ${minus} removed`}>
      ${!bare && html`<div class="file"><span class="cut grow">${file.name || "changes"}</span><span class="plus">+${plus}</span><span class="minus">−${minus}</span></div>`}
      <div class="lines">${shown.map((line) => html`<div class=${"l " + line.kind}><span class="no">${line.a || ""}</span><span class="no">${line.b || ""}</span><span class="sign">${{ add: "+", del: "−" }[line.kind] || " "}</span><span class="code">${line.text || " "}</span></div>`)}</div>
      ${shown.length < file.lines.length && html`<div class="file">${file.lines.length - shown.length} more lines</div>`}
    </div>`;
  });
}
export function tally(files) {
  const lines = files.flatMap((file) => file.lines);
  return { plus: lines.filter((line) => line.kind === "add").length, minus: lines.filter((line) => line.kind === "del").length };
}

const json = (text) => { try { const value = JSON.parse(text); return value && typeof value === "object" ? value : null; } catch { return null; } };

/** Description of a tool call: one line, its changes if it makes any, and its input for reading. */
export function understand(item) {
  const given = typeof item.input === "string" ? json(item.input) : item.input;
  const raw = typeof item.input === "string" ? item.input : item.input == null ? "" : JSON.stringify(item.input, null, 2);
  let files = null;
  if (item.diffs?.length) files = item.diffs.flatMap((diff) => (diff.unified ? (parseDiff(`--- ${diff.path}\n+++ ${diff.path}\n${diff.unified.replace(/^(diff --git|index|---|\+\+\+) .*\n/gm, "")}`) ?? []) : compare(diff.path || "", diff.old ?? "", diff.new ?? "", diff.whole)));
  else if (given && typeof given.old_string === "string") files = compare(given.file_path || given.path || "", given.old_string, given.new_string || "");
  else if (given && Array.isArray(given.edits)) files = given.edits.flatMap((edit) => compare(given.file_path || "", edit.old_string || "", edit.new_string || ""));
  else if (given && typeof given.content === "string" && (given.file_path || given.path)) files = compare(given.file_path || given.path, "", given.content, true);
  else files = parseDiff(raw) || (item.output ? parseDiff(item.output) : null);
  const line = given ? given.command ?? given.cmd ?? given.file_path ?? given.path ?? given.pattern ?? given.query ?? given.url ?? given.description ?? given.prompt : raw;
  // A summary that only repeats the input says less than the object of the input.
  const told = item.summary && !item.summary.startsWith("{") ? item.summary : "";
  const first = told || String(Array.isArray(line) ? line.join(" ") : line ?? "").split("\n")[0].slice(0, 300);
  const pretty = item.given || (given ? JSON.stringify(given, null, 2) : raw);
  return { line: first, files: files?.length ? files : null, input: pretty };
}
