//! `berth config`: which settings apply and where each comes from, which ones are refused and at which place, and that
//! sessions stay usable when the config file has a mistake.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use berth_harness::{CommandOutput, TestEnvironment, said};
use serde_json::json;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

fn configured(lab: &TestEnvironment, text: &str) {
    std::fs::write(lab.config(), text).expect("a config file");
}

fn with(lab: &TestEnvironment, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = lab.command(args);
    command.env_remove("NO_COLOR").envs(variables.iter().copied());
    said(command.output().expect("berth can be started"))
}

#[test]
fn the_settings_that_apply_are_shown_with_their_source() {
    let lab = lab();
    let file = lab.config().display().to_string();
    let told = with(&lab, &["config"], &[]);
    assert_eq!(
        (told.code, told.err),
        (0, format!("the file {file} does not exist; `berth config --edit` creates it\n"))
    );
    let words: Vec<&str> = told.out.split_whitespace().take(6).collect();
    assert_eq!(words, ["KEY", "VALUE", "FROM", "ui.color", "auto", "default"]);

    configured(&lab, "[ui]\ncolor = \"always\"\n[agents.claude]\nenv = { A_TOKEN = \"s3cret\" }\n");
    let color = |told: &CommandOutput| {
        let all: serde_json::Value = serde_json::from_str(&told.out).expect("an object");
        assert_eq!((&all["file"], &all["exists"]), (&json!(file), &json!(true)));
        all["settings"].as_array().and_then(|all| all.iter().find(|one| one["key"] == "ui.color").cloned())
    };
    assert_eq!(
        color(&with(&lab, &["config", "--json"], &[])),
        Some(
            json!({ "key": "ui.color", "value": "always", "from": "file", "file": file, "line": 2, "column": 9 })
        )
    );
    let variable = [("BERTH_UI_COLOR", "never")];
    assert_eq!(
        color(&with(&lab, &["config", "--json"], &variable)),
        Some(
            json!({ "key": "ui.color", "value": "never", "from": "environment", "variable": "BERTH_UI_COLOR" })
        )
    );
    assert_eq!(
        color(&with(&lab, &["config", "--json", "--color", "auto"], &variable)),
        Some(json!({ "key": "ui.color", "value": "auto", "from": "flag", "flag": "--color" }))
    );
    let told = with(&lab, &["config"], &[]);
    assert!(told.out.contains(&format!("{file}:2:9\n")), "{told:?}");
    assert!(told.out.contains("{\"A_TOKEN\":\"***\"}") && !told.out.contains("s3cret"), "{told:?}");
    assert!(!lab.home().exists(), "looking made the state directory");
}

#[test]
fn a_mistake_is_told_with_line_and_column_or_the_variable_and_exit_2() {
    let lab = lab();
    let file = lab.config().display().to_string();
    configured(&lab, "\n[ui]\n  colr = \"never\"\n");
    for args in [&["config"][..], &["config", "--json"], &["config", "--check"], &["agents"]] {
        let told = with(&lab, args, &[]);
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{told:?}");
        assert_eq!(
            told.err,
            format!(
                "error: {file}:3:3: [ui] has no key `colr`; did you mean `color`?\nhint: valid keys: color, leave_key\n"
            )
        );
    }
    configured(&lab, "");
    let told = with(&lab, &["config"], &[("BERTH_UI_COLOR", "alway")]);
    assert_eq!(told.code, 2);
    assert_eq!(
        told.err,
        "error: the variable BERTH_UI_COLOR cannot be `alway`; did you mean `always`?\n\
         hint: it is one of auto, always, never\n"
    );
    assert_eq!(with(&lab, &["config", "--check"], &[]).err, format!("{file} is valid\n"));
    // Settings that are wrong only in combination with the built-in agents are refused.
    configured(&lab, "[agents.mine]\ndriver = \"acp\"\n");
    assert_eq!(with(&lab, &["config", "--check"], &[]).code, 2);
}

#[test]
fn check_validates_a_given_file_and_fails_for_a_missing_one() {
    let lab = lab();
    let other = lab.dir().join("other.toml");
    std::fs::write(&other, "[agents.x]\ndriver = 7\n").expect("a file");
    let other = other.display().to_string();
    let told = with(&lab, &["config", "--check", &other], &[]);
    assert!(told.code == 2 && told.err.starts_with(&format!("error: {other}:2:10: ")), "{told:?}");
    let told = with(&lab, &["config", "--check", &format!("{other}x")], &[]);
    assert_eq!(told.code, 3, "{told:?}");
    assert_eq!(with(&lab, &["config", "--check"], &[]).code, 0, "no file is nothing wrong");
}

#[test]
fn sessions_stay_usable_when_the_config_is_broken() {
    let lab = lab();
    let id = lab.start(&["say:hello", "hang"]);
    lab.wait_output(&id, "hello");
    configured(&lab, "[ui\n");
    let told = with(&lab, &["ls"], &[]);
    assert!(told.code == 0 && told.out.contains(&id), "{told:?}");
    assert!(
        told.err.contains("ignoring the config file: ")
            && told.err.matches("berth config --check").count() == 1
            && told.err.contains(":1:4: this is not valid TOML"),
        "{told:?}"
    );
    for args in [&["show", &id][..], &["screen", &id], &["why", &id], &["log", &id], &["stop", &id]] {
        assert_eq!(with(&lab, args, &[("BERTH_UI_COLOR", "purple")]).code, 0, "{args:?}");
    }
    let quiet = with(&lab, &["ls", "--quiet"], &[]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "{quiet:?}");
}

#[test]
fn a_person_at_a_terminal_can_attach_although_the_config_is_broken() {
    let lab = lab();
    let id = lab.start(&["say:hello", "hang"]);
    configured(&lab, "[ui\n");
    let mut terminal = lab.terminal(["attach", &id]);
    terminal.wait_for("hello");
    terminal.type_keys("\x1c");
    assert_eq!(terminal.wait_exit(), 0);
}

#[test]
fn output_has_colours_only_if_they_are_asked_for() {
    let lab = lab();
    lab.start(&["say:hello", "hang"]);
    let coloured = |args: &[&str], variables: &[(&str, &str)]| {
        with(&lab, &[&["ls"], args].concat(), variables).out.contains('\x1b')
    };
    assert!(!coloured(&[], &[]), "a pipe has no colours");
    assert!(coloured(&["--color", "always"], &[("NO_COLOR", "1"), ("BERTH_UI_COLOR", "never")]));
    assert!(coloured(&[], &[("BERTH_UI_COLOR", "always"), ("NO_COLOR", "1")]));
    configured(&lab, "[ui]\ncolor = \"always\"\n");
    assert!(coloured(&[], &[]));
    assert!(!coloured(&[], &[("BERTH_UI_COLOR", "never")]));
    assert!(!coloured(&["--color", "never"], &[("BERTH_UI_COLOR", "always")]));
    let told = with(&lab, &["show", "nobody"], &[]);
    assert!(told.err.starts_with("\x1b[1;31merror:"), "{told:?}");
}

#[test]
fn tasks_that_do_not_go_together_are_refused() {
    let lab = lab();
    for args in [
        &["config", "--path", "--example"][..],
        &["config", "--explain", "--check"],
        &["config", "--path", "--json"],
        &["config", "--color", "purple"],
        &["config", "ui.color"],
    ] {
        let told = with(&lab, args, &[]);
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{told:?}");
    }
    assert_eq!(with(&lab, &["config", "--explain", "nope"], &[]).code, 3);
    let path = with(&lab, &["config", "--path"], &[]);
    assert_eq!(path.out, format!("{}\n", lab.config().display()));
    let none = lab
        .command(["config", "--path"])
        .env_remove("BERTH_CONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HOME")
        .output();
    assert_eq!(said(none.expect("berth can be started")).code, 1);
}

#[test]
fn the_editor_gets_the_file_with_every_key_in_it_and_what_it_leaves_is_checked() {
    let lab = lab();
    let off = with(&lab, &["config", "--edit"], &[("VISUAL", "true")]);
    assert_eq!(off.code, 2, "there is no terminal: {off:?}");
    assert!(!lab.config().exists());
    let editor = lab.dir().join("an editor");
    std::fs::write(&editor, "#!/bin/sh\n[ \"$1\" = -x ] && printf '[ui]\\ncolor = 7\\n' >> \"$2\"\n")
        .expect("a script");
    std::fs::set_permissions(&editor, Permissions::from_mode(0o755)).expect("our own file");
    let berth = env!("CARGO_BIN_EXE_berth");
    let script = format!("VISUAL=\"'{}' -x\" exec {berth} config --edit", editor.display());
    let mut terminal = lab.terminal_running(std::path::Path::new("/bin/sh"), ["-c", &script]);
    terminal.wait_for("must be a string, in quotes");
    assert_eq!(terminal.wait_exit(), 2);
    let text = std::fs::read_to_string(lab.config()).expect("it was begun");
    assert!(text.starts_with("# berth's config file") && text.ends_with("[ui]\ncolor = 7\n"), "{text}");
    let mode = std::fs::metadata(lab.config()).expect("it").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may have secrets in it");
}

#[test]
fn a_config_that_another_account_could_have_written_is_refused_with_a_hint() {
    let lab = lab();
    let file = lab.config().display().to_string();
    configured(&lab, "[agents.mine]\ndriver = \"pty\"\ncommand = [\"true\"]\n");
    let run = || with(&lab, &["run", "-d", "--agent", "mine"], &[]);
    for mode in [0o666, 0o664, 0o646] {
        std::fs::set_permissions(lab.config(), Permissions::from_mode(mode)).expect("our own file");
        for told in [run(), with(&lab, &["config"], &[])] {
            assert_ne!(told.code, 0, "{mode:o}: {told:?}");
            assert!(told.err.contains(&format!("cannot trust the config file {file}")), "{told:?}");
            assert!(told.err.contains(&format!("chmod go-w {file}")), "{told:?}");
        }
    }
    std::fs::set_permissions(lab.config(), Permissions::from_mode(0o644)).expect("our own file");
    assert_eq!(run().code, 0);
    // A device holds no config.
    assert_eq!(with(&lab, &["config"], &[("BERTH_CONFIG", "/dev/null")]).code, 0);
    if !rustix::process::geteuid().is_root() {
        println!("the rest is left out: only root can give a file to another account");
        return;
    }
    std::os::unix::fs::chown(lab.config(), Some(54_321), None).expect("root may");
    let told = run();
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("belongs to another account (uid 54321)"), "{told:?}");
    // A command that does without the config works, and says what is wrong.
    let told = with(&lab, &["ls"], &[]);
    assert!(told.code == 0 && told.err.contains("cannot trust the config file"), "{told:?}");
}
