//! What can be typed to set berth up: completions, manual pages, services.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Print a completion script for a shell.
///
/// The script asks berth itself at every Tab, so what it offers is what there is. It is best read anew with every
/// shell, as the examples do, because it has to fit the version of berth.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth completions bash
  source <(berth completions bash)               in ~/.bashrc
  source <(berth completions zsh)                in ~/.zshrc, after compinit
  berth completions fish | source                in ~/.config/fish/config.fish
  eval (berth completions elvish | slurp)        in ~/.config/elvish/rc.elv")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl Shell {
    /// As the engine of completions calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Elvish => "elvish",
            Self::Powershell => "powershell",
        }
    }
}

/// Print a manual page, or write all of them to a directory.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth man | man -l -
  berth man helper ensure | man -l -
  berth man --dir ~/.local/share/man/man1      all pages: then `man berth-send`")]
pub(crate) struct Man {
    /// The command [default: berth itself]
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    pub(crate) verb: Vec<String>,
    /// Write the pages of all commands to this directory; it is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Set up services, and hooks of agents started without berth.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup systemd --dry-run
  berth setup claude --dry-run
  berth setup codex --dry-run")]
pub(crate) struct Setup {
    #[command(subcommand)]
    pub(crate) verb: SetupVerb,
}

impl Setup {
    /// Whether nothing is changed by it.
    pub(crate) fn only_looks(&self) -> bool {
        match &self.verb {
            SetupVerb::Systemd(args) => args.dry_run,
            SetupVerb::Claude(SetupClaude { how }) | SetupVerb::Codex(SetupCodex { how }) => how.dry_run,
        }
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum SetupVerb {
    Systemd(SetupSystemd),
    Claude(SetupClaude),
    Codex(SetupCodex),
}

/// How an agent is set up.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct SetupHow {
    /// Only show what would be changed, as a diff
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Take away what was set up
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Let every Claude Code on this account tell berth which conversation it has open, so that a second writer of one is
/// told before its first prompt goes out.
///
/// Sessions that berth starts need none of this: they bring their hooks along. Written is a plugin of its own, in the
/// directory skills/berth of Claude Code's; your settings stay as they are. docs/hooks.md says more.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup claude --dry-run         shows every file it would write
  berth setup claude
  berth setup claude --remove")]
pub(crate) struct SetupClaude {
    #[command(flatten)]
    pub(crate) how: SetupHow,
}

/// Let every Codex on this account tell berth which conversation it has open.
///
/// Written are hooks (hooks.json, or the end of config.toml if you have hooks of your own there), which Codex runs once
/// you trust them with /hooks, and `notify`, which it runs at once. What you wrote stays as it is.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup codex --dry-run          shows every change
  berth setup codex
  berth setup codex --remove")]
pub(crate) struct SetupCodex {
    #[command(flatten)]
    pub(crate) how: SetupHow,
}

/// Set up a user service that sweeps every five minutes; with --gateway, another that serves.
///
/// The gateway listens where `[serve]` in the config says (`berth config --explain serve`); stopping it, or starting
/// it again, changes nothing for any session.
///
/// A keeper that died is noticed, what it left behind is ended, and policies are carried out without a command.
/// BERTH_HOME and BERTH_CONFIG are carried over if they are set. A second time changes only what is different. Files
/// that berth did not write are left alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup systemd --dry-run                  shows every file it would write
  berth setup systemd
  berth setup systemd --gateway        `berth serve`, too, at every boot
  berth setup systemd --remove")]
pub(crate) struct SetupSystemd {
    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Have `berth serve` run, too
    #[arg(long, conflicts_with = "remove")]
    pub(crate) gateway: bool,
    /// Stop it all, and take the files away
    #[arg(long)]
    pub(crate) remove: bool,
    /// Write the files also where no systemd of yours answers (in an image, over SSH without a login)
    #[arg(long, conflicts_with = "remove")]
    pub(crate) force: bool,
}

/// Show berth at work in about ten seconds, with a built-in agent.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  berth demo")]
pub(crate) struct Demo {
    /// Be the agent of the demo, which keeps its notes there
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) agent: Option<std::path::PathBuf>,
}
