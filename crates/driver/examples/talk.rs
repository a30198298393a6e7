//! Talks to a real agent through a driver, to see what both do: with pipes and two threads, and without a keeper.
//!
//! ```text
//! talk AGENT [--command "CMD ARGS"] [--session NAME] [--id ID | --resume ID | --fork ID] [--answer CHOICE]
//!            [--lines FILE] STEP…
//! ```
//!
//! A step is a prompt, given when the turn before it is over. `+TEXT` adds text to the running turn and `!` interrupts
//! it: both as soon as the agent has said or done something. Questions are answered with the given choice.
//! Promise: it ends when the agent does, or with the last turn. Not here: recovery, queues.
//! Start with `main`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;

use berth_core::ChosenReply;
use berth_driver::{
    AgentUpdate, ConversationStart, Driver, DriverOutput, acp::AcpDriver, claude::ClaudeDriver,
    codex::CodexDriver,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: VecDeque<String> = std::env::args().skip(1).collect();
    let agent = args.pop_front().ok_or("which agent?")?;
    let (mut command, mut session, mut answer) = (agent.clone(), "talk".to_owned(), None);
    let (mut begin, mut lines) = (ConversationStart::New { id: None }, None);
    while let Some(option) = args.pop_front_if(|arg| arg.starts_with("--")) {
        let value = args.pop_front().ok_or(format!("{option} needs a value"))?;
        match option.as_str() {
            "--command" => command = value,
            "--session" => session = value,
            "--id" => begin = ConversationStart::New { id: Some(value) },
            "--resume" => begin = ConversationStart::Resume { id: value },
            "--fork" => begin = ConversationStart::Fork { of: value, id: None },
            "--answer" => answer = Some(value),
            "--lines" => lines = Some(std::fs::File::create(value)?),
            _ => return Err(format!("no such option: {option}").into()),
        }
    }
    let driver: Box<dyn Driver> = match agent.as_str() {
        "acp" => Box::new(AcpDriver::new()),
        "claude" => Box::new(ClaudeDriver::new(&session)),
        "codex" => Box::new(CodexDriver::new()),
        _ => return Err(format!("no such agent: {agent}").into()),
    };
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let command = driver.command_line(&command, &begin);
    let mut child =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = child.stdin.take().ok_or("no pipe")?;
    let mut talk = TalkExample {
        driver,
        input: Some(input),
        answer,
        steps: args,
        turn: 0,
        running: None,
        stirred: false,
    };
    let (heard, hearing) = mpsc::channel();
    let output = child.stdout.take().ok_or("no pipe")?;
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if heard.send(line).is_err() {
                return;
            }
        }
    });
    let cwd = std::env::current_dir()?;
    talk.with(|driver, out| driver.begin(&begin, &cwd.to_string_lossy(), out))?;
    for line in hearing {
        if let Some(file) = &mut lines {
            file.write_all(&line)?;
            file.write_all(b"\n")?;
        }
        talk.with(|driver, out| driver.hear(&line, out))?;
    }
    let _ = reader.join();
    end(&mut child)
}

fn end(child: &mut Child) -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", child.wait()?);
    Ok(())
}

struct TalkExample {
    driver: Box<dyn Driver>,
    input: Option<ChildStdin>,
    answer: Option<String>,
    steps: VecDeque<String>,
    turn: u64,
    running: Option<u64>,
    /// True once the running turn said or did something.
    stirred: bool,
}

impl TalkExample {
    /// Makes one call of the driver, and the calls that follow from it.
    fn with(&mut self, call: impl FnOnce(&mut dyn Driver, &mut DriverOutput)) -> std::io::Result<()> {
        let mut out = DriverOutput::default();
        call(self.driver.as_mut(), &mut out);
        let mut updates: VecDeque<AgentUpdate> = self.write(out)?.into();
        while let Some(update) = updates.pop_front() {
            println!("{update:?}");
            let mut out = DriverOutput::default();
            self.follow(&update, &mut out);
            let over = matches!(update, AgentUpdate::Broken { .. });
            updates.extend(self.write(out)?);
            if over {
                self.input = None;
            }
        }
        Ok(())
    }

    fn write(&mut self, out: DriverOutput) -> std::io::Result<Vec<AgentUpdate>> {
        if let Some(input) = &mut self.input {
            input.write_all(&out.bytes)?;
        }
        Ok(out.updates)
    }

    fn follow(&mut self, update: &AgentUpdate, out: &mut DriverOutput) {
        match update {
            AgentUpdate::Ready => {}
            AgentUpdate::Ended { turn, .. } if self.running == Some(*turn) => self.running = None,
            AgentUpdate::Said { .. } | AgentUpdate::Doing { .. } => self.stirred = true,
            AgentUpdate::Asks { ask } => {
                self.stirred = true;
                let choice = ask.options.iter().find(|option| self.answer.as_ref() == Some(&option.id));
                if let Some(choice) = choice {
                    let reply = ChosenReply { chosen: vec![choice.clone()], text: None };
                    self.driver.answer(&ask.request, &reply, out);
                }
            }
            AgentUpdate::Conversation { .. }
            | AgentUpdate::Model { .. }
            | AgentUpdate::Context { .. }
            | AgentUpdate::Began { .. }
            | AgentUpdate::QuestionWithdrawn { .. }
            | AgentUpdate::Ended { .. }
            | AgentUpdate::Late { .. }
            | AgentUpdate::Remark { .. }
            | AgentUpdate::Broken { .. } => return,
        }
        let next = self.steps.front().map(String::as_str);
        match (self.running, next) {
            (None, Some("!")) => drop(self.steps.pop_front()),
            (None, Some(_)) => {
                let text = self.steps.pop_front().unwrap_or_default();
                self.turn += 1;
                (self.running, self.stirred) = (Some(self.turn), false);
                self.driver.prompt(self.turn, &text, out);
            }
            (None, None) => {
                self.driver.goodbye(out);
                self.input = self.input.take().and_then(|mut input| {
                    let _ = input.write_all(&out.bytes);
                    None
                });
            }
            (Some(turn), Some("!")) if self.stirred => {
                self.steps.pop_front();
                self.driver.interrupt(turn, out);
            }
            (Some(_), Some(text)) if self.stirred && text.starts_with('+') => {
                let text = text.trim_start_matches('+').to_owned();
                self.steps.pop_front();
                self.turn += 1;
                self.driver.steer(self.turn, &text, out);
            }
            (Some(_), _) => {}
        }
    }
}
