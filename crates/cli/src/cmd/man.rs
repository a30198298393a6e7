//! `berth man`: the manual pages, made of the same definitions as the help.

use std::path::Path;

use berth_api::{Code, Problem};

use crate::args::Man;
use crate::{help, print};

pub(crate) fn run(args: &Man) -> Result<u8, Problem> {
    match &args.dir {
        Some(dir) => write_all(dir)?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(about(&args.verb)?)
                .render(&mut page)
                .map_err(|error| Problem::new(Code::Bug, format!("cannot make the page: {error}")))?;
            print::raw(&page)?;
        }
    }
    Ok(0)
}

/// What a command is, with its whole name, as the pages of a directory have it.
fn about(verb: &[String]) -> Result<clap::Command, Problem> {
    let mut found = help::command();
    // Only then an inner command knows its whole name.
    found.build();
    for (at, word) in verb.iter().enumerate() {
        let Some(inner) = found.find_subcommand(word) else {
            let above = verb[..at].iter().fold("berth".to_owned(), |path, word| format!("{path} {word}"));
            return Err(Problem::new(Code::Usage, format!("`{above}` has no command `{word}`")).hint(format!(
                "`{above} --help` lists those there are; `berth man --dir DIR` writes the pages to a directory"
            )));
        };
        found = inner.clone();
    }
    Ok(found)
}

fn write_all(dir: &Path) -> Result<(), Problem> {
    let trouble = |error: std::io::Error| {
        Problem::new(Code::Refused, format!("cannot write manual pages to {}: {error}", dir.display()))
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
