//! `berth setup claude|codex`: installs hooks, repairs and removes them, and leaves the user's own settings alone.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_harness::{CommandOutput, TestEnvironment};

use crate::hooks::manual_agent::{HandOpenedAgent, ID, records, set_mode};

struct HookSetupFixture {
    lab: TestEnvironment,
    claude: PathBuf,
    codex: PathBuf,
}

impl HookSetupFixture {
    fn new() -> Self {
        let lab = TestEnvironment::new(env!("CARGO_BIN_EXE_berth"));
        let (claude, codex) = (lab.dir().join("claude-config"), lab.dir().join("codex-home"));
        for dir in [&claude, &codex] {
            std::fs::create_dir_all(dir).unwrap();
        }
        Self { lab, claude, codex }
    }

    fn setup(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.lab.command([&["setup"], args].concat());
        command.env("CLAUDE_CONFIG_DIR", &self.claude).env("CODEX_HOME", &self.codex);
        let output = command.output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> CommandOutput {
        let said = self.setup(args);
        assert_eq!(said.code, 0, "{said:?}");
        said
    }
}

/// All files below a directory, with mode and contents.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut places = vec![dir.to_owned()];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).unwrap().flatten() {
            let path = entry.path();
            let about = std::fs::symlink_metadata(&path).unwrap();
            if about.is_dir() {
                found.insert(path.clone(), (about.permissions().mode(), vec![]));
                places.push(path);
            } else if about.is_symlink() {
                let to = std::fs::read_link(&path).unwrap().display().to_string();
                found.insert(path, (0, to.into_bytes()));
            } else {
                found.insert(path.clone(), (about.permissions().mode(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn claude_gets_a_plugin_and_its_settings_stay_byte_for_byte() {
    let place = HookSetupFixture::new();
    let settings = "{\n   \"theme\" : \"dark\",\"hooks\":{ \"Stop\":[] } }   \n\n";
    std::fs::write(place.claude.join("settings.json"), settings).unwrap();
    let before = tree(&place.claude);
    let shown = place.ok(&["claude", "--dry-run"]);
    assert_eq!(tree(&place.claude), before);
    let path = place.claude.join("skills/berth/hooks/hooks.json");
    assert!(shown.out.contains(&format!("--- /dev/null\n+++ {}\n", path.display())), "{}", shown.out);
    assert!(shown.out.contains("+    \"UserPromptSubmit\": ["), "{}", shown.out);
    let in_two_lines = |said: &str| -> Vec<String> { said.lines().take(2).map(str::to_owned).collect() };
    let told = in_two_lines(&shown.err);
    assert!(told[0].contains("a plugin whose hooks tell berth"), "{}", shown.err);
    assert!(told[1].contains("2 files in ") && told[1].contains("skills/berth"), "{}", shown.err);
    let done = place.ok(&["claude"]);
    assert_eq!((done.out.as_str(), in_two_lines(&done.err)), ("", told), "the files are for --dry-run");
    assert!(done.err.contains("once it is started again"), "{}", done.err);
    let set_up = tree(&place.claude);
    assert_eq!(set_up[&place.claude.join("settings.json")], before[&place.claude.join("settings.json")]);
    let again = place.ok(&["claude"]);
    assert_eq!((again.out.as_str(), tree(&place.claude)), ("", set_up));
    assert!(again.err.contains("nothing has to be changed"), "{}", again.err);
    place.ok(&["claude", "--remove"]);
    assert_eq!(tree(&place.claude), before);
    assert!(place.ok(&["claude", "--remove"]).err.contains("nothing is set up there"));
}

#[test]
fn d14_an_installed_hook_is_called_and_works_with_other_variables_in_its_environment() {
    let place = HookSetupFixture::new();
    place.ok(&["claude"]);
    let text = std::fs::read(place.claude.join("skills/berth/hooks/hooks.json")).unwrap();
    let hooks: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let command = hooks["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"].as_str().unwrap();
    // Only a shell is in its PATH: the machine may have a berth of its own.
    let bin = place.lab.dir().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bin.join("sh")).unwrap();
    let bin = bin.to_str().unwrap();
    let odd = [("HOME", "/nowhere"), ("TMPDIR", "/nowhere"), ("PATH", bin), ("XDG_STATE_HOME", "/no")];
    let mut hand = HandOpenedAgent::open_with(&place.lab, command, &odd);
    hand.prompt().is_quiet();
    assert_eq!(records(&place.lab)[0]["conversation_id"], ID);
    // I3: berth went away, and came back elsewhere.
    let link = place.lab.home().join("hooks/berth");
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("/no/such/berth", &link).unwrap();
    hand.prompt().is_quiet();
    place.lab.berth(["setup", "codex", "--dry-run"]);
    assert!(place.lab.berth(["doctor"]).out.contains("is a broken link"));
    let set_up = tree(&place.claude);
    let shown = place.ok(&["claude", "--dry-run"]);
    assert!(shown.err.contains("would make the link") && !link.exists(), "{}", shown.err);
    // All files are as they should be, but the program they call is gone.
    let mended = place.ok(&["claude"]);
    assert!(mended.err.contains("made the link"), "{}", mended.err);
    assert_eq!(tree(&place.claude), set_up);
    assert!(link.exists());
    assert!(place.lab.berth(["doctor"]).out.contains("set up for claude"));
    std::fs::remove_dir_all(place.lab.home().join("holders")).unwrap();
    hand.prompt().is_quiet();
    assert_eq!(records(&place.lab)[0]["conversation_id"], ID);
    std::fs::remove_file(&link).unwrap();
    place.ok(&["claude", "--remove"]);
    assert!(!link.is_symlink(), "a removal makes no link");
}

#[test]
fn d14_a_berth_that_is_called_by_a_link_is_called_by_it_again() {
    let place = HookSetupFixture::new();
    let bin = place.lab.dir().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let linked = bin.join("berth");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth"), &linked).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let link = place.lab.home().join("hooks/berth");
    // The program is called by its whole path, by its name, and by a relative path.
    for (called, by) in [(linked.to_str().unwrap(), &linked), ("berth", &linked)] {
        let mut command = Command::new(&linked);
        command.arg0(called).args(["setup", "claude"]).env("PATH", &path);
        command.env("BERTH_HOME", place.lab.home()).env("CLAUDE_CONFIG_DIR", &place.claude);
        command.env("BERTH_CONFIG", place.lab.config());
        assert!(command.output().unwrap().status.success());
        assert_eq!(std::fs::read_link(&link).unwrap(), *by, "{called}");
        std::fs::remove_file(&link).unwrap();
    }
}

#[test]
fn a_plugin_of_the_user_that_has_our_name_is_left_alone() {
    let place = HookSetupFixture::new();
    let manifest = place.claude.join("skills/berth/.claude-plugin/plugin.json");
    std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    std::fs::write(&manifest, r#"{"name":"berth","version":"1","author":{"name":"ada"}}"#).unwrap();
    let before = tree(&place.claude);
    let said = place.setup(&["claude"]);
    assert!(said.code != 0 && said.err.contains("was not written by berth"), "{said:?}");
    place.ok(&["claude", "--remove"]);
    assert_eq!(tree(&place.claude), before);
}

#[test]
fn i4_a_half_done_setup_is_completed_and_foreign_files_are_left_alone() {
    let place = HookSetupFixture::new();
    place.ok(&["claude"]);
    let whole = tree(&place.claude);
    let hooks = place.claude.join("skills/berth/hooks/hooks.json");
    std::fs::remove_file(&hooks).unwrap();
    place.ok(&["claude"]);
    assert_eq!(tree(&place.claude), whole);
    // Hooks of an older version.
    let text = std::fs::read_to_string(&hooks).unwrap();
    std::fs::write(&hooks, text.replace("\"Stop\"", "\"Notification2\"")).unwrap();
    let said = place.ok(&["claude", "--dry-run"]);
    place.ok(&["claude"]);
    assert!(
        said.out.contains("-    \"Notification2\"") && said.out.contains("+    \"Stop\""),
        "{}",
        said.out
    );
    assert_eq!(tree(&place.claude), whole);
    place.ok(&["claude", "--remove"]);
    std::fs::create_dir_all(place.claude.join("skills/berth")).unwrap();
    std::fs::write(place.claude.join("skills/berth/SKILL.md"), "mine").unwrap();
    let before = tree(&place.claude);
    for args in [vec!["claude"], vec!["claude", "--dry-run"]] {
        let said = place.setup(&args);
        assert!(said.code != 0 && said.err.contains("was not written by berth"), "{said:?}");
    }
    place.ok(&["claude", "--remove"]);
    assert_eq!(tree(&place.claude), before);
}

#[test]
fn settings_that_are_not_json_are_refused_and_untouched() {
    let place = HookSetupFixture::new();
    let bad = "{\"hooks\": // mine\n";
    std::fs::write(place.claude.join("settings.json"), bad).unwrap();
    std::fs::write(place.codex.join("hooks.json"), bad).unwrap();
    let before = (tree(&place.claude), tree(&place.codex));
    for args in [vec!["claude"], vec!["claude", "--dry-run"], vec!["codex"]] {
        let said = place.setup(&args);
        assert!(
            said.code != 0 && said.err.contains("not valid JSON") && said.err.contains("line 1"),
            "{said:?}"
        );
        assert!(said.err.contains("nothing was changed") && said.err.contains("hint: "), "{said:?}");
    }
    std::fs::remove_file(place.codex.join("hooks.json")).unwrap();
    std::fs::write(place.codex.join("config.toml"), "model = \n").unwrap();
    let said = place.setup(&["codex"]);
    assert!(said.code != 0 && said.err.contains("not valid TOML"), "{said:?}");
    assert_eq!(std::fs::read_to_string(place.codex.join("config.toml")).unwrap(), "model = \n");
    assert_eq!(tree(&place.claude), before.0);
}

#[test]
fn codex_is_set_up_around_the_users_settings_and_removed_byte_for_byte() {
    let texts = ["", "model = \"x\"\n", "# mine\n[tui]\nx = 1", "\n\n[a]\n[[hooks.Stop]]\nhooks = []\n"];
    for (config, own_hooks) in texts.iter().flat_map(|text| [(text, false), (text, true)]) {
        let place = HookSetupFixture::new();
        // The config is kept elsewhere, and can be read by a group.
        let kept = place.lab.dir().join("dotfiles.toml");
        std::fs::write(&kept, config).unwrap();
        set_mode(&kept, 0o640);
        std::os::unix::fs::symlink(&kept, place.codex.join("config.toml")).unwrap();
        if own_hooks {
            std::fs::write(place.codex.join("hooks.json"), "{\"hooks\":{\"Stop\":[]}}").unwrap();
        }
        let before = (tree(&place.codex), std::fs::read(&kept).unwrap());
        let said = place.ok(&["codex"]);
        assert!(said.err.contains("/hooks") && said.err.contains("trust"), "{}", said.err);
        let text = std::fs::read_to_string(&kept).unwrap();
        assert!(text.contains("notify = [\"sh\",\"-c\","), "{text}");
        assert_eq!(text.contains("[[hooks.UserPromptSubmit]]"), own_hooks, "{text}");
        assert!(text.contains(config.trim_end()), "{text}");
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(place.codex.join("config.toml").is_symlink());
        let set_up = tree(&place.codex);
        assert!(place.ok(&["codex"]).err.contains("nothing has to be changed"));
        assert_eq!((tree(&place.codex), std::fs::read_to_string(&kept).unwrap()), (set_up, text));
        place.ok(&["codex", "--remove"]);
        assert_eq!((tree(&place.codex), std::fs::read(&kept).unwrap()), before, "{config:?} {own_hooks}");
    }
}

#[test]
fn everything_made_for_codex_is_removed_again() {
    let place = HookSetupFixture::new();
    place.ok(&["codex"]);
    assert_eq!(tree(&place.codex).len(), 2);
    place.ok(&["codex", "--remove"]);
    assert!(tree(&place.codex).is_empty(), "{:?}", tree(&place.codex));
}

#[test]
fn a_notify_of_the_persons_own_stays() {
    let place = HookSetupFixture::new();
    let config = "notify = [\"mine\"]\n";
    std::fs::write(place.codex.join("config.toml"), config).unwrap();
    let said = place.ok(&["codex"]);
    assert!(said.err.contains("`notify` of your own, which stays"), "{}", said.err);
    assert_eq!(std::fs::read_to_string(place.codex.join("config.toml")).unwrap(), config);
    assert!(place.codex.join("hooks.json").exists());
}

#[test]
fn settings_that_codex_or_a_user_put_between_the_marks_stay() {
    let theirs = "model = \"x\"\n\n[projects.\"/w\"]\ntrust_level = \"trusted\"\n";
    let own_hook = "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"mine\"\n";
    let state = "[hooks.state]\nx = 1\n";
    for has_end in [true, false] {
        let place = HookSetupFixture::new();
        let config = place.codex.join("config.toml");
        std::fs::write(place.codex.join("hooks.json"), "{\"hooks\":{\"Stop\":[]}}").unwrap();
        let before = if has_end { "[tui]\nx = 1\n" } else { "[tui]\nx = 1" };
        std::fs::write(&config, before).unwrap();
        place.ok(&["codex"]);
        let text = std::fs::read_to_string(&config).unwrap();
        let first = text.find("# berth: to here\n").unwrap();
        let last = text.rfind("# berth: to here\n").unwrap();
        let (top, middle) = text[..last].split_at(first);
        std::fs::write(&config, format!("{top}{theirs}{middle}{own_hook}{state}{}", &text[last..])).unwrap();
        place.ok(&["codex"]);
        let again = std::fs::read_to_string(&config).unwrap();
        for kept in [theirs, own_hook, state] {
            assert!(again.contains(kept), "{kept}\n--- is gone from\n{again}");
        }
        assert_eq!(again.matches("[[hooks.SessionStart]]").count(), 1, "{again}");
        place.ok(&["codex", "--remove"]);
        let left = std::fs::read_to_string(&config).unwrap();
        assert_eq!(left, format!("{theirs}[tui]\nx = 1\n{own_hook}{state}"));
    }
}

#[test]
fn a_config_that_was_made_for_codex_stays_once_something_else_is_in_it() {
    let place = HookSetupFixture::new();
    place.ok(&["codex"]);
    let config = place.codex.join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let theirs = "[projects.\"/w\"]\ntrust_level = \"trusted\"\n";
    std::fs::write(&config, text.replace("# berth: to here", &format!("{theirs}# berth: to here"))).unwrap();
    place.ok(&["codex", "--remove"]);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), theirs);
}
