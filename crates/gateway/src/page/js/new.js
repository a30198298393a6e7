// Starting a session, here or on another host.
import { html, use, useEffect, useRef, useState, mint, kept, place } from "./lib.js";
import { get, post, under } from "./api.js";
import { address, go, hosts, learn } from "./store.js";
import { Dialog, ProblemBox } from "./parts.js";
import { send } from "./outbox.js";

/** Last choices of the user: the host, and for each host the agent and the directory. */
const LAST = "berth.new";
/** Entry in place of an agent: any command. */
const COMMAND = "-";
/** Number of directories with a button of their own; the others are suggested while the user types. */
const MOST_SHOWN_DIRS = 4;
/** Timeout for a new session, which is answered once its agent runs. */
const START_WAIT_MS = 60_000;

export function NewSession({ onClose }) {
  const around = use(hosts);
  const before = useRef(kept.get(LAST) || {}).current;
  const choices = (host) => before.on?.[host] || {};
  const [host, setHost] = useState(() => (around.some((one) => one.name === before.host && !one.away) ? before.host : ""));
  const [agents, setAgents] = useState(null);
  const [dirs, setDirs] = useState([]);
  const [tui, setTui] = useState(!!choices(host).tui);
  const [agent, setAgent] = useState(choices(host).agent || "");
  const [cwd, setCwd] = useState(choices(host).cwd || "");
  const [name, setName] = useState("");
  const [command, setCommand] = useState("");
  const [prompt, setPrompt] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const underway = useRef(false);
  // One idempotency key for the contents of the form: sent twice, it still makes one session. The key also stays after a refusal, which may come after the session was made (its first turn was not accepted).
  const sent = useRef({});
  useEffect(() => {
    const stop = new AbortController();
    setAgents(null);
    setProblem(null);
    get(`${under(host)}/agents`, { signal: stop.signal }).then(({ agents: all }) => {
      setAgents(all);
      setAgent((now) => (all.some((one) => one.name === now && one.installed) || now === COMMAND ? now : all.find((one) => one.installed)?.name || COMMAND));
    }, (error) => {
      if (stop.signal.aborted) return;
      setAgents([]);
      setAgent(COMMAND);
      setProblem(error);
    });
    setDirs([]);
    // Suggestions are optional: without them a directory can be typed.
    get(`${under(host)}/directories`, { signal: stop.signal }).then(({ directories }) => setDirs(directories), () => {});
    return () => stop.abort();
  }, [host]);
  // The choice between chat and the agent's own interface: only if the agent has both.
  const chosen = (agents || []).find((one) => one.name === agent);
  const hasBoth = !!chosen?.tui && chosen.driver !== "pty";
  const isTui = hasBoth && tui;
  const move = (next) => {
    setHost(next);
    setAgent(choices(next).agent || "");
    // A directory of one host is seldom one of another.
    setCwd(choices(next).cwd || "");
    setTui(!!choices(next).tui);
  };
  const submit = async (event) => {
    event.preventDefault();
    if (underway.current || !agents) return;
    underway.current = true;
    setBusy(true);
    setProblem(null);
    const body = { ...(name.trim() && { name: name.trim() }), ...(cwd.trim() && { cwd: cwd.trim() }), ...(agent === COMMAND ? { command: ["sh", "-c", command] } : { agent, ...(isTui ? { tui: true } : prompt.trim() && { prompt }) }) };
    const form = JSON.stringify([host, body]);
    if (sent.current.form !== form) sent.current = { form, key: mint() };
    try {
      const made = await post(`${under(host)}/sessions`, body, { headers: { "Idempotency-Key": sent.current.key }, timeout: START_WAIT_MS });
      kept.set(LAST, { host, on: { ...before.on, [host]: { agent, cwd: cwd.trim(), tui } } });
      learn(made.session);
      // An agent in its own interface is given its first prompt once it runs.
      if (isTui && prompt.trim()) send(made.session.id, { text: prompt, key: `${sent.current.key}-prompt` }, "queue");
      onClose();
      go(address(made.session));
    } catch (error) {
      setProblem(error);
    }
    underway.current = false;
    setBusy(false);
  };
  const radio = (isChosen, choose, title, about) => html`<button type="button" role="radio" class="choice" aria-checked=${isChosen ? "true" : "false"} onClick=${choose}><b>${title}</b><span>${about}</span></button>`;
  const choice = (id, title, about) => radio(agent === id, () => setAgent(id), title, about);
  const missing = (agents || []).filter((one) => !one.installed).map((one) => one.name);
  return html`<${Dialog} title="New session" onClose=${onClose}><form onSubmit=${submit} style="margin-top:14px"><${ProblemBox} problem=${problem} />
    ${around.length > 0 && html`<div class="field"><label class="lab" for="new-host">Host</label><select class="f" id="new-host" value=${host} onChange=${(e) => move(e.target.value)}>
      <option value="">This host (${location.hostname})</option>${around.map((one) => html`<option value=${one.name} disabled=${!!one.away}>${one.name}${one.away ? " (cannot be reached)" : ""}</option>`)}</select></div>`}
    <div class="field"><span class="lab" id="agent-lab">Agent</span><div class="choices" role="radiogroup" aria-labelledby="agent-lab" aria-busy=${agents ? "false" : "true"}>
      ${(agents || []).filter((one) => one.installed).map((one) => choice(one.name, one.name, one.version || one.about || one.driver))}${agents ? choice(COMMAND, "A command", "any program, in a terminal") : html`<div class="choice skel"></div>`}</div>
      ${missing.length > 0 && html`<p class="hint">Not installed ${host ? `on ${host}` : "here"}: ${missing.join(", ")}. <code>berth agents</code> says how to get them.</p>`}</div>
    ${hasBoth && html`<div class="field"><span class="lab" id="interface-lab">Interface</span><div class="choices" role="radiogroup" aria-labelledby="interface-lab">${radio(!tui, () => setTui(false), "Chat", "prompts and answers on this page")}${radio(tui, () => setTui(true), "Own interface", `the terminal interface of ${agent}`)}</div></div>`}
    <div class="field"><label class="lab" for="new-cwd">Directory</label><input class="f mono" id="new-cwd" list="new-dirs" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder=${host ? `your home directory on ${host}` : "the directory of the gateway"} value=${cwd} onInput=${(e) => setCwd(e.target.value)} />
      <datalist id="new-dirs">${dirs.map((dir) => html`<option value=${dir}></option>`)}</datalist>
      ${dirs.length > 0 && html`<div class="dirs" role="group" aria-label="recent directories">${dirs.slice(0, MOST_SHOWN_DIRS).map((dir) => html`<button type="button" class="b bare small" aria-pressed=${cwd === dir ? "true" : "false"} title=${dir} onClick=${() => setCwd(dir)}><span class="cut mono">${place(dir)}</span></button>`)}</div>`}</div>
    ${agent === COMMAND ? html`<div class="field"><label class="lab" for="new-command">Command</label><input class="f mono" id="new-command" required autofocus autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="cargo test" value=${command} onInput=${(e) => setCommand(e.target.value)} /></div>`
      : html`<div class="field"><label class="lab" for="new-prompt">Prompt</label><textarea class="f" id="new-prompt" rows="4" autofocus placeholder="Find out why the login fails, and fix it." value=${prompt} onInput=${(e) => setPrompt(e.target.value)}></textarea></div>`}
    <div class="field"><label class="lab" for="new-name">Name <span class="dimmer" style="font-weight:400">(optional)</span></label><input class="f" id="new-name" autocomplete="off" autocapitalize="off" spellcheck="false" placeholder="fix-login" value=${name} onInput=${(e) => setName(e.target.value)} /></div>
    <div class="acts"><button type="button" class="b" onClick=${onClose}>Cancel</button><button class="b main" aria-disabled=${busy ? "true" : "false"}>${busy ? "Starting …" : "Start"}</button></div></form></${Dialog}>`;
}
