//! `berth tag`: what people sort sessions by.

use berth_api::message::Request;
use berth_api::{Code, Problem};
use berth_core::Command;

use crate::args::Tag;
use crate::ctx::Ctx;
use crate::listing::Extent;
use crate::meant::Meant;
use crate::{life, print};

pub(crate) fn run(ctx: &Ctx, args: &Tag) -> Result<u8, Problem> {
    if args.which.is_choosy() {
        return matching(ctx, args);
    }
    let (Meant { id, handle, .. }, words) = ctx.target_then(args.session.as_deref(), &args.add)?;
    let (add, remove) = (life::tags(&words)?, life::tags(&args.remove)?);
    let is_change = !add.is_empty() || !remove.is_empty();
    if is_change {
        let words = |tags: &[berth_core::Name]| tags.iter().map(ToString::to_string).collect();
        let request = Request::Tag { add: words(&add), remove: words(&remove) };
        life::change(ctx, &id, request, Command::Tag { add, remove })?;
    }
    let tags = ctx.known(&id)?.0.tags;
    if args.json {
        print::json(&tags)?;
    } else if is_change {
        let all = if tags.is_empty() { "no tags".to_owned() } else { tags.join(", ") };
        print::note(&format!("{handle}: {all}"));
    } else {
        print::text(&tags.iter().map(|tag| format!("{tag}\n")).collect::<String>())?;
    }
    Ok(0)
}

/// Tags everything that matches. What fails is told, and the others are tagged all the same.
fn matching(ctx: &Ctx, args: &Tag) -> Result<u8, Problem> {
    if let Some(word) = args.session.as_deref().filter(|word| ctx.home.find(word).is_ok()) {
        let what =
            format!("`{word}` is a session, and with conditions every word is a tag; nothing was done");
        let tags = args.add.iter().chain(&args.which.tag).map(String::as_str).collect::<Vec<_>>().join(" ");
        return Err(
            Problem::new(Code::Usage, what).hint(format!("to tag `{word}`: `berth tag {word} {tags}`"))
        );
    }
    let words: Vec<String> = args.session.iter().chain(&args.add).cloned().collect();
    let (add, remove) = (life::tags(&words)?, life::tags(&args.remove)?);
    if add.is_empty() && remove.is_empty() {
        return Err(Problem::new(Code::Usage, "no tag to add or to remove")
            .hint("`berth ls` with the same conditions shows the tags there are"));
    }
    let mut worst = 0;
    let mut tagged = Vec::new();
    for Meant { id, handle, .. } in ctx.chosen(&[], &args.which, Extent::All, &mut worst)? {
        let words = |tags: &[berth_core::Name]| tags.iter().map(ToString::to_string).collect();
        let request = Request::Tag { add: words(&add), remove: words(&remove) };
        let command = Command::Tag { add: add.clone(), remove: remove.clone() };
        match life::change(ctx, &id, request, command).and_then(|_| ctx.known(&id)) {
            Ok((status, _)) => {
                if !args.json {
                    print::note(&format!("{handle}: {}", status.tags.join(", ")));
                }
                tagged.push(status);
            }
            Err(problem) => {
                print::problem(&problem);
                worst = worst.max(problem.code.exit_code());
            }
        }
    }
    if args.json {
        print::json(&tagged)?;
    }
    Ok(worst)
}
