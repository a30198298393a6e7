// A browser whose store is full: a message is sent all the same, or stays in the box; nothing goes without a word.
const turns = "**/turns";
/** Empties the store, but for the login. */
const clear = () => { for (const name of Object.keys(localStorage)) if (name !== "berth.login") localStorage.removeItem(name); };
export default async function (t) {
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/talk`);
  await page.locator("#message").waitFor();
  const cut = (route) => (route.request().method() === "POST" ? route.abort("connectionrefused") : route.fallback());
  await page.route(turns, cut);
  await page.fill("#message", "stored");
  await page.press("#message", "Enter");
  await page.locator(".outgoing", { hasText: "stored" }).getByText("waiting for the gateway").waitFor();
  await page.evaluate(() => {
    // To the last byte.
    for (let size = 1 << 20; size >= 1; size = size >> 1) for (let n = 0; ; n++) try { localStorage.setItem(`full-${size}-${n}`, "x".repeat(size)); } catch { break; }
  });
  await page.fill("#message", "not stored");
  await page.press("#message", "Enter");
  await page.locator(".outgoing", { hasText: "not stored" }).getByText("keep this page open").waitFor();
  t.check((await page.locator(".outgoing").count()) === 2, "one of the two is gone");
  // The message is stored nowhere else: a user who leaves the page is asked first.
  const asked = page.waitForEvent("dialog");
  const leaves = page.close({ runBeforeUnload: true });
  await (await asked).dismiss();
  await leaves;
  await page.unroute(turns);
  await page.locator(".talk").getByText("ECHO: not stored").waitFor();
  await page.locator(".talk").getByText("ECHO: stored", { exact: true }).waitFor();
  await page.locator(".outgoing").first().waitFor({ state: "detached" });
  const said = (await t.turns("talk")).map((turn) => turn.prompt).sort();
  t.check(JSON.stringify(said) === '["not stored","stored"]', `said: ${JSON.stringify(said)}`);

  // A message that is refused while its writer looks at something else is in the box when they come back.
  await page.evaluate(clear);
  let refuse;
  const away = new Promise((resolve) => { refuse = resolve; });
  await page.route(turns, async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    await away;
    return route.fulfill({ status: 409, contentType: "application/problem+json", body: JSON.stringify({ title: "not now", code: "refused", status: 409 }) });
  });
  await page.fill("#message", "refused later");
  await page.press("#message", "Enter");
  await page.locator(".outgoing", { hasText: "refused later" }).waitFor();
  await page.goto(`${t.url}/#/s/asks`);
  await page.locator("h1", { hasText: "asks" }).waitFor();
  refuse();
  await page.locator(".toast.bad", { hasText: "not now" }).waitFor();
  t.check((await page.inputValue("#message")) === "", "the words are in another session's box");
  await page.goto(`${t.url}/#/s/talk`);
  await page.locator("h1", { hasText: "talk" }).waitFor();
  t.check((await page.inputValue("#message")) === "refused later", "the refused words are gone");
  await page.unroute(turns);

  // As many as are kept wait already: the next one stays in the box.
  await page.route(turns, cut);
  await page.evaluate(clear);
  await page.evaluate(() => {
    localStorage.setItem("berth.outbox", JSON.stringify(Array.from({ length: 50 }, (_, n) => ({ key: `page-${n}`, session: "elsewhere", text: `${n}` }))));
  });
  await page.reload();
  await page.fill("#message", "one too many");
  await page.press("#message", "Enter");
  await page.locator(".toast.bad", { hasText: "Too many messages are waiting" }).waitFor();
  t.check((await page.inputValue("#message")) === "one too many", "the words are gone");
  t.check((await t.turns("talk")).length === 2, "it was sent");
}
