// Signing in, a link for another device, and the list of keys.
import { html, use, useState } from "./lib.js";
import { login, post, signedIn, signedOut } from "./api.js";
import { begin } from "./store.js";
import { Cmd, Dialog, ProblemBox } from "./parts.js";
import { resume } from "./outbox.js";

export function SignIn() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const why = use(signedOut);
  const submit = async (event) => {
    event.preventDefault();
    if (busy || !token.trim()) return;
    setBusy(true);
    setProblem(null);
    try {
      await login(token.trim());
      await begin();
      resume();
    } catch (error) {
      setProblem(error);
      signedIn.set(false);
    }
    setBusy(false);
  };
  return html`<main class="gate"><form onSubmit=${submit}><div class="brand"><img src="/assets/icon.svg" alt="" />berth</div>
    <h1>Sign in</h1><p>This gateway on <b>${location.host}</b> needs a login. On its host, the first command prints a link that signs you in; the second makes a token:</p>
    <div class="field cmds"><${Cmd} text="berth link" /><${Cmd} text="berth token new --scope control --name phone" /></div>
    <${ProblemBox} problem=${problem ?? (why && { title: "You were signed out", detail: `${why.title}. The login was revoked or has expired.` })} />
    <div class="field"><label class="lab" for="token">Token</label><input class="f mono" id="token" type="password" autocomplete="current-password" autofocus value=${token} onInput=${(e) => setToken(e.target.value)} /></div>
    <button class="b main" disabled=${busy || !token.trim()}>${busy ? "Signing in …" : "Sign in"}</button></form></main>`;
}

/** Scopes of a link, with the rights of each. */
const SCOPES = [["read", "Read", "see sessions"], ["send", "Send", "see, start and prompt agents"], ["control", "Control", "also answer, type and stop"]];
/** Light modules around a QR code, which a camera needs. */
const QUIET = 4;

/** A QR code: rows of modules, `#` is dark. */
function QrCode({ rows }) {
  const size = rows.length + 2 * QUIET;
  const path = rows.flatMap((row, y) => [...row.matchAll(/#+/g)].map((run) => `M${run.index + QUIET} ${y + QUIET}h${run[0].length}v1h-${run[0].length}z`)).join("");
  return html`<svg class="qr" viewBox=${`0 0 ${size} ${size}`} role="img" aria-label="QR code of the link" shape-rendering="crispEdges"><rect width=${size} height=${size} fill="#fff" /><path d=${path} fill="#000" /></svg>`;
}

/** Makes a link that signs another device in. */
export function LinkDevice({ onClose }) {
  const [scope, setScope] = useState("control");
  const [made, setMade] = useState(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const isHere = /^(localhost|127\.|\[::1\]|.*\.localhost$)/.test(location.hostname);
  const make = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try { setMade(await post("/v1/links", { scope })); } catch (error) { setProblem(error); }
    setBusy(false);
  };
  if (made) return html`<${Dialog} title="Link for another device" lead="It signs one browser in, once, within 10 minutes. Scan the code or open the address there." onClose=${onClose}>
    ${made.qr.length > 0 && html`<${QrCode} rows=${made.qr} />`}<${Cmd} text=${made.url} />
    ${isHere && html`<p class="hint">This address only works on this machine: open this page by a name that the other device can reach, and make the link there.</p>`}
    <div class="acts"><button class="b" autofocus onClick=${onClose}>Close</button></div></${Dialog}>`;
  return html`<${Dialog} title="Link for another device" lead="The link signs one browser in, once." onClose=${onClose}><form onSubmit=${make}><${ProblemBox} problem=${problem} />
    <div class="field"><span class="lab" id="scope-lab">The other device may</span><div class="choices" role="radiogroup" aria-labelledby="scope-lab">${SCOPES.map(([id, name, about]) => html`<button type="button" role="radio" class="choice" aria-checked=${scope === id ? "true" : "false"} onClick=${() => setScope(id)}><b>${name}</b><span>${about}</span></button>`)}</div></div>
    <div class="acts"><button type="button" class="b" onClick=${onClose}>Cancel</button><button class="b main" disabled=${busy}>${busy ? "Making the link …" : "Make the link"}</button></div></form></${Dialog}>`;
}

const KEYS = [["j  k", "next or previous session"], ["Enter", "open the session"], ["n", "next session that needs you"], ["/", "find"], ["m", "write a prompt"], ["1 … 9", "answer the open question"], ["c", "new session"], ["i", "details"], ["x", "stop"], ["e", "archive"], ["r", "resume"], ["t", "light or dark"], ["g l", "to the list"], ["Escape", "back"], ["?", "this list"]];
export const Help = ({ onClose }) => html`<${Dialog} title="Keys" extra="keys" onClose=${onClose}><dl>${KEYS.map(([keys, about]) => html`<dt>${keys.split(/\s+/).map((one) => (one === "…" ? " … " : html`<kbd>${one}</kbd> `))}</dt><dd>${about}</dd>`)}</dl><div class="acts"><button class="b" autofocus onClick=${onClose}>Close</button></div></${Dialog}>`;
