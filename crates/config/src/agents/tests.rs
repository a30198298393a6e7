//! Tests of the agent table: built-in agents, changes from the config file, and refusals.

use berth_api::ProblemCode;

use super::*;

fn table(text: &str) -> Result<AgentTable, Problem> {
    AgentTable::new(Config::parse(Some("/c/berth.toml".into()), Some(text.as_bytes()), &|_| None)?)
}

fn agent(text: &str, name: &str) -> AgentDefinition {
    table(text).expect("a table").find(name).expect("the agent").clone()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn tui(name: &str, begin: TuiStart<'_>) -> Result<String, String> {
    let command = agent("", name).tui_command(begin, &words("--model x"));
    command.map(|words| words.join(" ")).map_err(|problem| problem.what)
}

#[test]
fn the_built_in_agents_are_started_as_their_makers_say() {
    let table = table("").expect("the built-in table");
    let started: Vec<_> = table
        .iter()
        .map(|agent| {
            (agent.name.as_str(), agent.driver.name(), agent.structured_command(&words("-x")).join(" "))
        })
        .collect();
    assert_eq!(
        started,
        [
            ("claude", "claude", "claude -x".to_owned()),
            ("codex", "codex", "codex app-server -x".to_owned()),
            ("claude-acp", "acp", "claude-agent-acp -x".to_owned()),
            ("codex-acp", "acp", "codex-acp -x".to_owned()),
            ("opencode", "acp", "opencode acp -x".to_owned()),
            ("gemini", "acp", "gemini --acp -x".to_owned()),
        ]
    );
    assert!(table.iter().all(|agent| agent.source == AgentSource::BuiltIn && agent.install.is_some()));
}

#[test]
fn one_conversation_has_one_kind_whichever_way_it_is_reached() {
    let kind = |name: &str| agent("", name).conversation;
    assert_eq!(kind("claude").as_deref(), Some("claude"));
    assert_eq!(kind("claude-acp"), kind("claude"));
    assert_eq!(kind("codex-acp"), kind("codex"));
    assert_ne!(kind("opencode"), kind("gemini"));
}

#[test]
fn a_terminal_interface_begins_as_it_can() {
    let ok = |text: &str| Ok(text.to_owned());
    assert_eq!(tui("claude", TuiStart::Fresh), ok("claude --model x"));
    assert_eq!(tui("claude", TuiStart::FreshAs("u-1")), ok("claude --session-id u-1 --model x"));
    assert_eq!(tui("claude", TuiStart::Resume("u-1")), ok("claude --resume u-1 --model x"));
    assert_eq!(tui("codex", TuiStart::Resume("t-1")), ok("codex --no-daemon resume t-1 --model x"));
    assert_eq!(tui("opencode", TuiStart::Resume("ses_1")), ok("opencode --session ses_1 --model x"));
    assert_eq!(tui("gemini", TuiStart::Fresh), ok("gemini --model x"));
}

#[test]
fn a_request_that_a_terminal_interface_does_not_support_is_refused() {
    let refused = |name, begin| tui(name, begin).expect_err("it cannot");
    assert!(refused("claude-acp", TuiStart::Fresh).contains("no terminal interface"));
    assert!(refused("codex", TuiStart::FreshAs("t-1")).contains("cannot be told the id"));
    assert!(refused("gemini", TuiStart::Resume("g-1")).contains("cannot be told to resume"));
    for id in ["", "--dangerously-skip-permissions", "a\0b"] {
        let what = refused("claude", TuiStart::Resume(id));
        assert_eq!(what, format!("{id:?} is not a valid id of a conversation"));
    }
}

#[test]
fn the_config_file_counts_key_by_key() {
    let text = "[agents.claude]\ncommand = [\"/opt/claude\", \"--verbose\"]\nenv = { A = \"1\" }\n";
    let claude = agent(text, "claude");
    assert_eq!(claude.structured_command(&[]), ["/opt/claude", "--verbose"]);
    assert_eq!(claude.env, [("A".to_owned(), "1".to_owned())]);
    assert_eq!(claude.source, AgentSource::Config { spot: ConfigPosition { line: 1, column: 9 } });
    let built_in = agent("", "claude");
    let rest = AgentDefinition {
        command: built_in.command.clone(),
        env: Vec::new(),
        source: AgentSource::BuiltIn,
        ..claude
    };
    assert_eq!(rest, built_in, "what is not given stays");
    assert_eq!(agent(text, "codex"), agent("", "codex"), "others are not touched");
}

#[test]
fn another_program_is_not_asked_for_its_version_in_the_way_of_the_first() {
    let version = |text: &str| agent(text, "claude").version;
    assert_eq!(version("[agents.claude]\ncommand = [\"/opt/bin/claude\"]\n"), Some(words("--version")));
    assert_eq!(version("[agents.claude]\ncommand = [\"ssh\", \"host\", \"claude\"]\n"), None);
    let told = "[agents.claude]\ncommand = [\"my-claude\"]\nversion = [\"-V\"]\n";
    assert_eq!(version(told), Some(words("-V")));
}

#[test]
fn an_empty_list_takes_something_away() {
    let claude = agent("[agents.claude]\ntui = []\nversion = []\n", "claude");
    assert_eq!((claude.tui, claude.version), (None, None));
}

#[test]
fn a_new_agent_gets_what_follows_from_its_driver() {
    let new =
        |driver: &str| agent(&format!("[agents.x]\ndriver = \"{driver}\"\ncommand = [\"x\", \"y\"]\n"), "x");
    assert_eq!(new("acp").conversation.as_deref(), Some("x"));
    assert_eq!(new("claude").conversation.as_deref(), Some("claude"));
    assert_eq!(new("codex").conversation.as_deref(), Some("codex"));
    assert_eq!((new("pty").conversation, new("pty").tui), (None, Some(words("x y"))));
    assert_eq!(
        (new("acp").tui, new("acp").version),
        (None, None),
        "the config does not say that the program takes --version"
    );
}

#[test]
fn a_new_agent_needs_a_driver_and_a_command() {
    let refused = |text: &str| table(text).expect_err(text);
    let problem = refused("[agents.x]\ndriver = \"acp\"\n");
    assert_eq!(problem.code, ProblemCode::Usage);
    assert_eq!(problem.what, "/c/berth.toml:1:9: [agents.x] is a new agent and has no `command`");
    let problem = refused("\n[agents.cluade]\ncommand = [\"claude\"]\n");
    assert_eq!(
        problem.what,
        "/c/berth.toml:2:9: [agents.cluade] is a new agent and has no `driver`; did you mean `claude`?"
    );
    let problem = refused("[agents.claude]\ndriver = \"acp\"\n");
    assert_eq!(
        problem.what,
        "/c/berth.toml:1:9: [agents.claude] has another `driver` than the built-in one, and no `command` that goes \
         with it"
    );
}

#[test]
fn an_unknown_agent_is_refused_with_a_suggestion_of_a_similar_name() {
    let problem = table("").expect("a table").find("clade").expect_err("no such agent");
    assert_eq!(problem.code, ProblemCode::NotFound);
    assert_eq!(problem.what, "no agent is called `clade`; did you mean `claude`?");
    let hint = "`berth agents` lists them; [agents.NAME] in /c/berth.toml adds one";
    assert_eq!(problem.hint.as_deref(), Some(hint));
}

#[test]
fn an_agent_that_is_not_installed_is_told_with_the_command_that_installs_it() {
    let text = "[agents.claude]\nenv = { PATH = \"/nowhere:/neither\" }\n";
    let claude = agent(text, "claude");
    let problem = claude.locate(&claude.command, Path::new("/")).expect_err("nothing is there");
    assert_eq!(problem.code, ProblemCode::NotFound);
    assert_eq!(
        problem.what,
        "agent `claude` is not installed: there is no program `claude` in PATH (/nowhere:/neither)"
    );
    assert_eq!(
        problem.hint.as_deref(),
        Some(
            "install it with `npm install -g @anthropic-ai/claude-code`, or say where it is with `command` in \
             [agents.claude] of the config file; any other command can be kept as well: `berth run -- bash`"
        )
    );
    let here = agent("[agents.sh]\ndriver = \"pty\"\ncommand = [\"sh\"]\nenv = { PATH = \"/bin\" }\n", "sh");
    assert_eq!(here.locate(&here.command, Path::new("/")), Ok("/bin/sh".into()));
}

#[test]
fn the_pages_about_agents_have_every_key_and_examples_that_work() {
    let page = include_str!("../../../../docs/config.md");
    let problem = table("[agents.claude]\nno-such-key = 1\n").expect_err("there is no such key");
    let known = problem.hint.expect("the known keys");
    for key in known.trim_start_matches("valid keys: ").split(", ") {
        assert!(page.contains(&format!("| `{key}` | ")), "{key} is not in docs/config.md");
    }
    let examples = include_str!("../../../../docs/add-an-agent.md").split("```toml\n").skip(1);
    let file: String = examples.filter_map(|rest| rest.split("```").next()).collect();
    let table = table(&file).expect("the examples together are a config file");
    assert_eq!(table.find("claude-work").expect("the agent").conversation.as_deref(), Some("claude"));
    assert_eq!(table.find("mine").expect("the agent").driver, DriverKind::Acp);
}
