//! A real program that misbehaves on request.
//!
//! Promise: it does exactly the steps it was given, in order, one word each, and nothing is started before the whole
//! script was understood. `--help` lists the steps.
//! Not here: judging how a supervisor handled it; that is the test's job.
//! Start with [`script::ScriptStep`] for what it can do and [`agent::ScriptedAgent::run`] for how.

mod acp;
mod agent;
mod script;
mod sys;
mod tui;

use std::process::ExitCode;

/// Exit codes for ends that the script did not ask for.
mod code {
    /// The script was not understood.
    pub(crate) const USAGE: u8 = 2;
    /// The input ended while a step was expecting more of it.
    pub(crate) const INPUT_ENDED: u8 = 90;
    /// A step failed, for example because the terminal is gone.
    pub(crate) const STEP_FAILED: u8 = 91;
}

const HELP: &str = r"fake-agent: a real program that misbehaves on request

usage: fake-agent STEP…
   as: fake-agent say:hello nl flood:200M expect:go say:got exit:3
   or: fake-agent acp [FLAG…]      an agent that takes turns; see fake-agent acp --help
   or: fake-agent tui [--session-id ID] [--plugin-dir DIR] [--hook COMMAND]
                                   a terminal interface that tells through hooks, as Claude Code does

Steps run in order; after the last one it exits with 0.

output   say:TEXT         write TEXT; \n \r \t \e \\ and \xNN are bytes, so half a character is say:\xc3
         nl               write a newline
         flood:N[K|M|G]   write N bytes of numbered lines, 64 KiB at a time
         flood-colour:N   the same in colours
         report[:VAR,…]   write one JSON line: pid, ppid, pgid, sid, cwd, tty, cols, rows, fds, signals, args,
                          env (TERM, BERTH_* and each VAR)
         winch            from now on write `size COLSxROWS` at every SIGWINCH
         close            close stdout and stderr, and go on
         close-all        close every descriptor there is, whatever it was inherited for, and go on
input    expect           wait for one line
         expect:TEXT      wait for TEXT; what follows it stays for the next step
         raw              put the terminal into raw mode
         echo[:TEXT]      raw mode, then write every byte back at once, until TEXT was seen or the input ends
life     ignore:SIG,…     ignore these signals (TERM, HUP, … or numbers)
         sleep:MS         sleep that many milliseconds
         hang             wait for ever
         exit:N           exit with N
         die:SIG          die by that signal
         witness:PATH     from now on append the number of every signal that comes to PATH, and live on
         hog:N[K|M|G]     fill N bytes of memory, then go on
         own-uid          keep only the user who owns this file (in a set-user-id copy of this program)
children child [ STEP… ]  fork, and let the child do these steps; goes on once the child's first settling
                          steps (the next four, `ignore`, `close`, `close-all`, `pidfile`, `witness`, `own-uid`
                          and `listen-…`) are done
         setsid           lead a new session (in a child)
         orphan           fork and leave: go on as a process whose parent is gone
         daemonise        orphan + setsid + orphan + chdir / + all descriptors closed
         env-i            go on with an empty environment (executes itself again)
         loop[:N] [ … ]   do these steps for ever, or N times
files    pidfile:PATH     append the pid of this process, and of every child from now on, a line each
         touch:PATH       create PATH
         wait-file:PATH   wait until PATH exists
         record:PATH:N    append N records {n, pid}, a JSON line and one write each; n counts per process
         records:PATH     append records for ever
         tear:PATH        append half a record
sockets  listen-tcp:PORT  listen on 127.0.0.1 (0: any free port), write `listening tcp:127.0.0.1:PORT`, go on
         listen-unix:PATH listen at PATH, write `listening unix:PATH`, go on; children inherit both

exit codes of its own: 2 script not understood · 90 input ended while expecting · 91 a step failed
";

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{}", if words[0] == "acp" { acp::HELP } else { HELP });
        return ExitCode::SUCCESS;
    }
    if words.first().is_some_and(|word| word == "acp") {
        return acp::run(&words[1..]).unwrap_or_else(|problem| {
            eprintln!("fake-agent: {problem}\nhint: see fake-agent acp --help");
            ExitCode::from(code::USAGE)
        });
    }
    // Called by the name of the agent that it stands for.
    let as_claude = std::env::args().next().is_some_and(|name| name.ends_with("/claude"));
    let told = match words.first().map(String::as_str) {
        _ if as_claude => Some(tui::run(&words)),
        Some("tui") => Some(tui::run(&words[1..])),
        Some("nested") => Some(tui::nested(&words[1..])),
        Some("tell") => Some(tui::hook()),
        _ => None,
    };
    if let Some(told) = told {
        return told.unwrap_or_else(|error| {
            eprintln!("fake-agent: {error}");
            ExitCode::from(code::STEP_FAILED)
        });
    }
    let steps = match script::parse(&words) {
        Ok(steps) => steps,
        Err(problem) => {
            eprintln!("fake-agent: {problem}\nhint: see fake-agent --help");
            return ExitCode::from(code::USAGE);
        }
    };
    match agent::ScriptedAgent::default().run(&steps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fake-agent: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
