// One session: head, tabs, and actions.
import { html, use, useEffect, useNow, useRef, useState, ago, capital, place } from "./lib.js";
import { icon, stateIcon, stateWord } from "./icons.js";
import { at, download, get, may, patch, post, ask, split } from "./api.js";
import { address, attempt, go, hasTerminal, href, isOver, kindOf, learn, route, sessions, shownState, takesTurns, tell, title } from "./store.js";
import { AskText, Menu, Sure, Words } from "./parts.js";
import { useFollow } from "./follow.js";
import { Transcript } from "./transcript.js";
import { Asks } from "./ask.js";
import { Composer } from "./composer.js";
import { Terminal } from "./terminal.js";
import { Details, evidenceOpen } from "./details.js";

/** The session that the address names; loaded if the list does not have it. */
export function useStatus(named) {
  const all = use(sessions);
  const [problem, setProblem] = useState(null);
  const last = useRef({});
  let found = all && named ? all.get(named) || [...all.values()].find((status) => address(status) === named) : null;
  if (found) last.current = { named, id: found.id };
  // The session was renamed while it was loaded.
  else if (all && last.current.named === named) found = all.get(last.current.id);
  const has = !!found, name = found && address(found);
  useEffect(() => {
    setProblem(null);
    if (has && named !== found.id && named !== name) location.replace(href(name, route.get().tab));
    if (!named || has || all === null) return undefined;
    let gone = false;
    get(at(named)).then(learn, (trouble) => { if (!gone) setProblem(trouble); });
    return () => { gone = true; };
  }, [named, has, name, all === null]);
  return { status: found, problem };
}

export function Session({ named, tab, details, setDetails, setDialog, isWide }) {
  const { status, problem } = useStatus(named);
  if (problem) return html`<main class="pane middle"><header class="head"><a class="b bare icon back" href="#/" aria-label="back to the list">${icon("back")}</a></header><div class="empty">${icon("warn", "big")}<h2><${Words} text=${problem.title} /></h2><p><${Words} text=${problem.detail} /></p><a class="b" href="#/">To the list</a></div></main>`;
  if (!status) return html`<main class="pane middle" aria-busy="true"><div class="talk"><div class="skel" style="width:40%"></div><div class="skel"></div></div></main>`;
  return html`<${Known} key=${status.id} status=${status} tab=${tab} details=${details} setDetails=${setDetails} setDialog=${setDialog} isWide=${isWide} />`;
}

function Known({ status, tab, details, setDetails, setDialog, isWide }) {
  const talks = takesTurns(status);
  // An agent in its own interface may keep a record that can be read, also where it takes no turns.
  const reads = talks || (!!status.agent && !!status.conversation_id);
  const follow = useFollow(status, reads);
  const [menu, setMenu] = useState(false);
  // Keys and messages are two ways to say something, and one box is enough.
  const [types, setTypes] = useState(false);
  const turn = use(route).turn, now = useNow();
  const screen = hasTerminal(status);
  const tabs = [screen && ["term", "Terminal"], reads && ["chat", "Transcript"], !isWide && ["details", "Details"]].filter(Boolean);
  const shown = tabs.some(([id]) => id === tab) ? tab : tabs[0][0];
  const verbs = actions(status, setDialog);
  useEffect(() => {
    document.title = `${title(status)} · berth`;
  }, [title(status)]);
  const cancel = () => attempt(async () => {
    const current = status.turns?.current;
    await post(at(status.id, `/turns/${encodeURIComponent(current.split(".").pop())}/cancel`));
    tell("good", "Asked the agent to interrupt the turn");
  });
  return html`<main class="pane middle" aria-label=${`session ${title(status)}`}>
    <header class="head"><a class="b bare icon back" href="#/" aria-label="back to the list">${icon("back")}</a>
      <div class="title"><h1><span class="cut">${title(status)}</span></h1><div class="sub cut">${[status.host, kindOf(status), place(status.cwd), status.branch].filter(Boolean).join(" · ")}</div></div>
      <button class=${"st pill " + shownState(status)} title="Evidence behind this state" aria-label=${`${stateWord(shownState(status))}: show the evidence`} style="min-height:var(--tap)" onClick=${() => { evidenceOpen.set(true); if (isWide) setDetails(true); else go(address(status), "details"); }}>${stateIcon(shownState(status))}<span>${stateWord(shownState(status))}</span></button>
      ${may("send") && status.turns?.current && html`<button class="b small" onClick=${cancel} aria-label="interrupt the running turn" title="Interrupt the running turn">${icon("stop")}<span class="keys-only">Interrupt</span></button>`}
      ${may("send") && isOver(status) && status.state !== "archived" && html`<button class="b small" onClick=${() => attempt(verbs.resume)}>${icon("play")}Resume</button>`}
      ${may("control") && status.state === "archived" && html`<button class="b small" onClick=${() => attempt(verbs.restore)}>Restore</button>`}
      ${isWide && html`<button class="b bare icon" aria-label="details" aria-pressed=${details ? "true" : "false"} title="Details (i)" onClick=${() => setDetails(!details)}>${icon("side")}</button>`}
      <button class="b bare icon" id="session-menu" aria-label="actions" aria-haspopup="menu" aria-expanded=${menu ? "true" : "false"} onClick=${() => setMenu(!menu)}>${icon("more")}</button>
      ${menu && html`<${Menu} label="actions" items=${verbs.items} onClose=${() => setMenu(false)} />`}
    </header>
    ${tabs.length > 1 && html`<div class="tabs" role="tablist">${tabs.map(([id, name]) => html`<button role="tab" id=${`tab-${id}`} aria-selected=${shown === id ? "true" : "false"} aria-controls="panel" onClick=${() => go(address(status), id)}>${name}</button>`)}</div>`}
    ${status.next_interface && INTERFACES[status.next_interface] && html`<p class="strip" role="status">${icon("info")}<span class="grow">The session switches to ${INTERFACES[status.next_interface]} when the running turn ends.</span></p>`}
    ${status.away && html`<p class="strip" role="status">${icon("warn")}<span class="grow"><b>${status.host}</b> cannot be reached: shown as of ${ago(new Date(status.known_at).toISOString(), now)}.</span></p>`}
    ${!status.away && follow.link.problem?.status > 0 && html`<p class="strip" role="status" id="not-followed">${icon("warn")}<span class="grow"><b><${Words} text=${capital(follow.link.problem.title)} /></b>: this page gets no updates of the session. <${Words} text=${follow.link.problem.detail} /></span><button class="b small" onClick=${follow.again}>Try again</button></p>`}
    <div class="stage" id="panel" role=${tabs.length > 1 ? "tabpanel" : null} aria-labelledby=${tabs.length > 1 ? `tab-${shown}` : null}>
      ${shown === "chat" && html`<${Transcript} status=${status} follow=${follow} turn=${turn} />${!talks ? null : may("send") ? html`<${Composer} status=${status} follow=${follow} />` : html`<${ReadOnly} />`}`}
      ${shown === "term" && html`<${Terminal} key=${status.epoch} status=${status} talks=${talks && may("send")} onTyping=${setTypes} />${!types && status.turns?.asks?.length > 0 && html`<div class="dock asking"><${Asks} status=${status} besideScreen /></div>`}${talks && may("send") && !types && html`<${Composer} status=${status} follow=${follow} />`}`}
      ${shown === "details" && html`<${Details} status=${status} onTag=${verbs.tag} onNote=${verbs.note} />`}
    </div></main>`;
}

const ReadOnly = () => html`<div class="dock"><p class="strip" role="note">${icon("eye")}<span>Read only: this login cannot send.</span></p></div>`;

/** Interfaces of an agent. */
const INTERFACES = { chat: "chat", terminal: "the agent’s own interface" };

/** All actions of a session, for the menu and for the keyboard. */
export function actions(status, setDialog) {
  const name = title(status);
  const close = () => setDialog(null);
  const to = (verb, body = {}) => async () => learn(await post(at(status.id, `/${verb}`), body));
  const change = async (body) => learn(await patch(at(status.id), body));
  const verbs = {
    resume: to("resume"),
    restore: to("restore"),
    rename: () => setDialog(html`<${AskText} title="Rename" label="Name" value=${status.name || ""} onYes=${async (text) => { await change({ name: text.trim() }); go(address({ ...status, name: text.trim() })); }} onClose=${close} />`),
    tag: () => setDialog(html`<${AskText} title="Tags" lead="Words separated by spaces." label="Tags" value=${(status.tags || []).join(" ")} onYes=${(text) => {
      const want = text.split(/[\s,]+/).filter(Boolean), have = status.tags || [];
      return change({ add_tags: want.filter((one) => !have.includes(one)), remove_tags: have.filter((one) => !want.includes(one)) });
    }} onClose=${close} />`),
    note: () => setDialog(html`<${AskText} title="Note" label="Note" long value=${status.note || ""} onYes=${(text) => change({ note: text.trim() || null })} onClose=${close} />`),
    stop: () => setDialog(html`<${Sure} title=${`Stop ${name}?`} lead="The agent and every process it started are ended. The conversation stays and can be resumed." yes="Stop" danger onYes=${to("stop")} onClose=${close} />`),
    archive: () => setDialog(html`<${Sure} title=${`Archive ${name}?`} lead=${isOver(status) ? "The session leaves the list. Nothing is deleted." : "The session is stopped and leaves the list. Nothing is deleted."} yes="Archive" onYes=${async () => { await to("archive", isOver(status) ? {} : { stop: true })(); go(null); }} onClose=${close} />`),
    fork: () => attempt(async () => { const made = await post(at(status.id, "/fork")); const next = made.session ?? made; learn(next); go(address(next)); }),
    /** Goes on with another interface of the agent once the running turn has ended. */
    switchTo: (next) => () => setDialog(html`<${Sure} title=${`Switch to ${INTERFACES[next]}?`} lead=${`The session and its conversation stay the same. ${status.turns?.current ? "The switch comes when the running turn ends." : "The agent is restarted with the other interface."}`} yes="Switch" onYes=${to("interface", { interface: next })} onClose=${close} />`),
    purge: () => setDialog(html`<${Sure} title=${`Delete ${name} for good?`} lead="The journal and the output are deleted. This cannot be undone." yes="Delete for good" danger onYes=${async () => { await ask("DELETE", at(status.id, `?confirm=${encodeURIComponent(split(status.id)[1])}`)); go(null); tell("good", `${name} is deleted`); }} onClose=${close} />`),
  };
  const over = isOver(status), away = status.state === "archived";
  verbs.items = [
    ...(may("control") ? [{ name: "Rename", icon: "edit", act: verbs.rename }, { name: "Tags", icon: "tag", act: verbs.tag }, { name: "Note", icon: "note", act: verbs.note }] : []),
    may("send") && takesTurns(status) && !hasTerminal(status) && !away && { name: "Fork", icon: "fork", act: verbs.fork },
    { name: "Download as Markdown", icon: "file", act: () => attempt(() => download(at(status.id, "/export?format=markdown"))) },
    ...(may("control") && !away ? (status.other_interfaces || []).filter((to) => to in INTERFACES).map((to) => ({ name: `Switch to ${INTERFACES[to]}`, icon: to === "terminal" ? "term" : "send", act: verbs.switchTo(to) })) : []),
    may("send") && "-",
    may("send") && over && !away && { name: "Resume", icon: "play", act: () => attempt(verbs.resume) },
    may("control") && away && { name: "Restore", icon: "archive", act: () => attempt(verbs.restore) },
    may("control") && !away && { name: "Archive", icon: "archive", act: verbs.archive },
    may("control") && !over && { name: "Stop", icon: "stop", bad: true, act: verbs.stop },
    may("admin") && over && { name: "Delete for good", icon: "trash", bad: true, act: verbs.purge },
  ];
  return verbs;
}
