// A broker: listens at a socket and answers each line with a number of its own. The broker needs to
// know nothing of owners.
import { rmSync } from "node:fs";
import { createServer } from "node:net";

const [socket] = process.argv.slice(2);
let requests = 0;
rmSync(socket, { force: true }); // of a broker that was killed
createServer((client) => {
  client.on("data", (line) => client.write(`${++requests}: ${line}`));
  client.on("error", () => {});
}).listen(socket);
process.on("SIGTERM", () => process.exit());
process.on("exit", () => rmSync(socket, { force: true }));
