// A session goes on with the agent's other interface, and back, in one conversation.
import { mkdirSync, writeFileSync } from "node:fs";

export default async function (t) {
  await t.berth("run", "-d", "--agent", "switches", "--name", "two", "--cwd", t.dir);
  await t.berth("send", "two", "before the switch", "--wait");
  // The chat's agent keeps its record elsewhere; the other interface goes on only with a record that exists.
  const { conversation_id: id } = await t.json("show", "two");
  const said = [["user", "before the switch"], ["assistant", [{ type: "text", text: "ECHO: before the switch" }]]];
  mkdirSync(`${t.dir}/account-claude/projects/-w`, { recursive: true });
  writeFileSync(`${t.dir}/account-claude/projects/-w/${id}.jsonl`, said.map(([type, content], n) => `${JSON.stringify({ type, uuid: `r${n}`, parentUuid: n ? `r${n - 1}` : null, message: { role: type, content } })}\n`).join(""));
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/two`);
  await page.locator(".talk").getByText("ECHO: before the switch").waitFor();
  t.check((await page.locator("#tab-term").count()) === 0, "a chat has a terminal");
  const switchTo = async (name) => {
    await page.click("#session-menu");
    await page.click(`[role=menuitem]:has-text('${name}')`);
    await page.click(".dialog button:has-text('Switch')");
    await page.locator(".dialog").waitFor({ state: "detached" });
  };
  await switchTo("Switch to the agent’s own interface");
  await page.locator("#tab-term").click();
  await page.locator(".xterm-rows").waitFor();
  await t.until("the terminal interface runs", async () => (await t.json("show", "two")).interface === "terminal");
  await page.locator("#tab-chat").click();
  await page.locator(".talk").getByText("ECHO: before the switch").waitFor();
  await t.shot(page, "switched-desktop");
  // The terminal's agent is at work: the switch waits for it, and the page says so.
  await t.until("the agent takes a prompt", async () => (await t.json("show", "two")).state === "idle");
  await page.fill("#message", "HOLD finish");
  await page.press("#message", "Enter");
  await t.until("the turn runs", async () => (await t.json("show", "two")).state === "working");
  await switchTo("Switch to chat");
  await page.locator(".strip", { hasText: "switches to chat when the running turn ends" }).waitFor();
  await t.touch("finish");
  await page.locator("#tab-term").waitFor({ state: "detached" });
  await page.locator(".strip", { hasText: "switches to chat" }).waitFor({ state: "detached" });
  await page.fill("#message", "after the switch");
  await page.press("#message", "Enter");
  await page.locator(".talk").getByText("ECHO: after the switch").waitFor();
}
