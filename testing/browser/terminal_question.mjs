// A question that only the terminal can answer: keys for it beside the screen, after the question could be read.
export default async function (t) {
  await t.berth("run", "-d", "--agent", "claude", "--tui", "--name", "own", "--cwd", t.dir);
  const { page } = await t.person(t.PHONE);
  await page.goto(`${t.url}/#/s/own`);
  await page.locator(".xterm-rows").waitFor();
  await page.fill("#message", "ASK make");
  await page.click("[aria-label='send']");
  const asked = page.locator(".dock.asking [data-ask]");
  await asked.waitFor();
  await t.fits(page, "keys for a terminal");
  await t.accessible(page, "keys for a terminal");
  await t.shot(page, "terminal-question-phone");
  const names = (await asked.locator(".acts button").allInnerTexts()).map((text) => text.trim());
  t.check(names.join() === "1,2,3,4,Esc", `keys: ${names}`);
  await t.answer(asked, "button:has-text('1')");
  await t.until("the turn is done", async () => (await t.turns("own"))[0]?.state === "done");
}
