//! Runs an agent with its driver and gives it prompts, to try a driver for real.
//!
//! `talk AGENT [--command 'PROGRAM ARGS'] [--resume ID | --fork ID] [--answer ID] [--record FILE] PROMPT…`
//! Prompts run one after the other. One that begins with `+` is added to the turn before it, and `!` breaks
//! that turn off, each as soon as the turn says something, uses a tool or asks. `--answer` is what every
//! question is answered with (else its first option; `none` for not at all). `--record` keeps the lines the
//! agent wrote.
//! Not here: keeping anything (the keeper does). Start with `main`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use berth_driver::{Begin, Driver, Out, Update};

struct Wanted {
    driver: Box<dyn Driver>,
    command: Vec<String>,
    begin: Begin,
    answer: Option<String>,
    record: Option<File>,
    prompts: VecDeque<String>,
}

fn wanted() -> Option<Wanted> {
    let mut args = std::env::args().skip(1);
    let (driver, command): (Box<dyn Driver>, &str) = match args.next()?.as_str() {
        "codex" => (Box::new(berth_driver::codex::Codex::new()), "codex app-server"),
        _ => return None,
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (command, begin) = (words(command), Begin::New { id: None });
    let mut wanted = Wanted { driver, command, begin, answer: None, record: None, prompts: VecDeque::new() };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--command" => wanted.command = words(&args.next()?),
            "--resume" => wanted.begin = Begin::Resume { id: args.next()? },
            "--fork" => wanted.begin = Begin::Fork { of: args.next()?, id: None },
            "--answer" => wanted.answer = Some(args.next()?),
            "--record" => wanted.record = File::create(args.next()?).ok(),
            _ => wanted.prompts.push_back(arg),
        }
    }
    Some(wanted)
}

fn main() -> ExitCode {
    let Some(wanted) = wanted() else {
        eprintln!(
            "usage: talk AGENT [--command C] [--resume ID | --fork ID] [--answer ID] [--record FILE] PROMPT…"
        );
        return ExitCode::from(2);
    };
    let line = wanted.driver.command_line(&wanted.command, &wanted.begin);
    let spawned =
        Command::new(&line[0]).args(&line[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            eprintln!("error: cannot start {}: {error}", line[0]);
            return ExitCode::FAILURE;
        }
    };
    let mut stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("it was asked for");
    let cwd = std::env::current_dir().expect("there is a directory").display().to_string();

    let mut talk = Talk { wanted, turn: 0, running: None, ready: false };
    let mut out = Out::default();
    talk.wanted.driver.begin(&talk.wanted.begin, &cwd, &mut out);
    let mut lines = BufReader::new(stdout).split(b'\n');
    loop {
        talk.go_on(&mut out);
        if let Some(stdin) = &mut stdin {
            // It may be gone already; then its output ends.
            let _ = stdin.write_all(&out.bytes);
        }
        out.bytes.clear();
        if talk.is_over() {
            stdin = None;
        }
        let Some(Ok(line)) = lines.next() else { break };
        if let Some(record) = &mut talk.wanted.record {
            let _ = record.write_all(&line).and_then(|()| record.write_all(b"\n"));
        }
        talk.wanted.driver.hear(&line, &mut out);
    }
    match child.wait() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    }
}

struct Talk {
    wanted: Wanted,
    turn: u64,
    running: Option<u64>,
    ready: bool,
}

impl Talk {
    /// Does what the updates and the list of prompts ask for.
    fn go_on(&mut self, out: &mut Out) {
        let mut updates = VecDeque::from(std::mem::take(&mut out.updates));
        loop {
            while let Some(update) = updates.pop_front() {
                println!("{update:?}");
                self.heard(update, out);
                updates.extend(out.updates.drain(..));
            }
            if !self.ready || self.running.is_some() {
                return;
            }
            let Some(prompt) = self.wanted.prompts.pop_front() else { return };
            self.turn += 1;
            self.running = Some(self.turn);
            println!("-- turn {}: {prompt}", self.turn);
            self.wanted.driver.prompt(self.turn, &prompt, out);
            updates.extend(out.updates.drain(..));
        }
    }

    fn heard(&mut self, update: Update, out: &mut Out) {
        match update {
            Update::Ready => self.ready = true,
            Update::Broken { .. } => {
                self.wanted.prompts.clear();
                (self.ready, self.running) = (true, None);
            }
            Update::Asks { ask } => {
                let choice = self.wanted.answer.as_deref().unwrap_or(&ask.options[0].id);
                if choice == "none" {
                    self.meet(out);
                } else {
                    self.wanted.driver.answer(&ask.request, choice, out);
                }
            }
            Update::Said { .. } => self.meet(out),
            Update::Doing { activity } if !["thinking", "writing"].contains(&activity.what.as_str()) => {
                self.meet(out);
            }
            Update::Ended { turn, .. } if Some(turn) == self.running => self.running = None,
            Update::Conversation { .. }
            | Update::Began { .. }
            | Update::Doing { .. }
            | Update::Unasked { .. }
            | Update::Ended { .. }
            | Update::Late { .. }
            | Update::Remark { .. } => {}
        }
    }

    /// The running turn is alive: what is meant for it can be said.
    fn meet(&mut self, out: &mut Out) {
        let Some(running) = self.running else { return };
        let next = self.wanted.prompts.pop_front_if(|next| next.starts_with(['+', '!']));
        match next.as_deref().map(|next| next.split_at(1)) {
            Some(("+", text)) => {
                self.turn += 1;
                self.wanted.driver.steer(self.turn, text, out);
            }
            Some(_) => self.wanted.driver.interrupt(running, out),
            None => {}
        }
    }

    fn is_over(&self) -> bool {
        self.ready && self.running.is_none() && self.wanted.prompts.is_empty()
    }
}
