// Keys for a terminal: once the page says that they go there, none is lost; before that, and when the connection is
// lost, the page says that they were not sent.
const text = (page) => page.locator(".xterm-rows").innerText().then((all) => all.replaceAll("\u00a0", " "));
export default async function (t) {
  const { page } = await t.person();
  const unsent = page.locator(".toast", { hasText: "Keys were not sent" });
  // Attached before the browser has loaded the script that draws a terminal.
  let arrives;
  const held = new Promise((resolve) => { arrives = resolve; });
  await page.route("**/vendor/xterm.js", async (route) => { await held; await route.continue(); });
  await page.goto(`${t.url}/#/s/echo`);
  await page.click("#take-over");
  await page.getByRole("button", { name: "Detach" }).waitFor();
  await page.keyboard.type("early");
  await unsent.waitFor();
  t.check((await unsent.count()) === 1, "it is said once");
  await unsent.getByRole("button").click();
  arrives();
  await page.locator(".bar.writing").waitFor();
  await page.keyboard.type("typed with a key");
  await t.until("the echo", async () => (await text(page)).includes("typed with a key"));
  t.check(!(await text(page)).includes("early"), "keys arrived that were said not to");
  // A connection that is lost, and back.
  await t.killGateway();
  await page.getByText("reconnecting").waitFor();
  await page.keyboard.type("meanwhile");
  await unsent.waitFor();
  await t.startGateway();
  await page.locator(".bar.writing").waitFor();
  await page.keyboard.type(" and again");
  await t.until("the echo", async () => (await text(page)).includes("typed with a key and again"));
}
