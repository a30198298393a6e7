// A terminal: watched first, then typed into; taken over by another tab; a phone has the keys its keyboard lacks.
const text = (page) => page.locator(".xterm-rows").innerText().then((all) => all.replaceAll("\u00a0", " "));
const wide = (page) => page.locator(".term .screen").getAttribute("data-cols").then(Number);
export default async function (t) {
  const { context, page: one } = await t.person();
  await one.goto(`${t.url}/#/s/echo`);
  await t.until("the screen is drawn", async () => (await text(one)).includes("ready"));
  await one.locator(".term").getByText("Watching · detached").waitFor();
  await one.click(".xterm-screen");
  await one.keyboard.type("ignored");
  await one.click("#take-over");
  await one.locator(".bar.writing").waitFor();
  await one.keyboard.type("hello from one");
  await t.until("the echo", async () => (await text(one)).includes("hello from one"));
  t.check(!(await text(one)).includes("ignored"), "an observer typed");
  const seen = await t.json("show", "echo");
  t.check(seen.cols > 80 && seen.writer, `the size and the writer: ${seen.cols} ${JSON.stringify(seen.writer)}`);
  const two = await t.tab(context, "#/s/echo");
  await t.until("the second sees it", async () => (await text(two)).includes("hello from one"));
  await two.locator(".bar", { hasText: "another tab of this browser is attached" }).waitFor();
  await two.locator("#take-over", { hasText: "Take over" }).click();
  await two.locator(".bar.writing").waitFor();
  await one.locator("#take-over").waitFor();
  // An observer draws in the writer's size, also when that changes and nothing is written: first narrow,
  // then as wide as before.
  for (const width of [900, 1440]) {
    await two.setViewportSize({ width, height: 900 });
    await t.until("the session has the writer's size", async () => (await wide(two)) === (await t.json("show", "echo")).cols);
    await t.until(`the first is as wide as the second at ${width}`, async () => (await wide(one)) === (await t.json("show", "echo")).cols && (await wide(two)) === (await wide(one)));
  }
  await two.keyboard.type(" and two");
  await t.until("both see it", async () => (await text(one)).includes("and two") && (await text(two)).includes("and two"));
  await t.killGateway();
  await two.getByText("reconnecting").waitFor();
  await t.startGateway();
  await two.locator(".bar.writing", { hasText: "Attached" }).waitFor();
  await two.click(".xterm-screen");
  await two.keyboard.type(" again");
  await t.until("typing goes on", async () => (await text(two)).includes("again"));
  // A screen that is higher than the page: an observer sees the place of the cursor.
  for (let n = 0; n < 30; n++) await two.keyboard.press("Control+j");
  await two.keyboard.type("far below");
  await one.setViewportSize({ width: 1440, height: 420 });
  await t.until("the written line is in sight", () => one.evaluate(() => {
    const row = [...document.querySelectorAll(".xterm-rows > div")].find((one) => one.textContent.replaceAll("\u00a0", " ").includes("far below"));
    return row && row.getBoundingClientRect().bottom <= document.querySelector(".term .screen").getBoundingClientRect().bottom;
  }));
  await one.setViewportSize({ width: 1440, height: 900 });
  const phone = await t.person(t.PHONE);
  await phone.page.goto(`${t.url}/#/s/echo`);
  await t.until("the phone sees it", async () => (await text(phone.page)).includes("and two"));
  await t.fits(phone.page, "a terminal on a phone");
  await phone.page.click("#take-over");
  await phone.page.locator(".keysrow").waitFor();
  await phone.page.locator(".bar.writing").waitFor();
  await t.fits(phone.page, "a terminal's keys on a phone");
  await phone.page.fill("#line", "by phone");
  await phone.page.press("#line", "Enter");
  await t.until("the phone typed", async () => (await text(phone.page)).replace(/\s/g, "").includes("byphone"));
  await t.until("all clients have the phone's size", async () => { const { cols } = await t.json("show", "echo"); return cols < 80 && (await wide(one)) === cols && (await wide(phone.page)) === cols; });
  await t.berth("stop", "echo");
  await one.getByText("the last screen").waitFor();
}
