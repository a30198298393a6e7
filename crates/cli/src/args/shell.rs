//! Arguments of `berth completions`, `man`, `setup` and `demo`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Print a completion script for a shell.
///
/// The script asks berth itself at every Tab, so it offers the sessions and options of that moment. Load the script in
/// every new shell, as the examples do, because it has to fit the version of berth.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth completions bash
  source <(berth completions bash)               in ~/.bashrc
  source <(berth completions zsh)                in ~/.zshrc, after compinit
  berth completions fish | source                in ~/.config/fish/config.fish
  eval (berth completions elvish | slurp)        in ~/.config/elvish/rc.elv")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: ShellKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ShellKind {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

impl ShellKind {
    /// Name of the shell in the completion engine.
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
pub(crate) struct ManArgs {
    /// The command [default: berth itself]
    #[arg(value_name = "VERB", conflicts_with = "dir")]
    pub(crate) verb: Vec<String>,
    /// Write the pages of all commands to this directory, which is created if it is missing
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
pub(crate) struct SetupArgs {
    #[command(subcommand)]
    pub(crate) verb: SetupVerb,
}

impl SetupArgs {
    /// True if the command changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        match &self.verb {
            SetupVerb::Systemd(args) => args.dry_run,
            SetupVerb::Claude(SetupClaudeArgs { how }) | SetupVerb::Codex(SetupCodexArgs { how }) => {
                how.dry_run
            }
        }
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum SetupVerb {
    Systemd(SetupSystemdArgs),
    Claude(SetupClaudeArgs),
    Codex(SetupCodexArgs),
}

/// Options of the setup of an agent.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct SetupModeArgs {
    /// Show the changes as a diff, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Undo the setup
    #[arg(long)]
    pub(crate) remove: bool,
}

/// Install hooks in Claude Code that report the open conversation to berth.
///
/// With them, a second writer of a conversation is warned before its first prompt goes out. Sessions that berth starts need no setup: they bring their hooks along. The setup is a plugin in the directory
/// skills/berth of Claude Code; your settings stay as they are. docs/hooks.md says more.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup claude --dry-run         shows every file it would write
  berth setup claude
  berth setup claude --remove")]
pub(crate) struct SetupClaudeArgs {
    #[command(flatten)]
    pub(crate) how: SetupModeArgs,
}

/// Let every Codex on this account tell berth which conversation it has open.
///
/// The setup writes hooks (to hooks.json, or to the end of config.toml if you have hooks of your own there), which
/// Codex runs once you trust them with /hooks, and `notify`, which Codex runs at once. Your own lines stay as they are.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup codex --dry-run          shows every change
  berth setup codex
  berth setup codex --remove")]
pub(crate) struct SetupCodexArgs {
    #[command(flatten)]
    pub(crate) how: SetupModeArgs,
}

/// Set up a user service that sweeps every five minutes; with --gateway, a service for the gateway as well.
///
/// The gateway listens where `[serve]` in the config says (`berth config --explain serve`); stopping it, or starting
/// it again, changes nothing for any session.
///
/// A sweep notices a keeper that died, ends the processes it left behind, and carries out policies. BERTH_HOME and
/// BERTH_CONFIG are copied into the service if they are set. A second setup changes only what is different. Files that
/// berth did not write are left alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  berth setup systemd --dry-run                  shows every file it would write
  berth setup systemd
  berth setup systemd --gateway        also runs `berth serve` at every boot
  berth setup systemd --remove")]
pub(crate) struct SetupSystemdArgs {
    /// Print what would be done, and change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Run `berth serve` as a service as well
    #[arg(long, conflicts_with = "remove")]
    pub(crate) gateway: bool,
    /// Stop the services, and remove their files
    #[arg(long)]
    pub(crate) remove: bool,
    /// Write the files even if your systemd does not answer (in an image, over SSH without a login)
    #[arg(long, conflicts_with = "remove")]
    pub(crate) force: bool,
}

/// Show berth at work in about ten seconds, with a built-in agent.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  berth demo")]
pub(crate) struct DemoArgs {
    /// Run as the agent of the demo, with its notes in this directory
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) agent: Option<std::path::PathBuf>,
}
