// Signing in, starting a session, the list of keys.
import { html, use, useEffect, useRef, useState, mint, kept } from "./lib.js";
import { get, login, post, signedIn, signedOut } from "./api.js";
import { address, begin, go, learn } from "./store.js";
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
    <h1>Sign in</h1><p>This gateway on <b>${location.host}</b> wants a token. Whoever runs it makes one:</p>
    <div class="field"><${Cmd} text="berth token new --scope control --name phone" /></div>
    <${ProblemBox} problem=${problem ?? (why && { title: "You were signed out", detail: `${why.title}. The login was revoked, or its time is over.` })} />
    <div class="field"><label class="lab" for="token">Token</label><input class="f mono" id="token" type="password" autocomplete="current-password" autofocus value=${token} onInput=${(e) => setToken(e.target.value)} /></div>
    <button class="b main" disabled=${busy || !token.trim()}>${busy ? "Signing in …" : "Sign in"}</button></form></main>`;
}

const LAST = "berth.new";
export function NewSession({ onClose }) {
  const before = kept.get(LAST) || {};
  const [agents, setAgents] = useState(null);
  const [agent, setAgent] = useState(before.agent || "");
  const [cwd, setCwd] = useState(before.cwd || "");
  const [name, setName] = useState("");
  const [command, setCommand] = useState("");
  const [prompt, setPrompt] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  // One key for one form: sent twice, it is still one session.
  const key = useRef(mint());
  useEffect(() => {
    get("/v1/agents").then((answer) => {
      const all = Array.isArray(answer) ? answer : answer.agents;
      setAgents(all);
      setAgent((now) => (all.some((one) => one.name === now && one.installed) || now === "-" ? now : all.find((one) => one.installed)?.name || "-"));
    }, (error) => { setAgents([]); setAgent("-"); setProblem(error); });
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setProblem(null);
    const body = { ...(name.trim() && { name: name.trim() }), ...(cwd.trim() && { cwd: cwd.trim() }), ...(agent === "-" ? { command: ["sh", "-c", command] } : { agent, ...(prompt.trim() && { prompt }) }) };
    try {
      const made = await post("/v1/sessions", body, { headers: { "Idempotency-Key": key.current }, timeout: 60_000 });
      kept.set(LAST, { agent, cwd: cwd.trim() });
      learn(made.session);
      onClose();
      go(address(made.session));
    } catch (error) {
      setProblem(error);
      // A refusal made nothing, so what is changed now is another request; silence may have made it: same key again.
      if (!error.isAway) key.current = mint();
    }
    setBusy(false);
  };
  const choice = (id, title, about, disabled) => html`<button type="button" role="radio" class="choice" aria-checked=${agent === id ? "true" : "false"} disabled=${disabled} onClick=${() => setAgent(id)}><b>${title}</b><span>${about}</span></button>`;
  return html`<${Dialog} title="New session" onClose=${onClose}><form onSubmit=${submit} style="margin-top:14px"><${ProblemBox} problem=${problem} />
    <div class="field"><span class="lab" id="agent-lab" style="display:block;font-weight:500;margin-bottom:6px">Agent</span><div class="choices" role="radiogroup" aria-labelledby="agent-lab">
      ${(agents || []).filter((one) => one.installed).map((one) => choice(one.name, one.name, one.version || one.about || one.driver))}${choice("-", "A command", "any program, in a terminal")}</div>
      ${agents && agents.some((one) => !one.installed) && html`<p class="hint">Not installed here: ${agents.filter((one) => !one.installed).map((one) => one.name).join(", ")}. <code>berth agents</code> says how to get them.</p>`}</div>
    <div class="field"><label class="lab" for="new-cwd">Directory</label><input class="f mono" id="new-cwd" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="where the gateway was started" value=${cwd} onInput=${(e) => setCwd(e.target.value)} /></div>
    ${agent === "-" ? html`<div class="field"><label class="lab" for="new-command">Command</label><input class="f mono" id="new-command" required autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="cargo test" value=${command} onInput=${(e) => setCommand(e.target.value)} /></div>`
      : html`<div class="field"><label class="lab" for="new-prompt">What should it do?</label><textarea class="f" id="new-prompt" rows="4" placeholder="Find out why the login fails, and mend it." value=${prompt} onInput=${(e) => setPrompt(e.target.value)}></textarea></div>`}
    <div class="field"><label class="lab" for="new-name">Name <span class="dimmer" style="font-weight:400">(if you like)</span></label><input class="f" id="new-name" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="fix-login" value=${name} onInput=${(e) => setName(e.target.value)} /></div>
    <div class="acts"><button type="button" class="b" onClick=${onClose}>Cancel</button><button class="b main" disabled=${busy}>${busy ? "Starting …" : "Start"}</button></div></form></${Dialog}>`;
}

export const KEYS = [["j  k", "next, previous session"], ["Enter", "open it"], ["n", "the next one that needs you"], ["/", "find"], ["m", "write a message"], ["1 … 9", "answer the question that is asked"], ["c", "new session"], ["i", "details"], ["x", "stop"], ["e", "archive"], ["r", "resume"], ["t", "light, dark"], ["g l", "to the list"], ["Escape", "back"], ["?", "this"]];
export const Help = ({ onClose }) => html`<${Dialog} title="Keys" extra="keys" onClose=${onClose}><dl>${KEYS.map(([keys, about]) => html`<dt>${keys.split(/\s+/).map((one) => (one === "…" ? " … " : html`<kbd>${one}</kbd> `))}</dt><dd>${about}</dd>`)}</dl><div class="acts"><button class="b" autofocus onClick=${onClose}>Close</button></div></${Dialog}>`;
