//! The language of prompts: the prompt itself says what the turn does.
//!
//! Promise: a prompt is understood as a whole, or refused with the word that is wrong; a prompt without steps is echoed
//! as it is.
//! Not here: doing the steps (see `turn`), the steps of children (see `script`).
//! Start with [`parse`]; `fake-agent acp --help` explains the steps.

use std::path::PathBuf;

use crate::script::{self, SignalNumber};

/// One thing to do in a turn. Each is explained in `fake-agent acp --help`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PromptStep {
    Say(String),
    Think(String),
    Flood { bytes: u64 },
    Report { variables: Vec<String> },
    Context { used: u64, size: u64 },
    Tool { name: String, detail: String },
    Ask { tool: String, detail: String },
    Unask,
    Sh(String),
    Script(Vec<script::ScriptStep>),
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
    Die(SignalNumber),
}

impl PromptStep {
    /// True if the step comes only after every question was answered.
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

/// The steps and the text of a prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct PromptScript {
    /// In the order of the prompt.
    pub(crate) steps: Vec<PromptStep>,
    /// Text that is not a step, to be echoed at the end.
    pub(crate) echo: Option<String>,
}

/// Understands a prompt. Steps are the words that a line begins with; what is left of it is echoed.
pub(crate) fn parse(prompt: &str) -> Result<PromptScript, String> {
    let mut script = PromptScript::default();
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
fn line_of(line: &str) -> Result<(Vec<PromptStep>, &str), String> {
    let mut steps = Vec::new();
    let mut rest = line;
    while let Some((next, after)) = step(rest.trim_start())? {
        // `close the door` is not a step: a bare word counts only among steps.
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
fn step(text: &str) -> Result<Option<(PromptStep, &str)>, String> {
    if text.starts_with("child [") {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        return Ok(Some((PromptStep::Script(script::parse(&words)?), "")));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    let one_word = |step: PromptStep| Ok(Some((step, after)));
    let bare = match word {
        "unask" => Some(PromptStep::Unask),
        "garbage" => Some(PromptStep::Garbage { bytes: 0 }),
        "close" => Some(PromptStep::Close),
        "silent" => Some(PromptStep::Silent),
        "deaf" => Some(PromptStep::Deaf),
        "new-id" => Some(PromptStep::NewId),
        "report" => Some(PromptStep::Report { variables: Vec::new() }),
        _ => None,
    };
    if let Some(step) = bare {
        return one_word(step);
    }
    let Some((verb, argument)) = word.split_once(':') else { return Ok(None) };
    match verb {
        "touch" => return one_word(PromptStep::Touch(argument.into())),
        "wait-file" => return one_word(PromptStep::WaitFile(argument.into())),
        "late" => return one_word(PromptStep::Late(argument.into())),
        "pidfile" => return one_word(PromptStep::Script(script::parse(&[word.to_owned()])?)),
        "sleep" => return one_word(PromptStep::Sleep { ms: script::number(argument)? }),
        "flood" => return one_word(PromptStep::Flood { bytes: script::bytes(argument)? }),
        "garbage" => {
            let bytes =
                usize::try_from(script::bytes(argument)?).map_err(|_| format!("`{word}` is too large"))?;
            return one_word(PromptStep::Garbage { bytes });
        }
        "report" => {
            return one_word(PromptStep::Report {
                variables: argument.split(',').map(str::to_owned).collect(),
            });
        }
        "context" => {
            let (used, size) = argument
                .split_once(':')
                .ok_or_else(|| format!("`{word}` needs two numbers: context:USED:SIZE"))?;
            let (used, size) = (script::number(used)?, script::number(size)?);
            return one_word(PromptStep::Context { used, size });
        }
        "stop" => return one_word(PromptStep::Stop(argument.to_owned())),
        "exit" => return one_word(PromptStep::Exit(script::number(argument)?)),
        "die" => return one_word(PromptStep::Die(script::signal(argument)?)),
        _ => {}
    }
    let argument = &text[verb.len() + 1..];
    let named = || match argument.split_once(':') {
        Some((name, detail)) if !name.is_empty() => Ok((name.to_owned(), detail.to_owned())),
        _ => Err(format!("`{text}` needs a name and a detail: {verb}:NAME:DETAIL")),
    };
    let whole_line = match verb {
        "say" => PromptStep::Say(unescaped(argument)?),
        "think" => PromptStep::Think(unescaped(argument)?),
        "stderr" => PromptStep::Stderr(unescaped(argument)?),
        "sh" => PromptStep::Sh(argument.to_owned()),
        "tool" => named().map(|(name, detail)| PromptStep::Tool { name, detail })?,
        "ask" => named().map(|(tool, detail)| PromptStep::Ask { tool, detail })?,
        "fail" => {
            match argument.split_once(':').and_then(|(code, message)| Some((code.parse().ok()?, message))) {
                Some((code, message)) => PromptStep::Fail { code, message: message.to_owned() },
                None => PromptStep::Fail { code: super::code::INTERNAL, message: argument.to_owned() },
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
            let script = PromptScript { steps: Vec::new(), echo: Some(prompt.to_owned()) };
            assert_eq!(parse(prompt), Ok(script), "`{prompt}`");
        }
    }

    #[test]
    fn steps_begin_a_line_and_the_rest_is_echoed() {
        let steps = vec![PromptStep::Touch("/a".into()), PromptStep::WaitFile("/b".into())];
        let script = PromptScript { steps, echo: Some("hello you\nand you".to_owned()) };
        assert_eq!(parse("touch:/a wait-file:/b hello you\nand you"), Ok(script));
    }

    #[test]
    fn a_step_with_a_text_takes_the_line() {
        let steps = vec![
            PromptStep::Deaf,
            PromptStep::Say("a b\nc touch:/x".to_owned()),
            PromptStep::Ask { tool: "Bash".to_owned(), detail: "echo a:b c".to_owned() },
            PromptStep::Fail { code: -32000, message: "log in".to_owned() },
            PromptStep::Fail { code: -32603, message: "no: luck".to_owned() },
        ];
        let prompt = "deaf say:a b\\nc touch:/x\nask:Bash:echo a:b c\nfail:-32000:log in\nfail:no: luck";
        assert_eq!(parse(prompt), Ok(PromptScript { steps, echo: None }));
    }

    #[test]
    fn a_child_has_steps_of_its_own() {
        let steps =
            script::parse(&["child", "[", "setsid", "hang", "]"].map(str::to_owned)).expect("a script");
        assert_eq!(
            parse("child [ setsid hang ]"),
            Ok(PromptScript { steps: vec![PromptStep::Script(steps)], echo: None })
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
