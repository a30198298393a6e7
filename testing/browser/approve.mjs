// A question of the agent is shown in full, in the list, in the session and to screen readers, and answered once.
export default async function (t) {
  const { page } = await t.person(t.PHONE);
  const command = `cd ${t.dir} && printf '%s' "${"long ".repeat(60)}end"`;
  await t.berth("send", "talk", `ask:Bash:${command}`);
  await page.locator("#rows .group.needs").waitFor();
  t.check((await page.title()).startsWith("(1)"), `title: ${await page.title()}`);
  await page.locator(".srow", { hasText: "talk" }).click();
  const asked = page.locator("[data-ask]");
  await asked.waitFor();
  t.check((await asked.locator("pre").innerText()).includes(command.trim()), "the command is not there in full");
  await t.fits(page, "a question on a phone");
  await t.accessible(page, "a question");
  await asked.locator("button.yes").dblclick({ delay: 0, noWaitAfter: true });
  await page.locator(".talk").getByText(/Bash: allow/).waitFor();
  await asked.waitFor({ state: "detached" });
  await t.berth("send", "talk", "ask:Bash:rm -rf /");
  await asked.waitFor();
  await t.answer(asked, "button.no");
  await page.locator(".talk").getByText(/Bash: reject/).waitFor();
  // A no with a reason, from the message box: the agent reads it, and the transcript says who answered what.
  await t.berth("send", "talk", "ask:Bash:echo ${#HOME}; rm -rf /tmp/build # all of it");
  await asked.waitFor();
  t.check((await asked.locator("pre .h-s, pre .h-k, pre .h-n, pre .h-f, pre .h-c").allInnerTexts()).every((text) => !text.includes("#")), "a part of a command looks like a comment");
  t.check((await asked.locator("h2").innerText()) === "Allow Bash?", `the heading: ${await asked.locator("h2").innerText()}`);
  await page.locator("#message[placeholder='Tell it what to do instead']").fill("use mktemp instead");
  await t.until("the reason is sent", async () => {
    await page.click("[aria-label='deny with this reason']", { timeout: 5000 }).catch(() => {});
    return asked.waitFor({ state: "detached", timeout: 2000 }).then(() => true, () => false);
  });
  const answers = (await t.berth("log", "talk", "--json")).split("\n").map((line) => JSON.parse(line)).filter((one) => /answered/.test(one.event));
  t.check(answers.length === 3, `answered: ${JSON.stringify(answers)}`);
  t.check(answers[2].text === "use mktemp instead", `the reason: ${JSON.stringify(answers[2])}`);
  t.check((await page.inputValue("#message")) === "", "the reason is still in the box");
}
