// The agent's transcript goes, and a copy of it is put back from the details.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

export default async function (t) {
  const project = path.join(t.dir, "account-claude/projects/-project");
  mkdirSync(project, { recursive: true });
  await t.berth("run", "-d", "--agent", "remembers", "--name", "keeps", "--cwd", t.dir);
  const record = path.join(project, `${(await t.json("show", "keeps")).conversation_id}.jsonl`);
  const points = async () => (await t.json("history", "keeps")).points.length;
  /** A turn in which the record grows, as agents write theirs. */
  const turn = async (words, number) => {
    await t.berth("send", "keeps", `touch:${t.dir}/begun-${words} wait-file:${t.dir}/go-${words} say:${words}`);
    await t.until("it has begun", () => existsSync(path.join(t.dir, `begun-${words}`)));
    writeFileSync(record, `${JSON.stringify({ type: "user", uuid: words, message: { role: "user", content: words } })}\n`, { flag: "a" });
    await t.touch(`go-${words}`);
    await t.until("it is copied", async () => (await points()) === number);
  };
  await turn("one", 1);
  await turn("two", 2);
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/keeps`);
  const history = page.locator("#history");
  await history.getByText("2 copies").waitFor();
  await history.locator("summary").click();
  await history.locator("li", { hasText: "Turn 1" }).waitFor();
  t.check((await history.locator("button").count()) === 0, "a record that is there is offered to be written over");
  const kept = readFileSync(record, "utf8");
  rmSync(record);
  await t.berth("stop", "keeps");
  await history.getByText("the transcript is gone").waitFor();
  await t.accessible(page, "a record that is gone");
  await history.locator("li", { hasText: "Turn 2" }).locator("button").click();
  await page.locator(".dialog button", { hasText: "Restore" }).click();
  await page.locator(".toast.good", { hasText: "The transcript is restored" }).waitFor();
  t.check(readFileSync(record, "utf8") === kept, "something else was put back");
  await history.getByText("2 copies").waitFor();
  await page.locator("main button", { hasText: "Resume" }).click();
  await page.locator("main .pill", { hasText: "Idle" }).waitFor();
}
