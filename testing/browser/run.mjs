// Runs one scenario in a real browser: node run.mjs SCENARIO
//
// The test that started us has the sessions; each request to it is a line of JSON on our standard output, its answer a
// line on our standard input. So nothing outlives the test, however we end.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { homedir } from "node:os";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

const cache = process.env.BERTH_BROWSER || path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), ".cache"), "berth-browser");
const require = createRequire(path.join(cache, "node_modules", "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const waiting = [];
createInterface({ input: process.stdin }).on("line", (line) => waiting.shift()?.(JSON.parse(line)));
function ask(question) {
  process.stdout.write(`${JSON.stringify(question)}\n`);
  return new Promise((resolve) => waiting.push(resolve));
}

export function check(is, words) {
  if (!is) throw new Error(words);
}

const programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const browser = await chromium.launch({ executablePath: process.env.BERTH_CHROMIUM || programs.find(existsSync), args: ["--no-sandbox"] });
const PATIENCE_MS = 60_000;
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
const DESK = { viewport: { width: 1440, height: 900 } };
const url = process.env.BERTH_URL, token = process.env.BERTH_TOKEN;
const trouble = [];
let last = null;

const t = {
  check, url, PHONE, DESK, dir: process.env.BERTH_LAB, agent: process.env.BERTH_AGENT,
  /** Runs berth; its standard output. */
  async berth(...args) {
    const said = await ask({ berth: args });
    check(said.code === 0, `berth ${args.join(" ")}: ${JSON.stringify(said)}`);
    return said.out.trimEnd();
  },
  /** The same on the other host. */
  async there(...args) {
    const said = await ask({ there: args });
    check(said.code === 0, `berth ${args.join(" ")}, there: ${JSON.stringify(said)}`);
    return said.out.trimEnd();
  },
  json: async (...args) => JSON.parse(await t.berth(...args, "--json")),
  turns: async (session) => t.json("turns", session),
  killGateway: () => ask({ kill: true }),
  startGateway: () => ask({ serve: true }),
  /** From now on no new connection to the other host is made. */
  cutHost: () => ask({ cut: true }),
  touch: (file) => ask({ touch: file }),
  /** A browser of its own. */
  async stranger(options = DESK) {
    const context = await browser.newContext({ colorScheme: "light", ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    return { context, page: await t.tab(context) };
  },
  /** The same, signed in. */
  async person(options = DESK, key = token) {
    const { context, page } = await t.stranger(options);
    await t.signIn(page, key);
    return { context, page };
  },
  async signIn(page, key = token) {
    await page.fill("#token", key);
    await page.click("button:has-text('Sign in')");
    await page.waitForSelector("#rows");
  },
  /** Asks the gateway as the page in this browser does; with `data` as a POST. */
  async api(context, path, data) {
    const { origins } = await context.storageState();
    const login = origins.flatMap((one) => one.localStorage).find((one) => one.name === "berth.login");
    const headers = { Authorization: `Bearer ${JSON.parse(login.value)}` };
    return (await (data ? context.request.post(t.url + path, { headers, data }) : context.request.get(t.url + path, { headers }))).json();
  },
  /** Keeps a picture, if pictures are wanted. */
  async shot(page, name) {
    if (process.env.BERTH_SHOTS) await page.screenshot({ path: path.join(process.env.BERTH_SHOTS, `${name}.png`) });
  },
  async tab(context, where = "") {
    const page = await context.newPage();
    last = page;
    page.on("pageerror", (error) => trouble.push(`the page threw: ${error.stack || error}`));
    page.on("request", (request) => { if (!request.url().startsWith(url) && !request.url().startsWith(url.replace("http", "ws")) && !/^(data|blob):/.test(request.url())) trouble.push(`asked elsewhere: ${request.url()}`); });
    page.on("console", (message) => { if (/Content Security Policy|Trusted(HTML|Script| Type)/i.test(message.text()) && !t.expected?.test(message.text())) trouble.push(message.text()); });
    await page.goto(url + "/" + where);
    return page;
  },
  /** Waits until something is so, asking again; for what is not in the page. */
  async until(words, is) {
    const end = Date.now() + PATIENCE_MS;
    for (;;) {
      const value = await is();
      if (value) return value;
      check(Date.now() < end, `never happened: ${words}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  },
  /** Presses a button of a question until it is answered: a press while the question moves into view does not count. */
  async answer(asked, button) {
    await t.until("the question is answered", async () => {
      if ((await asked.count()) === 0) return true;
      await asked.locator(button).first().click({ timeout: 5000 }).catch(() => {});
      return asked.waitFor({ state: "detached", timeout: 2000 }).then(() => true, () => false);
    });
  },
  /** What a phone cannot show or a finger cannot hit. */
  async fits(page, where) {
    const found = await page.evaluate(() => {
      const wrong = [];
      if (document.documentElement.scrollWidth > innerWidth) wrong.push(`scrolls sideways: ${document.documentElement.scrollWidth} > ${innerWidth}`);
      for (const el of document.querySelectorAll("button, a[href], input, select, textarea, summary, [role=button]")) {
        const box = el.getBoundingClientRect();
        // Links in running text are as high as the text; hidden elements are not tapped.
        if (!box.width || el.closest(".md, .xterm") || getComputedStyle(el).visibility === "hidden" || el.disabled) continue;
        if (box.height < 39.5 || (box.width < 39.5 && !el.matches("input"))) wrong.push(`${el.getAttribute("aria-label") || el.textContent.trim().slice(0, 40)}: ${box.width.toFixed()}×${box.height.toFixed()}`);
        if (el.matches("button, a.b") && el.scrollWidth > el.clientWidth + 1) wrong.push(`${el.textContent.trim().slice(0, 40)}: its words are wider than it is`);
        if (box.right > innerWidth + 1 && !el.closest(".keysrow, .tabs, .diff, pre")) wrong.push(`${el.textContent.trim().slice(0, 40)} ends at ${box.right.toFixed()}`);
      }
      return wrong;
    });
    check(!found.length, `${where}: ${found.join("; ")}`);
  },
  /** What a screen reader cannot say, and what cannot be read. */
  async accessible(page, where) {
    await page.evaluate(axe);
    const found = await page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
      return violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.target.join(" ")}: ${node.failureSummary.split("\n")[1]?.trim()}`));
    });
    check(!found.length, `${where}: ${found.join("\n  ")}`);
  },
};

const name = process.argv[2];
let code = 0;
try {
  const { default: scenario } = await import(new URL(`./${name}.mjs`, import.meta.url));
  await scenario(t);
  check(!trouble.length, trouble.join("\n"));
} catch (error) {
  code = 1;
  console.error(`${name}: ${error.stack || error}`);
  if (trouble.length) console.error(`besides: ${trouble.join("\n")}`);
  if (last && !last.isClosed()) {
    console.error(`the page at the end:\n${await last.evaluate("document.body.innerText").catch(() => "?")}`);
    if (process.env.BERTH_SHOTS) await last.screenshot({ path: path.join(process.env.BERTH_SHOTS, `${name}.png`) }).catch(() => {});
  }
}
await browser.close();
process.exit(code);
