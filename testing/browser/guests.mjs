// A guest who may only look, or only talk, is offered nothing else; a login that ends says so.
const items = async (page) => { await page.click("#session-menu"); await page.locator("[role=menuitem]:focus").waitFor(); const all = await page.locator("[role=menuitem]").allInnerTexts(); await page.keyboard.press("Escape"); return all; };
export default async function (t) {
  await t.berth("send", "asks", "ask:Edit:src/login.rs");
  const key = (scope) => t.berth("token", "new", "--scope", scope, "--name", scope);
  const { page: reader } = await t.person(t.PHONE, await key("read"));
  await reader.getByText("Read only").first().waitFor();
  t.check((await reader.locator("[aria-label='new session']").count()) === 0, "a reader may start sessions");
  await reader.goto(`${t.url}/#/s/talk`);
  await reader.locator("main .strip", { hasText: "Read only" }).waitFor();
  t.check((await reader.locator("#message").count()) === 0, "a reader is offered the send box");
  t.check((await items(reader)).join() === "Download as Markdown", `a reader is offered ${await items(reader)}`);
  const { page: talker } = await t.person(t.DESK, await key("send"));
  await talker.goto(`${t.url}/#/s/asks`);
  await talker.locator("#message").waitFor();
  await talker.locator("[data-ask]", { hasText: "cannot answer" }).waitFor();
  t.check((await talker.locator("[data-ask] button").count()) === 0, "a guest who may only send is offered to answer");
  t.check(!/Stop|Archive|Rename|Delete/.test(await items(talker)), `who may send is offered ${await items(talker)}`);
  await t.berth("token", "revoke", "read");
  await reader.getByText("You were signed out").waitFor();
}
