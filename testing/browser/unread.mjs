// A question takes no answer before a user could read it: neither a key that is held down, nor keys in quick
// succession, nor a click that began before the question was in view.
const COUNT = 10;
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
  // A page that still loads follows its end, and so takes the first question out of view again: scrolled to until it is readable.
  const readable = () => t.until("the first question can be answered", async () => {
    await asks.first().locator(".acts").scrollIntoViewIfNeeded();
    return (await asks.first().locator(".acts button.yes:not([aria-disabled=true])").count()) === 1;
  });
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

  // A reason in the message box: Enter before the question could be read, or held down, denies nothing.
  const box = page.locator("#message");
  await box.fill("use mktemp instead");
  await readable();
  await page.evaluate(() => window.stopClock(true));
  await button.click();
  await count(COUNT - 5, "a click before the reason");
  await box.focus();
  await page.selectOption("#manner", "instead");
  await box.focus();
  await page.keyboard.press("Enter");
  await page.mouse.click(...(await (async () => { const send = await page.locator("[aria-label='deny with this reason']").boundingBox(); return [send.x + send.width / 2, send.y + send.height / 2]; })()));
  await count(COUNT - 5, "a reason before the question could be read");
  await page.evaluate(() => window.stopClock(false));
  await readable();
  await box.focus();
  await page.keyboard.down("Enter");
  for (let n = 0; n < 20; n++) await page.keyboard.down("Enter");
  await page.keyboard.up("Enter");
  await count(COUNT - 6, "a reason with Enter held down");
  t.check((await box.inputValue()) === "", "the reason is still in the box");
  await box.blur();

  // A question that is scrolled out of view is not answered by a key, but brought into view.
  await page.evaluate(() => { for (let n = 0; n < 60; n++) document.querySelector(".talk").prepend(document.createElement("hr")); document.querySelector(".scroll[role=log]").scrollTop = 0; });
  await page.setViewportSize({ width: 1440, height: 300 });
  await page.evaluate(() => { document.querySelector(".scroll[role=log]").scrollTop = 0; });
  await t.until("the question is out of view", () => page.evaluate(() => document.querySelector(".ask .acts button").getAttribute("aria-disabled") === "true"));
  await page.keyboard.press("1");
  await count(COUNT - 6, "a key for a question out of view");
  await asks.first().locator(".acts button.yes:not([aria-disabled=true])").waitFor();
  await page.keyboard.press("1");
  await count(COUNT - 7, "a key for a question in view");
}
