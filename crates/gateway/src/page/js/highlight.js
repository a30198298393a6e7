// Colours for code: a scanner of a few lines for the languages that agents write most. It runs in the worker and in the page.
//
// Promise: linear time. Each pattern either matches where the scanner stands or fails within that token, and a comment or
// string that never ends is taken to the end of the text.

/** Longer pieces of code stay plain. */
export const MOST_CODE_CHARS = 50_000;

const words = (text) => new Set(text.split(" "));
const C_LIKE = words("abstract as async await auto bool boolean break byte case catch char class const constexpr continue crate def default defer delete do double dyn else enum explicit export extends extern final finally float fn for friend from func function go goto if impl implements import in inline instanceof int interface internal is let long loop map match mod module move mut namespace new null nullptr of override package private protected pub public range readonly ref register return self short sizeof static struct super switch template this throw throws trait try type typedef typename typeof undefined union unsafe unsigned use using val var virtual void volatile when where while with yield true false None Some Ok Err nil");
const SCRIPT = words("and as assert async await begin break case class continue def del do done elif else elsif end ensure esac except exec exit export fi finally for from function global if import in is lambda local module nonlocal not or pass raise readonly require rescue return select self set shift source then try unless unset until when while with yield true false True False None nil null yes no");
const SQL = words("add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists explain foreign from full grant group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then transaction truncate union unique update using values view when where with true false");
const DATA = words("true false null");

const STRING = String.raw`"(?:\\[\s\S]|[^"\\\n])*"?`;
const CHARS = String.raw`'(?:\\[\s\S]|[^'\\\n])*'?`;
const TICKS = String.raw`\x60(?:\\[\s\S]|[^\x60\\])*\x60?`;
const BLOCK = String.raw`\/\*[\s\S]*?(?:\*\/|$)`;
const SLASHES = String.raw`\/\/.*`;
// Only where a word may begin: ${#name} and a#b are not comments.
const HASH = String.raw`(?<![^\s;|(])#.*`;
const NUMBER = String.raw`(?<![\w$])\d[\w.]*`;
const WORD = String.raw`[A-Za-z_$@][\w$]*[!?]?`;

/** A language: keywords and the patterns of comments and strings; `fold` where upper and lower case are the same. */
const language = (keywords, comment, string, { fold = false } = {}) => ({ keywords, fold, token: new RegExp(`(?<c>${comment})|(?<s>${string})|(?<n>${NUMBER})|(?<w>${WORD})`, "g") });
const NEVER = "(?!)";
const cLike = language(C_LIKE, `${BLOCK}|${SLASHES}`, `${STRING}|${CHARS}|${TICKS}`);
// 'a is a lifetime, 'a' a character.
const rust = language(C_LIKE, `${BLOCK}|${SLASHES}`, String.raw`${STRING}|'(?:\\[^'\n]{1,10}|[^'\\\n])'`);
const python = language(SCRIPT, HASH, String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|${STRING}|${CHARS}`);
const script = language(SCRIPT, HASH, `${STRING}|${CHARS}`);
// A command that a user decides on: no part of it is drawn as a comment, because a mistake here would hide code that runs.
const command = language(SCRIPT, NEVER, `${STRING}|${CHARS}`);
const sql = language(SQL, String.raw`--.*|${BLOCK}`, `${STRING}|${CHARS}`, { fold: true });
const data = language(DATA, NEVER, STRING);
const css = language(words("important media supports keyframes import from to"), BLOCK, `${STRING}|${CHARS}`);
const markup = language(words("doctype"), String.raw`<!--[\s\S]*?(?:-->|$)`, `${STRING}|${CHARS}`, { fold: true });

const LANGUAGES = Object.fromEntries([
  [cLike, "js javascript mjs jsx ts typescript tsx c h cc cpp c++ cs csharp java kotlin kt swift scala go golang php dart zig proto"],
  [rust, "rust rs"], [python, "python py"], [script, "sh bash zsh shell fish ruby rb yaml yml toml ini make makefile dockerfile perl elixir r nix hcl terraform"],
  [command, "command"], [sql, "sql postgresql sqlite mysql"], [data, "json jsonc json5 jsonl"], [css, "css scss less"], [markup, "html xml svg vue"],
].flatMap(([one, names]) => names.split(" ").map((name) => [name, one])));

/** Pieces of a text in order, [class or null, text]; null if the language is not known or the text is too long. */
export function pieces(code, name) {
  const word = String(name || "").toLowerCase().split(/[\s,{:]/)[0];
  if (code.length > MOST_CODE_CHARS) return null;
  if (word === "diff" || word === "patch") return code.split(/(?<=\n)/).map((line) => [line.startsWith("+") ? "h-s" : line.startsWith("-") ? "h-k" : line.startsWith("@@") ? "h-f" : null, line]);
  const is = Object.hasOwn(LANGUAGES, word) && LANGUAGES[word];
  if (!is) return null;
  const found = [];
  let done = 0;
  for (const match of code.matchAll(is.token)) {
    const { c, s, n, w } = match.groups, at = match.index, text = match[0];
    const kind = c !== undefined ? "h-c" : s !== undefined ? "h-s" : n !== undefined ? "h-n" : classOf(is, w, code[at + text.length]);
    if (!kind) continue;
    if (at > done) found.push([null, code.slice(done, at)]);
    found.push([kind, text]);
    done = at + text.length;
  }
  if (done < code.length) found.push([null, code.slice(done)]);
  return found;
}

/** Class of a word: a keyword, a function (a bracket follows), or a type (a capital letter first). */
function classOf(is, word, next) {
  if (is.keywords.has(is.fold ? word.toLowerCase() : word)) return "h-k";
  if (is === data || is === markup) return null;
  return next === "(" || (/^[A-Z]/.test(word) && /[a-z]/.test(word)) ? "h-f" : null;
}
