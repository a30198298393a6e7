//! The language of prompts: the prompt itself says what its answer shall be.
//!
//! Words in capitals, anywhere in the text of the last user message:
//!
//! | Word | The answer |
//! |---|---|
//! | *(none)* | `ECHO: <the prompt>`, at once |
//! | `SLOW <n>` | n pieces `tick 1 `, `tick 2 `, … with 100 ms between them, then the echo |
//! | `HOLD <name>` | one piece `held `, then nothing until `release(name)`, then the echo |
//! | `TOOL <command>` | asks for the shell tool with the rest of the line as its command |
//! | `CALL <tool> <json>` | asks for that tool with the rest of the line as its input |
//! | `THINK` | a thought comes first |
//! | `LONG <bytes>` | as many bytes, in pieces of up to 4 KiB, the echo at their beginning |
//! | `ERROR <status> [<times>]` | that HTTP status and an error body; with `times` only that many times |
//! | `CUT` | the connection breaks in the middle of the answer |
//!
//! A prompt is played in *rounds*, one for each request of the agent. A round ends with the line that has a
//! `TOOL` or `CALL`; its result begins the next. The last round answers `TOOLDONE <first line of the result>`
//! where without tools it would have been the echo. Words count for the round that they are in:
//!
//! ```text
//! HOLD before TOOL echo hi      round 0: holds, then asks for the tool
//! HOLD after                    round 1: holds, then answers TOOLDONE hi
//! ```
//!
//! Text that Claude Code passes on in the middle of a turn is not a prompt of its own: the answer then begins with a
//! line `STEERED: <the text>`. Text that steers Codex is a prompt like any other.
//!
//! Promise: the same prompt and round give the same plan; a word without its number or name is just a word.
//! Not here: how a plan becomes bytes (see `speak`). Start with `plan`.

use serde_json::{Value, json};

/// One step of an answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum AnswerStep {
    /// A piece of the answer's text.
    Text(String),
    /// A thought of the model, before its text.
    Think(String),
    /// A while, about 100 ms.
    Pause,
    /// Until the test lets it go on.
    Hold(String),
    /// The shell tool, under its name in this API.
    Shell(String),
    /// Any tool, by name.
    Call { tool: String, input: Value },
    /// The end of the connection.
    Cut,
}

/// The plan of the answer to one request.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum AnswerPlan {
    /// With an HTTP error.
    Refuse {
        status: u16,
        /// How many times; `None` for always.
        times: Option<usize>,
    },
    /// A normal answer, with these steps in order.
    Answer(Vec<AnswerStep>),
}

/// The size of the pieces of a long answer.
const PIECE_BYTES: usize = 4096;

/// Plans the answer to `prompt` after `results` tool results, of which `last` is the text of the last.
pub(crate) fn plan(prompt: &str, results: usize, last: Option<&str>) -> AnswerPlan {
    let rounds = rounds(prompt);
    // The last round has no tool in it, so that an agent that brings more results than the plan asked
    // for gets an answer.
    let round = rounds.get(results).or(rounds.last()).map_or(&[][..], Vec::as_slice);
    for word in round {
        if let ScriptWord::Error { status, times } = word {
            return AnswerPlan::Refuse { status: *status, times: *times };
        }
    }
    let mut steps = Vec::new();
    let mut over = false;
    let mut bytes = 0;
    for word in round {
        match word {
            ScriptWord::Slow(pieces) => {
                for piece in 1..=*pieces {
                    steps.extend([AnswerStep::Text(format!("tick {piece} ")), AnswerStep::Pause]);
                }
            }
            ScriptWord::Hold(name) => {
                steps.extend([AnswerStep::Text("held ".into()), AnswerStep::Hold(name.clone())])
            }
            ScriptWord::Think => steps.push(AnswerStep::Think("thinking about it".into())),
            ScriptWord::Long(size) => bytes = *size,
            ScriptWord::Cut => {
                steps.extend([AnswerStep::Text("half of it, and ".into()), AnswerStep::Cut]);
                over = true;
            }
            ScriptWord::Shell(command) => {
                steps.push(AnswerStep::Shell(command.clone()));
                over = true;
            }
            ScriptWord::Call { tool, input } => {
                steps.push(AnswerStep::Call { tool: tool.clone(), input: input.clone() });
                over = true;
            }
            ScriptWord::Error { .. } => {}
        }
    }
    if !over {
        let answer = match last {
            Some(result) => format!("TOOLDONE {}", result.lines().next().unwrap_or_default()),
            None => format!("ECHO: {prompt}"),
        };
        steps.extend(padded(answer, bytes));
    }
    AnswerPlan::Answer(steps)
}

/// An answer of at least this size, in pieces.
fn padded(answer: String, bytes: usize) -> Vec<AnswerStep> {
    let mut missing = bytes.saturating_sub(answer.len());
    let mut steps = vec![AnswerStep::Text(answer)];
    while missing > 0 {
        let size = missing.min(PIECE_BYTES);
        let line = "0123456789abcdef".repeat(size.div_ceil(16));
        steps.push(AnswerStep::Text(line[..size].to_owned()));
        missing -= size;
    }
    steps
}

/// A word with a meaning in this language.
#[derive(Clone, PartialEq, Debug)]
enum ScriptWord {
    Slow(usize),
    Hold(String),
    Think,
    Long(usize),
    Cut,
    Error { status: u16, times: Option<usize> },
    Shell(String),
    Call { tool: String, input: Value },
}

/// The words of a prompt, round by round. There is one more round than there are tools.
fn rounds(prompt: &str) -> Vec<Vec<ScriptWord>> {
    let mut rounds = vec![Vec::new()];
    for line in prompt.lines() {
        let mut rest = line.trim_start();
        while !rest.is_empty() {
            let (word, after) = split(rest);
            rest = after;
            let (next, beyond) = split(after);
            let found = match word {
                "SLOW" => next.parse().ok().map(|pieces| (ScriptWord::Slow(pieces), beyond)),
                "HOLD" => (!next.is_empty()).then(|| (ScriptWord::Hold(next.to_owned()), beyond)),
                "THINK" => Some((ScriptWord::Think, after)),
                "LONG" => next.parse().ok().map(|bytes| (ScriptWord::Long(bytes), beyond)),
                "CUT" => Some((ScriptWord::Cut, after)),
                "ERROR" => next.parse().ok().map(|status| {
                    let (count, further) = split(beyond);
                    match count.parse() {
                        Ok(times) => (ScriptWord::Error { status, times: Some(times) }, further),
                        Err(_) => (ScriptWord::Error { status, times: None }, beyond),
                    }
                }),
                "TOOL" => (!after.is_empty()).then(|| (ScriptWord::Shell(after.trim_end().to_owned()), "")),
                "CALL" => (!next.is_empty()).then(|| {
                    let input = serde_json::from_str(beyond).unwrap_or_else(|_| json!({}));
                    (ScriptWord::Call { tool: next.to_owned(), input }, "")
                }),
                _ => None,
            };
            if let Some((word, beyond)) = found {
                rest = beyond;
                let last = matches!(word, ScriptWord::Shell(_) | ScriptWord::Call { .. });
                rounds.last_mut().expect("there is always one").push(word);
                if last {
                    rounds.push(Vec::new());
                }
            }
        }
    }
    rounds
}

/// The first word, and what comes after it.
fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(prompt: &str, results: usize, last: Option<&str>) -> Vec<AnswerStep> {
        match plan(prompt, results, last) {
            AnswerPlan::Answer(steps) => steps,
            AnswerPlan::Refuse { status, .. } => panic!("refused with {status}"),
        }
    }

    fn text(text: &str) -> AnswerStep {
        AnswerStep::Text(text.into())
    }

    #[test]
    fn a_plain_prompt_is_echoed() {
        assert_eq!(steps("hello there", 0, None), [text("ECHO: hello there")]);
        assert_eq!(steps("a SLOW one, on HOLD", 0, None), [text("ECHO: a SLOW one, on HOLD")]);
    }

    #[test]
    fn words_count_for_the_round_they_are_in() {
        let prompt = "HOLD before TOOL echo hi\nHOLD after";
        assert_eq!(
            steps(prompt, 0, None),
            [text("held "), AnswerStep::Hold("before".into()), AnswerStep::Shell("echo hi".into())]
        );
        assert_eq!(
            steps(prompt, 1, Some("hi\nmore")),
            [text("held "), AnswerStep::Hold("after".into()), text("TOOLDONE hi")]
        );
    }

    #[test]
    fn each_tool_is_asked_for_once() {
        let prompt = "TOOL one\nTOOL two";
        assert_eq!(steps(prompt, 0, None), [AnswerStep::Shell("one".into())]);
        assert_eq!(steps(prompt, 1, Some("1")), [AnswerStep::Shell("two".into())]);
        assert_eq!(steps(prompt, 2, Some("2")), [text("TOOLDONE 2")]);
        assert_eq!(steps(prompt, 3, Some("3")), [text("TOOLDONE 3")]);
    }

    #[test]
    fn any_tool_can_be_called() {
        let input = json!({"file_path": "/x", "n": 1});
        let call = AnswerStep::Call { tool: "Write".into(), input };
        assert_eq!(steps(r#"please CALL Write {"file_path": "/x", "n": 1}"#, 0, None), [call]);
    }

    #[test]
    fn an_error_comes_before_everything_and_may_be_counted() {
        assert_eq!(plan("HOLD x ERROR 529", 0, None), AnswerPlan::Refuse { status: 529, times: None });
        assert_eq!(plan("ERROR 500 2 TOOL x", 0, None), AnswerPlan::Refuse { status: 500, times: Some(2) });
    }

    #[test]
    fn a_long_answer_has_its_size_and_begins_with_the_echo() {
        let pieces = steps("LONG 10000", 0, None);
        let all: String =
            pieces.iter().map(|step| if let AnswerStep::Text(text) = step { text } else { "" }).collect();
        assert_eq!(all.len(), 10000);
        assert!(all.starts_with("ECHO: LONG 10000"));
        assert!(pieces.len() > 2);
    }

    #[test]
    fn a_cut_answer_has_no_end() {
        assert_eq!(steps("CUT", 0, None).last(), Some(&AnswerStep::Cut));
    }
}
