//! `berth`: the one binary. Each command is a file in `cmd/`; this one finds the right file.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod acp;
mod allowed;
mod args;
mod attached;
mod cells;
mod cmd;
mod complete;
mod composer;
mod consent;
mod ctx;
mod dashboard;
mod export;
mod grep;
mod guess;
mod help;
mod keys;
mod leave_key;
mod listing;
mod log;
mod mcp;
mod meant;
mod notify;
mod print;
mod progress;
mod qr;
mod reading;
mod remote;
mod replies;
mod tty;
mod turns;
mod ui;
mod visible;
mod width;

use std::process::ExitCode;

use berth_api::{Code, Problem};

use berth_verbs::{agents, config, life};

use args::{Args, Verb};
use ctx::Ctx;

fn main() -> ExitCode {
    // The keeper is started often and wants none of what follows.
    let mut raw = std::env::args_os().skip(1);
    match raw.next() {
        Some(verb) if verb == berth_store::keepers::KEEPER_VERB => {
            let args: Vec<_> = raw.collect();
            berth_host::spawn::take_name("berth");
            // The keeper's environment contains the agent's secrets. A keeper that cannot be closed still works, so
            // a failure is ignored.
            let _ = berth_host::memory::close_to_others();
            log::of_a_keeper(&args);
            return ExitCode::from(berth_keeper::keeper::keep(&args));
        }
        Some(verb) if verb == berth_keeper::notify::NOTIFIER_VERB => {
            berth_host::spawn::take_name("berth");
            return ExitCode::from(notify::notifier(&raw.collect::<Vec<_>>()));
        }
        // An agent waits for it, at every prompt.
        Some(verb) if verb == cmd::hook::VERB && cmd::hook::early() => return ExitCode::SUCCESS,
        _ => {}
    }
    if complete::answered() {
        return ExitCode::SUCCESS;
    }
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => {
            let text = error.render().to_string();
            // Arguments may come from an agent, and clap quotes them.
            let printed = if text.contains(|c| c != '\n' && berth_verbs::words::is_hidden(c)) {
                print::prompt(&text);
                Ok(())
            } else {
                error.print()
            };
            // Help is the only output of this command, so a closed standard output is a failure.
            let printed = match error.use_stderr() {
                false if berth_host::stdio::is_stdout_unwritable() => print::text(&text).map_err(|problem| {
                    print::problem(&problem);
                    std::io::Error::other(problem.what)
                }),
                true | false => printed,
            };
            return ExitCode::from(match (error.use_stderr(), printed) {
                (true, _) => Code::Usage.exit_code(),
                (false, Ok(())) => 0,
                (false, Err(_)) => Code::Refused.exit_code(),
            });
        }
    };
    let global = &args.before.global;
    ui::set(ui::Options { quiet: global.quiet, color: global.color });
    if let Err(problem) = log::of_a_command(global.verbose) {
        print::problem(&problem);
        return ExitCode::from(problem.code.exit_code());
    }
    if let Some(host) = global.called.clone() {
        ui::set_called(host);
    }
    let done = match remote::elsewhere(&args) {
        Ok(Some((host, words))) => remote::run(&host, words, args.verb.as_ref()),
        Ok(None) => run(args),
        Err(problem) => Err(problem),
    };
    match done {
        Ok(code) => {
            if let Some(problem) = config::untold() {
                print::note(&format!("the config is not used: {}", problem.what));
                print::note("hint: `berth config --check` says whether it is right again");
            }
            ExitCode::from(code)
        }
        Err(problem) => {
            print::problem(&problem);
            ExitCode::from(problem.code.exit_code())
        }
    }
}

fn run(args: Args) -> Result<u8, Problem> {
    args.check_session()?;
    let Some(verb) = args.verb else {
        let ctx = Ctx::open()?;
        return if dashboard::is_possible() {
            dashboard::run(ctx)
        } else {
            cmd::ls::run(&ctx, &args::Ls::default())
        };
    };
    // These must not make the state directory: one brings its own, the others only look.
    match &verb {
        Verb::Demo(args) => return cmd::demo::run(args),
        Verb::Doctor(args) => return cmd::doctor::run(args),
        Verb::Agents(args) => return cmd::agents::run(args),
        Verb::Config(args) => return cmd::config::run(args),
        Verb::Completions(args) => return cmd::completions::run(args),
        Verb::Man(args) => return cmd::man::run(args),
        Verb::Setup(args) if args.only_looks() => return cmd::setup::run(args),
        Verb::OpenApi(_) => return cmd::openapi::run(),
        Verb::Hook(args) => return cmd::hook::run(args),
        Verb::Proxy(args) => return cmd::proxy::run(args),
        _ => {}
    }
    let ctx = Ctx::open()?.about(args.before.meant);
    // Hooks and scripts wait for these two, and for nothing else; and a gateway that was told to end ends.
    let is_hurried = matches!(&verb, Verb::Sweep(_) | Verb::Helper(_) | Verb::Serve(_));
    let done = dispatch(&ctx, verb);
    // A clean-up that one has to remember is the leak it should end.
    if !is_hurried {
        cmd::sweep::now_and_then(&ctx);
    }
    done
}

fn dispatch(ctx: &Ctx, verb: Verb) -> Result<u8, Problem> {
    allowed::check(ctx, &verb)?;
    match verb {
        Verb::Run(args) => cmd::run::run(ctx, *args),
        Verb::Resume(args) => cmd::resume::run(ctx, &args),
        Verb::Ls(args) => cmd::ls::run(ctx, &args),
        Verb::Show(args) => cmd::show::run(ctx, &args),
        Verb::Why(args) => cmd::why::run(ctx, &args),
        Verb::Ps(args) => cmd::ps::run(ctx, &args),
        Verb::Attach(args) => cmd::attach::run(ctx, &args),
        Verb::Input(args) => cmd::input::run(ctx, &args),
        Verb::Screen(args) => cmd::screen::run(ctx, &args),
        Verb::Output(args) => cmd::output::run(ctx, &args),
        Verb::Log(args) => cmd::log::run(ctx, &args),
        Verb::Grep(args) => cmd::grep::run(ctx, &args),
        Verb::Export(args) => cmd::export::run(ctx, &args),
        Verb::Stop(args) => cmd::stop::run(ctx, &args),
        Verb::Wait(args) => cmd::wait::run(ctx, &args),
        Verb::Send(args) => cmd::send::run(ctx, &args),
        Verb::Turns(args) => cmd::turns::list(ctx, &args),
        Verb::Turn(args) => cmd::turns::show(ctx, &args),
        Verb::Result(args) => cmd::turns::result(ctx, &args),
        Verb::Cancel(args) => cmd::cancel::run(ctx, &args),
        Verb::Queue(args) => cmd::queue::run(ctx, &args),
        Verb::Answer(args) => cmd::answer::run(ctx, &args),
        Verb::Fork(args) => cmd::fork::run(ctx, &args),
        Verb::Adopt(args) => cmd::adopt::run(ctx, &args),
        Verb::Import(args) => cmd::import::run(ctx, &args),
        Verb::Rename(args) => cmd::rename::run(ctx, &args),
        Verb::Notify(args) => cmd::notify::run(ctx, &args),
        Verb::Use(args) => cmd::use_session::run(ctx, &args),
        Verb::Tag(args) => cmd::tag::run(ctx, &args),
        Verb::Note(args) => cmd::note::run(ctx, &args),
        Verb::Policy(args) => cmd::policy::run(ctx, &args),
        Verb::Archive(args) => cmd::archive::run(ctx, &args),
        Verb::History(args) => cmd::history::run(ctx, &args),
        Verb::Restore(args) => cmd::restore::run(ctx, &args),
        Verb::Purge(args) => cmd::purge::run(ctx, &args),
        Verb::Helper(args) => cmd::helper::run(ctx, args),
        Verb::Sweep(args) => cmd::sweep::run(ctx, &args),
        Verb::Hosts(args) => cmd::hosts::run(ctx, &args),
        Verb::Setup(args) => cmd::setup::run(&args),
        Verb::Serve(args) => cmd::serve::run(ctx, &args),
        Verb::Token(args) => cmd::token::run(ctx, &args),
        Verb::Transcript(args) => cmd::transcript::run(ctx, &args),
        Verb::Link(args) => cmd::link::run(ctx, &args),
        Verb::Audit(args) => cmd::audit::run(ctx, &args),
        Verb::Acp(args) => cmd::acp::run(ctx, &args),
        Verb::Mcp(_) => cmd::mcp::run(ctx),
        Verb::Demo(_)
        | Verb::Doctor(_)
        | Verb::Agents(_)
        | Verb::Config(_)
        | Verb::Completions(_)
        | Verb::Man(_)
        | Verb::OpenApi(_)
        | Verb::Hook(_)
        | Verb::Proxy(_) => {
            unreachable!("these need no state directory and were handled above")
        }
    }
}
