// Stands in for Claude Code where there is none: runs a plugin's hooks at its start and at its end, which is the first line
// of its input.
//   node claude.mjs --plugin-dir DIR
import { execSync } from "node:child_process";
import { readFileSync } from "node:fs";

const plugin = process.argv[process.argv.indexOf("--plugin-dir") + 1];
const { hooks } = JSON.parse(readFileSync(`${plugin}/hooks/hooks.json`));
const run = (event) => {
  for (const { command } of hooks[event].flatMap((entry) => entry.hooks)) {
    const env = { ...process.env, CLAUDE_PLUGIN_ROOT: plugin };
    execSync(command, { env, input: JSON.stringify({ hook_event_name: event, cwd: process.cwd() }) });
  }
};
run("SessionStart");
console.log("ready");
process.stdin.once("data", () => {
  run("SessionEnd");
  process.exit();
});
