//! The language of prompts: what a turn shall be is said in the prompt itself.
//!
//! Promise: a prompt is understood as a whole, or refused with the word that is wrong; a prompt without
//! steps is echoed as it is.
//! Not here: doing the steps (see `turn`), the steps of children (see `script`).
//! Start with [`parse`]; `fake-agent acp --help` explains the steps.

use std::path::PathBuf;

use crate::script::{self, Signal};

/// One thing to do in a turn. Each is explained in `fake-agent acp --help`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Think(String),
    Flood { bytes: u64 },
    Report { variables: Vec<String> },
    Context { used: u64, size: u64 },
    Tool { name: String, detail: String },
    Ask { tool: String, detail: String },
    Unask,
    Sh(String),
    Script(Vec<script::Step>),
    Touch(PathBuf),
    WaitFile(PathBuf),
    Sleep { ms: u64 },
    Garbage { bytes: usize },
    Stderr(String),
    Close,
    Silent,
    Deaf,
    Late(PathBuf),
    NewId,
    Stop(String),
    Fail { code: i64, message: String },
    Exit(u8),
    Die(Signal),
}

impl Step {
    /// Whether it comes only after everything that is asked was answered.
    pub(crate) fn waits_for_answers(&self) -> bool {
        match self {
            Self::Ask { .. }
            | Self::Unask
            | Self::Touch(_)
            | Self::WaitFile(_)
            | Self::Sleep { .. }
            | Self::Stderr(_)
            | Self::Garbage { .. }
            | Self::Close
            | Self::Deaf
            | Self::Late(_)
            | Self::Exit(_)
            | Self::Die(_) => false,
            Self::Say(_)
            | Self::Think(_)
            | Self::Flood { .. }
            | Self::Report { .. }
            | Self::Context { .. }
            | Self::Tool { .. }
            | Self::Sh(_)
            | Self::Script(_)
            | Self::Silent
            | Self::NewId
            | Self::Stop(_)
            | Self::Fail { .. } => true,
        }
    }
}

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Script {
    /// In order.
    pub(crate) steps: Vec<Step>,
    /// What is no step, to be echoed at the end.
    pub(crate) echo: Option<String>,
}

/// Understands a prompt. Steps are the words that a line begins with; what is left of it is echoed.
pub(crate) fn parse(prompt: &str) -> Result<Script, String> {
    let mut script = Script::default();
    let mut echo = Vec::new();
    for line in prompt.lines() {
        let (steps, rest) = line_of(line)?;
        if !rest.is_empty() || steps.is_empty() {
            echo.push(rest);
        }
        script.steps.extend(steps);
    }
    if script.steps.is_empty() {
        script.echo = Some(prompt.to_owned());
    } else if echo.iter().any(|line| !line.trim().is_empty()) {
        script.echo = Some(echo.join("\n"));
    }
    Ok(script)
}

/// The steps that a line begins with, and the rest of it.
fn line_of(line: &str) -> Result<(Vec<Step>, &str), String> {
    let mut steps = Vec::new();
    let mut rest = line;
    while let Some((next, after)) = step(rest.trim_start())? {
        // `close the door` is nothing to do: a bare word counts only among steps.
        let is_bare = !rest[..rest.len() - after.len()].contains(':');
        if is_bare && !after.trim().is_empty() && step(after.trim_start())?.is_none() {
            break;
        }
        steps.push(next);
        rest = after;
    }
    // A line without steps is echoed with the spaces it began with.
    let rest = if steps.is_empty() { line } else { rest.trim_start() };
    Ok((steps, rest))
}

/// The step a text begins with, and what follows it. Steps that take a text take the whole line.
fn step(text: &str) -> Result<Option<(Step, &str)>, String> {
    if text.starts_with("child [") {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        return Ok(Some((Step::Script(script::parse(&words)?), "")));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    let one_word = |step: Step| Ok(Some((step, after)));
    let bare = match word {
        "unask" => Some(Step::Unask),
        "garbage" => Some(Step::Garbage { bytes: 0 }),
        "close" => Some(Step::Close),
        "silent" => Some(Step::Silent),
        "deaf" => Some(Step::Deaf),
        "new-id" => Some(Step::NewId),
        "report" => Some(Step::Report { variables: Vec::new() }),
        _ => None,
    };
    if let Some(step) = bare {
        return one_word(step);
    }
    let Some((verb, argument)) = word.split_once(':') else { return Ok(None) };
    match verb {
        "touch" => return one_word(Step::Touch(argument.into())),
        "wait-file" => return one_word(Step::WaitFile(argument.into())),
        "late" => return one_word(Step::Late(argument.into())),
        "pidfile" => return one_word(Step::Script(script::parse(&[word.to_owned()])?)),
        "sleep" => return one_word(Step::Sleep { ms: script::number(argument)? }),
        "flood" => return one_word(Step::Flood { bytes: script::bytes(argument)? }),
        "garbage" => {
            let bytes =
                usize::try_from(script::bytes(argument)?).map_err(|_| format!("`{word}` is too large"))?;
            return one_word(Step::Garbage { bytes });
        }
        "report" => {
            return one_word(Step::Report { variables: argument.split(',').map(str::to_owned).collect() });
        }
        "context" => {
            let (used, size) = argument
                .split_once(':')
                .ok_or_else(|| format!("`{word}` needs two numbers: context:USED:SIZE"))?;
            let (used, size) = (script::number(used)?, script::number(size)?);
            return one_word(Step::Context { used, size });
        }
        "stop" => return one_word(Step::Stop(argument.to_owned())),
        "exit" => return one_word(Step::Exit(script::number(argument)?)),
        "die" => return one_word(Step::Die(script::signal(argument)?)),
        _ => {}
    }
    let argument = &text[verb.len() + 1..];
    let named = || match argument.split_once(':') {
        Some((name, detail)) if !name.is_empty() => Ok((name.to_owned(), detail.to_owned())),
        _ => Err(format!("`{text}` needs a name and a detail: {verb}:NAME:DETAIL")),
    };
    let whole_line = match verb {
        "say" => Step::Say(unescaped(argument)?),
        "think" => Step::Think(unescaped(argument)?),
        "stderr" => Step::Stderr(unescaped(argument)?),
        "sh" => Step::Sh(argument.to_owned()),
        "tool" => named().map(|(name, detail)| Step::Tool { name, detail })?,
        "ask" => named().map(|(tool, detail)| Step::Ask { tool, detail })?,
        "fail" => {
            match argument.split_once(':').and_then(|(code, message)| Some((code.parse().ok()?, message))) {
                Some((code, message)) => Step::Fail { code, message: message.to_owned() },
                None => Step::Fail { code: super::code::INTERNAL, message: argument.to_owned() },
            }
        }
        _ => return Ok(None),
    };
    Ok(Some((whole_line, "")))
}

fn unescaped(text: &str) -> Result<String, String> {
    String::from_utf8(script::unescape(text)?)
        .map_err(|_| format!("`{text}` is not UTF-8, and JSON has to be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_without_steps_is_echoed_as_it_is() {
        for prompt in
            ["hello", "", "  two\n\nlines ", "close the door", "see: this", "https://a.b/c", "silent  night"]
        {
            let script = Script { steps: Vec::new(), echo: Some(prompt.to_owned()) };
            assert_eq!(parse(prompt), Ok(script), "`{prompt}`");
        }
    }

    #[test]
    fn steps_begin_a_line_and_the_rest_is_echoed() {
        let steps = vec![Step::Touch("/a".into()), Step::WaitFile("/b".into())];
        let script = Script { steps, echo: Some("hello you\nand you".to_owned()) };
        assert_eq!(parse("touch:/a wait-file:/b hello you\nand you"), Ok(script));
    }

    #[test]
    fn a_step_with_a_text_takes_the_line() {
        let steps = vec![
            Step::Deaf,
            Step::Say("a b\nc touch:/x".to_owned()),
            Step::Ask { tool: "Bash".to_owned(), detail: "echo a:b c".to_owned() },
            Step::Fail { code: -32000, message: "log in".to_owned() },
            Step::Fail { code: -32603, message: "no: luck".to_owned() },
        ];
        let prompt = "deaf say:a b\\nc touch:/x\nask:Bash:echo a:b c\nfail:-32000:log in\nfail:no: luck";
        assert_eq!(parse(prompt), Ok(Script { steps, echo: None }));
    }

    #[test]
    fn a_child_has_steps_of_its_own() {
        let steps =
            script::parse(&["child", "[", "setsid", "hang", "]"].map(str::to_owned)).expect("a script");
        assert_eq!(
            parse("child [ setsid hang ]"),
            Ok(Script { steps: vec![Step::Script(steps)], echo: None })
        );
    }

    #[test]
    fn a_wrong_step_is_refused() {
        for prompt in [
            "exit:300",
            "flood:1T",
            "die:NOW",
            "child [ dance ]",
            "ask:Bash",
            r"say:\xff",
            r"hi\nsleep:x",
            "context:1",
        ] {
            let wrong = parse(&prompt.replace(r"\n", "\n")).is_err();
            assert!(wrong, "`{prompt}` was accepted");
        }
    }
}
