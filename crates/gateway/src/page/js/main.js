// Root of the page: login, list, session, details, and keyboard.
import { html, render, use, useEffect, useRef, useState, useErrorBoundary, capital, span } from "./lib.js";
import { icon } from "./icons.js";
import { logout, may, signedIn } from "./api.js";
import { address, again, announce, attempt, begin, go, isOver, link, ordered, route, sessions, title, where } from "./store.js";
import { List, does } from "./list.js";
import { Session, actions, useStatus } from "./session.js";
import { Details } from "./details.js";
import { Cmd, Menu, Toasts, Words } from "./parts.js";
import { Help, LinkDevice, SignIn } from "./dialogs.js";
import { Foreign } from "./foreign.js";
import { NewSession } from "./new.js";
import { resume } from "./outbox.js";

/** Time for which the page reports that the connection is back. */
const BACK_MS = 4000;
/** Shortest outage that shows a banner. */
const HICCUP_MS = 700;

function Banner() {
  const now = useTicks(500);
  const net = use(link);
  const said = net.problem?.status > 0 && net.problem;
  if (net.refused) return html`<div class="banner" role="alert" id="banner">${icon("warn")}<span class="grow"><${Words} text=${said?.title || "The gateway refuses to send updates."} /></span><button class="b small" onClick=${again}>Try again</button></div>`;
  if (!net.live && net.awaySince && now - net.awaySince > HICCUP_MS) {
    const next = Math.max(0, Math.ceil(((net.nextAt || now) - now) / 1000));
    return html`<div class="banner" role="status" id="banner">${icon("warn")}<span class="grow">${said ? html`<${Words} text=${capital(said.title)} />, for ${span(now - net.awaySince)} now.` : `Connection to the gateway lost ${span(now - net.awaySince)} ago.`} ${next > 0 ? `Trying again in ${next} s.` : "Trying again …"} Sessions continue; this page shows the last known state.</span><button class="b small" onClick=${again}>Now</button></div>`;
  }
  if (net.live && net.backAt && now - net.backAt < BACK_MS) return html`<div class="banner back" role="status" id="banner">${icon("check")}<span>Connected again. Everything is up to date.</span></div>`;
  return html`<div></div>`;
}
function useTicks(ms) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => { const timer = setInterval(() => setNow(Date.now()), ms); return () => clearInterval(timer); }, [ms]);
  return now;
}
function useWidth(query) {
  const [is, setIs] = useState(matchMedia(query).matches);
  useEffect(() => { const media = matchMedia(query); const change = () => setIs(media.matches); media.addEventListener("change", change); return () => media.removeEventListener("change", change); }, [query]);
  return is;
}

function turnTheme() {
  const now = document.documentElement.dataset.theme;
  window.berthTheme.choose(now === "dark" ? "light" : "dark");
}

function App() {
  const here = use(route), all = use(sessions);
  const isWide = useWidth("(min-width: 1181px)");
  const [details, setDetails] = useState(true);
  const [dialog, setDialog] = useState(null);
  const [more, setMore] = useState(false);
  const [query, setQuery] = useState("");
  const { status } = useStatus(here.session);
  const close = () => setDialog(null);
  const onNew = () => may("send") && setDialog(html`<${NewSession} onClose=${close} />`);
  const onHelp = () => setDialog(html`<${Help} onClose=${close} />`);
  const needs = all ? [...all.values()].filter((one) => one.state === "needs-you") : [];
  useEffect(() => {
    const name = status ? `${title(status)} · berth` : "berth";
    document.title = needs.length ? `(${needs.length}) ${name}` : name;
  }, [needs.length, status && title(status)]);
  const keysRef = useRef();
  keysRef.current = { here, all, status, dialog, details, setDetails, setDialog, onNew, onHelp, needs };
  useEffect(() => keyboard(keysRef), []);
  const verbs = status && actions(status, setDialog);
  const three = isWide && details && status;
  const out = () => attempt(async () => { await logout(); location.reload(); });
  return html`<div class="app">
    <${Banner} />
    <div class=${"cols " + (three ? "three " : "") + (here.session || here.foreign ? "open" : "")}>
      <${List} onNew=${onNew} onHelp=${onHelp} onMore=${() => setMore(!more)} isMoreOpen=${more} query=${query} setQuery=${setQuery} />
      ${more && html`<div style="position:fixed;left:0;top:0;width:min(340px,100%);z-index:12"><${Menu} label="more" onClose=${() => setMore(false)} items=${[{ name: document.documentElement.dataset.theme === "dark" ? "Light" : "Dark", icon: document.documentElement.dataset.theme === "dark" ? "sun" : "moon", act: turnTheme }, { name: "Same as the system", icon: "side", act: () => window.berthTheme.choose(null) }, { name: "Keys", icon: "help", act: onHelp }, may("admin") && { name: "Link another device", icon: "key", act: () => setDialog(html`<${LinkDevice} onClose=${close} />`) }, "-", { name: "Sign out", icon: "out", act: out }]} /></div>`}
      ${here.session ? html`<${Session} named=${here.session} tab=${here.tab} details=${details} setDetails=${setDetails} setDialog=${setDialog} isWide=${isWide} />` : here.foreign ? html`<${Foreign} setDialog=${setDialog} />` : html`<main class="pane middle"><${Nothing} all=${all} needs=${needs} /></main>`}
      ${three && html`<aside class="pane details" aria-label=${`details of ${title(status)}`}><${Details} status=${status} onTag=${verbs.tag} onNote=${verbs.note} /></aside>`}
    </div>
    ${dialog}<${Toasts} /><${Spoken} /></div>`;
}

function Nothing({ all, needs }) {
  if (all === null) return null;
  if (needs.length) return html`<div class="empty needs">${icon("warn", "big")}<h2>${needs.length === 1 ? `${title(needs[0])} needs you` : `${needs.length} sessions need you`}</h2><p>${does(needs[0]).text.slice(0, 160)}</p><a class="b main" href=${`#/s/${encodeURIComponent(address(needs[0]))}`}>Open</a><p class="dimmer keys-only">or press <kbd>n</kbd></p></div>`;
  const counts = ["working", "running", "idle"].map((state) => [[...all.values()].filter((one) => one.state === state).length, state]).filter(([n]) => n > 0);
  return html`<div class="empty">${icon("check", "big")}<h2>No session needs you</h2><p>${counts.length ? `${counts.map(([n, state]) => `${n} ${state}`).join(" · ")}.` : all.size ? "No session is running." : "Sessions you start appear in the list."} Choose one${may("send") ? html`<span class="keys-only">, or press <kbd>c</kbd> to start another</span>` : ""}.</p></div>`;
}

function Spoken() {
  const words = use(announce);
  return html`<div class="vh" role="status" aria-live="assertive">${words}</div>`;
}

/** Takes the focus at once where the list is in view: letters that follow must not be read as shortcuts. */
function find() {
  const focus = () => document.getElementById("find")?.focus();
  focus();
  if (document.activeElement?.id === "find") return;
  go(null);
  setTimeout(focus, 50);
}

/** Shortcuts of single letters, only while no text is being written. */
function keyboard(ref) {
  let before = "";
  const on = (event) => {
    const k = ref.current;
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
    const target = event.target;
    if (event.repeat && /^[0-9]$/.test(event.key)) return event.preventDefault();
    if (k.dialog || target.closest?.("input, textarea, select, [contenteditable], .term, .menu")) return;
    const pair = before + event.key;
    before = event.key === "g" ? "g" : "";
    const rows = [...document.querySelectorAll("#rows .srow")];
    const at = rows.findIndex((row) => row === document.activeElement);
    const open = rows.findIndex((row) => row.getAttribute("aria-current") === "true");
    const step = (by) => {
      const from = at >= 0 ? at : open;
      const next = rows[Math.max(0, Math.min(rows.length - 1, from + by))] || rows[0];
      next?.focus();
      if (next && matchMedia("(min-width: 761px)").matches && where().session) next.click();
    };
    // The page may still show the previous session: no action and no answer goes to that one.
    const isDrawn = where().session === k.here.session;
    const verbs = isDrawn && k.status && actions(k.status, k.setDialog);
    const act = {
      j: () => step(1), k: () => step(-1), "/": find,
      "?": k.onHelp, c: k.onNew, n: () => { const rest = k.needs.filter((one) => one.id !== k.status?.id); const next = ordered(new Map((rest.length ? rest : k.needs).map((one) => [one.id, one])))[0]; if (next) go(address(next)); },
      m: () => (document.getElementById("message") || document.getElementById("line"))?.focus(), i: () => k.setDetails(!k.details), t: turnTheme,
      x: () => verbs && may("control") && !isOver(k.status) && verbs.stop(), e: () => verbs && may("control") && k.status.state !== "archived" && verbs.archive(), r: () => verbs && may("send") && isOver(k.status) && k.status.state !== "archived" && attempt(verbs.resume),
      Escape: () => go(null),
    }[event.key];
    if (pair === "gl" || pair === "gg") { event.preventDefault(); go(null); return; }
    if (act) { event.preventDefault(); act(); return; }
    if (isDrawn && /^[1-9]$/.test(event.key)) {
      const button = document.querySelector(".ask")?.querySelectorAll("[data-option]")[Number(event.key) - 1];
      if (!button) return;
      event.preventDefault();
      button.click();
      // A question out of view is scrolled to instead of answered.
      if (button.getAttribute("aria-disabled") === "true") button.scrollIntoView({ block: "nearest" });
    }
  };
  // A key that is held down presses a button once. This holds for dialogs too, which stop the propagation of their keys.
  const once = (event) => { if (event.repeat && /^(Enter| )$/.test(event.key) && event.target.closest?.("button, summary, .ask input")) event.preventDefault(); };
  addEventListener("keydown", once, true);
  addEventListener("keydown", on);
  return () => { removeEventListener("keydown", once, true); removeEventListener("keydown", on); };
}

function Root() {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  const isIn = use(signedIn), net = use(link);
  if (error) return html`<main class="gate"><form onSubmit=${(e) => { e.preventDefault(); reset(); }}><h1>The page has a bug</h1><p>${String(error.message || error)}</p><p>Sessions are not affected.</p><button class="b main">Continue</button></form></main>`;
  if (isIn === false) return html`<${SignIn} /><${Toasts} />`;
  if (isIn === null) return html`<main class="gate" aria-busy="true"><div style="text-align:center">${net.problem ? html`<h1>${net.problem.title}</h1><p>Trying again …</p><${Cmd} text="berth serve" />` : html`<span class="dim">Connecting …</span>`}</div></main>`;
  return html`<${App} />`;
}

render(html`<${Root} />`, document.getElementById("app"));
begin().then(resume);
addEventListener("berth-login", () => { if (!signedIn.get()) begin().then(resume); });
addEventListener("berth-theme", () => announce.set(""));
