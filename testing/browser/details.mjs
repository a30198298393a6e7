// The work of a session and its background: tool calls folded, changes as lines, the context window, processes, ports,
// memory, helpers, attached clients.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
export default async function (t) {
  await t.berth("send", "talk", "context:45210:200000\ntool:Bash:cargo test --workspace\nsay:tested", "--wait");
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/talk`);
  const tool = page.locator("details.tool", { hasText: "cargo test --workspace" });
  await tool.waitFor();
  t.check((await tool.locator(".body").count()) === 0, "a tool call is not folded");
  await tool.locator("summary").click();
  await tool.locator(".body").waitFor();
  await tool.locator("summary").click();
  await tool.locator(".body").waitFor({ state: "detached" });
  // The context window, before the processes; it falls with a compaction.
  const fact = (name) => page.locator(".details dt", { hasText: name }).locator("xpath=following-sibling::dd[1]");
  await fact("Context").getByText("45,210 of 200,000 tokens (23 %)").waitFor();
  const widths = await fact("Context").locator(".meter").evaluate((meter) => [meter.firstElementChild.offsetWidth, meter.offsetWidth]);
  t.check(Math.abs(widths[0] / widths[1] - 0.23) < 0.02, `the bar: ${widths}`);
  t.check(await page.evaluate(() => [...document.querySelectorAll(".details dt, .details h2")].map((one) => one.textContent)).then((all) => all.indexOf("Context") < all.indexOf("Processes")), "context is behind the processes");
  await t.berth("send", "talk", "context:3186:200000 compacted", "--wait");
  await fact("Context").getByText("3,186 of 200,000 tokens (2 %)").waitFor();
  await t.accessible(page, "the context window");
  // A change: asked for as lines that go and come, and told so afterwards.
  await t.berth("send", "talk", "ask:Edit:src/login.rs");
  const asked = page.locator("[data-ask] .diff");
  await asked.locator(".l.add").first().waitFor();
  t.check((await asked.getAttribute("aria-label")).includes("src/login.rs"), "the file is not named");
  await t.accessible(page, "a change that is asked for");
  await t.answer(page.locator("[data-ask]"), "button.yes");
  const change = page.locator("details.tool", { hasText: "Edit" });
  await change.locator(".stat .plus").waitFor();
  await change.locator("summary").click();
  await change.locator(".l.add .code").first().waitFor();

  // Branch and changed files come before the processes.
  const repository = `${t.dir}/repository`;
  mkdirSync(repository);
  execFileSync("git", ["init", "-q", "-b", "fix-login", repository]);
  writeFileSync(`${repository}/new.rs`, "");
  await t.berth("run", "-d", "--agent", "fake", "--name", "repository", "--cwd", repository);
  await page.goto(`${t.url}/#/s/repository`);
  await fact("Branch").getByText("fix-login").waitFor();
  await fact("Changed files").locator("summary", { hasText: "1 file" }).click();
  await fact("Changed files").getByText("new.rs").waitFor();
  t.check((await page.locator(".details dt", { hasText: "Context" }).count()) === 0, "a context that no agent told of is shown");
  await t.accessible(page, "changed files");

  await t.berth("run", "-d", "--name", "serves", "--", t.agent, "listen-tcp:0", "child", "[", "hang", "]", "hang");
  await t.berth("helper", "ensure", "web", "--owner", "serves", "--", t.agent, "hang");
  await page.goto(`${t.url}/#/s/serves`);
  const details = page.locator(".details");
  const row = (name) => details.locator("dt", { hasText: name }).locator("xpath=following-sibling::dd[1]");
  const tile = (name) => details.locator(".tile", { hasText: name }).locator("b");
  // The session's keeper is one of three processes.
  await t.until("its processes are counted", async () => (await tile("processes").innerText()) === "3" && (await details.locator(".procs tbody tr").count()) === 3);
  t.check(/[1-9][\d.]* [kM]B/.test(await tile("memory").innerText()), `memory: ${await tile("memory").innerText()}`);
  const output = await t.berth("output", "serves");
  const port = output.match(/listening tcp:127\.0\.0\.1:(\d+)/)[1];
  await details.locator(".tag.mono", { hasText: port }).waitFor();
  await details.locator(".facts li", { hasText: "web" }).getByText("1 owner").waitFor();
  t.check((await row("Terminal").innerText()) === "detached", "a client is attached");
  await page.click("#take-over");
  await page.locator(".bar.writing").waitFor();
  await t.until("this browser is attached", async () => /^attached: this browser since /.test(await row("Terminal").innerText()));
  // Attached clients: their names where the gateway tells them, else their number.
  let told = {};
  await page.route(/\/v1\/sessions\/[^/]+$/, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), clients: 2, attached: undefined, ...told } });
  });
  await row("Clients").getByText("2 clients").waitFor();
  told = { attached: [{ place: "pts/3 on vm", since: new Date().toISOString(), writes: false }, { place: "firefox-on-android", since: new Date().toISOString(), writes: true }] };
  await row("Clients").getByText("pts/3 on vm").waitFor();
  t.check(/pts\/3 on vm watching since .*\n?firefox-on-android attached since /s.test(await row("Clients").innerText()), `attached: ${await row("Clients").innerText()}`);
}
