//! `berth`: the one binary. It reads arguments, asks for consent, prints, and returns exit codes.
//!
//! Promise: no question off a terminal; a named target is consent; the exit code is not 0 when a command did not do its work.
//! Not here: the work of a command (`berth-verbs`), screens (`berth-tui`), sessions and processes (never by path or lock).
//! Start with [`args::CliVerb`], then the file of a command in `cmd/`.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod cmd;
mod completion;
mod consent;
mod ctx;
mod export;
mod grant_check;
mod grep;
mod help;
mod listing;
mod log;
mod notify;
mod progress;
mod qr;
mod remote;
mod target_session;
mod turns;
mod verb_hints;

use std::process::ExitCode;

use berth_api::{Problem, ProblemCode};

use berth_config::{agents, config};
use berth_tui::{
    attachment, chat, dashboard, output_stream, print, safe_text, text_width, tty, turn_watch, ui,
};
use berth_verbs::lifecycle;

use args::{CliArgs, CliVerb};
use ctx::CommandContext;

fn main() -> ExitCode {
    print::set_typed_verb(help::typed_verb);
    // A keeper is started often, and needs none of the setup below.
    let mut raw = std::env::args_os().skip(1);
    match raw.next() {
        Some(verb) if verb == berth_store::keepers::KEEPER_VERB => {
            let args: Vec<_> = raw.collect();
            berth_host::spawn::set_process_name("berth");
            // The keeper's environment contains the agent's secrets. A keeper that cannot be closed still works, so
            // a failure is ignored.
            let _ = berth_host::memory::forbid_inspection();
            log::of_a_keeper(&args);
            return ExitCode::from(berth_verbs::keepers::run_keeper(&args));
        }
        Some(verb) if verb == berth_store::notifications::NOTIFIER_VERB => {
            berth_host::spawn::set_process_name("berth");
            return ExitCode::from(notify::notifier(&raw.collect::<Vec<_>>()));
        }
        // An agent waits for its hook at every prompt, so a hook without work ends here.
        Some(verb) if verb == cmd::hook::VERB && cmd::hook::early() => return ExitCode::SUCCESS,
        _ => {}
    }
    if completion::answered() {
        return ExitCode::SUCCESS;
    }
    let args = match CliArgs::read() {
        Ok(args) => args,
        Err(error) => {
            let text = error.render().to_string();
            // Arguments may come from an agent, and clap quotes them.
            let printed = if text.contains(|c| c != '\n' && berth_verbs::format::is_control_character(c)) {
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
                (true, _) => ProblemCode::Usage.exit_code(),
                (false, Ok(())) => 0,
                (false, Err(_)) => ProblemCode::Refused.exit_code(),
            });
        }
    };
    let global = &args.before.global;
    ui::set_ui_options(ui::UiOptions { quiet: global.quiet, color: global.color });
    if let Err(problem) = log::of_a_command(global.verbose) {
        print::problem(&problem);
        return ExitCode::from(problem.code.exit_code());
    }
    if let Some(host) = global.called.clone() {
        ui::set_host_name_of_caller(host);
    }
    let done = match remote::elsewhere(&args) {
        Ok(Some((host, words))) => remote::run(&host, words, args.verb.as_ref()),
        Ok(None) => run(args),
        Err(problem) => Err(problem),
    };
    match done {
        Ok(code) => {
            if let Some(problem) = config::tolerated_config_error() {
                print::note(&format!("ignoring the config file: {}", problem.what));
                print::note("hint: `berth config --check` validates it");
            }
            ExitCode::from(code)
        }
        Err(problem) => {
            print::problem(&problem);
            ExitCode::from(problem.code.exit_code())
        }
    }
}

fn run(args: CliArgs) -> Result<u8, Problem> {
    args.check_session()?;
    let Some(verb) = args.verb else {
        let ctx = CommandContext::open()?;
        return if dashboard::is_possible() {
            dashboard::run_dashboard(ctx.verbs(), |host, words| remote::run(host, words, None))
        } else {
            cmd::ls::run(&ctx, &args::LsArgs::default())
        };
    };
    // These commands must not create the state directory: `demo` brings its own, the others only read.
    match &verb {
        CliVerb::Demo(args) => return cmd::demo::run(args),
        CliVerb::Doctor(args) => return cmd::doctor::run(args),
        CliVerb::Agents(args) => return cmd::agents::run(args),
        CliVerb::Config(args) => return cmd::config::run(args),
        CliVerb::Completions(args) => return cmd::completions::run(args),
        CliVerb::Man(args) => return cmd::man::run(args),
        CliVerb::Setup(args) if args.only_looks() => return cmd::setup::run(args),
        CliVerb::OpenApi(_) => return cmd::openapi::run(),
        CliVerb::Hook(args) => return cmd::hook::run(args),
        CliVerb::Proxy(args) => return cmd::proxy::run(args),
        _ => {}
    }
    let ctx = CommandContext::open()?.about(args.before.meant);
    // Hooks and scripts wait for `sweep` and `helper` and for nothing else, and a gateway that was told to end ends.
    let is_hurried = matches!(&verb, CliVerb::Sweep(_) | CliVerb::Helper(_) | CliVerb::Serve(_));
    let done = dispatch(&ctx, verb);
    // Leftovers are swept by other commands now and then, because users forget to run `berth sweep`.
    if !is_hurried {
        cmd::sweep::now_and_then(&ctx);
    }
    done
}

fn dispatch(ctx: &CommandContext, verb: CliVerb) -> Result<u8, Problem> {
    grant_check::check(ctx, &verb)?;
    match verb {
        CliVerb::Run(args) => cmd::run::run(ctx, *args),
        CliVerb::Resume(args) => cmd::resume::run(ctx, &args),
        CliVerb::Ls(args) => cmd::ls::run(ctx, &args),
        CliVerb::Show(args) => cmd::show::run(ctx, &args),
        CliVerb::Why(args) => cmd::why::run(ctx, &args),
        CliVerb::Ps(args) => cmd::ps::run(ctx, &args),
        CliVerb::Attach(args) => cmd::attach::run(ctx, &args),
        CliVerb::Input(args) => cmd::input::run(ctx, &args),
        CliVerb::Screen(args) => cmd::screen::run(ctx, &args),
        CliVerb::Output(args) => cmd::output::run(ctx, &args),
        CliVerb::Log(args) => cmd::log::run(ctx, &args),
        CliVerb::Grep(args) => cmd::grep::run(ctx, &args),
        CliVerb::Export(args) => cmd::export::run(ctx, &args),
        CliVerb::Stop(args) => cmd::stop::run(ctx, &args),
        CliVerb::Wait(args) => cmd::wait::run(ctx, &args),
        CliVerb::Send(args) => cmd::send::run(ctx, &args),
        CliVerb::Turns(args) => cmd::turns::list(ctx, &args),
        CliVerb::Turn(args) => cmd::turns::show(ctx, &args),
        CliVerb::Result(args) => cmd::turns::result(ctx, &args),
        CliVerb::Cancel(args) => cmd::cancel::run(ctx, &args),
        CliVerb::Queue(args) => cmd::queue::run(ctx, &args),
        CliVerb::Answer(args) => cmd::answer::run(ctx, &args),
        CliVerb::Fork(args) => cmd::fork::run(ctx, &args),
        CliVerb::Adopt(args) => cmd::adopt::run(ctx, &args),
        CliVerb::Import(args) => cmd::import::run(ctx, &args),
        CliVerb::Rename(args) => cmd::rename::run(ctx, &args),
        CliVerb::Notify(args) => cmd::notify::run(ctx, &args),
        CliVerb::Use(args) => cmd::use_session::run(ctx, &args),
        CliVerb::Tag(args) => cmd::tag::run(ctx, &args),
        CliVerb::Note(args) => cmd::note::run(ctx, &args),
        CliVerb::Policy(args) => cmd::policy::run(ctx, &args),
        CliVerb::Archive(args) => cmd::archive::run(ctx, &args),
        CliVerb::History(args) => cmd::history::run(ctx, &args),
        CliVerb::Restore(args) => cmd::restore::run(ctx, &args),
        CliVerb::Purge(args) => cmd::purge::run(ctx, &args),
        CliVerb::Helper(args) => cmd::helper::run(ctx, args),
        CliVerb::Sweep(args) => cmd::sweep::run(ctx, &args),
        CliVerb::Hosts(args) => cmd::hosts::run(ctx, &args),
        CliVerb::Setup(args) => cmd::setup::run(&args),
        CliVerb::Serve(args) => cmd::serve::run(ctx, &args),
        CliVerb::Token(args) => cmd::token::run(ctx, &args),
        CliVerb::Transcript(args) => cmd::transcript::run(ctx, &args),
        CliVerb::Link(args) => cmd::link::run(ctx, &args),
        CliVerb::Audit(args) => cmd::audit::run(ctx, &args),
        CliVerb::Acp(args) => cmd::acp::run(ctx, &args),
        CliVerb::Mcp(_) => cmd::mcp::run(ctx),
        CliVerb::Demo(_)
        | CliVerb::Doctor(_)
        | CliVerb::Agents(_)
        | CliVerb::Config(_)
        | CliVerb::Completions(_)
        | CliVerb::Man(_)
        | CliVerb::OpenApi(_)
        | CliVerb::Hook(_)
        | CliVerb::Proxy(_) => {
            unreachable!("these need no state directory and were handled above")
        }
    }
}
