// The gateway is killed with -9 while the page is open, and started again: the page says so, comes back by itself, has
// all events since then, and a message that was written meanwhile is sent once.
export default async function (t) {
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/talk`);
  await page.fill("#message", "before");
  await page.press("#message", "Enter");
  await page.locator(".talk").getByText("ECHO: before").waitFor();
  await t.killGateway();
  await page.locator("#banner", { hasText: "Connection to the gateway lost" }).waitFor();
  await t.berth("send", "talk", "meanwhile", "--wait");
  await page.fill("#message", "written offline");
  await page.press("#message", "Enter");
  await page.getByText("waiting for the gateway").waitFor();
  await page.fill("#message", "a draft");
  await t.startGateway();
  await page.locator("#banner", { hasText: "Connected again" }).waitFor();
  await page.locator(".talk").getByText("ECHO: meanwhile").waitFor();
  await page.locator(".talk").getByText("ECHO: written offline").waitFor();
  await page.locator("#banner").waitFor({ state: "detached" });
  t.check((await page.inputValue("#message")) === "a draft", "the draft is gone");
  const said = (await t.turns("talk")).map((turn) => turn.prompt);
  t.check(JSON.stringify(said) === '["before","meanwhile","written offline"]', `said: ${JSON.stringify(said)}`);
}
