(() => {
  // The page reads the login from here; see `api.js`.
  const KEY = "berth.login";
  const byLink = document.getElementById("by-link"), byToken = document.getElementById("by-token"), problem = document.getElementById("problem");
  const toPage = () => location.replace("/");

  /** True if this browser is signed in already. */
  async function isIn() {
    try {
      const key = JSON.parse(localStorage.getItem(KEY));
      return (await fetch("/v1/whoami", { headers: key ? { Authorization: `Bearer ${key}` } : {} })).ok;
    } catch { return false; }
  }

  /** Text with code between backticks, as elements. */
  function words(text) {
    const all = document.createElement("span");
    text.split("`").forEach((part, n) => {
      const piece = document.createElement(n % 2 ? "code" : "span");
      piece.textContent = part;
      all.append(piece);
    });
    return all;
  }

  function tell(title, detail) {
    problem.replaceChildren(words(title), ...(detail ? [document.createElement("br"), words(detail)] : []));
    problem.hidden = false;
  }

  async function enter(form) {
    try {
      // Checked before the link is used up: a browser that stores nothing could not stay signed in.
      localStorage.setItem("berth.probe", "1");
      localStorage.removeItem("berth.probe");
    } catch { return tell("This browser stores nothing for this page, so it cannot stay signed in."); }
    let response, body;
    try {
      response = await fetch("/login", { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { Accept: "application/json" } });
      body = await response.json();
    } catch { return tell("The gateway cannot be reached."); }
    if (response.ok) {
      localStorage.setItem(KEY, JSON.stringify(body.secret));
      return toPage();
    }
    if (form === byLink) {
      // A browser that is signed in needs no link, even if the link is used up.
      if (await isIn()) return toPage();
      byLink.hidden = true;
      byToken.hidden = false;
    }
    return tell(body.title || `The gateway answered ${response.status}`, body.detail);
  }

  for (const form of [byLink, byToken]) {
    form?.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      if (button.disabled) return;
      button.disabled = true;
      await enter(form);
      button.disabled = false;
    });
  }
  if (!byLink) isIn().then((is) => { if (is) toPage(); });
  else if (byLink.dataset.opened !== undefined) {
    const go = () => {
      if (document.visibilityState === "visible" && !document.prerendering) byLink.requestSubmit();
      else document.addEventListener("visibilitychange", go, { once: true });
    };
    if (document.prerendering) document.addEventListener("prerenderingchange", go, { once: true });
    else go();
  }
})();
