// Brokers found by a hash of the working directory, with a list of owners in a file that anyone reads and writes.
//   node naive.mjs start|end OWNER
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const [order, owner] = process.argv.slice(2);
const place = process.env.BROKERS;
const key = createHash("sha256").update(process.cwd()).digest("hex").slice(0, 8);
const file = `${place}/${key}.json`;
const record = existsSync(file) ? JSON.parse(readFileSync(file)) : { pid: null, owners: [] };

if (order === "start") {
  if (record.owners.length === 0) {
    const broker = new URL("plugin/scripts/broker.mjs", import.meta.url).pathname;
    const child = spawn(process.execPath, [broker, `${place}/${key}.sock`], { detached: true, stdio: "ignore" });
    child.unref();
    record.pid = child.pid;
  }
  record.owners.push(owner);
} else {
  record.owners = record.owners.filter((name) => name !== owner);
  if (process.env.TOGETHER) await together(process.env.TOGETHER);
  if (record.owners.length === 0) process.kill(record.pid);
}
writeFileSync(file, JSON.stringify(record));

// For the replay: an owner that is as slow as the other, so that both have read the file before either writes it.
async function together(name) {
  writeFileSync(`${place}/${owner}.has-read`, "");
  while (!existsSync(`${place}/${name}.has-read`)) await new Promise((done) => setTimeout(done, 10));
}
