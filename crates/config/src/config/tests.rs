//! Tests of the config file: valid contents, and the text of refusals.

mod registry;

use super::agents::MAX_AGENTS;
use berth_api::ProblemCode;

use super::*;
use crate::agents::DriverKind;

fn parsed(text: &str) -> Result<Config, Problem> {
    Config::parse(Some("/c/berth.toml".into()), Some(text.as_bytes()), &|_| None)
}

/// The text of a refusal, with its hint below.
fn refused(text: &str) -> String {
    let problem = parsed(text).expect_err(text);
    assert_eq!(problem.code, ProblemCode::Usage);
    [Some(problem.what), problem.hint].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

#[test]
fn the_file_is_found_in_the_order_people_expect() {
    let some = |text: &str| Some(OsString::from(text));
    let found = |berth, xdg, home| {
        berth_store::config_file::config_file_location(berth, xdg, home)
            .map(|path| path.display().to_string())
    };
    assert_eq!(found(some("/b.toml"), some("/x"), some("/h")), Some("/b.toml".into()));
    assert_eq!(found(None, some("/x"), some("/h")), Some("/x/berth/config.toml".into()));
    assert_eq!(found(None, some("relative"), some("/h")), Some("/h/.config/berth/config.toml".into()));
    assert_eq!(found(None, None, None), None);
}

#[test]
fn an_empty_file_says_nothing() {
    let config = parsed("# nothing yet\n").expect("TOML");
    assert!(config.agents.is_empty());
}

#[test]
fn every_key_is_read() {
    let text = r#"
[agents.mine]
about = "an agent of mine"
driver = "acp"
command = ["mine", "--acp"]
tui = ["mine"]
resume_tui = ["--resume={id}"]
begin_tui = ["--id", "{id}"]
env = { B = "2", A = "1" }
conversation_kind = "claude"
install = "cargo install mine"
version = ["version"]
"#;
    let mut config = parsed(text).expect("every key");
    let keys = config.agents.remove("mine").expect("the agent");
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!((keys.spot.to_string(), keys.about.as_deref()), ("2:9".to_owned(), Some("an agent of mine")));
    assert_eq!((keys.driver, keys.command), (Some(DriverKind::Acp), words(&["mine", "--acp"])));
    assert_eq!((keys.tui, keys.resume_tui), (words(&["mine"]), words(&["--resume={id}"])));
    assert_eq!((keys.begin_tui, keys.version), (words(&["--id", "{id}"]), words(&["version"])));
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(keys.env, [variable("A", "1"), variable("B", "2")]);
    assert_eq!(keys.conversation.as_deref(), Some("claude"));
    assert_eq!(keys.install.as_deref(), Some("cargo install mine"));
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_what_was_probably_meant() {
    assert_eq!(
        refused("# mine\n[agents.mine]\ndriver = \"acp\"\ncomand = [\"x\"]\n"),
        "/c/berth.toml:4:1: [agents.mine] has no key `comand`; did you mean `command`?\n\
         valid keys: about, driver, command, tui, resume_tui, begin_tui, env, conversation_kind, install, version"
    );
    assert_eq!(
        refused("\n[agent.mine]\ndriver = \"acp\"\n"),
        "/c/berth.toml:2:2: the file has no key `agent`; did you mean `agents`?\nvalid keys: ui, policy, agents, hooks, hosts, notify, history, serve, send"
    );
    // Without a similar name there is no suggestion; of two mistakes the first is reported.
    assert!(
        refused("[agents.a]\nzebra = 1\nalpaca = 1\n")
            .starts_with("/c/berth.toml:2:1: [agents.a] has no key `zebra`\n")
    );
}

#[test]
fn a_wrong_type_is_refused_with_the_right_one() {
    assert_eq!(
        refused("[agents.mine]\ncommand = \"codex app-server\"\n"),
        "/c/berth.toml:2:11: `command` in [agents.mine] is of type string; it must be an array of strings, \
         as in [\"codex\", \"app-server\"]\n`berth config --explain agents.NAME.command` explains it"
    );
    assert_eq!(
        refused("[agents.mine]\ncommand = [\n  \"x\",\n  7,\n]\n"),
        "/c/berth.toml:4:3: `command` in [agents.mine] is of type integer; it must be a string, in quotes\n\
         `berth config --explain agents.NAME.command` explains it"
    );
    assert_eq!(
        refused("[agents.mine]\ndriver = 7\n"),
        "/c/berth.toml:2:10: `driver` in [agents.mine] is of type integer; it must be a string, in quotes\n\
         `berth config --explain agents.NAME.driver` explains it"
    );
    assert_eq!(
        refused("[agents.mine]\nenv = [\"A=1\"]\n"),
        "/c/berth.toml:2:7: `env` in [agents.mine] is of type array; it must be a table of strings, \
         as in { NAME = \"value\" }\n`berth config --explain agents.NAME.env` explains it"
    );
    assert_eq!(
        refused("[agents.mine.env]\nA = \"1\"\nB = 2\n"),
        "/c/berth.toml:3:5: `env.B` in [agents.mine] is of type integer; it must be a string, in quotes\n\
         `berth config --explain agents.NAME.env` explains it"
    );
    assert_eq!(
        refused("agents = \"mine\"\n"),
        "/c/berth.toml:1:1: `agents` in the file is of type string; it must be a table of tables, as in [agents.NAME]\n\
         `berth config --explain agents` explains it"
    );
    assert_eq!(
        refused("[agents]\nmine = \"mine --acp\"\n"),
        "/c/berth.toml:2:1: `mine` in [agents] must be a table of its own, as in [agents.mine]\n\
         `berth config --explain agents.NAME` explains it"
    );
}

#[test]
fn an_unknown_driver_is_refused_with_those_there_are() {
    assert_eq!(
        refused("[agents.mine]\ndriver = \"cluade\"\ncommand = [\"x\"]\n"),
        "/c/berth.toml:2:10: `driver` in [agents.mine] cannot be `cluade`; did you mean `claude`?\n\
         it is one of pty, acp, claude, codex"
    );
}

#[test]
fn a_command_that_can_never_start_is_refused() {
    for empty in ["[]", "[\"\"]", "[\"\", \"x\"]"] {
        assert_eq!(
            refused(&format!("[agents.mine]\ncommand = {empty}\n")),
            "/c/berth.toml:2:11: `command` in [agents.mine] is empty\n\
             the first word names a program, the others are given to it"
        );
    }
    assert!(refused("[agents.mine]\ntui = [\"\"]\n").contains("`tui` in [agents.mine] is empty"));
    assert!(refused("[agents.mine]\ncommand = [\"a\\u0000b\"]\n").contains("a zero byte"));
    assert!(
        refused("[agents.mine]\nresume_tui = [\"--resume\"]\n")
            .contains("has no place for the id of the conversation")
    );
    assert!(
        refused("[agents.mine.env]\n\"A=B\" = \"1\"\n").contains("that is not a valid name of a variable")
    );
    assert!(refused("[agents.mine.env]\nBERTH_HOME = \"1\"\n").contains("berth's own"));
}

#[test]
fn names_that_cannot_be_typed_or_be_a_directory_are_refused() {
    assert!(
        refused("[agents.\"a b\"]\n").starts_with("/c/berth.toml:1:9: `a b` cannot be an agent's name: ")
    );
    assert!(refused("[agents.\"-x\"]\n").contains("starts with a letter or a digit"));
    assert!(refused("[agents.a]\nconversation_kind = \"../x\"\n").starts_with("/c/berth.toml:2:21: "));
}

#[test]
fn a_file_that_is_not_valid_toml_is_refused_without_repeating_it() {
    let text = refused("[agents.mine.env]\nAPI_KEY = sk-very-secret-indeed\n");
    assert!(text.starts_with("/c/berth.toml:2:11: this is not valid TOML: "), "{text}");
    let typed = refused("[agents.mine]\nenv = \"API_KEY=sk-very-secret-indeed\"\n");
    for text in [text, typed] {
        assert!(!text.contains("very-secret"), "{text}");
    }
    let twice = refused("[agents.mine]\ndriver = \"acp\"\ndriver = \"acp\"\n");
    assert!(twice.starts_with("/c/berth.toml:3:1: this is not valid TOML: duplicate key"), "{twice}");
    let bytes = Config::parse(Some("/c/berth.toml".into()), Some(b"# fine\nx\xff\n"), &|_| None)
        .expect_err("not UTF-8");
    assert_eq!(bytes.what, "/c/berth.toml:2:2: this is not valid UTF-8, so it is not valid TOML");
}

#[test]
fn there_is_a_limit_to_the_number_of_agents() {
    let many = |count: usize| (0..count).map(|at| format!("[agents.a{at:03}]\n")).collect::<String>();
    assert_eq!(parsed(&many(MAX_AGENTS)).map(|config| config.agents.len()), Ok(MAX_AGENTS));
    assert_eq!(
        refused(&many(MAX_AGENTS + 1)),
        "/c/berth.toml:101:9: there are more than 100 agents\n`berth config --explain agents.NAME` explains it"
    );
}

#[test]
fn only_what_is_near_is_offered() {
    let known = ["claude", "codex", "gemini", "pty"];
    for (given, meant) in
        [("clade", "claude"), ("CODEX", "codex"), ("claude-code", "claude"), ("gem", "gemini")]
    {
        assert_eq!(did_you_mean(given, &known), format!("; did you mean `{meant}`?"));
    }
    for given in ["", "gpt", "x", "aider"] {
        assert_eq!(did_you_mean(given, &known), "", "{given}");
    }
}
