//! The place of the config file.
//!
//! Not here: what is in it (see `berth_config::config`). Start with [`config_file`].

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the config file is, or would be. Its contents are not read here.
pub fn config_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    config_file_location(set("BERTH_CONFIG"), set("XDG_CONFIG_HOME"), set("HOME"))
}

/// The path of the config file by these variables: `$BERTH_CONFIG`, else
/// `$XDG_CONFIG_HOME/berth/config.toml`, else `~/.config/berth/config.toml`.
pub fn config_file_location(
    berth: Option<OsString>,
    xdg: Option<OsString>,
    home: Option<OsString>,
) -> Option<PathBuf> {
    if let Some(file) = berth.map(PathBuf::from) {
        return Some(std::path::absolute(&file).unwrap_or(file));
    }
    // The XDG specification says that a relative path there is to be ignored.
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let dir = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))?;
    Some(dir.join("berth/config.toml"))
}
