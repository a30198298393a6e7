// Every view at phone and desktop width, light and dark: fits, can be tapped, can be read and be read out.
import path from "node:path";
export default async function (t) {
  await t.berth("send", "talk", "tool:Bash:cargo test\nthink:first this\nsay:**bold** and `code`\n", "--wait");
  await t.berth("send", "asks", "ask:Edit:src/login.rs");
  for (const [size, options] of [["phone", t.PHONE], ["desktop", t.DESK]]) {
    for (const colorScheme of ["light", "dark"]) {
      const { context, page } = await t.person({ ...options, colorScheme });
      const theme = await page.evaluate(() => document.documentElement.dataset.theme);
      t.check(theme === colorScheme, `${colorScheme} was wanted, ${theme} it is`);
      const view = async (name, hash, ready) => {
        if (hash !== null) await page.goto(`${t.url}/${hash}`);
        await page.locator(ready).first().waitFor();
        if (size === "phone") await t.fits(page, `${name}, ${size}`);
        await t.accessible(page, `${name}, ${size}, ${colorScheme}`);
        if (process.env.BERTH_SHOTS) await page.screenshot({ path: path.join(process.env.BERTH_SHOTS, `${name}-${size}-${colorScheme}.png`) });
      };
      await view("list", "#/", ".srow");
      t.check((await page.locator("#rows .group").first().innerText()).startsWith("Needs you"), "who needs you is not first");
      await view("talk", "#/s/talk", ".md strong");
      await view("asks", "#/s/asks", "[data-ask]");
      await view("terminal", "#/s/echo", ".xterm-rows");
      if (size === "phone") { await page.goto(`${t.url}/#/s/talk/details`); await page.click("#evidence summary"); await view("details", null, ".facts li"); }
      else { await page.click("#evidence summary"); await page.locator(".details .facts li").first().waitFor(); }
      await page.goto(`${t.url}/#/`);
      await page.click("[aria-label='new session']");
      await view("new", null, ".dialog #new-name");
      await page.keyboard.press("Escape");
      await page.locator(".dialog").waitFor({ state: "detached" });
      await context.close();
    }
  }
  // The choice is kept, and wins over the system.
  const { page } = await t.person();
  await page.keyboard.press("t");
  await page.reload();
  await page.locator("html[data-theme=dark]").waitFor();
}
