// Signing in, and the list of keys.
import { html, use, useState } from "./lib.js";
import { login, signedIn, signedOut } from "./api.js";
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
    <h1>Sign in</h1><p>This gateway on <b>${location.host}</b> wants a token. Whoever runs it makes one, or a link that signs you in:</p>
    <div class="field cmds"><${Cmd} text="berth token new --scope control --name phone" /><${Cmd} text="berth link" /></div>
    <${ProblemBox} problem=${problem ?? (why && { title: "You were signed out", detail: `${why.title}. The login was revoked, or its time is over.` })} />
    <div class="field"><label class="lab" for="token">Token</label><input class="f mono" id="token" type="password" autocomplete="current-password" autofocus value=${token} onInput=${(e) => setToken(e.target.value)} /></div>
    <button class="b main" disabled=${busy || !token.trim()}>${busy ? "Signing in …" : "Sign in"}</button></form></main>`;
}

const KEYS = [["j  k", "next, previous session"], ["Enter", "open it"], ["n", "the next one that needs you"], ["/", "find"], ["m", "write a message"], ["1 … 9", "answer the question that is asked"], ["c", "new session"], ["i", "details"], ["x", "stop"], ["e", "archive"], ["r", "resume"], ["t", "light, dark"], ["g l", "to the list"], ["Escape", "back"], ["?", "this"]];
export const Help = ({ onClose }) => html`<${Dialog} title="Keys" extra="keys" onClose=${onClose}><dl>${KEYS.map(([keys, about]) => html`<dt>${keys.split(/\s+/).map((one) => (one === "…" ? " … " : html`<kbd>${one}</kbd> `))}</dt><dd>${about}</dd>`)}</dl><div class="acts"><button class="b" autofocus onClick=${onClose}>Close</button></div></${Dialog}>`;
