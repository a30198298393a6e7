// Reload in mid-turn: the answer comes, the draft is kept, nothing is sent twice, whenever the reload comes.
export default async function (t) {
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/talk`);
  await page.fill("#message", `wait-file:${t.dir}/go\nfirst`);
  await page.press("#message", "Control+Enter");
  await page.locator(".turn .doing").waitFor();
  await page.fill("#message", "a draft");
  await page.reload();
  await page.locator(".turn .doing").waitFor();
  t.check((await page.inputValue("#message")) === "a draft", "the draft is gone");
  await t.touch("go");
  await page.locator(".talk").getByText("ECHO: first").waitFor();
  t.check((await t.turns("talk")).length === 1, "sent again by the reload");

  // The request arrived, its answer did not, and then the page is reloaded: the repeated request has the same key.
  let cut = 0;
  await page.route("**/turns", async (route) => {
    if (route.request().method() !== "POST" || cut > 0) return route.fallback();
    cut += 1;
    await route.fetch();
    await route.abort("connectionreset");
  });
  await page.fill("#message", "lost receipt");
  await page.press("#message", "Enter");
  await t.until("the answer was cut off", () => cut === 1);
  await page.reload();
  await page.locator(".talk").getByText("ECHO: lost receipt").waitFor();
  await t.until("the receipt came", () => page.evaluate(() => !localStorage.getItem("berth.outbox")));

  // The request never left, and the page is reloaded: the message is sent then.
  await page.unroute("**/turns");
  await page.route("**/turns", (route) => (route.request().method() === "POST" ? route.abort("connectionrefused") : route.fallback()));
  await page.fill("#message", "never left");
  await page.press("#message", "Enter");
  await page.getByText("waiting for the gateway").waitFor();
  t.check((await page.inputValue("#message")) === "", "the box is not empty");
  await page.unroute("**/turns");
  await page.reload();
  await page.locator(".talk").getByText("ECHO: never left").waitFor();
  const said = (await t.turns("talk")).map((turn) => turn.prompt.split("\n").pop());
  t.check(JSON.stringify(said) === '["first","lost receipt","never left"]', `said: ${JSON.stringify(said)}`);
}
