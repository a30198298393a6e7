// A double click, Enter beside a click: one turn each time.
export default async function (t) {
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/talk`);
  await page.fill("#message", "once");
  await page.dblclick("button[aria-label='send']", { delay: 0 });
  await page.locator(".talk").getByText("ECHO: once").waitFor();
  await page.fill("#message", "twice");
  // Both in one go, before the page could draw anything.
  await page.evaluate(() => {
    const form = document.querySelector("form.box");
    form.requestSubmit();
    form.requestSubmit();
    document.getElementById("message").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  });
  await page.locator(".talk").getByText("ECHO: twice").waitFor();
  await page.fill("#message", "last");
  await page.press("#message", "Enter");
  await page.locator(".talk").getByText("ECHO: last").waitFor();
  const said = (await t.turns("talk")).map((turn) => turn.prompt);
  t.check(JSON.stringify(said) === '["once","twice","last"]', `said: ${JSON.stringify(said)}`);
}
