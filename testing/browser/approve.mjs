// What the agent asks is shown in full, in the list, in the session and to screen readers, and answered once.
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
  await page.getByText(/Bash: allow/).waitFor();
  await asked.waitFor({ state: "detached" });
  await t.berth("send", "talk", "ask:Bash:rm -rf /");
  await asked.waitFor();
  await t.answer(asked, "button.no");
  await page.getByText(/Bash: reject/).waitFor();
  const answers = (await t.berth("log", "talk", "--json")).split("\n").map((line) => JSON.parse(line)).filter((one) => /answered/.test(one.event));
  t.check(answers.length === 2, `answered: ${JSON.stringify(answers)}`);
}
