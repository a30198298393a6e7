//! A state directory that a hostile agent and a hostile host have filled with control characters.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{TestEnvironment, TestTerminal};
use serde_json::{Value, json};

/// A word by which hostile text is recognised, escaped or not.
pub(crate) const MARK: &str = "GOTCHA";
/// Hostile text: sets a title, clears the screen, does the same with C1, deletes, turns the direction, goes back to the
/// start of the line.
const ODD: &str = "GOTCHA\u{1b}]0;GOTCHA\u{7}\u{1b}[2J\u{9b}31m\u{9d}0;\u{9c}\u{7f}\u{202e}\u{2066}\r!";
/// C1 as single bytes, which are not UTF-8.
const RAW_C1: &[u8] = b"\x9b2J\x9d0;GOTCHA\x9c";

/// ssh to hosts that answer everything with hostile text; `away` cannot be reached.
const SSH: &str = r#"#!/bin/sh
cat DIR/odd >&2
case " $* " in
*" away "*) exit 255 ;;
*" proxy exec "*) cat DIR/odd; exit 0 ;;
*" --version "*) exit 0 ;;
esac
cr=$(printf '\r')
while IFS= read -r line; do
    line=${line%"$cr"}
    case "$line" in
    "GET /healthz "*) answer=health ;;
    "GET "*) answer=sessions ;;
    "")
        printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n' "$(wc -c <DIR/$answer)"
        cat DIR/$answer
        ;;
    esac
done
"#;

/// An agent that ends with hostile words, also when it is asked for its version.
const BROKEN: &str = "#!/bin/sh\ncat DIR/odd >&2\n[ \"$1\" = --version ] && cat DIR/odd\nexit 3\n";

pub(crate) struct HostileTextFixture {
    lab: TestEnvironment,
}

impl HostileTextFixture {
    pub(crate) fn new() -> Self {
        let lab = TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"));
        let world = Self { lab };
        fs::write(world.dir().join("odd"), [ODD.as_bytes(), RAW_C1, b"\n"].concat()).expect("a file");
        fs::create_dir_all(world.cwd()).expect("a directory");
        let ssh = world.script("ssh", SSH);
        let broken = world.script("broken", BROKEN);
        // As TOML writes any character.
        let about: String = ODD.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let config = format!(
            "{}[agents.broken]\ndriver = \"acp\"\ncommand = [{broken:?}]\nabout = \"{about}\"\n[hosts]\nssh = {ssh:?}\n",
            fs::read_to_string(world.lab.config()).expect("the config"),
        );
        fs::write(world.lab.config(), config).expect("the config");
        world.make_transcript();
        world.make_sessions();
        world.make_hosts();
        world
    }

    fn dir(&self) -> &Path {
        self.lab.dir()
    }

    fn cwd(&self) -> PathBuf {
        self.dir().join(format!("cwd-{ODD}"))
    }

    fn script(&self, name: &str, text: &str) -> String {
        let path = self.dir().join(name);
        fs::write(&path, text.replace("DIR", &self.dir().display().to_string())).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own file");
        path.display().to_string()
    }

    /// A command of an account of its own, which is logged in from an address with control characters.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.lab.command(args);
        let account = self.dir().join("account");
        command.env("HOME", &account).env("CLAUDE_CONFIG_DIR", account.join(".claude"));
        command.env("CODEX_HOME", account.join(".codex")).env("TMPDIR", self.dir());
        command.env("SSH_CONNECTION", format!("{ODD} 1 192.0.2.1 22")).current_dir(self.cwd());
        command
    }

    fn ok(&self, args: &[&str]) -> String {
        let said = berth_harness::said(self.command(args).output().expect("berth can be started"));
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end().to_owned()
    }

    fn show(&self, session: &str) -> Value {
        serde_json::from_str(&self.ok(&["show", session, "--json"])).expect("JSON")
    }

    pub(crate) fn terminal(&self, args: &[&str]) -> TestTerminal {
        self.lab.terminal(args)
    }

    /// A word of a command, with placeholders replaced.
    pub(crate) fn filled(&self, word: &str) -> String {
        match word {
            "PID" => self.lab.number("term", "pid").to_string(),
            "TRANSCRIPT" => self.transcript().display().to_string(),
            _ => word.replace("CWD", &self.cwd().display().to_string()).replace("ODD", ODD),
        }
    }

    /// The manual pages by the verbs they are about (`hosts-add`), as clap knows them.
    pub(crate) fn manual_pages(&self) -> BTreeMap<String, String> {
        let dir = self.dir().join("man");
        self.ok(&["man", "--dir", &dir.display().to_string()]);
        let page = |path: PathBuf| {
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            let verb =
                name.strip_prefix("berth").expect("a page of berth").trim_start_matches('-').to_owned();
            (verb, fs::read_to_string(path).expect("a page"))
        };
        fs::read_dir(dir).expect("pages").map(|entry| page(entry.expect("an entry").path())).collect()
    }

    fn transcript(&self) -> PathBuf {
        self.dir().join("account/.claude/projects/-project/1b4e28ba-2fa1-11d2-883f-0016d3cca427.jsonl")
    }

    /// A conversation of Claude Code with a branch, so that it has something to repair.
    fn make_transcript(&self) {
        let record = |kind: &str, uuid: &str, parent: Option<&str>, content: Value| {
            json!({"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": "2026-01-01T00:00:00.000Z",
                "cwd": self.cwd(), "sessionId": "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "version": ODD,
                "gitBranch": ODD, "message": {"role": kind, "model": ODD, "content": content}})
            .to_string()
        };
        let answer = |text: &str| json!([{"type": "text", "text": text}]);
        let lines = [
            record("user", "u1", None, ODD.into()),
            record("assistant", "a1", Some("u1"), answer(ODD)),
            record("user", "u2", Some("a1"), ODD.into()),
            record("user", "u3", Some("a1"), ODD.into()),
            record("assistant", "a3", Some("no-such-parent"), answer(ODD)),
        ];
        let file = self.transcript();
        fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        fs::write(file, lines.join("\n") + "\n").expect("a transcript");
    }

    fn make_sessions(&self) {
        let (agent, cwd) = (self.lab.agent(), self.cwd().display().to_string());
        for name in ["turns", "talks"] {
            self.ok(&["run", "-d", "--agent", "fake", "--name", name, "--cwd", &cwd]);
        }
        self.ok(&["note", "turns", ODD]);
        self.ok(&["send", "turns", "--wait", &format!("tool:{ODD}:{ODD}\nsay:{ODD}")]);
        for prompt in [format!("stderr:{ODD}\nfail:{ODD}"), format!("ask:{ODD}:{ODD}")] {
            self.ok(&["send", "turns", &prompt]);
        }
        self.ok(&["wait", "turns", "--for", "needs-you"]);
        for prompt in [ODD, ODD] {
            self.ok(&["send", "turns", prompt]);
        }
        // The agent of this session says why it did not start.
        let _ = self.command(&["run", "-d", "--agent", "broken", "--name", "broken"]).output();
        let odd = format!("say:{ODD}\\x9b2J\\n");
        self.ok(&["run", "-d", "--name", "term", "--cwd", &cwd, "--", &agent, &odd, "say:ready", "hang"]);
        self.ok(&["wait", "term", "--for", "output:ready"]);
        self.ok(&["run", "-d", "--name", "gone", "--cwd", &cwd, "--", &agent, &odd, "exit:3"]);
        let _ = self.command(&["wait", "gone"]).output();
        let helper = ["helper", "ensure", "odd", "--owner", "turns", "--ready", "line:ready", "--", &agent];
        self.ok(&[&helper[..], &[&odd, "say:ready\\n", "hang"]].concat());
    }

    fn make_hosts(&self) {
        let mut session = self.show("turns");
        for field in ["name", "state"] {
            session[field] = ODD.into();
        }
        session["id"] = "000000000000".into();
        let sessions = json!({ "sessions": [session] }).to_string();
        fs::write(self.dir().join("sessions"), sessions).expect("a file");
        fs::write(self.dir().join("health"), json!({ "version": ODD }).to_string()).expect("a file");
        self.ok(&["hosts", "add", "box"]);
        self.ok(&["hosts", "add", "away", "--name", "far", "--no-check"]);
    }
}
