//! `berth acp` and `berth mcp` with real programs: the official ACP client library as the editor, Claude Code and Codex
//! as kept agents, and Claude Code as a client of the MCP server; all against the fake model.
//!
//! Promise: nothing of the user's is used and nothing is left. Start with [`RealEditorFixture`].

use std::ops::Deref;
use std::process::{Command, Stdio};

use berth_harness::{JsonLineProcess, RealAgentFixture, said};
use serde_json::{Value, json};

/// An editor that is nothing but the official client library: it opens or loads a session, prompts, and prints a JSON
/// line for all that it is told. The library throws on messages that are not valid ACP.
const CLIENT: &str = r#"
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
const acp = await import(process.env.ACP_SDK);
const [berth, cwd, agent, load, ...prompts] = process.argv.slice(2);
const child = spawn(berth, ["acp", "--agent", agent], { stdio: ["pipe", "pipe", "inherit"] });
const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const app = acp.client({ name: "editor" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    print({ asked: params });
    return { outcome: { outcome: "selected", optionId: params.options.find((it) => it.kind === "allow_once").optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => print({ update: params.update }));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await app.connectWith(stream, async (ctx) => {
  const { initialize, session } = acp.methods.agent;
  const clientInfo = { name: "editor", version: "1" };
  const hello = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {}, clientInfo };
  print({ initialized: await ctx.request(initialize, hello) });
  let sessionId = load;
  if (load) await ctx.request(session.load, { sessionId, cwd, mcpServers: [] });
  else sessionId = (await ctx.request(session.new, { cwd, mcpServers: [] })).sessionId;
  print({ session: sessionId });
  print({ list: await ctx.request(session.list, { cwd }) });
  for (const text of prompts) {
    print({ ended: await ctx.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] }) });
  }
  await ctx.request(session.close, { sessionId });
});
child.stdin.end();
child.on("exit", (code) => process.exit(code));
"#;

/// Real agents, and an editor to keep one in.
struct RealEditorFixture {
    base: RealAgentFixture,
}

impl Deref for RealEditorFixture {
    type Target = RealAgentFixture;

    fn deref(&self) -> &RealAgentFixture {
        &self.base
    }
}

impl RealEditorFixture {
    fn new(allowed: &[&str]) -> Self {
        let base = RealAgentFixture::new(env!("CARGO_BIN_EXE_berth"));
        base.agents.allow_claude(allowed);
        Self { base }
    }

    /// The official client as an editor; the lines it prints.
    fn editor(&self, agent: &str, load: &str, prompts: &[&str]) -> Vec<Value> {
        let script = self.lab.dir().join("editor.mjs");
        std::fs::write(&script, CLIENT).expect("a script");
        // The adapter that is installed brings the library along.
        let cache = self.agents.bin().parent().expect("it is below the cache");
        let sdk = cache.join("claude-agent-acp/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js");
        assert!(sdk.exists(), "{}: testing/agents/install", sdk.display());
        let mut command = self.around(Command::new(self.agents.bin().join("node")));
        command.arg(&script).args([
            env!("CARGO_BIN_EXE_berth"),
            &self.agents.work().display().to_string(),
            agent,
            load,
        ]);
        command.args(prompts).env("ACP_SDK", &sdk).stdin(Stdio::null());
        let mut talk = JsonLineProcess::start(&mut command);
        while talk.wait_or_end(|_| false).is_some() {}
        let heard = std::mem::take(&mut talk.heard);
        let (code, complaints) = talk.end();
        assert_eq!(code, 0, "{complaints}\n{heard:?}");
        heard
    }
}

fn texts(heard: &[Value], kind: &str) -> String {
    let updates = heard.iter().map(|line| &line["update"]).filter(|update| update["sessionUpdate"] == kind);
    updates.filter_map(|update| update["content"]["text"].as_str()).collect()
}

fn in_an_editor(agent: &str) {
    let world = RealEditorFixture::new(&["Bash"]);
    let heard = world.editor(agent, "", &["hello", "TOOL echo from-a-tool"]);
    let ends: Vec<&Value> = heard.iter().map(|line| &line["ended"]).filter(|end| !end.is_null()).collect();
    assert_eq!(ends.len(), 2, "{heard:?}");
    assert!(ends.iter().all(|end| end["stopReason"] == "end_turn"), "{ends:?}");
    let said = texts(&heard, "agent_message_chunk");
    assert!(said.contains("ECHO: hello") && said.contains("TOOLDONE from-a-tool"), "{said}");
    let called = heard.iter().filter(|line| line["update"]["sessionUpdate"] == "tool_call").count();
    assert!(called >= 1, "{heard:?}");
    assert!(heard.iter().any(|line| line["update"]["status"] == "completed"), "{heard:?}");
    let listed = heard.iter().find_map(|line| line["list"]["sessions"].as_array()).expect("a list");
    assert_eq!(listed.len(), 1, "{listed:?}");
    // The editor is gone, the session is not.
    let session = heard.iter().find_map(|line| line["session"].as_str()).expect("a session").to_owned();
    assert_eq!(world.json(&["show", &session, "--json"])["state"], "idle");
    assert_eq!(world.berth(&["send", &session, "--wait", "from a script"]).code, 0);
    let again = world.editor(agent, &session, &["and on"]);
    let asked = texts(&again, "user_message_chunk");
    assert_eq!(asked, "helloTOOL echo from-a-toolfrom a script", "all that was said, and no echo of our own");
    let said = texts(&again, "agent_message_chunk");
    assert!(said.contains("ECHO: from a script") && said.ends_with("ECHO: and on"), "{said}");
    assert_eq!(world.berth(&["stop", &session]).code, 0);
}

#[test]
fn the_official_acp_client_uses_a_kept_claude_code() {
    in_an_editor("claude");
}

#[test]
fn the_official_acp_client_uses_a_kept_codex() {
    in_an_editor("codex");
}

#[test]
fn the_official_acp_client_uses_a_kept_acp_adapter() {
    in_an_editor("claude-acp");
}

#[test]
fn a_permission_of_claude_code_is_given_in_the_editor() {
    let world = RealEditorFixture::new(&[]);
    let file = world.agents.work().join("made");
    let heard = world.editor("claude", "", &[&format!("TOOL touch {}", file.display())]);
    let asked = heard.iter().map(|line| &line["asked"]).find(|asked| !asked.is_null());
    let asked = asked.unwrap_or_else(|| panic!("nothing was asked: {heard:?}"));
    assert!(asked["toolCall"].to_string().contains("touch"), "{asked}");
    let call = heard.iter().map(|line| &line["update"]).find(|update| update["sessionUpdate"] == "tool_call");
    assert_eq!(
        call.map(|call| &call["toolCallId"]),
        Some(&asked["toolCall"]["toolCallId"]),
        "it is about that call"
    );
    assert!(file.exists(), "and then it was done");
}

#[test]
fn claude_code_uses_the_mcp_server_as_it_is_added() {
    let world = RealEditorFixture::new(&["mcp__berth__list_sessions", "mcp__berth__send"]);
    let made = world.berth(&["run", "-d", "--agent", "claude", "--name", "helper"]);
    assert_eq!(made.code, 0, "{made:?}");
    let claude = |args: &[&str]| {
        let mut command = world.around(Command::new(world.agents.bin().join("claude")));
        said(command.args(args).stdin(Stdio::null()).output().expect("Claude Code can be started"))
    };
    let added = claude(&["mcp", "add", "berth", "--", env!("CARGO_BIN_EXE_berth"), "mcp"]);
    assert_eq!(added.code, 0, "{added:?}");
    let listed = claude(&["-p", "CALL mcp__berth__list_sessions {}"]);
    assert!(listed.out.starts_with("TOOLDONE") && listed.out.contains("helper"), "{listed:?}");
    let call = json!({"session": "helper", "text": "from another agent", "wait": true, "key": "once"});
    let sent = claude(&["-p", &format!("CALL mcp__berth__send {call}")]);
    assert!(sent.out.starts_with("TOOLDONE"), "{sent:?}");
    let turn = world.json(&["turn", "helper.1", "--json"]);
    assert_eq!(
        (&turn["state"], &turn["answer"]),
        (&"done".into(), &"ECHO: from another agent".into()),
        "{turn}"
    );
    assert_eq!(world.berth(&["stop", "helper"]).code, 0);
}
