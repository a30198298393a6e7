// Rows tell sessions apart: groups, last words, how a run ended, the last active first, and never an id as a title.
export default async function (t) {
  const { page } = await t.person();
  const row = (name) => page.locator(".srow", { has: page.locator(".name", { hasText: name }) });
  const groups = async () => (await page.locator("#rows .group").allInnerTexts()).map((text) => text.replace(/\s*\d+$/, ""));
  await t.until("all three are listed", async () => (await page.locator(".srow").count()) === 3);
  t.check((await groups()).join() === "Running,Idle", `groups: ${await groups()}`);
  await page.locator("main", { hasText: "1 running · 2 idle" }).waitFor();
  // An idle row shows the last answer, and the last active row is first.
  await t.berth("send", "asks", "say:the parser is fixed", "--wait");
  await row("asks").getByText("the parser is fixed").waitFor();
  const idle = () => page.locator("section[aria-label=Idle] .name > .cut").allInnerTexts();
  await t.until("asks is first", async () => (await idle())[0] === "asks");
  await t.berth("send", "talk", "say:all tests pass", "--wait");
  await row("talk").getByText("all tests pass").waitFor();
  await t.until("talk is first", async () => (await idle())[0] === "talk");
  // Under a pointer rows keep their places.
  await row("asks").hover();
  await t.berth("send", "asks", "say:and documented", "--wait");
  await row("asks").getByText("and documented").waitFor();
  t.check((await idle())[0] === "talk", "a row moved under the pointer");
  await page.locator("main").hover();
  await t.until("asks is first again", async () => (await idle())[0] === "asks");
  // How a run ended: by itself, by a failure, by a stop.
  await t.berth("run", "-d", "--name", "breaks", "--", t.agent, "exit:3");
  await row("breaks").locator(".does.bad", { hasText: "Failed · exit 3" }).waitFor();
  await page.goto(`${t.url}/#/s/breaks`);
  await page.locator("main .pill.failed", { hasText: "Failed" }).waitFor();
  await page.goto(`${t.url}/#/s/echo`);
  await page.click("#session-menu");
  await page.click("[role=menuitem]:has-text('Stop')");
  await page.click(".dialog button:has-text('Stop')");
  await row("echo").locator(".does", { hasText: "Stopped by you" }).waitFor();
  await t.berth("stop", "talk");
  await row("talk").locator(".does", { hasText: "Stopped by a script" }).waitFor();
  t.check((await row("talk").locator(".does.bad").count()) === 0, "a stop is shown as a failure");
  // A session has a title that people know.
  const { id } = await t.json("run", "-d", "--agent", "fake", "--cwd", t.dir);
  await page.locator(`.srow[data-session='${id}']`).waitFor();
  t.check((await page.locator(`.srow[data-session='${id}'] .name > .cut`).innerText()) !== id, "an id is a title");
}
