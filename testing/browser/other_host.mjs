// Another host, over a real ssh: its terminal is watched and typed into, a session is started and found there; when the
// host is away, the page says so and goes on.
const text = (page) => page.locator(".xterm-rows").innerText().then((all) => all.replaceAll("\u00a0", " "));
export default async function (t) {
  const { page } = await t.person();
  const row = page.locator(".srow", { has: page.locator(".tag.host", { hasText: "box" }) });
  await row.filter({ hasText: "far" }).click();
  await t.until("the screen of another host is drawn", async () => (await text(page)).includes("ready over there"));
  await page.click("#take-over");
  await page.locator(".bar.writing").waitFor();
  await page.keyboard.type("typed from afar");
  await t.until("the echo", async () => (await text(page)).includes("typed from afar"));
  const seen = JSON.parse(await t.there("show", "far", "--json"));
  t.check(/^browser\.chrome-on-linux at 127\.0\.0\.1/.test(seen.writer?.place), `who types there: ${JSON.stringify(seen.writer)}`);
  t.check((await t.there("output", "far")).includes("typed from afar"), "the keys did not arrive");
  // The gateway is killed with everything it had open: the page comes back as the writer it was.
  await t.killGateway();
  await page.getByText("reconnecting").waitFor();
  await t.startGateway();
  await page.locator(".bar.writing", { hasText: "Attached" }).waitFor();
  await page.click(".xterm-screen");
  await page.keyboard.type(" and again");
  await t.until("typing goes on", async () => (await text(page)).includes("and again"));
  await page.click("button:has-text('Detach')");

  // A refusal is shown, and Escape closes the dialog all the same.
  await page.click("[aria-label='new session']");
  await page.selectOption("#new-host", "box");
  await page.locator(".choice", { hasText: "fake" }).click();
  await page.fill("#new-cwd", "/no/such/directory");
  await page.click(".dialog button:has-text('Start')");
  await page.locator(".dialog .problem", { hasText: "/no/such/directory" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".dialog").waitFor({ state: "detached" });

  await page.click("[aria-label='new session']");
  await page.selectOption("#new-host", "box");
  await page.locator(".choice", { hasText: "fake" }).click();
  await page.fill("#new-cwd", "/");
  await page.fill("#new-prompt", "a needle over there");
  await page.fill("#new-name", "made-there");
  await t.accessible(page, "a new session, with hosts");
  await page.click(".dialog button:has-text('Start')");
  await page.locator(".talk").getByText("ECHO: a needle over there").waitFor();
  t.check(page.url().endsWith("#/s/box%2Fmade-there"), `the address: ${page.url()}`);
  t.check(JSON.parse(await t.there("turns", "made-there", "--json")).length === 1, "it is not there, or was started twice");
  t.check(!(await t.berth("ls", "--all", "--json")).includes("made-there"), "it was started here");
  await row.filter({ hasText: "made-there" }).waitFor();

  // Search results from both hosts; each names its host.
  await t.berth("send", "talk", "a needle right here", "--wait");
  await page.fill("#find", "a needle");
  const there = page.locator(".hit", { has: page.locator(".tag.host", { hasText: "box" }) });
  await there.first().waitFor();
  await page.locator(".hit", { hasText: "right here" }).first().waitFor();
  t.check((await page.locator("#not-searched").count()) === 0, "a host that answers was not searched");
  await page.goto(`${t.url}/#/`);
  await there.filter({ hasText: "over there" }).first().click();
  await page.locator(".turn.found", { hasText: "a needle over there" }).waitFor();

  // A host that is away is named, and results from this host are found all the same.
  await t.killGateway();
  await t.cutHost();
  await t.startGateway();
  await page.reload();
  await page.locator(".srow.away").first().waitFor();
  await page.fill("#find", "a needle right");
  await page.locator(".hit", { hasText: "right here" }).first().waitFor();
  await page.locator("#not-searched", { hasText: "box" }).waitFor();
  await t.accessible(page, "found, with a host that is away");
  await page.click("[aria-label='new session']");
  t.check(await page.locator("#new-host option[value=box]").evaluate((one) => one.disabled), "a host that is away can be chosen");
}
