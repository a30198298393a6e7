// An agent in its own interface that reports nothing takes no turns; its own record is read all the same.
export default async function (t) {
  await t.berth("run", "-d", "--agent", "silent", "--tui", "--name", "quiet", "--cwd", t.dir);
  const { page } = await t.person();
  await page.goto(`${t.url}/#/s/quiet`);
  await page.locator(".xterm-rows").waitFor();
  await t.berth("input", "quiet", "hello there", "--enter");
  const status = await t.json("show", "quiet");
  t.check(!status.turns, `it takes turns: ${JSON.stringify(status.turns)}`);
  await page.click("#tab-chat");
  await page.locator(".talk").getByText("ECHO: hello there").waitFor();
  t.check((await page.locator("#message").count()) === 0, "there is a box for prompts that it does not take");
  await t.shot(page, "silent-desktop");
}
