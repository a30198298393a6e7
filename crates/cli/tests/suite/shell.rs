//! The surroundings of the commands: how much they print, completions in a real shell, manual pages, services.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use berth_harness::{CommandOutput, TestEnvironment, said, wait_until};

const BERTH: &str = env!("CARGO_BIN_EXE_berth");

fn lab() -> TestEnvironment {
    TestEnvironment::new(BERTH)
}

fn with(lab: &TestEnvironment, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = lab.command(args);
    command.envs(variables.iter().copied());
    said(command.output().expect("berth can be started"))
}

#[test]
fn quiet_leaves_remarks_out_and_nothing_else_before_the_verb_and_after_it() {
    let lab = lab();
    assert!(lab.berth(["ls"]).err.contains("no sessions yet"));
    for args in [["-q", "ls"], ["ls", "--quiet"]] {
        assert_eq!(lab.berth(args), CommandOutput { code: 0, out: String::new(), err: String::new() });
    }
    let id = lab.ok(["run", "-q", "-d", "--", &lab.agent(), "hang"]);
    assert!(lab.ok(["ls", "-q"]).contains(&id), "data is printed");
    let told = lab.berth(["-q", "stop", &id, "nobody"]);
    assert!(told.code == 3 && told.err.starts_with("error: "), "errors are printed: {told:?}");
    assert_eq!(lab.berth(["-q", "stop", &id]).err, "");
}

#[test]
fn a_command_gets_the_words_that_would_be_options_of_berth() {
    let lab = lab();
    for args in [
        &["run", "-q", "--", "echo", "-q", "-v", "--color", "never"][..],
        &["run", "-q", "echo", "-q", "-v", "--color", "never"],
    ] {
        assert_eq!(lab.berth(args).out.trim_end(), "-q -v --color never", "{args:?}");
    }
}

#[test]
fn verbose_prints_each_step_and_the_log_variable_chooses() {
    let lab = lab();
    let started = lab.berth(["run", "-v", "-d", "--name", "fix", "--", &lab.agent(), "hang"]);
    assert_eq!(started.code, 0, "{started:?}");
    for said in [
        "the state directory root=",
        "started a keeper session=",
        "asked the keeper request=\"Create\" answer=\"Done\"",
    ] {
        assert!(started.err.contains(said), "{said} is missing: {started:?}");
    }
    assert_eq!(started.out.lines().count(), 1, "{started:?}");
    assert!(!lab.session_dir(started.out.trim()).join("keeper.log").exists(), "-v is for the command alone");
    let more = lab.berth(["show", "fix", "-vv"]);
    assert!(more.err.contains("connected to the keeper"), "{more:?}");
    assert!(!lab.berth(["show", "fix", "-v"]).err.contains("connected to the keeper"));
    let chosen = with(&lab, &["show", "fix"], &[("BERTH_LOG", "berth_api=info")]);
    assert!(
        chosen.err.contains("INFO berth_api::client: asked the keeper")
            && !chosen.err.contains("state directory"),
        "{chosen:?}"
    );
    let wrong = with(&lab, &["show", "fix"], &[("BERTH_LOG", "=x=")]);
    assert!(wrong.code == 2 && wrong.err.starts_with("error: the variable BERTH_LOG "), "{wrong:?}");
    assert_eq!(with(&lab, &["show", "fix"], &[("BERTH_LOG", "")]).err, "");
    assert_eq!(lab.berth(["ls", "-q", "-v"]).code, 2);
}

#[test]
fn a_keeper_writes_a_log_if_it_was_started_so_and_nothing_that_was_said_is_in_it() {
    let lab = lab();
    let agent = lab.agent();
    let run = [
        "run",
        "-d",
        "--env",
        "A_TOKEN=s3cret-env",
        "--",
        &agent,
        "say:s3cret-out",
        "expect:s3cret-in",
        "hang",
    ];
    let told = with(&lab, &run, &[("BERTH_LOG", "trace")]);
    assert!(told.code == 0 && !told.err.contains("s3cret"), "{told:?}");
    let id = told.out.trim();
    lab.wait_output(id, "s3cret-out");
    let typed = with(&lab, &["input", id, "--enter", "s3cret-in"], &[("BERTH_LOG", "trace")]);
    assert!(typed.code == 0 && !typed.err.contains("s3cret"), "{typed:?}");
    lab.ok(["stop", id]);
    let log = lab.session_dir(id).join("keeper.log");
    let text = || std::fs::read_to_string(&log).expect("a log");
    wait_until("the keeper's last word", || text().contains("nothing is left to keep"));
    for line in ["a keeper begins", "asked client=", "request=Type", "event=StopRequested", "event=RunEnded"]
    {
        assert!(text().contains(line), "{line} is missing:\n{}", text());
    }
    assert!(!text().contains("s3cret"), "{}", text());
    let mode = std::fs::metadata(&log).expect("a log").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_session_that_could_not_start_leaves_no_log_behind() {
    let lab = lab();
    let told = with(&lab, &["run", "-d", "--", "/nowhere/at-all"], &[("BERTH_LOG", "debug")]);
    assert_ne!(told.code, 0);
    let left: Vec<_> = std::fs::read_dir(lab.home().join("sessions")).expect("it").collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Completions that a shell would offer for a line that ends where the user pressed Tab.
fn offered(lab: &TestEnvironment, words: &[&str]) -> Vec<String> {
    let mut command = lab.command(["--", "berth"]);
    command.args(words).env("BERTH_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let told = said(command.output().expect("berth can be started"));
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{told:?}");
    told.out.lines().map(str::to_owned).collect()
}

#[test]
fn the_tab_key_offers_existing_names_and_creates_nothing() {
    let lab = lab();
    assert!(offered(&lab, &["stop", ""]).is_empty() || !lab.home().exists());
    assert!(!lab.home().exists(), "looking made the state directory");
    let agent = lab.agent();
    lab.ok(["run", "-d", "--name", "fix-login", "--", &agent, "hang"]);
    let unnamed = lab.ok(["run", "-d", "--", &agent, "hang"]);
    lab.ok(["run", "-q", "--name", "over", "--", "true"]);
    let mut running = offered(&lab, &["stop", ""]);
    running.retain(|word| !word.starts_with('-'));
    running.sort();
    let given = lab.show(&unnamed)["name"].as_str().expect("every session has a name").to_owned();
    let mut wanted = vec!["fix-login".to_owned(), given];
    wanted.sort();
    assert_eq!(running, wanted, "one that is over cannot be stopped");
    assert_eq!(offered(&lab, &["show", "o"]), ["over"]);
    assert_eq!(offered(&lab, &["resume", "o"]), ["over"]);
    assert_eq!(offered(&lab, &["resume", "fix"]), Vec::<String>::new());
    assert_eq!(offered(&lab, &["log", "--follow", &unnamed[..4]]), [unnamed.as_str()]);
    assert_eq!(offered(&lab, &["run", "--agent", "cod"]), ["codex", "codex-acp"]);
    assert_eq!(offered(&lab, &["agents", "gem"]), ["gemini"]);
    assert_eq!(offered(&lab, &["config", "--explain", "ui.c"]), ["ui.color"]);
    assert_eq!(offered(&lab, &["wait", "over", "--for", "nee"]), ["needs-you"]);
    assert_eq!(offered(&lab, &["conf"]), ["config"]);
    assert_eq!(offered(&lab, &["help", "conf"]), ["config"]);
    std::fs::write(lab.config(), "[broken").expect("a config file");
    assert_eq!(offered(&lab, &["run", "--agent", "cod"]), Vec::<String>::new(), "and nothing is said");
}

#[test]
fn turns_and_helpers_are_offered_by_their_names() {
    let lab = lab();
    std::fs::write(
        lab.config(),
        format!("[agents.fake]\ndriver = \"acp\"\ncommand = [\"{}\", \"acp\"]\n", lab.agent()),
    )
    .expect("a config file");
    lab.ok(["run", "-d", "--agent", "fake", "--name", "bot"]);
    lab.ok(["send", "bot", "hello"]);
    lab.ok(["send", "bot", "again", "--wait"]);
    assert_eq!(offered(&lab, &["result", "bo"]), ["bot.2", "bot.1"]);
    assert_eq!(offered(&lab, &["wait", "bot.1"]), ["bot.1"]);
    lab.ok(["helper", "ensure", "web", "--owner", "bot", "--", &lab.agent(), "hang"]);
    assert_eq!(offered(&lab, &["helper", "stop", "w"]), ["web"]);
    assert_eq!(offered(&lab, &["helper", "log", "w"]), ["web"]);
    lab.ok(["helper", "stop", "web"]);
}

#[test]
fn a_real_bash_completes_the_name_of_a_session() {
    let lab = lab();
    lab.ok(["run", "-d", "--name", "fix-the-login", "--", &lab.agent(), "hang"]);
    let mut shell = lab.terminal_running(Path::new("/bin/bash"), ["--norc", "--noprofile", "-i"]);
    shell.type_keys(&format!("source <({BERTH} completions bash); echo sour\"\"ced\r"));
    shell.wait_for("\nsourced");
    shell.type_keys("berth stop fi\t");
    shell.wait_for("berth stop fix-the-login");
    shell.type_keys("\x15exit\r");
    shell.wait_exit();
}

#[test]
fn every_shell_gets_a_script_that_calls_this_program() {
    let lab = lab();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        // This program may be in the user's PATH, and would be called by its name then.
        let mut command = lab.command(["completions", shell]);
        let script = said(command.env("PATH", lab.dir()).output().expect("berth can be started")).out;
        assert!(script.contains("BERTH_COMPLETE") && script.contains(BERTH), "{shell}: {script}");
    }
    assert_eq!(lab.berth(["completions", "tcsh"]).code, 2);
    assert!(!lab.home().exists());
}

#[test]
fn every_verb_has_a_manual_page_that_groff_reads_without_a_word() {
    let lab = lab();
    let dir = lab.dir().join("man1");
    let told = lab.berth(["man", "--dir", &dir.display().to_string()]);
    assert_eq!(told.code, 0, "{told:?}");
    let help = lab.ok(["help", "--all"]);
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.ends_with(':'))
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 25, "{verbs:?}");
    for verb in verbs {
        let page = dir.join(format!("berth-{verb}.1"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{verb}: {error}"));
        assert!(text.contains(".SH SYNOPSIS"), "{text}");
    }
    assert!(lab.ok(["man"]).contains(".TH berth 1"));
    for (verb, page) in [(&["ls"][..], "berth-ls.1"), (&["helper", "ensure"], "berth-helper-ensure.1")] {
        let printed = lab.ok([&["man"], verb].concat());
        let written = std::fs::read_to_string(dir.join(page)).expect("a page");
        assert_eq!(printed, written.trim_end_matches('\n'), "{verb:?}");
    }
    let unknown = lab.berth(["man", "nonsense"]);
    assert!(unknown.code == 2 && unknown.err.contains("--dir DIR"), "{unknown:?}");
    // Without groff, the pages are not checked.
    if Command::new("groff").arg("--version").output().is_ok() {
        for page in std::fs::read_dir(&dir).expect("pages") {
            let page = page.expect("a page").path();
            let read = Command::new("groff")
                .args(["-man", "-Tutf8", "-ww", "-z"])
                .arg(&page)
                .output()
                .expect("groff");
            assert!(read.status.success() && read.stderr.is_empty(), "{}: {read:?}", page.display());
        }
    }
}

/// A user's home with a systemctl that writes down its arguments.
fn set_up(lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    let bin = lab.dir().join("bin");
    std::fs::create_dir_all(&bin).expect("a directory");
    let script = format!("#!/bin/sh\necho \"$*\" >> {}\n", lab.dir().join("asked").display());
    let file = bin.join("systemctl");
    std::fs::write(&file, script).expect("a script");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    let mut command = lab.command([&["setup", "systemd"], args].concat());
    command
        .env("XDG_CONFIG_HOME", lab.dir().join("xdg"))
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    said(command.output().expect("berth can be started"))
}

fn asked(lab: &TestEnvironment) -> Vec<String> {
    let asked = std::fs::read_to_string(lab.dir().join("asked")).unwrap_or_default();
    let _ = std::fs::remove_file(lab.dir().join("asked"));
    let told = asked.lines().map(|line| line.replace("--user --no-ask-password ", ""));
    told.filter(|line| line != "show --property=Version").collect()
}

#[test]
fn a_timer_is_set_up_once_and_taken_away_again() {
    let lab = lab();
    let units = lab.dir().join("xdg/systemd/user");
    let shown = set_up(&lab, &["--dry-run"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(!units.exists() && asked(&lab).is_empty(), "only said");
    assert!(shown.err.contains("your systemd can be reached"), "{shown:?}");
    assert_eq!(set_up(&lab, &[]).code, 0);
    assert_eq!(asked(&lab), ["daemon-reload", "enable --now berth-sweep.timer"]);
    let service = std::fs::read_to_string(units.join("berth-sweep.service")).expect("a service");
    assert!(shown.out.contains(&service), "the shown text is the written one");
    assert!(service.contains(&format!("ExecStart=\"{BERTH}\" sweep --quiet\n")), "{service}");
    assert!(service.contains(&format!("Environment=\"BERTH_HOME={}\"\n", lab.home().display())), "{service}");
    assert!(
        service.contains(&format!("Environment=\"BERTH_CONFIG={}\"\n", lab.config().display())),
        "{service}"
    );
    let again = set_up(&lab, &[]);
    assert!(again.code == 0 && !again.err.contains("wrote"), "{again:?}");
    assert_eq!(asked(&lab), ["enable --now berth-sweep.timer"]);
    // A unit that is ours and old is renewed.
    std::fs::write(units.join("berth-sweep.timer"), service.lines().next().expect("the mark"))
        .expect("our own file");
    assert!(set_up(&lab, &[]).err.contains("wrote"));
    assert_eq!(asked(&lab), ["daemon-reload", "enable --now berth-sweep.timer"]);
    assert_eq!(set_up(&lab, &["--remove"]).code, 0);
    assert_eq!(asked(&lab), ["disable --now berth-sweep.timer", "daemon-reload"]);
    assert_eq!(std::fs::read_dir(&units).expect("a directory").count(), 0);
    assert_eq!(set_up(&lab, &["--remove"]).code, 0, "twice is fine");
    assert!(asked(&lab).is_empty());
}

#[test]
fn the_gateway_is_set_up_on_request_and_removed_with_the_rest() {
    let lab = lab();
    assert_eq!(set_up(&lab, &["--gateway"]).code, 0);
    assert_eq!(
        asked(&lab),
        ["daemon-reload", "enable --now berth-sweep.timer", "enable --now berth-gateway.service"]
    );
    let unit = lab.dir().join("xdg/systemd/user/berth-gateway.service");
    let text = std::fs::read_to_string(&unit).expect("a service");
    for line in ["Type=notify", "KillMode=process", "Restart=on-failure", "RestartPreventExitStatus=2 4"] {
        assert!(text.lines().any(|known| known == line), "{line} is not in {text}");
    }
    assert!(text.contains(&format!("ExecStart=\"{BERTH}\" serve\n")), "{text}");
    assert!(text.contains(&format!("Environment=\"BERTH_HOME={}\"\n", lab.home().display())), "{text}");
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--user", "--man=no"])
        .arg(&unit)
        .env("XDG_RUNTIME_DIR", lab.dir())
        .output();
    if let Ok(verified) = verify {
        assert!(verified.status.success(), "{verified:?}");
    }
    // Setting up the sweep again does not remove the gateway.
    assert_eq!(set_up(&lab, &[]).code, 0);
    assert!(unit.exists());
    asked(&lab);
    assert_eq!(set_up(&lab, &["--remove"]).code, 0);
    let told = ["disable --now berth-sweep.timer", "disable --now berth-gateway.service", "daemon-reload"];
    assert_eq!(asked(&lab), told);
    assert!(!unit.exists());
}

#[test]
fn a_unit_that_berth_did_not_write_is_left_alone() {
    let lab = lab();
    let units = lab.dir().join("xdg/systemd/user");
    std::fs::create_dir_all(&units).expect("a directory");
    let mine = units.join("berth-sweep.service");
    std::fs::write(&mine, "[Service]\nExecStart=/bin/true\n").expect("a unit");
    for args in [&[][..], &["--force"], &["--dry-run"]] {
        let told = set_up(&lab, args);
        assert!(told.code == 1 && told.err.contains("was not written by berth"), "{told:?}");
        assert!(!units.join("berth-sweep.timer").exists(), "half a set-up");
    }
    assert_eq!(set_up(&lab, &["--remove"]).code, 0);
    assert_eq!(std::fs::read_to_string(&mine).expect("it is there"), "[Service]\nExecStart=/bin/true\n");
}

#[test]
fn without_a_systemd_it_is_said_and_written_only_if_that_is_wanted() {
    let lab = lab();
    let set_up = |args: &[&str]| {
        let mut command = lab.command([&["setup", "systemd"], args].concat());
        // Nothing in PATH, and so no systemctl either.
        command.env("XDG_CONFIG_HOME", lab.dir().join("xdg")).env("PATH", lab.dir());
        said(command.output().expect("berth can be started"))
    };
    let told = set_up(&[]);
    assert!(
        told.code == 1 && told.err.starts_with("error: your systemd cannot be reached here: "),
        "{told:?}"
    );
    assert!(!lab.dir().join("xdg").exists());
    let told = set_up(&["--dry-run"]);
    assert!(
        told.code == 0 && told.err.contains("so --force is needed: systemctl cannot be started"),
        "{told:?}"
    );
    assert!(!lab.dir().join("xdg").exists());
    let told = set_up(&["--force"]);
    assert!(
        told.code == 0 && told.err.contains("systemctl --user enable --now berth-sweep.timer"),
        "{told:?}"
    );
    let units = lab.dir().join("xdg/systemd/user");
    // Where it is installed, systemd itself says whether it can read them.
    let files = ["berth-sweep.service", "berth-sweep.timer"].map(|name| units.join(name));
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--user", "--man=no"])
        .args(&files)
        .env("XDG_RUNTIME_DIR", lab.dir())
        .output();
    if let Ok(verified) = verify {
        assert!(verified.status.success(), "{verified:?}");
    }
    assert_eq!(set_up(&["--remove", "--force"]).code, 2);
    assert_eq!(set_up(&["--remove"]).code, 0);
    assert!(files.iter().all(|file| !file.exists()));
}

#[test]
fn options_that_do_not_go_together_are_refused_with_a_sentence_and_nothing_is_done() {
    let lab = lab();
    for (args, why) in [
        (&["run", "--detach", "--attach", "--", "true"][..], "`berth run` has no option `--attach`"),
        (&["run", "--nmae", "x", "true"], "`berth run` has no option `--nmae`; did you mean `--name`?"),
        (&["run", "--agent", "claude", "--modle", "x"], "`berth run` has no option `--modle`"),
        (&["run", "--tui", "--", "true"], "--agent"),
        (&["run", "--agent", "claude", "--tui", "--prompt", "x"], "'--tui' cannot be used with '--prompt"),
        (&["run", "--agent", "claude", "--take"], "--resume"),
        (&["run"], "no agent and no command is given"),
        (&["purge", "--older-than", "3d"], "required arguments were not provided:\n  --archived\n\nUsage"),
        (&["resume", "x", "--attach", "--detach"], "'--attach' cannot be used with '--detach'"),
        (&["resume", "x", "--attach", "--json"], "'--attach' cannot be used with '--json'"),
        (&["resume", "x", "--attach"], "--attach needs a terminal"),
        (&["resume", "x", "--last"], "cannot be used with"),
        (&["attach", "x", "--json"], "unexpected argument '--json'"),
        (&["attach", "x", "--observe", "--take"], "'--observe' cannot be used with '--take'"),
        (&["attach", "x"], "attaching needs a terminal"),
        (&["screen", "x", "--text", "--ansi"], "'--text' cannot be used with '--ansi'"),
        (&["send", "x", "hello", "--steer", "--interrupt"], "'--steer' cannot be used with '--interrupt'"),
        (&["ps", "x", "--port", "80"], "cannot be used with"),
        (&["why", "x", "--pid", "1"], "cannot be used with"),
        (&["stop", "x", "--all"], "cannot be used with"),
        (&["ls", "--quiet", "--verbose"], "cannot be used with"),
        (&["setup", "systemd", "--remove", "--force"], "'--remove' cannot be used with '--force'"),
    ] {
        let told = lab.berth(args);
        assert!(told.err.contains(why), "{args:?}: {told:?}");
        assert!(told.out.is_empty() && told.code == 2, "{args:?}: {told:?}");
    }
    let sessions = std::fs::read_dir(lab.home().join("sessions")).map_or(0, Iterator::count);
    assert_eq!(sessions, 0);
}

#[test]
fn a_word_of_another_program_is_answered_with_the_word_of_this_one() {
    let lab = lab();
    for (word, meant) in [
        ("kill", "berth stop S"),
        ("rm", "berth archive S"),
        ("delete", "berth purge S"),
        ("status", "berth ls"),
        ("tail", "berth output S --follow"),
        ("new", "berth run -- COMMAND"),
        ("start", "berth run -- COMMAND"),
        ("exec", "berth input S TEXT"),
    ] {
        let told = lab.berth([word, "fix"]);
        assert_eq!(told.code, 2, "{told:?}");
        assert!(told.err.contains("tip: `berth ") && told.err.contains(meant), "{told:?}");
        assert_eq!(told.err.matches("tip:").count(), 1, "one advice is enough: {told:?}");
    }
    assert!(lab.berth(["stpo"]).err.contains("similar"), "a misspelled command is still reported");
}
