//! The form for a new session: agent, directory, interface, prompt.
//!
//! Promise: what is suggested is replaced by the first character that is typed, and kept by every other key.
//! Not here: drawing (`view::form`), starting (`actions`).
//! Start with [`NewSession::key`].

use crate::composer::{Composer, TooLong};
use crate::keys::Key;

/// How many suggestions are offered at once.
pub(crate) const MOST_SUGGESTIONS: usize = 8;

/// What a person wants to start.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NewSession {
    pub(crate) field: Field,
    agent: Input,
    dir: Input,
    pub(crate) interface: Interface,
    prompt: Input,
    agents: Vec<Suggestion>,
    dirs: Vec<Suggestion>,
}

/// A field of the form, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Agent,
    Directory,
    Interface,
    Prompt,
}

impl Field {
    pub(crate) const ALL: [Self; 4] = [Self::Agent, Self::Directory, Self::Interface, Self::Prompt];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::Directory => "Directory",
            Self::Interface => "Interface",
            Self::Prompt => "Prompt",
        }
    }

    fn step(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|field| *field == self).unwrap_or(0);
        Self::ALL[at.saturating_add_signed(by).min(Self::ALL.len() - 1)]
    }
}

/// How the agent is talked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Interface {
    /// Turns: berth's chat.
    #[default]
    Chat,
    /// The agent's own, in a terminal.
    Own,
}

impl Interface {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Own => "the agent's own, in a terminal",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Chat => Self::Own,
            Self::Own => Self::Chat,
        }
    }
}

/// Something to choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Suggestion {
    pub(crate) text: String,
    /// What it is, if that needs a word.
    pub(crate) about: String,
}

/// A field that text is written in.
#[derive(Clone, PartialEq, Debug, Default)]
struct Input {
    text: Composer,
    /// What the person wrote: suggestions are looked for with this.
    typed: String,
    /// The text was suggested: the next character replaces it.
    is_suggested: bool,
}

impl Input {
    fn suggested(text: String) -> Self {
        Self { text: Composer::with(text), typed: String::new(), is_suggested: true }
    }
}

/// What a key led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The form goes on.
    Stay,
    /// The session is to be started.
    Start,
}

impl NewSession {
    /// A form with what is most likely: an agent, a directory, and other directories to choose.
    pub(crate) fn new(agent: String, dir: String, dirs: Vec<String>) -> Self {
        let dirs = dirs.into_iter().map(|text| Suggestion { text, about: String::new() }).collect();
        Self {
            field: Field::Agent,
            agent: Input::suggested(agent),
            dir: Input::suggested(dir),
            interface: Interface::default(),
            prompt: Input::default(),
            agents: Vec::new(),
            dirs,
        }
    }

    /// The agents there are, once they are known.
    pub(crate) fn set_agents(&mut self, agents: Vec<Suggestion>) {
        if self.agent.is_suggested
            && self.agent.text.text().is_empty()
            && let Some(first) = agents.first()
        {
            self.agent = Input::suggested(first.text.clone());
        }
        self.agents = agents;
    }

    pub(crate) fn text(&self, field: Field) -> Option<&Composer> {
        match field {
            Field::Agent => Some(&self.agent.text),
            Field::Directory => Some(&self.dir.text),
            Field::Prompt => Some(&self.prompt.text),
            Field::Interface => None,
        }
    }

    /// The text of a field, for what is done with it.
    pub(crate) fn value(&self, field: Field) -> String {
        self.text(field).map(|text| text.text().to_owned()).unwrap_or_default()
    }

    /// What can be chosen in the field that is written in: what has all of the words that were typed.
    pub(crate) fn suggestions(&self) -> Vec<&Suggestion> {
        let (all, input) = match self.field {
            Field::Agent => (&self.agents, &self.agent),
            Field::Directory => (&self.dirs, &self.dir),
            Field::Interface | Field::Prompt => return vec![],
        };
        let typed = input.typed.to_lowercase();
        let fits =
            |one: &&Suggestion| typed.split_whitespace().all(|word| one.text.to_lowercase().contains(word));
        all.iter().filter(fits).take(MOST_SUGGESTIONS).collect()
    }

    /// What a key does. Leaving is for the caller.
    pub(crate) fn key(&mut self, key: Key) -> Result<Step, TooLong> {
        match (key, self.field) {
            (Key::Enter, Field::Prompt) => return Ok(Step::Start),
            (Key::Tab | Key::Enter, _) => self.field = self.field.step(1),
            (Key::BackTab, _) => self.field = self.field.step(-1),
            (Key::Up, Field::Prompt) => self.field = self.field.step(-1),
            (Key::Up | Key::Down | Key::Left | Key::Right | Key::Char(' '), Field::Interface) => {
                self.interface = self.interface.other();
            }
            (Key::Up, _) => self.choose(-1),
            (Key::Down, _) => self.choose(1),
            (Key::NewLine, Field::Prompt) => self.write("\n")?,
            (key, _) => self.edit(key)?,
        }
        Ok(Step::Stay)
    }

    /// Puts text into the field that is written in; only a prompt has lines.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), TooLong> {
        let line = if self.field == Field::Prompt { text } else { text.lines().next().unwrap_or_default() };
        let Some(input) = self.input() else { return Ok(()) };
        if std::mem::take(&mut input.is_suggested) {
            input.text = Composer::default();
        }
        input.text.insert(line)?;
        input.typed = input.text.text().to_owned();
        Ok(())
    }

    fn edit(&mut self, key: Key) -> Result<(), TooLong> {
        if let Key::Char(c) = key {
            return self.write(c.encode_utf8(&mut [0; 4]));
        }
        let Some(input) = self.input() else { return Ok(()) };
        let before = input.text.text().to_owned();
        input.text.edit(key)?;
        input.is_suggested = false;
        if input.text.text() != before {
            input.typed = input.text.text().to_owned();
        }
        Ok(())
    }

    /// Takes the next suggestion, or the one before it.
    fn choose(&mut self, by: isize) {
        let all: Vec<String> = self.suggestions().into_iter().map(|one| one.text.clone()).collect();
        let Some(input) = self.input() else { return };
        let at = all.iter().position(|one| one == input.text.text());
        let next = match at {
            Some(at) => at.saturating_add_signed(by).min(all.len() - 1),
            None => 0,
        };
        if let Some(text) = all.get(next) {
            *input = Input { typed: std::mem::take(&mut input.typed), ..Input::suggested(text.clone()) };
        }
    }

    fn input(&mut self) -> Option<&mut Input> {
        match self.field {
            Field::Agent => Some(&mut self.agent),
            Field::Directory => Some(&mut self.dir),
            Field::Prompt => Some(&mut self.prompt),
            Field::Interface => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn suggestion(text: &str) -> Suggestion {
        Suggestion { text: text.to_owned(), about: String::new() }
    }

    /// A form with two agents and two directories to choose from.
    pub(crate) fn form() -> NewSession {
        let dirs = vec!["/src/berth".to_owned(), "/src/other".to_owned()];
        let mut form = NewSession::new("claude".to_owned(), "/home".to_owned(), dirs);
        form.set_agents(["claude", "codex"].map(suggestion).into());
        form
    }

    fn press(form: &mut NewSession, keys: &str) {
        for c in keys.chars() {
            assert_eq!(form.key(Key::Char(c)), Ok(Step::Stay));
        }
    }

    #[test]
    fn what_is_suggested_is_replaced_by_typing_and_kept_by_other_keys() {
        let mut form = form();
        press(&mut form, "co");
        assert_eq!(form.value(Field::Agent), "co");
        assert_eq!(form.suggestions(), [&suggestion("codex")]);
        form.key(Key::Down).expect("short");
        assert_eq!(form.value(Field::Agent), "codex");
        form.key(Key::Tab).expect("short");
        form.key(Key::End).expect("short");
        press(&mut form, "/me");
        assert_eq!(form.value(Field::Directory), "/home/me");
    }

    #[test]
    fn suggestions_are_chosen_with_arrows_and_enter_goes_from_field_to_field_until_it_starts() {
        let mut form = form();
        form.key(Key::Down).expect("short");
        assert_eq!(form.value(Field::Agent), "codex");
        assert_eq!(form.key(Key::Enter), Ok(Step::Stay));
        for expected in ["/src/berth", "/src/other", "/src/other"] {
            form.key(Key::Down).expect("short");
            assert_eq!(form.value(Field::Directory), expected);
        }
        form.key(Key::Enter).expect("short");
        press(&mut form, " ");
        assert_eq!(form.interface, Interface::Own);
        form.key(Key::Left).expect("short");
        form.key(Key::Enter).expect("short");
        press(&mut form, "mend");
        form.key(Key::NewLine).expect("short");
        form.write("it\nnow").expect("short");
        assert_eq!(form.key(Key::Enter), Ok(Step::Start));
        assert_eq!((form.value(Field::Prompt), form.interface), ("mend\nit\nnow".into(), Interface::Chat));
        form.key(Key::BackTab).expect("short");
        assert_eq!(form.field, Field::Interface);
    }

    #[test]
    fn a_paste_into_a_field_of_one_line_is_its_first_line() {
        let mut form = form();
        form.key(Key::Tab).expect("short");
        form.write("/tmp\nrm -rf /\n").expect("short");
        assert_eq!(form.value(Field::Directory), "/tmp");
    }
}
