//! `berth config`: shows the effective settings, explains the keys, and checks or edits the file.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_api::Problem;
use serde_json::{Value, json};

use crate::agents::AgentTable;
use crate::args;
use crate::config::{self, ColorMode, Config, ConfigSetting, SettingOrigin, explain, registry};
use crate::{print, tty, ui};

pub(crate) fn run(args: &args::ConfigArgs) -> Result<u8, Problem> {
    if let Some(key) = &args.explain {
        match args.json {
            true => print::json(&explained(key.as_deref())?)?,
            false => print::text(&explain::explain_keys(key.as_deref())?)?,
        }
    } else if args.path {
        print::text(&format!("{}\n", place()?.display()))?;
    } else if let Some(file) = &args.check {
        check(file.as_deref())?;
    } else if args.example {
        print::text(&explain::example_config())?;
    } else if args.edit {
        edit()?;
    } else {
        show(args.json)?;
    }
    Ok(0)
}

/// Prints the effective settings, each with its origin.
fn show(json: bool) -> Result<(), Problem> {
    let mut config = Config::load()?;
    if let Some(color) = ui::ui_options().color {
        override_with(&mut config.settings, "ui", "color", color, SettingOrigin::Flag("--color"));
    }
    let (path, is_there) = (config.path.clone(), config.is_there);
    // Unset keys of nested tables are left out: most keys of built-in agents are unset, and `berth agents` shows those.
    let is_told = |setting: &&ConfigSetting| !setting.table.contains('.') || setting.value.is_some();
    let told: Vec<ConfigSetting> = config.settings.iter().filter(is_told).cloned().collect();
    // The table of agents finds mistakes that reading the file alone does not find.
    AgentTable::new(config)?;
    let file = path.as_ref().map(|path| path.display().to_string());
    if json {
        let rows: Vec<Value> = told.iter().map(|setting| object(setting, file.as_deref())).collect();
        return print::json(&json!({ "file": file, "exists": is_there, "settings": rows }));
    }
    print::text(&table_of(&told, file.as_deref()))?;
    match (&file, is_there) {
        (Some(file), true) => print::note(&format!("the file is {file}")),
        (Some(file), false) => {
            print::note(&format!("the file {file} does not exist; `berth config --edit` creates it"));
        }
        (None, _) => print::note("there is no place for a config file: neither BERTH_CONFIG nor HOME is set"),
    }
    Ok(())
}

fn override_with(
    settings: &mut [ConfigSetting],
    table: &str,
    key: &str,
    color: ColorMode,
    origin: SettingOrigin,
) {
    let same = |setting: &&mut ConfigSetting| setting.table == table && setting.key.name == key;
    if let Some(setting) = settings.iter_mut().find(same) {
        (setting.value, setting.origin) = (Some(json!(color.name())), origin);
    }
}

fn object(setting: &ConfigSetting, file: Option<&str>) -> Value {
    let mut object = json!({
        "key": format!("{}.{}", setting.table, setting.key.name),
        "value": setting.value,
        "from": match &setting.origin {
            SettingOrigin::Default => "default",
            SettingOrigin::File(_) => "file",
            SettingOrigin::Environment(_) => "environment",
            SettingOrigin::Flag(_) => "flag",
        },
    });
    match &setting.origin {
        SettingOrigin::Default => {}
        SettingOrigin::File(spot) => {
            object["file"] = json!(file);
            (object["line"], object["column"]) = (json!(spot.line), json!(spot.column));
        }
        SettingOrigin::Environment(name) => object["variable"] = json!(name),
        SettingOrigin::Flag(name) => object["flag"] = json!(name),
    }
    object
}

fn table_of(settings: &[ConfigSetting], file: Option<&str>) -> String {
    let from = |setting: &ConfigSetting| match &setting.origin {
        SettingOrigin::Default => "default".to_owned(),
        SettingOrigin::File(spot) => format!("{}:{spot}", file.unwrap_or("the file")),
        SettingOrigin::Environment(name) => format!("${name}"),
        SettingOrigin::Flag(name) => (*name).to_owned(),
    };
    let value = |setting: &ConfigSetting| match &setting.value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let rows = settings.iter().map(|setting| {
        let key = format!("{}.{}", setting.table, setting.key.name);
        [key, print::first_words(&value(setting), 60), from(setting)]
    });
    let rows: Vec<[String; 3]> =
        std::iter::once(["KEY", "VALUE", "FROM"].map(str::to_owned)).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (key, value) = (width(0), width(1));
    rows.iter().map(|row| format!("{:key$}  {:value$}  {}\n", row[0], row[1], row[2])).collect()
}

/// Every key, or the wanted ones, for programs.
fn explained(wanted: Option<&str>) -> Result<Vec<Value>, Problem> {
    // An unknown key is refused here, with the message that the text form has.
    explain::explain_keys(wanted)?;
    let all = registry::TABLES.iter().flat_map(|table| table.keys.iter().map(move |key| (*table, key)));
    let wanted =
        all.filter(|(table, key)| wanted.is_none_or(|wanted| explain::matches_name(table, key, wanted)));
    let object = |(table, key): (&registry::TableSpec, &registry::KeySpec)| {
        json!({
            "key": format!("{}.{}", table.path, key.name),
            "type": key.kind.words(),
            "default": match key.otherwise {
                registry::DefaultValue::Value(value) => Some(value),
                registry::DefaultValue::Unset(_) => None,
            },
            "variable": table.variable(key),
            "example": key.sample(),
            "about": key.about,
        })
    };
    Ok(wanted.map(object).collect())
}

fn check(file: Option<&Path>) -> Result<(), Problem> {
    let path = match file {
        Some(file) => std::path::absolute(file).unwrap_or(file.to_owned()),
        None => place()?,
    };
    let config = Config::load_from(path.clone())?;
    if !config.is_there && file.is_some() {
        return Err(Problem::not_found(format!("there is no file {}", path.display()))
            .hint("`berth config --path` says where berth looks for its own"));
    }
    let is_there = config.is_there;
    AgentTable::new(config)?;
    print::note(&match is_there {
        true => format!("{} is valid", path.display()),
        false => format!("{} does not exist; no config file is needed", path.display()),
    });
    Ok(())
}

fn edit() -> Result<(), Problem> {
    let path = place()?;
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        Problem::refused("no editor is set: neither VISUAL nor EDITOR has a value").hint(format!(
            "set VISUAL or EDITOR, or edit {} yourself and run `berth config --check`",
            path.display()
        ))
    })?;
    if !tty::is_interactive() {
        return Err(Problem::usage("an editor needs a terminal on standard input and output")
            .hint(format!("write {} and run `berth config --check`", path.display())));
    }
    begin_file(&path)?;
    // A shell runs the editor, as in git, because the variable may have options in it.
    let script = r#"eval "$BERTH_EDITOR \"\$1\"""#;
    let ended =
        Command::new("sh").args(["-c", script, "sh"]).arg(&path).env("BERTH_EDITOR", &editor).status();
    match ended {
        Ok(status) if status.success() => check(None),
        Ok(status) => Err(Problem::refused(format!("the editor failed: {status}"))
            .hint("`berth config --check` says whether the file is valid")),
        Err(error) => Err(Problem::refused(format!("cannot start the editor: {error}"))
            .hint("set VISUAL or EDITOR to an installed editor")),
    }
}

/// Creates the config file with every key commented out, unless it exists. Only its owner may read it: a webhook may
/// contain a secret.
fn begin_file(path: &Path) -> Result<(), Problem> {
    let begun = || -> std::io::Result<()> {
        path.parent().map(std::fs::create_dir_all).transpose()?;
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match file {
            Ok(mut file) => file.write_all(explain::example_config().as_bytes()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    };
    begun().map_err(|error| {
        Problem::refused(format!("cannot create {}: {error}", path.display()))
            .hint("BERTH_CONFIG=FILE names another file")
    })
}

fn place() -> Result<PathBuf, Problem> {
    config::config_path().ok_or_else(|| {
        Problem::refused("there is no place for a config file: neither BERTH_CONFIG nor HOME is set")
            .hint("name a file with BERTH_CONFIG=FILE")
    })
}
