//! `berth turns`, `turn` and `result`: show turns and their answers.

use berth_api::turn::{TurnView, turn_id};
use berth_api::{Problem, TurnState};
use berth_verbs::transcript;

use crate::args::{ResultArgs, TurnArgs, TurnsArgs};
use crate::ctx::CommandContext;
use crate::safe_text::SafeText;
use crate::target_session::TargetSession;
use crate::{print, turns};

/// Size of the texts of turns that are read at once, in bytes.
const PAGE_BYTES: usize = 1 << 20;

pub(crate) fn list(ctx: &CommandContext, args: &TurnsArgs) -> Result<u8, Problem> {
    let TargetSession { id, handle, .. } = ctx.target(args.session.as_deref())?;
    let status = ctx.known(&id)?.0;
    let total = status.turns.map_or(0, |turns| turns.total);
    let from = args.from.or(args.last.map(|last| total.saturating_sub(last) + 1)).unwrap_or(1);
    let id_width = turn_id(id.as_str(), total.max(from)).len();
    let mut array = print::JsonArrayPrinter::default();
    let (mut is_begun, mut held, mut failure) = (false, None, None);
    for page in ctx.session(&id).turn_pages(from, PAGE_BYTES, status.keeper_silent) {
        let turns = match page {
            Ok(page) => page.turns,
            Err(problem) => {
                failure = Some(problem);
                break;
            }
        };
        if !std::mem::replace(&mut is_begun, true) {
            print::note_if_unresponsive(turns.iter().any(|turn| turn.keeper_silent), &handle);
            if !args.json {
                print::text(&table_head(id_width))?;
            }
        }
        if args.json {
            turns.iter().try_for_each(|turn| array.push(turn))?;
        } else {
            print::text(&table_rows(&turns, id_width))?;
        }
        held = held.or_else(|| turns.into_iter().find_map(|turn| turn.held));
    }
    // The printed part is a valid array, also if a later page is damaged.
    if args.json && (is_begun || failure.is_none()) {
        array.end()?;
    }
    if let Some(problem) = failure {
        return Err(problem);
    }
    if args.json {
        return Ok(0);
    }
    // Turns may have come since the total was read.
    if !is_begun && total == 0 {
        print::note(&format!("no turns yet: `berth send {handle} TEXT` sends one"));
    } else if !is_begun {
        print::note(&format!("the last turn is {total}"));
    }
    if let Some(held) = held {
        print::note(&format!("the queue is held: {held}"));
    }
    Ok(0)
}

/// A table with one line for each turn.
pub(crate) fn table(views: &[TurnView]) -> SafeText {
    match views.iter().map(|view| view.turn.len()).max() {
        Some(id_width) => table_head(id_width) + table_rows(views, id_width),
        None => SafeText::default(),
    }
}

fn table_head(id_width: usize) -> SafeText {
    format!("{:id_width$}  {:11}  {:6}  {:6}  PROMPT\n", "TURN", "STATE", "AGE", "TOOK").into()
}

fn table_rows(views: &[TurnView], id_width: usize) -> SafeText {
    let width = crate::tty::terminal_size().map_or(100, |size| usize::from(size.cols));
    let room = width.saturating_sub(id_width + 2 + 11 + 2 + 6 + 2 + 6 + 2).max(20);
    let mut text = SafeText::default();
    for view in views {
        let took = view.delivered_at.zip(view.ended_at);
        let took = took
            .map_or_else(|| "-".to_owned(), |(from, to)| print::describe_age(to.0.saturating_sub(from.0)));
        let (age, prompt) = (print::age_since(view.accepted_at), print::first_words(&view.prompt, room));
        let line = SafeText::from(format!("{:id_width$}  ", view.turn))
            + print::painted(view.state.into(), view.state, 11)
            + format!("  {age:6}  {took:6}  {prompt}");
        text.push(line.trim_end() + "\n");
    }
    text
}

pub(crate) fn show(ctx: &CommandContext, args: &TurnArgs) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    let view = ctx.session(&id).turn(number)?;
    print::note_if_unresponsive(view.keeper_silent, &view.session);
    if args.items {
        let page = transcript::page(ctx, &id, number.saturating_sub(1), 1)?;
        print::json(&page.turns.first())?;
    } else if args.json {
        print::json(&view)?;
    } else {
        print::text(&lines(&view))?;
    }
    Ok(0)
}

fn lines(view: &TurnView) -> SafeText {
    let moment = |at: berth_api::Timestamp| format!("{at} ({} ago)", print::age_since(at));
    let mut rows = vec![("turn", view.turn.clone()), ("state", view.state.to_string())];
    rows.extend(view.reason.clone().map(|reason| ("why", reason)));
    rows.extend(view.held.clone().map(|held| ("held", held)));
    rows.extend(view.position.map(|position| ("before it", position.to_string())));
    rows.push(("from", format!("pid {} ({})", view.by.pid, view.by.place)));
    rows.extend(view.key.clone().map(|key| ("key", key)));
    rows.push(("accepted", moment(view.accepted_at)));
    rows.extend(view.delivered_at.map(|at| ("delivered", moment(at))));
    rows.extend(view.began_at.map(|at| ("began", moment(at))));
    rows.extend(view.ended_at.map(|at| ("ended", moment(at))));
    let tokens = view.input_tokens.zip(view.output_tokens);
    rows.extend(tokens.map(|(input, output)| ("tokens", format!("{input} in, {output} out"))));
    let mut text = print::key_value_lines(rows, view.state.into());
    text.push(format!("\n> {}\n", view.prompt.replace('\n', "\n> ")));
    let answer = view.answer.as_deref().filter(|answer| !answer.is_empty());
    text.extend(answer.map(|answer| format!("\n{}\n", answer.trim_end())));
    for late in &view.late {
        text.push(format!("\nsaid after the turn was over:\n{}\n", late.answer.trim_end()));
    }
    text
}

pub(crate) fn result(ctx: &CommandContext, args: &ResultArgs) -> Result<u8, Problem> {
    let (id, number) = turns::find(ctx, &args.turn, None)?;
    let view = ctx.session(&id).turn(number)?;
    print::note_if_unresponsive(view.keeper_silent, &view.session);
    if args.json {
        print::json(&view)?;
        return Ok(turns::exit_code(&view));
    }
    if !view.state.is_final() {
        return Err(Problem::held(format!("turn {} is not over: it is {}", view.turn, view.state))
            .hint(format!("`berth wait {}` waits for it", view.turn)));
    }
    let answer = view.answer.as_deref().unwrap_or_default();
    print::text(answer)?;
    if !answer.is_empty() && !answer.ends_with('\n') {
        print::text("\n")?;
    }
    crate::turn_watch::note_cut(&view);
    if view.state != TurnState::Done {
        let why = view.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        print::note(&format!("turn {} {}{why}", view.turn, view.state));
    }
    Ok(turns::exit_code(&view))
}
