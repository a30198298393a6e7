// The keyboard: every key of the list of keys, where there is one.
import { kill } from "node:process";
export default async function (t) {
  const { page } = await t.person();
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const names = () => page.locator(".srow .name > .cut").allInnerTexts();
  const isAt = (name) => page.waitForURL((url) => url.hash === (name ? `#/s/${name}` : "#/"));
  await t.until("all three are listed", async () => (await names()).length === 3);
  const [first, second] = await names();
  await press("j", "Enter");
  await isAt(first);
  await press("j");
  await isAt(second);
  await press("k");
  await isAt(first);
  await press("g", "l");
  await isAt(null);
  await page.locator("main[aria-label^=session]").waitFor({ state: "detached" });
  // A key that comes before the page that the last key opened is drawn.
  await page.evaluate(() => {
    const row = document.querySelector("#rows .srow");
    row.focus();
    location.hash = row.getAttribute("href");
    row.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
  });
  await isAt(second);
  await press("g", "l");
  await isAt(null);
  // Sessions that need you, and the answers by their numbers.
  await t.berth("send", "asks", "ask:Bash:make");
  await page.locator("#rows .group.needs").waitFor();
  await press("n");
  await isAt("asks");
  await page.locator("[data-ask] .acts button:not([aria-disabled=true])").first().waitFor();
  await press("1");
  await page.locator(".talk").getByText(/Bash: allow/).waitFor();
  await press("m");
  t.check(await page.evaluate(() => document.activeElement.id === "message"), "m does not go to the box");
  await page.keyboard.type("jkxe");
  t.check((await page.inputValue("#message")) === "jkxe", "letters that are typed are shortcuts");
  await press("Escape");
  await page.locator(".details").waitFor();
  await press("i");
  await page.locator(".details").waitFor({ state: "detached" });
  await press("i");
  await page.locator(".details").waitFor();
  await press("?");
  await page.locator(".dialog.keys").waitFor();
  await press("Escape");
  await page.locator(".dialog").waitFor({ state: "detached" });
  // Sessions that are over are resumed: one that was stopped, and one that lost its keeper.
  await page.goto(`${t.url}/#/s/talk`);
  await t.berth("stop", "talk");
  await page.locator("main .pill", { hasText: "Ended" }).waitFor();
  await press("r");
  await page.locator("main .pill", { hasText: "Idle" }).waitFor();
  await page.goto(`${t.url}/#/s/echo`);
  await page.locator("main .pill", { hasText: "Running" }).waitFor();
  kill((await t.json("show", "echo")).keeper_pid, "SIGKILL");
  await page.locator("main .pill", { hasText: "Lost" }).waitFor();
  await press("r");
  await page.locator("main .pill", { hasText: "Running" }).waitFor();
  t.check((await t.json("show", "echo")).epoch === 2, "it was not resumed");
  await press("e");
  await page.locator(".dialog button", { hasText: "Archive" }).click();
  await page.locator(".srow", { hasText: "echo" }).waitFor({ state: "detached" });
  await page.locator(".dialog").waitFor({ state: "detached" });
  await press("c");
  await page.locator(".dialog #new-name").waitFor();
}
