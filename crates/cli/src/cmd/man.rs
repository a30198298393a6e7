//! `berth man`: prints or writes manual pages, generated from the definitions of the arguments.

use std::path::Path;

use berth_api::Problem;

use crate::args::ManArgs;
use crate::{help, print};

pub(crate) fn run(args: &ManArgs) -> Result<u8, Problem> {
    match &args.dir {
        Some(dir) => write_all(dir)?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(about(&args.verb)?)
                .render(&mut page)
                .map_err(|error| Problem::bug(format!("cannot make the page: {error}")))?;
            print::raw(&page)?;
        }
    }
    Ok(0)
}

/// The definition of a command, with its full name, as in the pages that `--dir` writes.
fn about(verb: &[String]) -> Result<clap::Command, Problem> {
    let mut found = help::command();
    // Building sets the full names of subcommands.
    found.build();
    for (at, word) in verb.iter().enumerate() {
        let Some(inner) = found.find_subcommand(word) else {
            let above = verb[..at].iter().fold("berth".to_owned(), |path, word| format!("{path} {word}"));
            return Err(Problem::usage(format!("`{above}` has no command `{word}`")).hint(format!(
                "`{above} --help` lists the commands; `berth man --dir DIR` writes the pages to a directory"
            )));
        };
        found = inner.clone();
    }
    Ok(found)
}

fn write_all(dir: &Path) -> Result<(), Problem> {
    let trouble = |error: std::io::Error| {
        Problem::refused(format!("cannot write manual pages to {}: {error}", dir.display()))
            .hint("name a directory that you may write to, as in ~/.local/share/man/man1")
    };
    std::fs::create_dir_all(dir).map_err(trouble)?;
    clap_mangen::generate_to(help::command(), dir).map_err(trouble)?;
    let pages = std::fs::read_dir(dir).map_err(trouble)?;
    let is_ours = |name: &str| name == "berth.1" || (name.starts_with("berth-") && name.ends_with(".1"));
    let pages = pages.flatten().filter(|page| page.file_name().to_str().is_some_and(is_ours)).count();
    print::note(&format!("{pages} pages in {}", dir.display()));
    Ok(())
}
