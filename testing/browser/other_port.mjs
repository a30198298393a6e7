// Another server on the same host, as an agent's dev server is: the browser sends it nothing that the gateway accepts. A login is a key in
// the storage of the gateway's own origin; it goes with every request, with streams and with terminals, until it is signed out or revoked.
import http from "node:http";
const KEY = "berth.login";
const text = (page) => page.locator(".xterm-rows").innerText().then((all) => all.replaceAll("\u00a0", " "));

/** A server that keeps the headers of every request it gets, and serves a page that asks for more of itself and of the gateway. */
async function listen(gateway) {
  const heard = [];
  const server = http.createServer((request, response) => {
    heard.push(request.headers);
    const script = `fetch("/api", { credentials: "include" }); fetch("${gateway}/v1/whoami", { credentials: "include", mode: "no-cors" }).catch(() => {}).then(() => { document.title = "asked"; });`;
    response.end(request.url === "/" ? `<!doctype html><link rel="icon" href="data:,"><img src="/x.png"><script>${script}</script>` : "");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { heard, server, port: server.address().port };
}

/** The status of a request with these headers. */
const replay = (url, headers) => new Promise((resolve, reject) => {
  http.get(`${url}/v1/whoami`, { headers: { ...headers, host: new URL(url).host } }, (response) => { response.resume(); resolve(response.statusCode); }).on("error", reject);
});

export default async function (t) {
  const { context, page } = await t.person();
  const other = await listen(t.url);
  try {
    for (const host of ["127.0.0.1", "localhost"]) {
      const visit = await context.newPage();
      await visit.goto(`http://${host}:${other.port}/`);
      await visit.waitForFunction(() => document.title === "asked");
      await visit.close();
    }
    t.check(other.heard.length >= 4, `the other server got ${other.heard.length} requests`);
    const origin = { origin: t.url, "sec-fetch-site": "same-origin" };
    for (const headers of other.heard) {
      for (const forged of [headers, { ...headers, ...origin }]) {
        const status = await replay(t.url, forged);
        t.check(status === 401 || status === 403, `what the other server got is worth ${status}: ${JSON.stringify(headers)}`);
      }
      const { cookie, authorization } = headers;
      t.check(await replay(t.url, { ...origin, ...(cookie && { cookie }), ...(authorization && { authorization }) }) === 401, "a cookie is worth something");
    }
  } finally {
    other.server.closeAllConnections();
    other.server.close();
  }
  t.check((await context.cookies()).length === 0, "there is a cookie");

  // The list and a session are followed, and a terminal is typed into.
  const key = await page.evaluate((name) => JSON.parse(localStorage.getItem(name)), KEY);
  t.check(await replay(t.url, { authorization: `Bearer ${key}` }) === 200, "the key is not the login");
  await t.berth("send", "talk", "hello");
  await page.goto(`${t.url}/#/s/talk`);
  await page.locator(".talk").getByText("ECHO: hello").waitFor();
  await page.goto(`${t.url}/#/s/echo`);
  await page.click("#take-over");
  await page.locator(".bar.writing").waitFor();
  // Keys go to the terminal only once it has the focus.
  await page.locator(".xterm-helper-textarea:focus").waitFor({ state: "attached" });
  await page.keyboard.type("typed with a key");
  await t.until("the echo", async () => (await text(page)).includes("typed with a key"));

  // Downloads are requested with the key as well.
  await page.goto(`${t.url}/#/s/talk`);
  await page.locator("#message").waitFor();
  await page.click("#session-menu");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByText("Download as Markdown").click()]);
  t.check(download.suggestedFilename().endsWith(".md"), `it is called ${download.suggestedFilename()}`);

  // Signing out ends the login here, in the other tab, and on the gateway.
  const second = await t.tab(context);
  await second.locator("#rows").waitFor();
  await page.goto(`${t.url}/#/`);
  await page.click("[aria-label='more']");
  await page.getByText("Sign out").click();
  await page.locator("#token").waitFor();
  await second.locator("#token").waitFor();
  t.check(await page.evaluate((name) => localStorage.getItem(name) === null, KEY), "the key is still there");
  t.check(await replay(t.url, { authorization: `Bearer ${key}` }) === 401, "the key is still good");
  await second.close();

  // The owner revokes the login.
  await t.signIn(page);
  const mine = await page.evaluate(async (name) => (await (await fetch("/v1/whoami", { headers: { Authorization: `Bearer ${JSON.parse(localStorage.getItem(name))}` } })).json()).name, KEY);
  await t.berth("token", "revoke", mine);
  await page.getByText("You were signed out").waitFor();
  t.check(await page.evaluate((name) => localStorage.getItem(name) === null, KEY), "a key that is worth nothing is kept");

  // A link leads to a host name of its own, which no other server has.
  const [link] = (await t.berth("link")).split("\n");
  t.check(link.startsWith(`http://berth.localhost:${new URL(t.url).port}/login?link=`), `the first link: ${link}`);
  const named = await context.newPage();
  await named.goto(link);
  await named.locator("#rows").waitFor();
  const { scope } = await named.evaluate(async (name) => (await fetch("/v1/whoami", { headers: { Authorization: `Bearer ${JSON.parse(localStorage.getItem(name))}` } })).json(), KEY);
  t.check(scope === "control", `a link is ${scope}`);
  // Used once more, the link leads a browser that is signed in to the page, and shows another one what to do.
  await named.goto(link);
  await named.locator("#rows").waitFor();
  const { page: stranger } = await t.stranger();
  await stranger.goto(link.replace("berth.localhost", "127.0.0.1"));
  await stranger.getByText("used already").waitFor();
  await stranger.locator("#token").waitFor();
}
