// The queue: seen, edited, reordered, dropped, paused and resumed.
export default async function (t) {
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/talk`);
  await t.berth("send", "talk", `wait-file:${t.dir}/go\nfirst`);
  for (const text of ["aa", "bb", "cc"]) await t.berth("send", "talk", text);
  const waits = async (...want) => t.until(`the queue is ${want}`, async () => JSON.stringify(await page.locator(".queue .words").allInnerTexts()) === JSON.stringify(want));
  await waits("aa", "bb", "cc");
  await t.accessible(page, "a queue");
  await page.click("[aria-label='move up: cc']");
  await waits("aa", "cc", "bb");
  await page.locator(".queue li", { hasText: "bb" }).dragTo(page.locator(".queue li", { hasText: "aa" }));
  await waits("bb", "aa", "cc");
  await page.click("[aria-label='edit: aa']");
  await page.fill(".queue li textarea", "aa, but better");
  await page.click(".queue li button:has-text('Save')");
  await waits("bb", "aa, but better", "cc");
  await page.click("[aria-label='drop: bb']");
  await waits("aa, but better", "cc");
  await page.click(".queue button:has-text('Pause')");
  await page.locator(".queue button:has-text('Continue')").waitFor();
  await t.touch("go");
  await page.locator(".talk").getByText("ECHO: first").waitFor();
  await waits("aa, but better", "cc");
  await page.click(".queue button:has-text('Continue')");
  await page.locator(".talk").getByText("ECHO: cc").waitFor();
  const ran = (await t.turns("talk")).filter((turn) => turn.state === "done").map((turn) => turn.prompt.split("\n").pop());
  t.check(JSON.stringify(ran) === '["first","aa, but better","cc"]', `ran: ${JSON.stringify(ran)}`);
}
