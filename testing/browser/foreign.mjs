// Conversations that were not started here: seen, read, imported, and adopted from processes that have them open. The
// one that is adopted runs in its own terminal, and takes turns from the page.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import path from "node:path";

const id = (digit) => "11111111-1111-4111-8111-111111111111".replaceAll("1", digit);

export default async function (t) {
  const account = path.join(t.dir, "account-claude");
  mkdirSync(path.join(account, "projects/-project"), { recursive: true });
  mkdirSync(path.join(account, "sessions"), { recursive: true });
  /** A conversation, as Claude Code writes it. */
  const had = (conversation, words) => {
    const common = { cwd: t.dir, sessionId: conversation, version: "2.1.325", gitBranch: "main", timestamp: new Date().toISOString() };
    const lines = [
      { ...common, type: "user", uuid: "u1", parentUuid: null, message: { role: "user", content: words } },
      { ...common, type: "assistant", uuid: "a1", parentUuid: "u1", message: { role: "assistant", model: "m", content: [{ type: "text", text: `the answer to **${words}**` }] } },
    ];
    writeFileSync(path.join(account, `projects/-project/${conversation}.jsonl`), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  };
  had(id("a"), "mend the login page");
  had(id("b"), "write a poem");
  // A process that has a conversation open, by Claude Code's own list of its processes.
  const others = [];
  const opens = (conversation) => {
    const one = spawn("sleep", ["1000"]);
    others.push(one);
    one.ended = new Promise((resolve) => one.on("exit", resolve));
    const start = readFileSync(`/proc/${one.pid}/stat`, "utf8").split(") ")[1].split(" ")[19];
    writeFileSync(path.join(account, `sessions/${one.pid}.json`), JSON.stringify({ pid: one.pid, sessionId: conversation, procStart: start }));
    return one;
  };
  try {
    const other = opens(id("b"));

    const { page } = await t.person(t.PHONE);
    await page.locator("#foreign", { hasText: "1 open" }).click();
    const one = (words) => page.locator(".conv", { hasText: words });
    await one("write a poem").getByText(`Open in pid ${other.pid}`).waitFor();
    t.check((await page.locator(".conv").first().getAttribute("data-conversation")) === id("b"), "the open conversation is not first");
    t.check((await one("write a poem").getByText("Import").count()) === 0, "an open conversation is offered to be imported");
    await one("mend the login page").locator(".fold").click();
    await one("mend the login page").locator(".md strong", { hasText: "mend the login page" }).waitFor();
    await t.fits(page, "conversations not started here");
    await t.accessible(page, "conversations not started here");
    await t.shot(page, "foreign-phone");
    // All of them: the number, the host, and without conversations that are open.
    await page.locator("header button", { hasText: "Import all" }).click();
    await page.locator(".dialog", { hasText: "Import 1 conversation?" }).getByText("All past conversations of this host").waitFor();
    await page.locator(".dialog button", { hasText: "Cancel" }).click();
    await one("mend the login page").locator("button", { hasText: "Import" }).click();
    await page.locator(".dialog button", { hasText: "Import" }).click();
    await page.locator("h1", { hasText: "mend-the-login-page" }).waitFor();
    await page.locator("main .pill", { hasText: "Ended" }).waitFor();
    await page.locator(".turn .md", { hasText: "the answer to mend the login page" }).waitFor();

    // A guest may look, and is offered no action that would be refused.
    const guest = await t.person(t.DESK, await t.berth("token", "new", "--scope", "read", "--name", "guest"));
    await guest.page.goto(`${t.url}/#/foreign`);
    await guest.page.locator(".conv", { hasText: "write a poem" }).waitFor();
    t.check((await guest.page.locator("main button", { hasText: /Adopt|Import/ }).count()) === 0, "a reader is offered to adopt");
    await t.shot(guest.page, "foreign-desktop");

    await page.goto(`${t.url}/#/foreign`);
    t.check((await one("mend the login page").count()) === 0, "a conversation that is a session now is still listed");
    await one("write a poem").locator("button", { hasText: "Adopt" }).click();
    await page.locator("#who-has-it", { hasText: `pid ${other.pid}` }).waitFor();
    await page.locator(".choice", { hasText: "Own interface" }).click();
    await t.fits(page, "adopting");
    await t.accessible(page, "adopting");
    await t.shot(page, "adopt-phone");
    // A second process comes after the first was named: it is named as well, before any process is ended.
    const second = opens(id("b"));
    await page.locator(".dialog button", { hasText: "End it there and adopt" }).click();
    await page.locator("#who-has-it", { hasText: `pid ${second.pid}` }).waitFor();
    t.check(others.every((one) => one.exitCode === null && one.signalCode === null), "a process was ended that was not named");
    await page.locator(".dialog button", { hasText: "End it there and adopt" }).click();
    await Promise.all([other.ended, second.ended]);
    await page.locator("h1", { hasText: "write-a-poem" }).waitFor();
    await page.locator("main .pill", { hasText: "Idle" }).waitFor();

    // The session runs in its own terminal, and gets turns from the box below.
    await page.locator(".xterm-rows").waitFor();
    await page.fill("#message", "another verse");
    await page.click("[aria-label='send']");
    await t.until("it answers on its screen", async () => (await page.locator(".xterm-rows").innerText()).replaceAll("\u00a0", " ").includes("ECHO: another verse"));
    await t.fits(page, "a terminal that takes turns");
    await t.shot(page, "tui-phone");
    // Keys and messages: one box at a time.
    t.check((await page.locator("#line").count()) === 0, "two boxes to write into");
    await page.click("#take-over");
    await page.locator("#line").waitFor();
    t.check((await page.locator("#message").count()) === 0, "two boxes to write into");
    await page.click("main button:has-text('Detach')");
    await page.locator("#message").waitFor();
    await page.click("#tab-chat");
    await page.locator(".turn[aria-label='turn 1, done']", { hasText: "ECHO: another verse" }).waitFor();
    t.check((await t.turns("write-a-poem")).length === 1, "sent twice");
    // If the session ends while the user types, there are no keys any more, and messages again.
    await page.click("#tab-term");
    await page.click("#take-over");
    await page.locator("#line").waitFor();
    await t.berth("stop", "write-a-poem");
    await page.locator("#message").waitFor();
  } finally {
    for (const one of others) one.kill("SIGKILL");
  }
}
