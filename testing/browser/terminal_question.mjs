// A question that only the terminal can answer: keys for it beside the screen, after the question could be read.
export default async function (t) {
  await t.berth("run", "-d", "--agent", "claude", "--tui", "--name", "own", "--cwd", t.dir);
  const { context, page } = await t.person(t.PHONE);
  await page.goto(`${t.url}/#/s/own`);
  await page.locator(".xterm-rows").waitFor();
  await page.fill("#message", "ASK make");
  await page.click("[aria-label='send']");
  const asked = page.locator(".dock.asking [data-ask]");
  await asked.waitFor();
  await t.fits(page, "keys for a terminal");
  await t.accessible(page, "keys for a terminal");
  await t.shot(page, "terminal-question-phone");
  // The options are on the screen: without the screen there are no keys, and no key of the keyboard answers.
  await page.click("#tab-chat");
  const unseen = page.locator(".talk [data-ask]");
  await unseen.waitFor();
  t.check((await unseen.locator("button").count()) === 0, "keys without the screen");
  await t.fits(page, "a question for the terminal in the transcript");
  await t.shot(page, "terminal-question-transcript-phone");
  await unseen.locator("a:has-text('Open the terminal')").click();
  await asked.waitFor();
  const { epoch, turns } = await t.json("show", "own");
  const names = (await asked.locator(".acts button").allInnerTexts()).map((text) => text.trim());
  t.check(names.join() === "1,2,3,4,Esc", `keys: ${names}`);
  await t.answer(asked, "button:has-text('1')");
  await t.until("the turn is done", async () => (await t.turns("own"))[0]?.state === "done");
  // A key for a question that is closed by now is not typed.
  const late = await t.api(context, "/v1/sessions/own/input", { text: "1", question: { request: turns.asks[0].request, epoch } });
  t.check(late.status === 409 && /no longer open/.test(late.title), `late: ${JSON.stringify(late)}`);
}
