// A question takes no answer before a person could read it: neither a key that is held down, nor keys in quick succession, nor a
// click that began before the question was in view.
const COUNT = 8;
export default async function (t) {
  const { context, page } = await t.stranger();
  // The page measures reading time with this clock; the test stops it, so that no delay of the machine passes for reading time.
  await context.addInitScript(() => {
    const real = performance.now.bind(performance);
    let stopped = null;
    performance.now = () => stopped ?? real();
    window.stopClock = (stop) => { stopped = stop ? real() : null; };
  });
  await page.reload();
  await t.signIn(page);
  const lines = Array.from({ length: COUNT }, (_, n) => `ask:Bash:rm -rf /tmp/unread-${n}`);
  await t.berth("send", "asks", lines.join("\n"));
  const open = async () => (await t.json("show", "asks")).turns.asks.length;
  await t.until("all questions are asked", async () => (await open()) === COUNT);
  await page.goto(`${t.url}/#/s/asks`);
  const asks = page.locator("article.turn section.ask");
  const readable = async () => {
    await asks.first().locator(".acts").scrollIntoViewIfNeeded();
    await asks.first().locator(".acts button.yes:not([aria-disabled=true])").waitFor();
  };
  const count = async (left, words) => {
    await t.until(`${words}: ${left} questions are left in the page`, async () => (await asks.count()) === left);
    t.check((await open()) === left, `${words}: ${await open()} questions are left, not ${left}`);
  };

  // Held down: the browser repeats the key, and says so.
  await readable();
  for (let n = 0; n < 40; n++) await page.keyboard.down("1");
  await page.keyboard.up("1");
  await count(COUNT - 1, "a held key");

  // Pressed again and again, as some systems report a key that is held down.
  await readable();
  await page.evaluate(() => window.stopClock(true));
  await page.keyboard.press("1");
  await count(COUNT - 2, "the first of many keys");
  for (let n = 0; n < 20; n++) await page.keyboard.press("1");
  await count(COUNT - 2, "keys in quick succession");
  await page.evaluate(() => window.stopClock(false));

  // Two clicks in quick succession at the same place: the second one lands on the next question.
  await readable();
  const button = asks.first().locator(".acts button.yes");
  await page.evaluate(() => window.stopClock(true));
  await button.click();
  await count(COUNT - 3, "the first of two clicks");
  const middle = async () => { const box = await button.boundingBox(); return [box.x + box.width / 2, box.y + box.height / 2]; };
  await page.mouse.click(...(await middle()));
  await count(COUNT - 3, "the second of two clicks");

  // Pressed before the question could be read, released after.
  await page.mouse.move(...(await middle()));
  await page.mouse.down();
  await page.evaluate(() => window.stopClock(false));
  await readable();
  await page.mouse.up();
  await count(COUNT - 3, "a click that began too early");
  await button.click();
  await count(COUNT - 4, "a click that began in time");

  // A question that is scrolled out of view is not answered by a key, but brought into view.
  await page.evaluate(() => { for (let n = 0; n < 60; n++) document.querySelector(".talk").prepend(document.createElement("hr")); document.querySelector(".scroll[role=log]").scrollTop = 0; });
  await page.setViewportSize({ width: 1440, height: 300 });
  await page.evaluate(() => { document.querySelector(".scroll[role=log]").scrollTop = 0; });
  await t.until("the question is out of view", () => page.evaluate(() => document.querySelector(".ask .acts button").getAttribute("aria-disabled") === "true"));
  await page.keyboard.press("1");
  await count(COUNT - 4, "a key for a question out of view");
  await asks.first().locator(".acts button.yes:not([aria-disabled=true])").waitFor();
  await page.keyboard.press("1");
  await count(COUNT - 5, "a key for a question in view");
}
