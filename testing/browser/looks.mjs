// Every view at phone and desktop width, light and dark: fits, can be tapped, can be read and be read out.
export default async function (t) {
  await t.berth("send", "talk", "tool:Bash:cargo test\nthink:first this\nsay:**bold** and `code`\\n\\n```rust\\nfn main() {\\n    let answer = 42; // why\\n}\\n```\n", "--wait");
  await t.berth("send", "asks", "ask:Edit:src/login.rs");
  // A browser that is slow to draw is told its scope before any script in the page listens.
  const { context: late } = await t.stranger();
  await late.addInitScript(() => {
    const after = window.setTimeout.bind(window);
    window.requestAnimationFrame = (draw) => after(draw, 1000);
    window.setTimeout = (act, ms, ...rest) => after(act, ms > 0 && ms <= 100 ? 1000 : ms, ...rest);
  });
  await (await t.tab(late)).locator("#token").waitFor();
  await late.close();
  for (const [size, options] of [["phone", t.PHONE], ["desktop", t.DESK]]) {
    for (const colorScheme of ["light", "dark"]) {
      const stranger = await t.stranger({ ...options, colorScheme });
      // The login page, and the page that a link leads to: both look alike.
      for (const [name, where] of [["signin", "/"], ["login", "/login"]]) {
        await stranger.page.goto(`${t.url}${where}`);
        await stranger.page.locator("#token").waitFor();
        t.check((await stranger.page.locator("h1").innerText()) === "Sign in", `${name} is called otherwise`);
        if (size === "phone") await t.fits(stranger.page, `${name}, ${size}`);
        await t.accessible(stranger.page, `${name}, ${size}, ${colorScheme}`);
        await t.shot(stranger.page, `${name}-${size}-${colorScheme}`);
      }
      await stranger.context.close();
      const { context, page } = await t.person({ ...options, colorScheme });
      const theme = await page.evaluate(() => document.documentElement.dataset.theme);
      t.check(theme === colorScheme, `${colorScheme} was wanted, ${theme} it is`);
      const view = async (name, hash, ready) => {
        if (hash !== null) await page.goto(`${t.url}/${hash}`);
        await page.locator(ready).first().waitFor();
        if (size === "phone") await t.fits(page, `${name}, ${size}`);
        await t.accessible(page, `${name}, ${size}, ${colorScheme}`);
        await t.shot(page, `${name}-${size}-${colorScheme}`);
      };
      await view("list", "#/", ".srow");
      t.check((await page.locator("#rows .group").first().innerText()).startsWith("Needs you"), "sessions that need you are not first");
      await view("talk", "#/s/talk", ".md strong");
      t.check((await page.locator(".md pre .h-k").allInnerTexts()).join() === "fn,let", "code has no colours");
      await view("asks", "#/s/asks", "[data-ask]");
      // An option of an agent may be a whole sentence, with a command in it.
      await page.locator("[data-ask] .acts button").nth(1).evaluate((one) => { one.textContent = "Allow, and always allow Bash(cargo test --workspace *), Bash(git commit *)"; });
      if (size === "phone") await t.fits(page, "an answer that is a sentence");
      await view("terminal", "#/s/echo", ".xterm-rows");
      if (size === "phone") { await page.goto(`${t.url}/#/s/talk/details`); await page.click("#evidence summary"); await view("details", null, ".facts li"); }
      else { await page.click("#evidence summary"); await page.locator(".details .facts li").first().waitFor(); }
      await page.goto(`${t.url}/#/`);
      await page.click("[aria-label='more']");
      await page.click("[role=menuitem]:has-text('Link another device')");
      await page.click(".dialog button:has-text('Make the link')");
      await view("link", null, ".dialog .qr");
      await page.keyboard.press("Escape");
      await page.locator(".dialog").waitFor({ state: "detached" });
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
