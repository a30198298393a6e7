// Two tabs send at one moment: each message is one turn, in an order all agree on. A draft that both send is one turn.
export default async function (t) {
  const { context, page: one } = await t.person();
  await one.goto(`${t.url}/#/s/talk`);
  const two = await t.tab(context, "#/s/talk");
  await two.waitForSelector("#message");
  const rounds = 6;
  for (let n = 1; n <= rounds; n++) {
    await Promise.all([one.fill("#message", `one ${n}`), two.fill("#message", `two ${n}`)]);
    await Promise.all([one.click("button[aria-label='send']"), two.click("button[aria-label='send']")]);
  }
  for (const page of [one, two]) for (const who of ["one", "two"]) await page.locator(".talk").getByText(`ECHO: ${who} ${rounds}`, { exact: true }).waitFor();
  const said = (await t.turns("talk")).map((turn) => turn.prompt);
  t.check(said.length === 2 * rounds && new Set(said).size === said.length, `said: ${said}`);
  for (const who of ["one", "two"]) {
    const mine = said.filter((text) => text.startsWith(who));
    t.check(mine.every((text, n) => text === `${who} ${n + 1}`), `order: ${mine}`);
  }
  // Both pages show the same turns in the same order.
  for (const page of [one, two]) {
    const shown = await t.until("all turns are shown", async () => { const all = await page.locator(".turn .bubble").allInnerTexts(); return all.length === said.length && all; });
    t.check(JSON.stringify(shown) === JSON.stringify(said), `shown: ${shown}`);
  }
  // One draft, opened in a second tab, and sent in both: it is one message, and has one key.
  await one.fill("#message", "the same");
  const three = await t.tab(context, "#/s/talk");
  await t.until("the draft is in the new tab", async () => (await three.inputValue("#message")) === "the same");
  await Promise.all([one, three].map((page) => page.evaluate(() => document.querySelector("form.box").requestSubmit())));
  await three.locator(".talk").getByText("ECHO: the same").waitFor();
  await t.until("nothing is on its way", () => one.evaluate(() => !localStorage.getItem("berth.outbox")));
  const same = (await t.turns("talk")).filter((turn) => turn.prompt === "the same").length;
  t.check(same === 1, `sent ${same} times`);
}
