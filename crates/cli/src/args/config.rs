//! Arguments of `berth config`.

use std::path::PathBuf;

use clap::ArgGroup;

/// Show the settings, and where each comes from.
///
/// The file is $BERTH_CONFIG, else $XDG_CONFIG_HOME/berth/config.toml, else ~/.config/berth/config.toml. Every setting
/// that is a single value has an environment variable, such as BERTH_UI_COLOR, which overrides the file. Secrets are
/// shown as ***.
#[derive(clap::Args, Debug)]
#[command(
    group = ArgGroup::new("task").multiple(false),
    after_help = "\
Examples:
  berth config
  berth config --explain ui.color
  berth config --explain --json | jq -r '.[].variable'
  berth config --check                    exit 2 with line and column if wrong
  berth config --example > config.toml    a file to begin with
  BERTH_UI_COLOR=never berth config       a variable overrides the file"
)]
pub(crate) struct ConfigArgs {
    /// Explain every key, or one: its type, default, variable, and an example
    #[arg(long, value_name = "KEY", num_args = 0..=1, group = "task")]
    pub(crate) explain: Option<Option<String>>,
    /// Print the path of the file, also if it does not exist
    #[arg(long, group = "task")]
    pub(crate) path: bool,
    /// Check the file, or another one
    #[arg(long, value_name = "FILE", num_args = 0..=1, group = "task")]
    pub(crate) check: Option<Option<PathBuf>>,
    /// Print a file with every key, commented out
    #[arg(long, group = "task")]
    pub(crate) example: bool,
    /// Open the file in $VISUAL or $EDITOR, and check it afterwards
    #[arg(long, group = "task")]
    pub(crate) edit: bool,
    /// Print an object; with --explain, an array
    #[arg(long, conflicts_with_all = ["path", "check", "example", "edit"])]
    pub(crate) json: bool,
}
