//! Explanations of the config keys: for `berth config --explain`, for docs/config.md, and as an example file.
//!
//! Promise: all three come from the registry and from nothing else.

use berth_api::Problem;

use super::registry::{DefaultValue, KeySpec, TABLES, TableSpec};

/// Explains every key, or those that `wanted` names: `ui.color`, `color`, `ui`, `agents.claude.command`.
pub fn explain_keys(wanted: Option<&str>) -> Result<String, Problem> {
    let Some(wanted) = wanted else {
        return Ok(TABLES.iter().map(|table| section(table, table.keys)).collect::<Vec<_>>().join("\n"));
    };
    let found: Vec<String> = TABLES.iter().filter_map(|table| named(table, wanted)).collect();
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    let tables = TABLES.iter().map(|table| table.path.to_owned());
    let paths = TABLES.iter().flat_map(|table| table.keys.iter().map(|key| path(table, key)));
    let names = TABLES.iter().flat_map(|table| table.keys.iter().map(|key| key.name.to_owned()));
    let all: Vec<String> = tables.chain(paths).chain(names).collect();
    let what = format!("there is no key `{wanted}`{}", super::did_you_mean(wanted, &all));
    Err(Problem::not_found(what).hint("`berth config --explain` explains every key"))
}

/// A config file with every key, each line behind `#`.
pub fn example_config() -> String {
    let mut text = String::from(
        "# berth's config file. Every key there is, with an example; remove the `#` from the keys that you want.\n\
         # `berth config --explain KEY` says more, `berth config` shows the settings in force.\n",
    );
    for table in TABLES {
        text.push_str(&format!("\n{}\n", wrapped(table.about, "# ", 98)));
        text.push_str(&format!("#[{}]\n", table.path.replace("NAME", "mine")));
        for key in table.keys {
            text.push_str(&format!("{}\n", wrapped(key.about, "# ", 98)));
            text.push_str(&format!("#{} = {}\n", key.name, key.sample()));
        }
    }
    text
}

/// A table of keys, as docs/config.md shows it.
#[cfg(test)]
pub fn keys_as_markdown(table: &TableSpec) -> String {
    let has_variables = table.keys.iter().any(|key| table.variable(key).is_some());
    let mut text = format!("{}\n\n", table.about);
    text.push_str(if has_variables {
        "| Key | Type | Default | Variable | What it does |\n|---|---|---|---|---|\n"
    } else {
        "| Key | Type | Default | What it does |\n|---|---|---|---|\n"
    });
    for key in table.keys {
        let cells = [Some(format!("`{}`", key.name)), Some(key.kind.words()), Some(otherwise(key))];
        let variable = table.variable(key).map_or("none".to_owned(), |name| format!("`{name}`"));
        let variable = has_variables.then_some(variable);
        let cells = cells.into_iter().chain([variable, Some(key.about.to_owned())]).flatten();
        text.push_str(&format!("| {} |\n", cells.collect::<Vec<_>>().join(" | ")));
    }
    text
}

/// True if `wanted` names this key: by its full path, its name or its table.
pub fn matches_name(table: &TableSpec, key: &KeySpec, wanted: &str) -> bool {
    let is_table = is_path(table, table.path, wanted) || table.path.split('.').next() == Some(wanted);
    is_table || key.name == wanted || is_path(table, &path(table, key), wanted)
}

fn named(table: &TableSpec, wanted: &str) -> Option<String> {
    let meant: Vec<KeySpec> =
        table.keys.iter().filter(|key| matches_name(table, key, wanted)).copied().collect();
    (!meant.is_empty()).then(|| section(table, &meant))
}

/// True if `wanted` is this path. Any name may stand for `NAME`.
fn is_path(table: &TableSpec, path: &str, wanted: &str) -> bool {
    let (path, wanted): (Vec<&str>, Vec<&str>) = (path.split('.').collect(), wanted.split('.').collect());
    let same = |(ours, given): (&&str, &&str)| ours == given || (table.is_named() && *ours == "NAME");
    path.len() == wanted.len() && path.iter().zip(&wanted).all(same)
}

fn path(table: &TableSpec, key: &KeySpec) -> String {
    format!("{}.{}", table.path, key.name)
}

fn section(table: &TableSpec, keys: &[KeySpec]) -> String {
    let mut text = format!("[{}]\n{}\n", table.path, wrapped(table.about, "  ", 98));
    for key in keys {
        text.push_str(&format!("\n  {}\n{}\n", key.name, wrapped(key.about, "      ", 98)));
        text.push_str(&format!("      type      {}\n", key.kind.words()));
        text.push_str(&format!("      default   {}\n", otherwise(key)));
        if let Some(name) = table.variable(key) {
            text.push_str(&format!("      variable  {name}\n"));
        }
        text.push_str(&format!("      example   {} = {}\n", key.name, key.sample()));
    }
    text
}

fn otherwise(key: &KeySpec) -> String {
    match key.otherwise {
        DefaultValue::Value(value) => value.to_owned(),
        DefaultValue::Unset(words) => words.to_owned(),
    }
}

/// Wraps the text at `width`, each line behind `indent`.
fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        let is_empty = last.len() == indent.len();
        if !is_empty && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("{indent}{word}"));
        } else {
            last.push_str(if is_empty { "" } else { " " });
            last.push_str(word);
        }
    }
    lines.join("\n")
}
